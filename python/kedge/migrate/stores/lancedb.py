# SPDX-License-Identifier: Apache-2.0
"""lancedb:path#table.column?id=id&text=body&changed=updated_at: a column of vectors in a LanceDB table.

New vectors are first a table of their own, table__column. Appending to it is quick, and the old table stays as it is:
filling a column of it batch by batch reads the whole table for every batch and takes rows out of its indexes. The
switch has Lance add that table's vectors as a column, in one commit that moves no row, indexes it, and then swaps the
names in another.
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

import lance
import lancedb
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
from .lance_place import MARK, METRICS, Place
from .require import require_free, require_width

OPTIONS = ("id", "text", "changed", "metric")
BUSY = ("applications change rows of the table meanwhile, and Lance cannot do both; nothing is lost: let them pause "
        "and run it again")
NEVER = datetime.timedelta(days=365_000)   # the table's versions are the user's, to keep or to clean up
AN_HOUR = datetime.timedelta(hours=1)      # so that whoever is reading the new vectors can go on
TRIES = 10
FEW_IDS = 1024  # so many are looked for by Lance itself, which has an index on them or reads ids alone

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
        # The same of the place, in their order, with the rows that they are in.
        self._sorted: tuple[tuple[str, int], rows_of.Ids, Places] | None = None
        self._known: tuple[Place, Contents] | None = None

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
        facts = like.facts()
        mark: dict[str, Any] = {"owner": owner, "metric": facts.metric, "index": None}
        if isinstance(like, LanceStore):
            place = like._place()
            index = place.index()
            mark.update(index=index[1] if index else None, settings=place.settings(index[0]) if index else {})
        key = self._main().schema.field(self.id_name)
        with self._errors("create"):
            self._connect().create_table(self._apart_name, schema=pa.schema([
                pa.field(key.name, key.type),
                pa.field(self.column_name, rows_of.vector_type(width, facts.kind), metadata={MARK: json.dumps(mark)})]))

    def describe(self) -> Contents:
        self._known = None
        place, found = self._look()
        with self._errors("read"):
            return dataclasses.replace(found, rows=place.table.count_rows(f"{rows_of.named(place.column)} IS NOT NULL"))

    def facts(self) -> Contents:
        return self._look()[1]

    def _look(self) -> tuple[Place, Contents]:
        """The place and what is known of it without reading its rows, until it is switched."""
        if self._known is None:
            place = self._place()
            index = place.index()
            self._known = place, Contents(
                0, place.width, place.kind, self._metric(place), texts=self._option(place, "text") is not None,
                owner=place.mark.get("owner"), index=index and f"{index[1]}, {index[2]}")
        return self._known

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
        columns = [self.id_name] + [place.column] * vectors + ([text] if text else [])
        if ids is not None and len(ids) <= FEW_IDS:
            yield from self._few(place, ids, columns, text, size)
            return
        with self._errors("read"):
            place.table.checkout(place.table.version)  # rows keep their numbers within a version
            keys, rows = self._in_order(place, conditions)
            if ids is not None:
                rows = rows_of.places_of(keys, rows, list(ids))
        for first in range(0 if ids is not None else rows_of.behind(keys, after), len(rows), size):
            with self._errors("read"):
                batch = self._batch(place, rows[first:first + size], columns, text)
            if len(batch):
                yield batch

    def _in_order(self, place: Place, conditions: list[str]) -> tuple[rows_of.Ids, Places]:
        """Read once for as long as nobody changes the table, so that asking for many ids again and again costs what is
        asked for."""
        version = (place.table.name, place.table.version)
        if conditions:
            return rows_of.sorted_rows(place.table, self.id_name, conditions, self.address)
        if self._sorted is None or self._sorted[0] != version:
            self._sorted = (version, *rows_of.sorted_rows(place.table, self.id_name, [], self.address))
        return self._sorted[1:]

    def _few(self, place: Place, ids: Collection[Id], columns: list[str], text: str | None,
             size: int) -> Iterator[Rows]:
        number = pa.types.is_integer(place.table.schema.field(self.id_name).type)
        wanted = [key for key in dict.fromkeys(ids) if isinstance(key, int) == number]
        for first in range(0, len(wanted), size):
            with self._errors("read"):
                some = wanted[first:first + size]
                found = (place.table.search().where(rows_of.one_of(self.id_name, some)).select(columns).limit(len(some))
                         .to_arrow())
                batch = self._rows(place, found, columns, text)
            if len(batch):
                yield batch

    def _batch(self, place: Place, rows: Places, columns: list[str], text: str | None) -> Rows:
        return self._rows(place, rows_of.take(place.table, rows, columns), columns, text)

    def _rows(self, place: Place, found: Any, columns: list[str], text: str | None) -> Rows:
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
        batch = pa.table([pa.array(ids, key.type), rows_of.vector_column(vectors, len(ids), place.field.type)],
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
        place, facts = self._look()
        metric = facts.metric
        ids, scores = [], np.full((len(queries), k), -np.inf, np.float32)
        with self._errors("search"):
            place.table.checkout_latest()
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
                place.make_index(self.address)
            else:
                self._change(lambda table: table.optimize(cleanup_older_than=NEVER))

    def switch(self, incoming: LanceStore, outgoing: LanceStore) -> None:
        for store in (self, incoming, outgoing):
            store._known = store._sorted = None
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
        """Makes a column of the table of new vectors. The column is there when it is whole: a join that was killed
        begins again, and a table whose removal was killed, which may still open and be empty, is not read."""
        with self._errors("join"):
            if self.column_name not in self._main().schema.names:
                self._add_column()
            self._change(lambda table: Place(table, self.column_name, False).make_index(self.address))
            self._connect().drop_table(self._apart_name)

    def _add_column(self) -> None:
        """Lance asks for the vectors of its rows batch by batch, and writes them beside the columns that are there."""
        apart = self._place()
        keys, rows = rows_of.sorted_rows(apart.table, self.id_name, [], self.address)
        field = apart.field

        def vectors_of(batch: Any) -> Any:
            ids = batch.column(self.id_name).to_pylist()
            found = rows_of.take(apart.table, rows_of.places_of(keys, rows, ids), [self.id_name, apart.column])
            where = {key: n for n, key in enumerate(found[self.id_name].to_pylist())}
            places = pa.array([where.get(key) for key in ids], pa.int64())
            column = found[apart.column].combine_chunks().take(places)
            return pa.record_batch([column], schema=pa.schema([field]))

        added = lance.batch_udf(output_schema=pa.schema([field]))(vectors_of)
        self._change(lambda table: table.to_lance().add_columns(  # type: ignore[attr-defined]
            added, read_columns=[self.id_name], batch_size=BATCH_ROWS))

    def _change(self, change: Callable[[Table], object]) -> None:
        """Changes the table; once more with its newest version if an application's change came between."""
        for tries_left in reversed(range(TRIES)):
            try:
                change(self._main())
                return
            except (OSError, RuntimeError) as error:
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
            if self.column_name in names:
                self._change(lambda table: table.drop_columns([self.column_name]))
        self._known = self._sorted = None

    def close(self) -> None:
        self._link = self._apart_ids = self._sorted = self._known = None


def rename(table: Any, *names: tuple[str, str]) -> None:
    """Columns from old names to new ones, in one step."""
    table.alter_columns(*({"path": old, "rename": new} for old, new in names))
