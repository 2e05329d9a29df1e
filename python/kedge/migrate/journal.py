# SPDX-License-Identifier: Apache-2.0
"""The journal: one SQLite file beside the config that knows what was done, so that every command can be run again.

A row is written to the store first and noted here second. After a crash between the two it is written once more, which
changes nothing, since writes replace. What was embedded is noted before it is written: it may have cost money.
"""
from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._errors import BadFile, Error
from .draw import as_id, as_key, fingerprints
from .types import Found, Id, Vectors

TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (at TEXT NOT NULL, step TEXT NOT NULL, found TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sample (place INTEGER PRIMARY KEY, id UNIQUE NOT NULL, old BLOB NOT NULL, text TEXT,
                                   new BLOB);
CREATE TABLE IF NOT EXISTS real (id UNIQUE NOT NULL, old INTEGER NOT NULL, vector BLOB);
CREATE INDEX IF NOT EXISTS waiting ON real (id) WHERE vector IS NOT NULL;
"""


class Journal:
    """Facts by name, a log of steps, the sample, and which documents have real vectors."""

    def __init__(self, path: str | os.PathLike[str], alone: bool = True) -> None:
        self.path, self.guard, self._open = str(path), threading.RLock(), contextlib.ExitStack()
        if alone:
            self._lock()
        try:
            self.db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=30)
            self._open.callback(self.db.close)
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.executescript(TABLES)
            self.owner = self.fact("owner")
            if self.owner is None:
                self.owner = uuid.uuid4().hex
                self.note(owner=self.owner)
        except sqlite3.DatabaseError as error:
            self.close()
            raise BadFile(f"{self.path} cannot be used as a journal: {error}") from None
        except Error:
            self.close()
            raise

    def _lock(self) -> None:
        """One command at a time; 'status' reads without. The file stays open as long as the database, because closing
        it earlier would let go of SQLite's own locks too."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            self._open.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Error(f"another kedge-migrate is at work with {self.path}; wait for it, or see 'kedge-migrate status'"
                        ) from None
        except OSError as error:
            raise Error(f"{self.path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        self._open.close()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """All that is noted inside is noted at once, or not at all."""
        with self.guard:
            if self.db.in_transaction:
                yield
                return
            try:
                self.db.execute("BEGIN IMMEDIATE")
                yield
                self.db.execute("COMMIT")
            except sqlite3.OperationalError as error:
                self._undo()
                raise Error(f"{self.path} cannot be written: {error}; what was done so far is kept, run the command "
                            "again") from None
            except sqlite3.DatabaseError as error:
                self._undo()
                raise BadFile(f"{self.path} is damaged: {error}") from None
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def rows(self, sql: str, *values: object) -> list[Any]:
        with self.guard:
            try:
                return self.db.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise BadFile(f"{self.path} cannot be read: {error}; nothing was changed") from None

    def fact(self, name: str, default: Any = None) -> Any:
        found = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return json.loads(found[0][0]) if found else default

    def note(self, **facts: object) -> None:
        """Remembers facts; None forgets one."""
        with self.together():
            for name, value in facts.items():
                if value is None:
                    self.db.execute("DELETE FROM facts WHERE name = ?", (name,))
                else:
                    self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def log(self, step: str, found: Found) -> None:
        """What a step did, for 'status' and the report."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with self.together():
            self.db.execute("INSERT INTO steps VALUES (?, ?, ?)", (now, step, json.dumps(found)))

    def steps(self) -> list[tuple[str, str, Found]]:
        """(when, step, what was found), oldest first."""
        return [(at, step, json.loads(found)) for at, step, found in
                self.rows("SELECT at, step, found FROM steps ORDER BY rowid")]

    def add_sample(self, ids: Sequence[Id], old: Iterable[Vectors], texts: Iterable[str | None]) -> None:
        first = self.drawn()
        with self.together():
            self.db.executemany("INSERT INTO sample (place, id, old, text) VALUES (?, ?, ?, ?)", [
                (first + n, as_key(key), np.asarray(row, "<f4").tobytes(), text) for n, (key, row, text)
                in enumerate(zip(ids, old, texts))])

    def embed_sample(self, ids: Sequence[Id], new: Vectors) -> None:
        """Notes what the new model makes of documents of the sample; they are real from then on."""
        with self.together():
            self.db.executemany("UPDATE sample SET new = ? WHERE id = ?", [
                (np.asarray(row, "<f4").tobytes(), as_key(key)) for key, row in zip(ids, new)])
            old = {as_id(key): row for key, row in self.rows("SELECT id, old FROM sample")}
            self.embedded(ids, _matrix([old[key] for key in ids]), new)

    def forget_sample(self) -> None:
        """The sample stays drawn, and waits for the new model again."""
        with self.together():
            self.db.execute("UPDATE sample SET new = NULL")
            self.db.execute("DELETE FROM real")
            self.note(new_width=None, map=None, fitted=None, check=None)

    def sample(self) -> tuple[list[Id], Vectors, Vectors]:
        """(ids, old, new) of what both models have embedded of the sample, in the order it was drawn."""
        found = self.rows("SELECT id, old, new FROM sample WHERE new IS NOT NULL ORDER BY place")
        return ([as_id(key) for key, _, _ in found], _matrix([old for _, old, _ in found]),
                _matrix([new for _, _, new in found]))

    def drawn_ids(self) -> set[Id]:
        return {as_id(key) for key, in self.rows("SELECT id FROM sample")}

    def drawn(self) -> int:
        """How many documents the sample has."""
        return int(self.rows("SELECT count(*) FROM sample")[0][0])

    def unembedded(self) -> list[tuple[Id, str | None]]:
        """(id, text) of the documents of the sample that wait for the new model."""
        return [(as_id(key), text) for key, text in
                self.rows("SELECT id, text FROM sample WHERE new IS NULL ORDER BY place")]

    def embedded(self, ids: Sequence[Id], old: npt.ArrayLike, new: Vectors) -> None:
        """Keeps vectors of the new model until the store has them, and what the old ones were like."""
        with self.together():
            self.db.executemany("INSERT OR REPLACE INTO real VALUES (?, ?, ?)", [
                (as_key(key), before, np.asarray(row, "<f4").tobytes())
                for key, before, row in zip(ids, fingerprints(old).tolist(), new)])

    def already_real(self, ids: Sequence[Id], old: npt.ArrayLike) -> None:
        """The store has real vectors of these, made by someone else."""
        with self.together():
            self.db.executemany("INSERT OR REPLACE INTO real VALUES (?, ?, NULL)", [
                (as_key(key), before) for key, before in zip(ids, fingerprints(old).tolist() if len(ids) else [])])

    def embedded_from(self, ids: Sequence[Id]) -> dict[Id, int]:
        """{id: fingerprint of its old vector when it was embedded again} of those that were."""
        known: dict[Id, int] = {}
        for key in ids:
            found = self.rows("SELECT old FROM real WHERE id = ?", as_key(key))
            known.update((key, fingerprint) for fingerprint, in found)
        return known

    def waiting(self) -> tuple[list[Id], Vectors]:
        """(ids, vectors) that are embedded and not yet in the store."""
        found = self.rows("SELECT id, vector FROM real WHERE vector IS NOT NULL")
        return [as_id(key) for key, _ in found], _matrix([vector for _, vector in found])

    def count_waiting(self) -> int:
        return int(self.rows("SELECT count(*) FROM real WHERE vector IS NOT NULL")[0][0])

    def written(self, ids: Iterable[Id]) -> None:
        """The store has the real vectors of these."""
        with self.together():
            self.db.executemany("UPDATE real SET vector = NULL WHERE id = ?", [(as_key(key),) for key in ids])

    def forget(self, ids: Iterable[Id]) -> None:
        """The real vectors of these are out of date."""
        with self.together():
            self.db.executemany("DELETE FROM real WHERE id = ?", [(as_key(key),) for key in ids])

    def start_over(self) -> None:
        """There is no new place any more: real vectors of the sample wait once more, others are forgotten."""
        with self.together():
            self.note(applied=None, apply_map=None, apply_after=None, apply_rows=None, apply_skipped=None,
                      verified=None, only_new=None)
            self.db.execute("DELETE FROM real")
            ids, old, new = self.sample()
            if ids:
                self.embedded(ids, old, new)

    def real(self) -> set[Id]:
        """The ids that have real vectors, in the store or on their way there."""
        return {as_id(key) for key, in self.rows("SELECT id FROM real")}

    def count_real(self) -> int:
        return int(self.rows("SELECT count(*) FROM real")[0][0])


def _matrix(blobs: list[bytes]) -> Vectors:
    return np.stack([np.frombuffer(blob, "<f4") for blob in blobs]) if blobs else np.zeros((0, 0), np.float32)
