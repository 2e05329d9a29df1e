# SPDX-License-Identifier: Apache-2.0
"""The way to a PostgreSQL server: connections, what its errors mean, and vectors as it sends them."""
from __future__ import annotations

import contextlib
import functools
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import errors
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import TupleRow
from psycopg.types.string import ByteaBinaryLoader

from ..._address import secret
from ..._errors import Error, UsageError
from ..store import Missing
from ..types import Vectors

Connection: TypeAlias = psycopg.Connection[TupleRow]
Result = TypeVar("Result")
Given = ParamSpec("Given")
AnyLinked = TypeVar("AnyLinked", bound="Linked")

CONNECT_SECONDS = 10
LOCK_SECONDS = 1
PAUSES = (.2, 1, 3, 8, 20)  # seconds before what failed is tried again
BUSY_TRIES = 30  # more, after the last pause, where others hold locks: their transactions may take minutes
# For a transaction, never for a session: a pool such as PgBouncer's gives every transaction another session, and others
# get ours. Ids and times travel as text, so they are written in one way whatever the server is set to. A pass takes
# longer than many servers allow a statement. Whoever waits for a row keeps others from the rows it has locked already,
# so it soon lets go of them, and before a server looks for a deadlock, whose victim might be the application. What is
# committed is on the disk, whatever the server's default.
LOCAL = ("SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL jit = off; "
         "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; "
         "SET LOCAL lock_timeout = '500ms'; "
         "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'")


class Transient(Error):
    """What may go well when it is tried again."""


class Busy(Transient):
    """Others hold a lock, for as long as their transaction takes."""


class Wire:
    """Bytes as the server takes them in binary; the SQL around them says their type."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class _WireDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Wire) -> bytes:
        return obj.data


def _cells(count: int, width: int, half: bool, head: Sequence[tuple[str, str]] = ()) -> npt.NDArray[np.void]:
    return np.zeros(count, [*head, ("width", ">u2"), ("unused", ">u2"), ("values", ">f2" if half else ">f4", (width,))])


def vector_cell(vector: Vectors, half: bool) -> Wire:
    """One vector in binary."""
    cell = _cells(1, len(vector), half)
    cell["width"], cell["values"] = len(vector), vector
    return Wire(cell.tobytes())


def vector_array(vectors: Vectors, half: bool, oid: int) -> Wire:
    """An array of vectors in binary; oid is the number of the type in this database."""
    count, width = vectors.shape
    cells = _cells(count, width, half, [("size", ">i4")])
    cells["size"] = cells.itemsize - 4
    cells["width"] = width
    with np.errstate(over="ignore"):  # the server refuses the infinity, and says so
        cells["values"] = vectors
    return Wire(struct.pack(">iiIii", 1, 0, oid, count, 1) + cells.tobytes())


def vectors_of(cells: Sequence[bytes], half: bool, width: int, name: str) -> Vectors:
    """Rows of float32 from cells in binary; all have one width."""
    sizes = {len(cell) for cell in cells}
    found = sorted((size - 4) // (2 if half else 4) for size in sizes)
    if len(found) > 1 or width and found and found[0] != width:
        raise Error(f"{name} holds vectors of {' and '.join(map(str, found))} values; expected {width or 'one width'}; "
                    "set the others to NULL, or put them in a column of their own")
    if not cells:
        return np.zeros((0, width), np.float32)
    return np.frombuffer(b"".join(cells), _cells(0, found[0], half).dtype)["values"].astype(np.float32)


class Link:
    """A connection that opens when it is first used, and again after it was lost."""

    def __init__(self, conninfo: str, name: str, password_env: str | None = None) -> None:
        self.conninfo, self.name, self.password_env = conninfo, name, password_env
        self.lock = threading.RLock()
        self.held = False  # inside a transaction that spans calls, which connecting again would silently abandon
        self._bytes: tuple[int, ...] = ()
        self._connection: Connection | None = None
        self._trying = False

    def connect(self) -> Connection:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        if self.held:
            raise Error(f"{self.name}: the connection was lost while the table was locked; nothing was changed; run it "
                        "again")
        try:
            asked: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(self.conninfo)
            asked.setdefault("connect_timeout", CONNECT_SECONDS)
            if self.password_env:
                asked["password"] = secret(self.name, {"password_env": self.password_env}, "password_env", "password")
            connection = psycopg.connect(**asked, autocommit=True, client_encoding="utf8", prepare_threshold=None,
                                         fallback_application_name="kedge-migrate")
        except psycopg.ProgrammingError as error:
            # What it quotes is the address, or the part of it that is the password.
            said, _, _ = _first_line(error).partition(': "')
            raise UsageError(f"{self.name}: PostgreSQL does not understand the address: {said}") from None
        except psycopg.OperationalError as error:
            kind = Error if self._connection is None else Transient  # a server that was there may come back
            raise kind(f"{self.name}: cannot connect to PostgreSQL: {_first_line(error)}; check that the server runs "
                       "and that the address, user and password are right; a password comes from PGPASSWORD, ~/.pgpass "
                       "or the variable that &password_env= names") from None
        connection.adapters.register_dumper(Wire, _WireDumper)
        self._connection = connection
        for oid in self._bytes:
            connection.adapters.register_loader(oid, ByteaBinaryLoader)
        return connection

    @property
    def lost(self) -> bool:
        return self._connection is None or self._connection.closed

    def read_as_bytes(self, oids: Iterable[int]) -> None:
        """Vectors come as the bytes the server sends, whatever else is registered for their types."""
        self._bytes = tuple(oids)
        for oid in self._bytes:
            self.connect().adapters.register_loader(oid, ByteaBinaryLoader)

    @contextlib.contextmanager
    def session(self) -> Iterator[Connection]:
        """The connection, for one thread at a time; what goes wrong comes out as a sentence."""
        with self.lock:
            try:
                yield self.connect()
            except psycopg.Error as error:
                raise explained(error, self.name, self.lost) from None

    @contextlib.contextmanager
    def work(self) -> Iterator[Connection]:
        """A session within a transaction that has the settings ours need; none of them outlives it. What is cancelled
        in it, or waits for others' locks, is tried again: it is a step of a pass, and nobody waits for its answer."""
        with self.session() as connection, connection.transaction():
            connection.execute(LOCAL)
            try:
                yield connection
            except errors.QueryCanceled as error:
                raise Transient(str(explained(error, self.name, False))) from None
            except errors.LockNotAvailable as error:
                raise Busy(str(explained(error, self.name, False))) from None

    def again(self, work: Callable[[], Result]) -> Result:
        """What the work gives. It is done again, after pauses, if the connection was lost, or if the server stopped it
        for the sake of others; so it must be work that is the same if it is done twice."""
        if self.held or self._trying:  # only the whole can be done again
            return work()
        self._trying = True
        try:
            for pause in PAUSES:
                try:
                    return work()
                except Transient:
                    time.sleep(pause)
            for _ in range(BUSY_TRIES):
                try:
                    return work()
                except Busy:
                    time.sleep(PAUSES[-1])
            return work()
        finally:
            self._trying = False

    def close(self) -> None:
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


