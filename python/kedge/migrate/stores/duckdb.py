# SPDX-License-Identifier: Apache-2.0
"""duckdb:docs.db#table.column?id=id&text=body&changed=updated_at&metric=cosine: a column of arrays in a DuckDB table.

New vectors are first a table of their own, table__column: DuckDB changes an array by writing the whole row again. The
switch joins that table to a new column in one transaction, and swaps the names of the columns in another.
"""
from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..._address import join_address, split_address
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from .duckdb_link import Index, Link
from .lance_rows import plain, vector_column, vector_rows, vector_type
from .require import require_free, require_same_place, require_width
from .sql_words import quoted

OPTIONS = ("id", "text", "changed", "metric")
VECTOR = re.compile(r"(FLOAT|DOUBLE)\[(\d+)\]")
METRICS = {"cosine": "cosine", "ip": "inner", "l2sq": "euclidean"}  # as an HNSW index calls them
DISTANCES = {"cosine": "array_cosine_distance", "inner": "array_negative_inner_product", "euclidean": "array_distance"}


@dataclasses.dataclass
class Place:
    """Where vectors are: the column of the table, or while they are new, the one of a table of their own."""
    table: str
    column: str
    kind: str
    width: int
    mark: dict[str, Any]
    nullable: bool
    apart: bool


class DuckdbStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.place, name, self.options, _ = split_address(address, OPTIONS)
        self.table, _, self.column = name.partition(".")
        self.key = self.options.get("id", "id")
        if self.options.get("metric", "cosine") not in DISTANCES:
            raise UsageError(f"{address}: the metric is one of {', '.join(DISTANCES)}")
        self.link = Link(address, self.place)
        self._known: tuple[Place, Contents] | None = None

    def beside(self, ending: str) -> DuckdbStore:
        column = self.column or self._there().column
        return DuckdbStore(join_address("duckdb", self.place, f"{self.table}.{column}{ending}", self.options))

    @property
    def _apart(self) -> str:
        return f"{self.table}__{self.column}"

    def _columns(self, table: str) -> dict[str, tuple[str, str | None, bool]]:
        """{name: (type, comment, whether it may be NULL)}; empty if there is no such table."""
        return {name: (kind, comment, nullable) for name, kind, comment, nullable in self.link.rows(
            "read", "SELECT column_name, data_type, comment, is_nullable FROM duckdb_columns() WHERE table_name = ? "
            "AND schema_name = 'main' ORDER BY column_index", [table])}

    def _main(self) -> dict[str, tuple[str, str | None, bool]]:
        columns = self._columns(self.table)
        if not columns:
            raise Missing(f"{self.address}: there is no table {self.table!r} in {self.place}")
        if self.key not in columns or not re.search("INT|VARCHAR", columns[self.key][0]):
            raise UsageError(f"{self.address}: the table has no column {self.key!r} of integers or texts; name the one "
                             f"with the ids by ?id=, one of {', '.join(columns)}")
        for option in ("text", "changed"):
            if self.options.get(option, self.key) not in columns:
                raise UsageError(f"{self.address}: the table has no column {self.options[option]!r}, which ?{option}= "
                                 f"names; it has {', '.join(columns)}")
        if not self.column:
            names = [name for name, (kind, _, _) in columns.items() if VECTOR.fullmatch(kind)]
            names = [name for name in names if not any(name.startswith(other + "_") for other in names)]
            if len(names) != 1:
                raise UsageError(f"{self.address}: the table has {len(names)} columns of vectors; say which one, as in "
                                 f"#{self.table}.{names[0] if names else 'embedding'}")
            self.column = names[0]
        return columns

    def _there(self) -> Place:
        columns, table = self._main(), self.table
        if self.column not in columns:
            columns, table = self._columns(self._apart), self._apart
        if self.column not in columns:
            raise Missing(f"{self.address}: the table {self.table!r} has no column {self.column!r}")
        kind, comment, nullable = columns[self.column]
        found = VECTOR.fullmatch(kind)
        if found is None:
            raise UsageError(f"{self.address}: the column holds {kind}; expected vectors, such as FLOAT[384]")
        try:
            mark = json.loads(comment or "{}")
        except ValueError:  # the user's own words
            mark = {}
        return Place(table, self.column, found[1], int(found[2]), mark if isinstance(mark, dict) else {}, nullable,
                     table != self.table)

    def _index(self, place: Place) -> Index | None:
        return next((index for index in self.link.indexes(place.table) if index.column == place.column), None)

    def _metric(self, place: Place) -> str:
        index = self._index(place)
        known = METRICS[index.metric] if index and index.metric else "cosine"
        return str(self.options.get("metric") or place.mark.get("metric") or known)

    def create(self, like: Store, width: int, owner: str) -> None:
        try:
            require_free(self.address, True, self._there().mark.get("owner"), owner)
            return
        except Missing:
            pass
        old = require_same_place(self, like)
        place = old._there()
        index = old._index(place)
        mark = {"owner": owner, "metric": old._metric(place), "index": index.name if index else None}
        kind = self._main()[self.key][0]
        with self.link.transaction("create"):
            self.link.rows("create", f"CREATE TABLE {quoted(self._apart)} ({quoted(self.key)} {kind} PRIMARY KEY, "
                                     f"{quoted(self.column)} FLOAT[{width}])")
            self._comment(self._apart, mark)

    def _comment(self, table: str, mark: dict[str, Any]) -> None:
        text = json.dumps(mark).replace("'", "''")
        self.link.rows("create", f"COMMENT ON COLUMN {quoted(table)}.{quoted(self.column)} IS '{text}'")

    def describe(self) -> Contents:
        self._known = None
        place, found = self._look()
        (rows,), = self.link.rows("read", f"SELECT count({quoted(place.column)}) FROM {quoted(place.table)}")
        return dataclasses.replace(found, rows=rows)

    def facts(self) -> Contents:
        return self._look()[1]

    def _look(self) -> tuple[Place, Contents]:
        """The place and what is known of it without counting, until it is switched."""
        if self._known is None:
            place = self._there()
            index = self._index(place)
            self._known = place, Contents(
                0, place.width, "float32" if place.kind == "FLOAT" else "float64", self._metric(place),
                texts="text" in self.options and not place.apart, owner=place.mark.get("owner"),
                index=f"{index.name}, HNSW, {index.metric}" if index else None)
        return self._known

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        place = self._there()
        key, column = quoted(self.key), quoted(place.column)
        text = self.options.get("text") if texts and not place.apart else None
        asked = [key] + [column] * vectors + ([f"CAST({quoted(text)} AS VARCHAR)"] if text else [])
        where, values = [f"{column} IS NOT NULL"], list[Any]()
        if after is not None:
            where, values = [*where, f"{key} > ?"], [after]
        if changed is not None and "changed" in self.options and not place.apart:
            where, values = [*where, f"{quoted(self.options['changed'])} >= ?"], [*values, changed]
        if ids is not None:
            # By the number of the row, so that vectors are read of these rows alone.
            where.append(f"rowid IN (SELECT rowid FROM {quoted(place.table)} WHERE {key} IN "
                         "(SELECT id FROM kedge_wanted))")
        command = f"SELECT {', '.join(asked)} FROM {quoted(place.table)} WHERE {' AND '.join(where)}"
        wanted = None if ids is None else pa.table({"id": pa.array(list(ids))})
        if ids is None or len(ids):
            for batch in self.link.batches(command + ("" if ids is not None else f" ORDER BY {key}"), values, size,
                                           wanted):
                found = [batch.column(n) for n in range(batch.num_columns)]
                yield Rows(found[0].to_pylist(),
                           vector_rows(pa.chunked_array([found[1]]), place.width) if vectors else None,
                           found[-1].to_pylist() if text else None)

    def newest(self) -> Moment | None:
        if "changed" not in self.options or self._there().apart:
            return None
        (found,), = self.link.rows("read", f"SELECT max({quoted(self.options['changed'])}) FROM {quoted(self.table)}")
        return plain(found)

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        place = self._there()
        if not len(ids):
            return
        require_width(self, ids, vectors, place.width)
        table, key, column = quoted(place.table), quoted(self.key), quoted(place.column)
        if not place.apart:
            command = f"UPDATE {table} SET {column} = b.v FROM kedge_batch b WHERE b.id = {table}.{key}"
        elif vectors is None:
            command = f"DELETE FROM {table} WHERE {key} IN (SELECT id FROM kedge_batch)"
        else:
            command = f"INSERT OR REPLACE INTO {table} SELECT id, v FROM kedge_batch"
        self.link.with_table("write", command, {"id": pa.array(list(ids)),
                                                "v": vector_column(vectors, len(ids), vector_type(place.width))})

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        place, facts = self._look()
        metric = facts.metric
        command = (f"SELECT {quoted(self.key)}, {DISTANCES[metric]}({quoted(place.column)}, ?::FLOAT[{place.width}]) "
                   f"AS far FROM {quoted(place.table)} ORDER BY far LIMIT {int(k)}")
        ids: list[list[Id]] = []
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, query in zip(scores, np.asarray(queries, np.float32).tolist()):
            found = [pair for pair in self.link.rows("search", command, [query]) if pair[1] is not None]
            far = np.array([pair[1] for pair in found], np.float32)
            row[:len(far)] = 1 - far if metric == "cosine" else -far
            ids.append([pair[0] for pair in found])
        return ids, scores

    def finish(self) -> None:
        """Makes an HNSW index if the old column has one."""
        place = self._there()
        name = place.mark.get("index")
        if name and self._index(place) is None:
            metric = {word: name for name, word in METRICS.items()}[place.mark["metric"]]
            self.link.rows("finish", Index(f"{name}_new", "", place.column, metric).create(place.table))

    def switch(self, incoming: DuckdbStore, outgoing: DuckdbStore) -> None:
        self._known = incoming._known = outgoing._known = None
        columns = self._main()
        apart = bool(self._columns(incoming._apart))
        if not apart and incoming.column not in columns:
            if outgoing.column in columns:
                return
            raise Missing(f"{incoming.address}: there is no such column, so nothing can take the place of "
                          f"{self.address}")
        if outgoing.column in columns:
            raise Error(f"{outgoing.address} is taken, and would hold what is now in {self.address}; drop that column")
        if apart:
            incoming._join()
        self._alter({self.column: outgoing.column, incoming.column: self.column}, *(
            f"ALTER TABLE {quoted(self.table)} {change}" for change in (
                f"ALTER COLUMN {quoted(self.column)} DROP NOT NULL",  # documents that come later have no old vector
                f"RENAME COLUMN {quoted(self.column)} TO {quoted(outgoing.column)}",
                f"RENAME COLUMN {quoted(incoming.column)} TO {quoted(self.column)}")))
        self.finish()

    def _join(self) -> None:
        """Makes a column of the table of new vectors."""
        place, table, column = self._there(), quoted(self.table), quoted(self.column)
        key = quoted(self.key)
        with self.link.transaction("join"):
            self.link.rows("join", f"ALTER TABLE {table} ADD COLUMN {column} FLOAT[{place.width}]")
            self.link.rows("join", f"UPDATE {table} SET {column} = n.{column} FROM {quoted(place.table)} n "
                                   f"WHERE n.{key} = {table}.{key}")
            self._comment(self.table, place.mark)
            self.link.rows("join", f"DROP TABLE {quoted(place.table)}")

    def _alter(self, renamed: dict[str, str], *commands: str) -> None:
        """Changes columns of the table, in one step. DuckDB does that only while the table has no indexes."""
        indexes = self.link.indexes(self.table)
        with self.link.transaction("change"):
            for index in indexes:
                self.link.rows("change", f"DROP INDEX {quoted(index.name)}")
            for command in commands:
                self.link.rows("change", command)
            for index in indexes:
                index.column = renamed.get(index.column, index.column) if index.column else None
                self.link.rows("change", index.create(self.table))

    def drop(self) -> None:
        place, self._known = self._there(), None
        if place.apart:
            self.link.rows("drop", f"DROP TABLE {quoted(place.table)}")
            return
        indexes = self.link.indexes(self.table)
        for index in indexes:  # in steps of their own, before which DuckDB does not drop the column
            self.link.rows("drop", f"DROP INDEX {quoted(index.name)}")
        try:
            self.link.rows("drop", f"ALTER TABLE {quoted(self.table)} DROP COLUMN {quoted(place.column)}")
        finally:
            for index in indexes:
                if index.column != place.column:
                    self.link.rows("drop", index.create(self.table))

    def close(self) -> None:
        self._known = None
        self.link.close()
