# SPDX-License-Identifier: Apache-2.0
"""A connection to an SQLite file that has sqlite-vec in it.

Python's own sqlite3 is used if it can load extensions: two copies of SQLite that have one file open in one process drop
each other's locks. Where it cannot, an application in this process does not use it for sqlite-vec either, and apsw
brings a copy that can.
"""
from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlite_vec

from ..._errors import BadFile, Error
from ..store import Missing
from .files import reason_for
from .sql_words import all_or_nothing

BUSY_SECONDS = 30
HAS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
Errors: tuple[type[Exception], ...]
if HAS_EXTENSIONS:
    Errors = (sqlite3.Error,)
else:
    import apsw

    Errors = (apsw.Error,)


def connect(path: str) -> Any:
    """In either library a connection has execute() and executemany(), and begins no transaction by itself."""
    link: Any
    if HAS_EXTENSIONS:
        link = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    else:
        link = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        link.set_busy_timeout(BUSY_SECONDS * 1000)
    link.enable_load_extension(True)
    link.load_extension(sqlite_vec.loadable_path())
    link.enable_load_extension(False)
    link.execute("PRAGMA synchronous = FULL")
    return link


class Link:
    """Opens the file at the first question. One transaction may be lent to other links, which then take part in it."""

    def __init__(self, address: str, path: str) -> None:
        self.address, self.path = address, path
        self._own: Any = None
        self._lent: Link | None = None
        self._inside = False
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Errors as error:
            said = str(error)
            if "not a database" in said or "malformed" in said:
                raise BadFile(f"{self.path} cannot be read as an SQLite database: {said}") from None
            if "locked" in said or "busy" in said.lower():
                said = f"another program has been writing to it for {BUSY_SECONDS} s; run it again"
            if "Internal sqlite-vec error" in said:  # it keeps SQLite's own reason to itself
                said += "; is the disk full?"
            raise Error(f"{self.address}: cannot {doing} it: {reason_for(said) or said}") from None

    def _open(self) -> Any:
        if self._lent is not None:
            return self._lent._open()
        if self._own is None:
            if not pathlib.Path(self.path).is_file():
                raise Missing(f"{self.address}: there is no file {self.path}")
            self._own = connect(self.path)
        return self._own

    def rows(self, doing: str, command: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows at once: an answer that is not read to its end would keep others from writing."""
        with self._lock, self.errors(doing):
            return list(self._open().execute(command, values))

    def many(self, doing: str, command: str, values: Iterable[Sequence[Any]]) -> None:
        with self._lock, self.errors(doing):
            self._open().executemany(command, values)

    @contextlib.contextmanager
    def transaction(self, doing: str) -> Iterator[None]:
        """All or nothing; part of the one that was begun, if there is one."""
        if self._inside or self._lent is not None:
            yield
            return
        try:
            with all_or_nothing(self.rows, doing, "BEGIN IMMEDIATE"):
                self._inside = True
                yield
        finally:
            self._inside = False

    @contextlib.contextmanager
    def lent_to(self, *others: Link) -> Iterator[None]:
        for other in others:
            other._lent = self
        try:
            yield
        finally:
            for other in others:
                other._lent = None

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
