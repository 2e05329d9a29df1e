# SPDX-License-Identifier: Apache-2.0
"""Vectors that are written but not yet in Parquet files, in an SQLite file beside the place: Parquet files are written
whole, but rows come in batches and may be replaced."""
from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np

from ..._errors import BadFile, Error
from ..draw import as_id, as_key
from ..types import Id, Vectors

MAKE = "CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, id UNIQUE NOT NULL, vector BLOB)"
PUT = "INSERT INTO rows (id, vector) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET vector = excluded.vector"
MOST_NAMES = 10_000  # in one question


class Staged:
    """number gives the order in which ids first came; a row without a vector is one that was removed."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._link: sqlite3.Connection | None = None

    def exists(self) -> bool:
        return self.path.exists()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._link is None:
                # Used by one thread at a time, but not always the same.
                self._link = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
                self._link.execute("PRAGMA page_size = 16384")  # vectors then fit a page or few
                self._link.execute("PRAGMA synchronous = FULL")
                self._link.execute(MAKE)
            yield self._link
        except sqlite3.DatabaseError as error:
            said = str(error)
            if "full" in said:
                raise Error(f"{self.path}: the disk is full; make room and run it again") from None
            if "malformed" in said or "not a database" in said:
                raise BadFile(f"{self.path} is damaged; 'rollback --drop' removes it") from None
            raise Error(f"{self.path} cannot be used: {said}") from None

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        with self._open() as link:
            link.execute("BEGIN IMMEDIATE")
            try:
                link.executemany(PUT, ((as_key(key), None if vectors is None else vectors[n].tobytes())
                                       for n, key in enumerate(ids)))
                link.execute("COMMIT")
            except BaseException:
                if link.in_transaction:
                    link.execute("ROLLBACK")
                raise

    def find(self, ids: Sequence[Id]) -> dict[Id, bytes | None]:
        """{id: float32 bytes, or None if removed} of those that are staged."""
        if not self.exists():
            return {}
        found: dict[Id, bytes | None] = {}
        with self._open() as link:
            for first in range(0, len(ids), MOST_NAMES):
                part = ids[first:first + MOST_NAMES]
                places = ",".join("?" * len(part))
                found.update((as_id(key), vector) for key, vector in link.execute(
                    f"SELECT id, vector FROM rows WHERE id IN ({places})", [as_key(key) for key in part]))
        return found

    def number(self, key: Id) -> int | None:
        with self._open() as link:
            found = link.execute("SELECT number FROM rows WHERE id = ?", [as_key(key)]).fetchone()
        return None if found is None else found[0]

    def batches(self, size: int, width: int, after: int = 0) -> Iterator[tuple[list[Id], Vectors]]:
        """(ids, matrix) of the rows that have a vector, in their order."""
        while self.exists():
            with self._open() as link:
                found = link.execute("SELECT number, id, vector FROM rows WHERE number > ? AND vector IS NOT NULL "
                                     "ORDER BY number LIMIT ?", [after, size]).fetchall()
            if not found:
                return
            after = found[-1][0]
            matrix = np.frombuffer(b"".join(row[2] for row in found), np.float32).reshape(len(found), width)
            yield [as_id(row[1]) for row in found], matrix

    def count(self) -> int:
        with self._open() as link:
            return int(link.execute("SELECT count(*) FROM rows WHERE vector IS NOT NULL").fetchone()[0])

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
        self.path.with_name(self.path.name + "-journal").unlink(missing_ok=True)
