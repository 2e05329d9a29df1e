# SPDX-License-Identifier: Apache-2.0
"""sqlite-vec:docs.db#table.column?text=body&changed=updated_at: vectors of a vec0 table in an SQLite file.

New vectors are a vec0 table of their own with nothing but the ids. sqlite-vec can neither add a column nor rename a
table, so the switch makes the tables anew, in one transaction: all other columns come from what is in use then. A vec0
table has a vector in every row, so a document without a new one stays only in the table with the old ones.
"""
from __future__ import annotations

import bisect
import contextlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..._address import join_address, split_address
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from .require import require_free, require_same_place, require_width
from .sql_words import quoted
from .sqlite_link import Link
from .sqlite_vec0 import Definition, Vector, copy

OPTIONS = ("text", "changed")
METRICS = {"cosine": "cosine", "l2": "euclidean"}
MARKS = "kedge_places"
MOST_NEIGHBOURS = 4096  # more than these vec0 does not give


class SqliteVecStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.place, name, self.options, _ = split_address(address, OPTIONS)
        self.table, _, self.column = name.partition(".")
        self.link = Link(address, self.place)

    def beside(self, ending: str) -> SqliteVecStore:
        name = self.table + ending + ("." + self.column if self.column else "")
        return SqliteVecStore(join_address("sqlite-vec", self.place, name, self.options))

    def _definition(self, table: str | None = None) -> Definition | None:
        """Of a table; None if there is none."""
        found = self.link.rows("read", "SELECT sql FROM sqlite_master WHERE name = ?", [table or self.table])
        if not found:
            return None
        definition = Definition.parse(found[0][0])
        if definition is None:
            raise UsageError(f"{self.address}: {table or self.table!r} is not a vec0 table of sqlite-vec; name the one "
                             "that is")
        return definition

    def _there(self) -> tuple[Definition, Vector]:
        definition = self._definition()
        if definition is None:
            raise Missing(f"{self.address}: there is no table {self.table!r} in {self.place}")
        named = [found for found in definition.vectors if self.column in ("", found.name)]
        if len(named) != 1:
            names = ", ".join(found.name for found in definition.vectors)
            raise UsageError(f"{self.address}: say which column of vectors, as in #{self.table}.COLUMN; there are "
                             f"{names}")
        if named[0].kind not in ("float", "f32") or named[0].metric not in METRICS:
            raise UsageError(f"{self.address}: the column holds {named[0].kind} compared by {named[0].metric}; "
                             "expected float compared by cosine or l2")
        return definition, named[0]

    def _mark(self) -> tuple[str | None, str | None]:
        """(owner, name under which it was made)."""
        if not self.link.rows("read", "SELECT 1 FROM sqlite_master WHERE name = ?", [MARKS]):
            return None, None
        found = self.link.rows("read", f"SELECT owner, made FROM {MARKS} WHERE name = ?", [self.table])
        return found[0] if found else (None, None)  # type: ignore[return-value]

    def create(self, like: Store, width: int, owner: str) -> None:
        if require_free(self.address, self._definition() is not None, self._mark()[0], owner):
            return
        definition, vector = require_same_place(self, like)._there()
        with self.link.transaction("create"):
            self.link.rows("create", f"CREATE TABLE IF NOT EXISTS {MARKS} (name TEXT PRIMARY KEY, owner, made)")
            made = definition.only(vector.name).with_vector(vector.name, width)
            self.link.rows("create", made.create(self.table))
            self.link.rows("create", f"INSERT OR REPLACE INTO {MARKS} VALUES (?, ?, ?)",
                           [self.table, owner, self.table])

    def describe(self) -> Contents:
        found = self.facts()
        (found.rows,), = self.link.rows("read", f"SELECT count(*) FROM {quoted(self.table)}")
        return found

    def facts(self) -> Contents:
        _, vector = self._there()
        return Contents(0, vector.width, "float32", METRICS[vector.metric], texts=self._field("text") is not None,
                        owner=self._mark()[0], index="vec0, which compares with every row")

    def _field(self, option: str) -> str | None:
        """What an option names, as SQL: a column of the table, or TABLE.COLUMN of the table with the documents."""
        name = self.options.get(option)
        if name is None:
            return None
        definition, _ = self._there()
        table, _, column = name.rpartition(".")
        if not table:
            return f"v.{quoted(column)}" if column in definition.columns else None
        key = quoted(definition.key)
        return f"(SELECT d.{quoted(column)} FROM {quoted(table)} d WHERE d.{key} = v.{key})"

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        definition, vector = self._there()
        keys = list(dict.fromkeys(ids)) if ids is not None else self._ids(definition, changed)
        if after is not None:
            keys = keys[bisect.bisect_right(keys, after):]  # type: ignore[type-var]
        text = self._field("text") if texts else None
        key = f"v.{quoted(definition.key)}"
        asked = ", ".join([key] + [f"v.{quoted(vector.name)}"] * vectors + ([text] if text else []))
        command = f"SELECT {asked} FROM json_each(?) j CROSS JOIN {quoted(self.table)} v ON {key} = j.value"
        for first in range(0, len(keys), size):
            found = self.link.rows("read", command, [json.dumps(keys[first:first + size])])
            if found:
                matrix = np.frombuffer(b"".join(row[1] for row in found), np.float32) if vectors else None
                yield Rows([row[0] for row in found],
                           None if matrix is None else matrix.reshape(len(found), vector.width).copy(),
                           [row[-1] if row[-1] is None else str(row[-1]) for row in found] if text else None)

    def _ids(self, definition: Definition, changed: Moment | None) -> list[Any]:
        """All ids in their order: vec0 finds a row by its id, and otherwise reads all of them."""
        field = self._field("changed") if changed is not None else None
        where, values = (f" WHERE {field} >= ?", [changed]) if field else ("", [])
        key = quoted(definition.key)
        return sorted(row[0] for row in self.link.rows("read", f"SELECT v.{key} FROM {quoted(self.table)} v{where}",
                                                        values))

    def newest(self) -> Moment | None:
        field = self._field("changed")
        if field is None:
            return None
        (found,), = self.link.rows("read", f"SELECT max({field}) FROM {quoted(self.table)} v")
        newest: Moment | None = found
        return newest

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        definition, vector = self._there()
        if not len(ids):
            return
        require_width(self, ids, vectors, vector.width)
        table, key, column = quoted(self.table), quoted(definition.key), quoted(vector.name)
        in_use = self._mark()[1] != self.table
        if vectors is None and in_use:
            raise Error(f"{self.address}: a row of vec0 cannot be without a vector, and this table is in use; delete "
                        "documents in the application")
        with self.link.transaction("write"):
            if vectors is None:
                self.link.many("write", f"DELETE FROM {table} WHERE {key} = ?", [(one,) for one in ids])
                return
            there = {row[0] for row in self.link.rows(
                "write", f"SELECT v.{key} FROM json_each(?) j CROSS JOIN {table} v ON v.{key} = j.value",
                [json.dumps(list(ids))])}
            pairs = [(row.tobytes(), one) for row, one in zip(np.asarray(vectors, np.float32), ids)]
            self.link.many("write", f"UPDATE {table} SET {column} = ? WHERE {key} = ?",
                           [pair for pair in pairs if pair[1] in there])
            if not in_use:  # in a table in use, a row that is not there was deleted by the application
                self.link.many("write", f"INSERT INTO {table} ({column}, {key}) VALUES (?, ?)",
                               [pair for pair in pairs if pair[1] not in there])

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        definition, vector = self._there()
        command = (f"SELECT {quoted(definition.key)}, distance FROM {quoted(self.table)} "
                   f"WHERE {quoted(vector.name)} MATCH ? AND k = ?")
        ids: list[list[Id]] = []
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, query in zip(scores, np.asarray(queries, np.float32)):
            found = self.link.rows("search", command, [query.tobytes(), min(k, MOST_NEIGHBOURS)])
            found = [pair for pair in found if pair[1] is not None]  # the angle to a row of zeros is not a number
            far = np.array([pair[1] for pair in found], np.float32)
            row[:len(far)] = 1 - far if METRICS[vector.metric] == "cosine" else -far
            ids.append([pair[0] for pair in found])
        return ids, scores

    @contextlib.contextmanager
    def frozen(self, *others: SqliteVecStore) -> Iterator[None]:
        with self.link.transaction("switch"), self.link.lent_to(*(other.link for other in others)):
            yield

    def switch(self, incoming: SqliteVecStore, outgoing: SqliteVecStore) -> None:
        new, kept = self._definition(incoming.table), self._definition(outgoing.table)
        if new is None:
            if kept is None:
                raise Missing(f"{incoming.address}: there is no such table, so nothing can take the place of "
                              f"{self.address}")
            return
        if kept is not None:
            raise Error(f"{outgoing.address} is taken, and would hold what is now in {self.address}; drop that table")
        here, vector = self._there()
        width = next(found.width for found in new.vectors if found.name == vector.name)
        made = here.with_vector(vector.name, width)
        commands = [here.create(outgoing.table), copy(outgoing.table, here, vector.name, self.table),
                    f"DROP TABLE {quoted(self.table)}", made.create(self.table),
                    copy(self.table, made, vector.name, incoming.table, others_from=outgoing.table)]
        if set(new.columns) == set(here.columns):  # documents that only the table coming in has
            commands.append(copy(self.table, made, vector.name, incoming.table, unless_in=outgoing.table))
        commands.append(f"DROP TABLE {quoted(incoming.table)}")
        with self.link.transaction("switch"):
            for command in commands:
                self.link.rows("switch", command)
            for source, target in ((self.table, outgoing.table), (incoming.table, self.table)):
                self.link.rows("switch", f"UPDATE {MARKS} SET name = ? WHERE name = ?", [target, source])

    def drop(self) -> None:
        self._there()
        with self.link.transaction("drop"):
            self.link.rows("drop", f"DROP TABLE {quoted(self.table)}")
            self.link.rows("drop", f"DELETE FROM {MARKS} WHERE name = ?", [self.table])

    def close(self) -> None:
        self.link.close()