class Linked(Protocol):
    _link: Link


def retried(method: Callable[Concatenate[AnyLinked, Given], Result]) -> Callable[Concatenate[AnyLinked, Given], Result]:
    """A method of a store that Link.again may do again."""
    @functools.wraps(method)
    def again(self: AnyLinked, /, *words: Given.args, **named: Given.kwargs) -> Result:
        return self._link.again(lambda: method(self, *words, **named))
    return again


def set_lock_timeout(connection: Connection) -> None:
    """A moment longer than after which the server ends an autovacuum that is in the way, which may take hours."""
    connection.execute(
        "SELECT set_config('lock_timeout', (1000 * CASE WHEN autovacuum_goes < %(s)s * 2 THEN greatest(%(s)s, "
        "autovacuum_goes + .2) ELSE %(s)s END)::int::text, true) FROM (SELECT extract(epoch FROM "
        "current_setting('deadlock_timeout')::interval) AS autovacuum_goes) settings", {"s": LOCK_SECONDS})


def _first_line(error: psycopg.Error) -> str:
    return (getattr(error, "diag", None) and error.diag.message_primary or str(error)).strip().split("\n")[0]


def explained(error: psycopg.Error, name: str, lost: bool) -> Error:
    """What an exception of psycopg means to the user."""
    code, said = error.sqlstate or "", _first_line(error)
    if lost or code.startswith(("08", "57P")):
        return Transient(f"{name}: the connection to PostgreSQL was lost ({said}); what was not yet confirmed is not "
                         "written; run it again to go on")
    if code in ("42P01", "42703", "3F000"):
        return Missing(f"{name}: {said}")
    if code == "42501":
        return Error(f"{name}: the user of the address has no right to do this ({said}); nothing was changed; connect "
                     "as the owner of the table, or have the right granted")
    if code == "25006":
        return Error(f"{name}: this connection may only read ({said}); nothing was changed; connect to the primary "
                     "server as a user that may write")
    if code.startswith("53"):
        full = {"53100": "the disk of the server is full", "53200": "the server is out of memory",
                "53300": "the server has too many connections"}.get(code, "the server is out of resources")
        return Error(f"{name}: {full} ({said}); this step was undone; make room and run it again to go on")
    if code == "55P03":
        return Error(f"{name}: others hold a lock on the table, and it did not become free ({said}); this step was "
                     "undone, and what was done before it is kept; run it again at a quieter time to go on")
    if code in ("40P01", "40001"):
        return Transient(f"{name}: another session worked on the same rows ({said}); this step was undone; run it "
                         "again to go on")
    if code == "57014":
        return Error(f"{name}: PostgreSQL stopped the statement ({said}); this step was undone; run it again to go on")
    if code == "2BP01":
        detail = (error.diag.message_detail or "").split("\n")[0]
        return Error(f"{name}: {said} ({detail}); drop that first")
    if code.startswith("22"):
        return Error(f"{name}: PostgreSQL refused a value: {said}; this step was undone")
    return Error(f"{name}: PostgreSQL says: {said}")
