# SPDX-License-Identifier: Apache-2.0
"""lancedb:path#table.column?id=id&text=body&changed=updated_at: a column of vectors in a LanceDB table.

New vectors are first a table of their own, table__column. Appending to it is quick, and the old table stays as it is:
filling a column of it batch by batch reads the whole table for every batch and takes rows out of its indexes. The
switch joins that table to a new column in one commit, indexes it, and then swaps the names in another.
"""
from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import lancedb
import lancedb.index
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.table import Table

from ..._address import is_uri, join_address, split_address
from ..._errors import BadFile, Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Places, Vectors
from . import lance_rows as rows_of
from .files import reason_for
from .require import require_free, require_width

OPTIONS = ("id", "text", "changed", "metric")
MARK = "kedge-migrate"
BUSY = ("applications change rows of the table meanwhile, and Lance cannot do both; nothing is lost: let them pause "
        "and run it again")
METRICS = {"cosine": "cosine", "dot": "inner", "l2": "euclidean"}
NEVER = datetime.timedelta(days=365_000)   # the table's versions are the user's, to keep or to clean up
AN_HOUR = datetime.timedelta(hours=1)      # so that whoever is reading the new vectors can go on
A_DAY = datetime.timedelta(days=1)         # for joining anew when applications change rows meanwhile
TRIES = 10
INDEXES = {
    "IVF_FLAT": lancedb.index.IvfFlat,
    "IVF_SQ": lancedb.index.IvfSq,
    "IVF_PQ": lancedb.index.IvfPq,
    "IVF_RQ": lancedb.index.IvfRq,
    "IVF_HNSW_FLAT": lancedb.index.HnswFlat,
    "IVF_HNSW_SQ": lancedb.index.HnswSq,
    "IVF_HNSW_PQ": lancedb.index.HnswPq,
}


@dataclasses.dataclass
class Place:
    """Where vectors are: the column of the table, or while they are new, the one of a table of their own."""
    table: Table
    column: str
    apart: bool

    @property
    def field(self) -> Any:
        return self.table.schema.field(self.column)

    @property
    def width(self) -> int:
        return int(self.field.type.list_size)

    @property
    def mark(self) -> dict[str, Any]:
        """What create() noted: owner, metric, and the kind of index that the old column has."""
        mark: dict[str, Any] = json.loads((self.field.metadata or {}).get(MARK.encode(), b"{}"))
        return mark

    def index(self) -> tuple[str, str, str] | None:
        """(name, kind, metric) of the index on the column, or None."""
        for found in self.table.list_indices():
            stats = self.table.index_stats(found.name) if found.columns == [self.column] else None
            if stats is not None:
                return found.name, stats.index_type, stats.distance_type or "l2"
        return None


class LanceStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.path, name, self.options, _ = split_address(address, OPTIONS)
        self.table_name, _, self.column_name = name.rpartition(".") if "." in name else (name, "", "")
        if self.options.get("metric", "cosine") not in METRICS.values():
            raise UsageError(f"{address}: the metric is one of {', '.join(METRICS.values())}")
        self.id_name = self.options.get("id", "id")
        self._link: lancedb.DBConnection | None = None
        # The ids in the table of new vectors, and the version of it they were read from.
        self._apart_ids: tuple[set[Id], int] | None = None

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turns what LanceDB raises into a sentence."""
        try:
            yield
        except (OSError, RuntimeError, ValueError, TypeError, pa.ArrowException) as error:
            text = str(error).strip()
            busy = BUSY if "oo many concurrent writers" in text or "commit conflict" in text else None
            reason = busy or reason_for(text) or (text.splitlines() or [type(error).__name__])[0]
            raise Error(f"{self.address}: cannot {doing} it: {reason}") from None

    def _connect(self) -> lancedb.DBConnection:
        if self._link is None:
            if not is_uri(self.path) and not pathlib.Path(self.path).is_dir():
                raise Missing(f"{self.address}: there is no folder {self.path}")
            with self._errors("open"):
                self._link = lancedb.connect(self.path)
        return self._link

    def _table(self, name: str) -> Table | None:
        """The newest version of a table, or None."""
        try:
            return self._connect().open_table(name)
        except ValueError as error:
            if "not found" in str(error):
                return None
            raise BadFile(f"{self.address}: the table {name!r} cannot be read: {error}") from None
        except (OSError, RuntimeError) as error:
            raise BadFile(f"{self.address}: the table {name!r} cannot be read: {str(error).splitlines()[0]}") from None

    def _main(self) -> Table:
        table = self._table(self.table_name)
        if table is None:
            raise Missing(f"{self.address}: there is no table {self.table_name!r} in {self.path}")
        if self.id_name not in table.schema.names or not rows_of.is_id(table.schema.field(self.id_name).type):
            raise UsageError(f"{self.address}: the table has no column {self.id_name!r} of integers or texts; name the "
                             f"one with the ids by ?id=, one of {', '.join(table.schema.names)}")
        return table

    def _column(self, table: Table) -> str:
        if not self.column_name:
            names = [field.name for field in table.schema if rows_of.is_vector(field.type)]
            names = [name for name in names if not any(name.startswith(other + "_") for other in names)]
            if len(names) != 1:
                raise UsageError(f"{self.address}: the table has {len(names)} columns of vectors; say which one, as in "
                                 f"#{self.table_name}.{names[0] if names else 'vector'}")
            self.column_name = names[0]
        return self.column_name

    @property
    def _apart_name(self) -> str:
        return f"{self.table_name}__{self.column_name}"

    @property
    def _joining_column(self) -> str:
        """What the column is called while it is filled."""
        return f"{self.column_name}__joining"

    def _place(self) -> Place:
        """Where the vectors are now; Missing if nowhere."""
        table = self._main()
        column = self._column(table)
        if column not in table.schema.names:
            apart = self._table(self._apart_name)
            if apart is not None and column in apart.schema.names:
                return Place(apart, column, True)
            raise Missing(f"{self.address}: the table {self.table_name!r} has no column {column!r}; it has "
                          f"{', '.join(table.schema.names)}")
        if not rows_of.is_vector(table.schema.field(column).type):
            raise UsageError(f"{self.address}: the column holds {table.schema.field(column).type}; expected vectors, "
                             "that is lists of floats of one fixed size")
        return Place(table, column, False)

    def _metric(self, place: Place) -> str:
        """As LanceDB does: the index says how it compares, and without one it is by distance."""
        found = place.index()
        return self.options.get("metric") or place.mark.get("metric") or METRICS[found[2] if found else "l2"]

    def beside(self, ending: str) -> LanceStore:
        column = self.column_name or self._column(self._main())
        return LanceStore(join_address("lancedb", self.path, f"{self.table_name}.{column}{ending}", self.options))

    def create(self, like: Store, width: int, owner: str) -> None:
        try:
            require_free(self.address, True, self._place().mark.get("owner"), owner)
            return
        except Missing:
            pass
        mark = {"owner": owner, "metric": like.describe().metric, "index": None}
        if isinstance(like, LanceStore):
            index = like._place().index()
            mark["index"] = index[1] if index else None
        key = self._main().schema.field(self.id_name)
        with self._errors("create"):
            self._connect().create_table(self._apart_name, schema=pa.schema([
                pa.field(key.name, key.type),
                pa.field(self.column_name, rows_of.vector_type(width), metadata={MARK: json.dumps(mark)})]))

    def describe(self) -> Contents:
        place = self._place()
        index = place.index()
        with self._errors("read"):
            kind = {2: "float16", 4: "float32"}.get(place.field.type.value_type.byte_width, "float64")
            return Contents(
                place.table.count_rows(f"{rows_of.named(place.column)} IS NOT NULL"), place.width, kind,
                self._metric(place), texts=not place.apart and self.options.get("text") in place.table.schema.names,
                owner=place.mark.get("owner"), index=index and f"{index[1]}, {index[2]}")

    def _option(self, place: Place, name: str) -> str | None:
        """The column that an option of the address names, or None; the table of new vectors has no such columns."""
        column = self.options.get(name)
        if column is None or place.apart:
            return None
        if column not in place.table.schema.names:
            raise UsageError(f"{self.address}: the table has no column {column!r}, which ?{name}= names; it has "
                             f"{', '.join(place.table.schema.names)}")
        return column

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        place = self._place()
        text = self._option(place, "text") if texts else None
        conditions = [] if vectors else [f"{rows_of.named(place.column)} IS NOT NULL"]
        since = self._option(place, "changed")
        if changed is not None and since:
            conditions.append(rows_of.at_or_above(place.table.schema.field(since), changed))
        with self._errors("read"):
            place.table.checkout(place.table.version)  # rows keep their numbers within a version
            keys, rows = rows_of.sorted_rows(place.table, self.id_name, conditions, self.address)
            if ids is not None:
                keys, rows = rows_of.chosen(keys, rows, ids)
            columns = [self.id_name] + [place.column] * vectors + ([text] if text else [])
        for first in range(rows_of.behind(keys, after), len(rows), size):
            with self._errors("read"):
                batch = self._batch(place, rows[first:first + size], columns, text)
            if len(batch):
                yield batch

    def _batch(self, place: Place, rows: Places, columns: list[str], text: str | None) -> Rows:
        found = rows_of.take(place.table, rows, columns)
        vectors = None
        if place.column in columns:
            found = found.filter(pc.is_valid(found[place.column]))
            vectors = rows_of.vector_rows(found[place.column], place.width)
        return Rows(found[self.id_name].to_pylist(), vectors, found[text].to_pylist() if text else None)

    def newest(self) -> Moment | None:
        place = self._place()
        column = self._option(place, "changed")
        if column is None:
            return None
        with self._errors("read"):
            found = place.table.search().select([column]).to_arrow()
            return rows_of.plain(pc.max(found[column]).as_py())

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        place = self._place()
        if not len(ids):
            return
        require_width(self, ids, vectors, place.width)
        key = place.table.schema.field(self.id_name)
        batch = pa.table([pa.array(ids, key.type), rows_of.vector_column(vectors, len(ids), place.width)],
                         [self.id_name, place.column])
        with self._errors("write"):
            if not place.apart:
                place.table.merge_insert(self.id_name).when_matched_update_all().execute(batch)
            elif vectors is None:
                place.table.delete(rows_of.one_of(self.id_name, ids))
            else:
                self._append(place, ids, batch)

    def _append(self, place: Place, ids: Sequence[Id], batch: Any) -> None:
        """Adds rows; only those that replace others need a join, which reads every id there is."""
        known, version = self._apart_ids or (set(), None)
        if version != place.table.version:
            known = set(place.table.search().select([self.id_name]).to_arrow()[self.id_name].to_pylist())
        if known.isdisjoint(ids):
            place.table.add(batch)
        else:
            (place.table.merge_insert(self.id_name).when_matched_update_all().when_not_matched_insert_all()
             .execute(batch))
        known.update(ids)
        self._apart_ids = known, place.table.version

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        place = self._place()
        metric = self._metric(place)
        ids, scores = [], np.full((len(queries), k), -np.inf, np.float32)
        for number, query in enumerate(np.asarray(queries, np.float32)):
            with self._errors("search"):
                search: Any = place.table.search(query, vector_column_name=place.column)
                found = (search.limit(k).distance_type({name: word for word, name in METRICS.items()}[metric])
                         .select([self.id_name, "_distance"]).to_arrow())
            far = found["_distance"].to_numpy()
            ids.append(found[self.id_name].to_pylist())
            scores[number, :len(far)] = -np.sqrt(np.maximum(far, 0)) if metric == "euclidean" else 1 - far
        return ids, scores

    def finish(self) -> None:
        place = self._place()
        with self._errors("finish"):
            if place.apart:
                place.table.optimize(cleanup_older_than=AN_HOUR)
                self._index(place)
            else:
                self._change(lambda table: table.optimize(cleanup_older_than=NEVER))

    def _index(self, place: Place) -> None:
        """An index of the kind that the old column has, with LanceDB's own settings for this many rows and values."""
        kind = place.mark.get("index")
        if kind is None or place.index() is not None:
            return
        if kind not in INDEXES:
            raise Error(f"{self.address}: the old column has an index of the kind {kind}, which kedge-migrate does not "
                        "know how to make; drop that index first and make it by hand after the cutover")
        word = {name: word for word, name in METRICS.items()}[place.mark["metric"]]
        place.table.create_index(place.column, config=INDEXES[kind](distance_type=word))

    def switch(self, incoming: LanceStore, outgoing: LanceStore) -> None:
        names = self._main().schema.names
        if incoming._is_apart():
            incoming._join()
            names = self._main().schema.names
        if incoming.column_name in names:
            if outgoing.column_name in names:
                raise Error(f"{outgoing.address} is taken, and would hold what is now in {self.address}; drop that "
                            "column")
            with self._errors("switch"):
                self._change(lambda table: rename(table, (self._column(table), outgoing.column_name),
                                                  (incoming.column_name, self.column_name)))
        elif outgoing.column_name not in names:
            raise Missing(f"{incoming.address}: there is no such column, so nothing can take the place of "
                          f"{self.address}")

    def _is_apart(self) -> bool:
        """Whether there is a table of new vectors, or what a removal that was killed has left of it."""
        try:
            return self._table(self._apart_name) is not None
        except BadFile:
            if self.column_name in self._main().schema.names:
                return True
            raise

    def _join(self) -> None:
        """Makes a column of the table of new vectors. It gets its name when it is whole: a join that was killed begins
        again, and a table whose removal was killed, which may still open and be empty, is not read."""
        with self._errors("join"):
            if self.column_name not in self._main().schema.names:
                self._fill(self._joining_column)
            self._change(lambda table: self._index(Place(table, self.column_name, False)))
            self._connect().drop_table(self._apart_name)

    def _fill(self, joining: str) -> None:
        apart = self._place()
        if joining in self._main().schema.names:
            self._change(lambda table: table.drop_columns([joining]))
        self._change(lambda table: table.add_columns(apart.field.with_name(joining)))
        batches = apart.table.search().select([self.id_name, apart.column]).to_batches()
        names = [self.id_name, joining]
        schema = pa.schema([apart.table.schema.field(self.id_name), apart.field.with_name(joining)])
        renamed = pa.RecordBatchReader.from_batches(schema, (batch.rename_columns(names) for batch in batches))
        self._main().merge_insert(self.id_name).when_matched_update_all().execute(renamed, timeout=A_DAY)
        # The join moved the rows, and they have to come back into the other indexes.
        self._change(lambda table: table.optimize(cleanup_older_than=NEVER))
        self._change(lambda table: rename(table, (joining, self.column_name)))

    def _change(self, change: Callable[[Table], object]) -> None:
        """Changes the table; once more with its newest version if an application's change came between."""
        for tries_left in reversed(range(TRIES)):
            try:
                change(self._main())
                return
            except RuntimeError as error:
                if "conflict" not in str(error) or not tries_left:
                    raise
                time.sleep(0.2)

    def drop(self) -> None:
        with self._errors("drop"):
            try:
                apart = self._table(self._apart_name) is not None
            except BadFile:  # a removal that was killed
                apart = True
            if apart:
                self._connect().drop_table(self._apart_name)
            names = self._main().schema.names
            left = [column for column in (self.column_name, self._joining_column) if column in names]
            if left:
                self._change(lambda table: table.drop_columns(left))

    def close(self) -> None:
        self._link, self._apart_ids = None, None


def rename(table: Any, *names: tuple[str, str]) -> None:
    """Columns from old names to new ones, in one step."""
    table.alter_columns(*({"path": old, "rename": new} for old, new in names))
