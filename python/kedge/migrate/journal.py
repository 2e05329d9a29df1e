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
                                   new BLOB, version TEXT);
CREATE TABLE IF NOT EXISTS real (id UNIQUE NOT NULL, old INTEGER NOT NULL, vector BLOB, version TEXT);
CREATE TABLE IF NOT EXISTS theirs (id UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS ours (id UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS listed (list TEXT NOT NULL, id NOT NULL, UNIQUE (list, id));
CREATE INDEX IF NOT EXISTS waiting ON real (id) WHERE vector IS NOT NULL;
"""


class Journal:
    """Facts by name, a log of steps, the sample, and which documents have real vectors."""

    def __init__(self, path: str | os.PathLike[str], alone: bool = True) -> None:
        self.path, self.guard, self._open = str(path), threading.RLock(), contextlib.ExitStack()
        if alone:
            self._lock()
        elif not os.path.exists(self.path):
            with contextlib.suppress(OSError):  # which SQLite says too
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            self.db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=30)
            self._open.callback(self.db.close)
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.executescript(TABLES)
            for table in ("sample", "real"):  # journals of earlier releases have no versions
                if not self.rows("SELECT 1 FROM pragma_table_info(?) WHERE name = 'version'", table):
                    self.db.execute(f"ALTER TABLE {table} ADD COLUMN version TEXT")
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
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)  # it holds texts of documents
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

    def ids(self, name: str) -> list[Id]:
        """A fact that is a list of ids."""
        return [as_id(key) for key in self.fact(name, [])]

    def note(self, **facts: object) -> None:
        """Remembers facts; None forgets one."""
        with self.together():
            for name, value in facts.items():
                if value is None:
                    self.db.execute("DELETE FROM facts WHERE name = ?", (name,))
                else:
                    self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def add_to(self, name: str, ids: Iterable[Id]) -> None:
        """Adds to a list of documents those that are not on it."""
        with self.together():
            self.db.executemany("INSERT OR IGNORE INTO listed VALUES (?, ?)", [(name, as_key(key)) for key in ids])

    def listed(self, name: str) -> list[Id]:
        return [as_id(key) for key, in self.rows("SELECT id FROM listed WHERE list = ? ORDER BY rowid", name)]

    def log(self, step: str, found: Found) -> None:
        """What a step did, for 'status' and the report."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with self.together():
            self.db.execute("INSERT INTO steps VALUES (?, ?, ?)", (now, step, json.dumps(found)))

    def steps(self) -> list[tuple[str, str, Found]]:
        """(when, step, what was found), oldest first."""
        return [(at, step, json.loads(found)) for at, step, found in
                self.rows("SELECT at, step, found FROM steps ORDER BY rowid")]

    def when(self, step: str) -> str | None:
        """When it was done last."""
        return next((at for at, name, _ in reversed(self.steps()) if name == step), None)

    def add_sample(self, documents: Iterable[tuple[Id, str | None, str, Vectors]]) -> None:
        """Each document is (id, text, version, old vector)."""
        first = self.drawn()
        with self.together():
            self.db.executemany("INSERT INTO sample (place, id, text, version, old) VALUES (?, ?, ?, ?, ?)", [
                (place, as_key(key), text, version, np.asarray(old, "<f4").tobytes())
                for place, (key, text, version, old) in enumerate(documents, first)])

    def embed_sample(self, ids: Sequence[Id], new: Vectors) -> None:
        """Notes what the new model makes of documents of the sample; they are real from then on."""
        with self.together():
            self.db.executemany("UPDATE sample SET new = ? WHERE id = ?", [
                (np.asarray(row, "<f4").tobytes(), as_key(key)) for key, row in zip(ids, new)])
            drawn = [self.rows("SELECT old, version FROM sample WHERE id = ?", as_key(key))[0] for key in ids]
            self.embedded(ids, fingerprints(_matrix([old for old, _ in drawn])).tolist(),
                          [version for _, version in drawn], new)

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

    def sampled(self, model: str, most: int) -> Vectors:
        """At most so many vectors of the sample by one of the models, "old" or "new"."""
        column = {"old": "old", "new": "new"}[model]
        return _matrix([row for row, in self.rows(
            f"SELECT {column} FROM sample WHERE {column} IS NOT NULL ORDER BY place LIMIT ?", most)])

    def widths(self) -> dict[str, int]:
        """Of either model's vectors, as far as the sample has any."""
        return {model: rows.shape[1] for model in ("old", "new") if len(rows := self.sampled(model, 1))}

    def sample_as_drawn(self) -> set[Id]:
        """The ids of the sample whose real vectors are the sample's own: nobody else made them, and they were not made
        again of another text or beside another old vector."""
        found = self.rows("SELECT s.id, s.old, r.old FROM sample s JOIN real r ON r.id = s.id WHERE s.new IS NOT NULL "
                          "AND r.version IS s.version AND s.id NOT IN (SELECT id FROM theirs)")
        drawn = fingerprints(_matrix([old for _, old, _ in found])).tolist() if found else []
        return {as_id(key) for (key, _, before), fingerprint in zip(found, drawn) if before == fingerprint}

    def drawn_ids(self) -> set[Id]:
        return {as_id(key) for key, in self.rows("SELECT id FROM sample")}

    def drawn(self) -> int:
        """How many documents the sample has."""
        return int(self.rows("SELECT count(*) FROM sample")[0][0])

    def unembedded(self) -> list[tuple[Id, str | None]]:
        """(id, text) of the documents of the sample that wait for the new model."""
        return [(as_id(key), text) for key, text in
                self.rows("SELECT id, text FROM sample WHERE new IS NULL ORDER BY place")]

    def embedded(self, ids: Sequence[Id], old: Iterable[int], versions: Iterable[str | None], new: Vectors) -> None:
        """Keeps vectors of the new model until the store has them, with the fingerprints of the old vectors and the
        versions of the documents that they were made of."""
        with self.together():
            self.db.executemany("INSERT OR REPLACE INTO real (id, old, vector, version) VALUES (?, ?, ?, ?)", [
                (as_key(key), before, np.asarray(row, "<f4").tobytes(), version)
                for key, before, row, version in zip(ids, old, new, versions)])

    def already_real(self, ids: Sequence[Id], old: npt.ArrayLike) -> None:
        """The store has real vectors of these, made by someone else."""
        with self.together():
            self.db.executemany("INSERT OR REPLACE INTO real (id, old) VALUES (?, ?)", [
                (as_key(key), before) for key, before in zip(ids, fingerprints(old).tolist() if len(ids) else [])])
            self.db.executemany("INSERT OR IGNORE INTO theirs VALUES (?)", [(as_key(key),) for key in ids])
            self.db.executemany("DELETE FROM ours WHERE id = ?", [(as_key(key),) for key in ids])

    def still_real(self, ids: Sequence[Id], old: Vectors) -> None:
        """The old vectors of these, which the new model's stay beside, are others now."""
        with self.together():
            self.db.executemany("UPDATE real SET old = ? WHERE id = ?", [
                (before, as_key(key)) for key, before in zip(ids, fingerprints(old).tolist() if len(ids) else [])])

    def theirs(self) -> set[Id]:
        """The ids whose real vectors someone else has made, so that the sample's own say nothing of them."""
        return {as_id(key) for key, in self.rows("SELECT id FROM theirs")}

    def ours(self) -> set[Id]:
        """The ids that had real vectors from here which are out of date, whether they are still in the store or not."""
        return {as_id(key) for key, in self.rows("SELECT id FROM ours")}

    def embedded_from(self, ids: Sequence[Id]) -> dict[Id, int]:
        """{id: fingerprint of its old vector when it was embedded again} of those that were."""
        known: dict[Id, int] = {}
        for key in ids:
            found = self.rows("SELECT old FROM real WHERE id = ?", as_key(key))
            known.update((key, fingerprint) for fingerprint, in found)
        return known

    def version_of(self, key: Id) -> str | None:
        """Of the document that its real vector was made of, if the store has that vector and it came from here."""
        found = self.rows("SELECT version FROM real WHERE id = ? AND vector IS NULL", as_key(key))
        return str(found[0][0]) if found and found[0][0] is not None else None

    def forget_lists(self) -> None:
        with self.together():
            self.db.execute("DELETE FROM listed")

    def waiting(self) -> tuple[list[Id], Vectors, list[str | None]]:
        """(ids, vectors, versions of the documents) that are embedded and not yet in the store."""
        found = self.rows("SELECT id, vector, version FROM real WHERE vector IS NOT NULL")
        return ([as_id(key) for key, _, _ in found], _matrix([vector for _, vector, _ in found]),
                [version for _, _, version in found])

    def count_waiting(self) -> int:
        return int(self.rows("SELECT count(*) FROM real WHERE vector IS NOT NULL")[0][0])

    def written(self, ids: Iterable[Id]) -> None:
        """The store has the real vectors of these. What verify found wrong before in their place is gone."""
        written = set(ids)
        with self.together():
            self.db.executemany("UPDATE real SET vector = NULL WHERE id = ?", [(as_key(key),) for key in written])
            differ = self.ids("differ")
            if not written.isdisjoint(differ):
                self.note(differ=[key for key in differ if key not in written])

    def forget(self, ids: Iterable[Id]) -> None:
        """The real vectors of these are out of date. The store may have them still, so whose they are is kept."""
        keys = [(as_key(key),) for key in ids]
        with self.together():
            self.db.executemany("INSERT OR IGNORE INTO ours SELECT id FROM real WHERE id = ? AND vector IS NULL AND id "
                                "NOT IN (SELECT id FROM theirs)", keys)
            for table in ("real", "theirs"):
                self.db.executemany(f"DELETE FROM {table} WHERE id = ?", keys)

    def start_over(self) -> None:
        """There is no new place any more: real vectors of the sample wait once more, others are forgotten."""
        with self.together():
            self.note(applied=None, apply_map=None, apply_after=None, apply_rows=None, apply_skipped=None,
                      verified=None, only_new=None, differ=None)
            for table in ("real", "theirs", "ours", "listed"):
                self.db.execute(f"DELETE FROM {table}")
            ids, _, new = self.sample()
            if ids:
                self.embed_sample(ids, new)

    def real(self) -> set[Id]:
        """The ids that have real vectors, in the store or on their way there."""
        return {as_id(key) for key, in self.rows("SELECT id FROM real")}

    def count_real(self) -> int:
        return int(self.rows("SELECT count(*) FROM real")[0][0])


def _matrix(blobs: list[bytes]) -> Vectors:
    return np.stack([np.frombuffer(blob, "<f4") for blob in blobs]) if blobs else np.zeros((0, 0), np.float32)
