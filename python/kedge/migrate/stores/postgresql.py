# SPDX-License-Identifier: Apache-2.0
"""postgresql://host/db?table=docs&column=embedding: a vector or halfvec column of pgvector.

The new vectors are a column of the same table, so the switch is two renames in one transaction. Views, functions and
indexes follow a column by its number, not its name: what was built on the old vectors keeps reading the old vectors.
"""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg import errors as pg_errors
from psycopg import sql
from psycopg.rows import TupleRow

from ..._address import TableAddress
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from . import postgres_index, postgres_table
from .postgres_link import Connection, Link, explained, set_lock_timeout, vector_array, vector_cell, vectors_of
from .postgres_table import Column, Table, drop_functions, find_column, look_up, mark_column, only_column

WIDEST = 16000
WRITE_BYTES = 1 << 25
TURNS = 8


class PostgresStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.at = TableAddress.parse(address)
        self._link = Link(self.at.conninfo, self.name)
        self._known: Table | None = None

    @property
    def name(self) -> str:
        """What messages call it; the address may hold a password."""
        return ".".join((*self.at.table, self.at.column or "?"))

    def beside(self, ending: str) -> PostgresStore:
        column = self._column_name() + ending
        if len(column.encode()) > 63:
            raise UsageError(f"{self.name}: {column!r} is longer than the 63 bytes PostgreSQL gives a name; choose "
                             "another place with 'into'")
        return PostgresStore(str(dataclasses.replace(self.at, column=column)))

    def _table(self) -> Table:
        if self._known is None:
            with self._link.session() as connection:
                self._known = look_up(connection, self.at, self.name)
                self._link.read_as_bytes(self._known.vector_oids.values())
        return self._known

    def _column_name(self) -> str:
        """The one in the address, or else the table's only one."""
        if self.at.column is not None:
            return self.at.column
        table = self._table()
        with self._link.session() as connection:
            column = only_column(connection, table, self.name)
        self.at = dataclasses.replace(self.at, column=column)
        self.address, self._link.name = str(self.at), self.name
        return column

    def _name(self) -> sql.Identifier:
        return sql.Identifier(self._column_name())

    def _find(self) -> Column | None:
        name, table = self._column_name(), self._table()
        with self._link.session() as connection:
            return find_column(connection, table, name, self.name)

    def _column(self) -> Column:
        column = self._find()
        if column is None:
            raise Missing(f"{self.name}: the table has no column {self.at.column!r}")
        return column

    def metric(self) -> str:
        """How the column's index compares; without one, the index of the column it replaces; without either, cosine."""
        column = self._column()
        for number in (column.number, (column.mark or {}).get("like")):
            for index in self._indexes(number):
                if index.metric:
                    return index.metric
        return "cosine"

    def _indexes(self, number: int | None = None) -> list[postgres_index.Index]:
        table = self._table()
        number = number or self._column().number
        with self._link.session() as connection:
            return postgres_index.on_column(connection, table.oid, number)

    def describe(self) -> Contents:
        name, table, column = self._name(), self._table(), self._column()
        with self._link.session() as connection:
            rows, = connection.execute(sql.SQL("SELECT count({}) FROM {}").format(name, table.name)).fetchall()[0]
            width = column.width or connection.execute(sql.SQL(
                "SELECT coalesce((SELECT {}({c}) FROM {} WHERE {c} IS NOT NULL LIMIT 1), 0)").format(
                    table.of_extension("vector_dims"), table.name, c=name)).fetchall()[0][0]
        indexes = "; ".join(index.says for index in self._indexes())
        return Contents(rows, width, "float16" if column.half else "float32", self.metric(), self.at.text is not None,
                        (column.mark or {}).get("owner"), indexes or None)

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        if changed is not None and self.at.changed is None:
            raise UsageError(f"{self.name}: the address names no column that says when rows changed; add &changed=NAME")
        text = self.at.text if texts else None
        name, table, column = self._name(), self._table(), self._column()
        parts = [sql.SQL("d.{}" if table.integers else "d.{}::text").format(table.id)]
        parts += [sql.SQL("d.{}").format(name)] if vectors else []
        parts += [sql.SQL("d.{}::text").format(sql.Identifier(text))] if text else []
        conditions, values = [sql.SQL("d.{} IS NOT NULL").format(name)], []
        if changed is not None and self.at.changed is not None:
            since = sql.SQL(f"d.{{}} >= %s::text::{table.changed_type}")
            conditions.append(since.format(sql.Identifier(self.at.changed)))
            values.append(str(changed))
        asked = sql.SQL("SELECT {} FROM {} d WHERE {}").format(sql.SQL(", ").join(parts), table.name,
                                                              sql.SQL(" AND ").join(conditions))
        batches = self._named(asked, values, ids, size) if ids is not None else self._paged(asked, values, after, size)
        for found in batches:
            columns = list(zip(*found))
            rows = vectors_of(columns[1], column.half, column.width, self.name) if vectors else None
            yield Rows(list(columns[0]), rows, list(columns[-1]) if text else None)

    def _paged(self, asked: sql.Composed, values: list[Any], after: Id | None, size: int) -> Iterator[list[TupleRow]]:
        """By pages of ids, each a short statement: no snapshot that keeps VACUUM waiting, and no cursor to lose."""
        table = self._table()
        first = sql.SQL(" AND d.{} IS NOT NULL").format(table.id)
        later = sql.SQL(" AND d.{} > %s::" + table.id_cast()).format(table.id)
        order = sql.SQL(" ORDER BY d.{} LIMIT {}").format(table.id, sql.Literal(size))
        while True:
            found = self._rows(asked + (first if after is None else later) + order,
                               values if after is None else [*values, after])
            if found and found[-1][0] == after:
                raise Error(f"{self.name}: ids of type {table.id_type} do not come back from text as they were; name "
                            "another unique column with &id=")
            if found:
                yield found
                after = found[-1][0]
            if len(found) < size:
                return

    def _named(self, asked: sql.Composed, values: list[Any], ids: Collection[Id],
               size: int) -> Iterator[list[TupleRow]]:
        ids, table = self._id_list(ids), self._table()
        named = asked + sql.SQL(" AND d.{} = ANY(%s::" + table.id_cast("[]") + ")").format(table.id)
        for first in range(0, len(ids), size):
            found = self._rows(named, [*values, ids[first:first + size]])
            if found:
                yield found

    def _rows(self, statement: sql.Composed, values: list[Any]) -> list[TupleRow]:
        with self._link.session() as connection:
            return connection.execute(statement, values, binary=True).fetchall()

    def _id_list(self, ids: Collection[Id]) -> list[Id]:
        try:
            return [int(one) for one in ids] if self._table().integers else [str(one) for one in ids]
        except ValueError:
            raise UsageError(f"{self.name}: the ids of this table are numbers; found one that is none") from None

    def not_in(self, other: Store) -> Iterator[Id]:
        """The server answers this itself: while the table is locked, others wait."""
        other, table = self._same_table(other), self._table()
        statement = sql.SQL("SELECT d.{}{} FROM {} d WHERE d.{} IS NOT NULL AND d.{} IS NULL").format(
            table.id, sql.SQL("" if table.integers else "::text"), table.name, self._name(), other._name())
        return (one for one, in self._rows(statement, []))

    def newest(self) -> Moment | None:
        """A row's time is when its transaction began, so transactions still open may write times before the largest."""
        if self.at.changed is None:
            return None
        table = self._table()
        changed = sql.SQL("max({})").format(sql.Identifier(self.at.changed))
        if (table.changed_type or "").startswith(("timestamp", "date")):
            changed += sql.SQL(" - coalesce((SELECT max(clock_timestamp() - xact_start) FROM pg_stat_activity WHERE "
                               "datname = current_database() AND pid <> pg_backend_pid()), '0')")
        with self._link.session() as connection:
            found: str | None = connection.execute(
                sql.SQL("SELECT ({})::text FROM {}").format(changed, table.name)).fetchall()[0][0]
        return found

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """One transaction, or a few if that spares an index much work; then a crash may leave some of the rows."""
        table, column, ids = self._table(), self._column(), self._id_list(ids)
        if vectors is not None:
            vectors = np.asarray(vectors)
            self._check_shape(vectors, len(ids), column)
        for turn in self._turns(ids, column):
            self._update(table, column, [ids[n] for n in turn], vectors if vectors is None else vectors[turn])

    def _turns(self, ids: list[Id], column: Column) -> list[Sequence[int]]:
        """The rows in the order to write them: a list of places for every transaction.

        A row whose new version finds room on its own page stays where it is for all indexes. Pages are full, so the
        rows of a page take turns: what the first left behind is room for the next. An HNSW index on another column,
        which takes rows many times slower than the table does, then sees one row of a page and not all.
        """
        table = self._table()
        with self._link.session() as connection:
            if self._link.held or not postgres_index.worth_turns(connection, table.oid, column.number):
                return [range(len(ids))]
            places = dict(connection.execute(sql.SQL(
                "SELECT d.{id}{}, row_number() OVER (PARTITION BY d.tableoid, (d.ctid::text::point)[0] ORDER BY "
                "d.ctid) FROM {} d WHERE d.{id} = ANY(%s::" + table.id_cast("[]") + ")").format(
                    sql.SQL("" if table.integers else "::text"), table.name, id=table.id), [ids]).fetchall())
        turns: list[list[int]] = [[] for _ in range(TURNS)]
        for n, one in enumerate(ids):
            turns[places.get(one, 0) % TURNS].append(n)
        return [turn for turn in turns if turn]

    def _update(self, table: Table, column: Column, ids: list[Id], vectors: Vectors | None) -> None:
        """In one transaction; ids that are gone are left out."""
        source: list[sql.Composable] = [sql.SQL("unnest(%s::" + table.id_cast("[]") + ") AS id")]
        if vectors is not None:
            source.append(sql.SQL("unnest(%s::{}[]) AS vector").format(table.of_extension(column.type)))
        statement = sql.SQL("UPDATE {} d SET {} = {} FROM (SELECT {}) s WHERE d.{} = s.id").format(
            table.name, self._name(), sql.SQL("NULL" if vectors is None else "s.vector"), sql.SQL(", ").join(source),
            table.id)
        oid = table.vector_oids[column.type]
        piece = WRITE_BYTES // (8 + (0 if vectors is None else vectors[:1].nbytes))
        with self._link.session() as connection, connection.transaction():
            # A batch is small beside the table: the index is the fastest way to its rows, whatever the planner thinks.
            connection.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
                               "SET LOCAL enable_seqscan = off")
            postgres_table.silence_triggers(connection, table, self.at.changed, self.name)
            for first in range(0, len(ids), piece):
                given: list[Any] = [ids[first:first + piece]]
                if vectors is not None:
                    given.append(vector_array(vectors[first:first + piece], column.half, oid))
                connection.execute(statement, given)

    def _check_shape(self, vectors: Vectors, count: int, column: Column) -> None:
        if vectors.ndim != 2 or len(vectors) != count or column.width not in (0, vectors.shape[1]):
            raise Error(f"{self.name} takes {count} vectors of {column.width or 'any number of'} values for {count} "
                        f"ids; got {' x '.join(map(str, vectors.shape))}; nothing was written")

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        name, table, column, metric = self._name(), self._table(), self._column(), self.metric()
        queries = np.atleast_2d(np.asarray(queries, np.float32))
        if column.width not in (0, queries.shape[1]):
            raise UsageError(f"{self.name} holds vectors of {column.width} values; got a query of {queries.shape[1]}")
        statement = sql.SQL("SELECT d.{}{}, d.{column} {} %s::{} AS distance FROM {} d WHERE d.{column} IS NOT NULL "
                            "ORDER BY distance LIMIT {}").format(
            table.id, sql.SQL("" if table.integers else "::text"), table.operator(postgres_index.OPERATORS[metric]),
            table.of_extension(column.type), table.name, sql.Literal(k), column=name)
        ids, scores = [], np.full((len(queries), k), -np.inf, np.float32)
        with self._link.session() as connection, connection.transaction():
            connection.execute(postgres_index.search_settings(k, table.version))
            for row, query in enumerate(queries):
                found = connection.execute(statement, [vector_cell(query, column.half)], binary=True).fetchall()
                found.sort(key=lambda pair: pair[1])  # an IVF index may give them a little out of order
                ids.append([one for one, _ in found])
                distances = np.nan_to_num([distance for _, distance in found], nan=1.0)  # cosine with a vector of zeros
                scores[row, :len(found)] = 1 - distances if metric == "cosine" else -distances
        return ids, scores

    def create(self, like: Store, width: int, owner: str) -> None:
        like, column = self._same_table(like), self._find()
        if column is None:
            self._add(like, width, owner)
        elif (column.mark or {}).get("owner") != owner:
            raise self._taken()
        elif column.width != width:
            raise Error(f"{self.name} holds vectors of {column.width} values, made by this migration; it now asks for "
                        f"{width}; drop the column, or choose another place with 'into'")

    def _taken(self) -> Error:
        return Error(f"{self.name} exists and is not this migration's; finish or drop the other migration of this "
                     "table, or choose another place with 'into'; nothing was changed")

    def _add(self, like: PostgresStore, width: int, owner: str) -> None:
        table, old = self._table(), like._column()
        indexed = any(index.method in ("hnsw", "ivfflat") for index in like._indexes())
        widest = postgres_index.WIDEST_INDEXED[old.type] if indexed else WIDEST
        if not 0 < width <= widest:
            raise Error(f"{self.name}: pgvector {'indexes' if indexed else 'keeps'} a {old.type} of at most {widest} "
                        f"values; the new vectors have {width}; choose a narrower model"
                        + (", or drop the index of the old column to do without one" if indexed else ""))
        try:
            with self._link.session() as connection, connection.transaction():
                postgres_table.silence_triggers(connection, table, self.at.changed, self.name)
            with self._link.session() as connection, connection.transaction():
                set_lock_timeout(connection)
                connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {} {}({})").format(
                    table.name, self._name(), table.of_extension(old.type), sql.Literal(width)))
                mark_column(connection, table, self._column_name(), {"owner": owner, "like": old.number})
        except Error as error:
            if isinstance(error.__context__, pg_errors.DuplicateColumn):  # another migration was quicker
                raise self._taken() from None
            raise

    def finish(self) -> None:
        table, column = self._table(), self._column()
        if self._link.held:
            return  # a lock must be short; rows that are written under it go into the index that is there
        with self._link.session() as connection:
            old = connection.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum = %s AND NOT "
                                     "attisdropped", [table.oid, (column.mark or {}).get("like")]).fetchone()
            like = None if old is None else find_column(connection, table, old[0], self.name)
            if old is not None and like is not None:
                postgres_index.make_like(connection, table, (old[0], like), (self._column_name(), column), self.name)

    def switch(self, incoming: PostgresStore, outgoing: PostgresStore) -> None:
        self._same_table(incoming)
        self._same_table(outgoing)
        table, names = self._table(), [store._name() for store in (self, incoming, outgoing)]
        with self._link.session() as connection:
            if self._switched(connection, incoming, outgoing):
                return
            with connection.transaction():
                set_lock_timeout(connection)
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table.name))
                if not self._switched(connection, incoming, outgoing):
                    rename = sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}")
                    connection.execute(rename.format(table.name, names[0], names[2]))
                    connection.execute(rename.format(table.name, names[1], names[0]))
                    # Rows that come from now on have no vector of the model that goes.
                    connection.execute(sql.SQL("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL").format(
                        table.name, names[2]))

    def _switched(self, connection: Connection, incoming: PostgresStore, outgoing: PostgresStore) -> bool:
        """Whether it is done; the renames are one transaction, so there is nothing between."""
        here, new, kept = (find_column(connection, self._table(), store._column_name(), store.name) is not None
                           for store in (self, incoming, outgoing))
        if not here or new == kept:
            wrong = (f"cannot put {incoming.at.column!r} here and keep what is here as {outgoing.at.column!r}: "
                     f"{'both' if new and kept else 'neither'} of the two exist") if here else (
                         f"the table has no column {self.at.column!r}")
            raise Error(f"{self.name}: {wrong}; nothing was changed")
        return kept

    def _same_table(self, other: Store) -> PostgresStore:
        if not (isinstance(other, PostgresStore) and other.at.conninfo == self.at.conninfo
                and other.at.table == self.at.table):
            raise UsageError(f"{self.name}: the new vectors are a column of the same table; "
                             f"{getattr(other, 'name', other)} is not one of it")
        return other

    def drop(self) -> None:
        column, table = self._find(), self._table()
        if column is None:
            return
        statement = sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(table.name, self._name())
        with self._link.session() as connection, connection.transaction():
            if column.mark is None:
                raise Error(f"{self.name} was not made by kedge-migrate, so it is not dropped; to do it by hand: "
                            f"{statement.as_string(connection)}")
            set_lock_timeout(connection)
            drop_functions(connection, table, column)
            connection.execute(statement)

    @contextlib.contextmanager
    def frozen(self, *others: PostgresStore) -> Iterator[None]:
        """Others may read but wait to write while this lasts; what is done in it with these stores is one transaction.

        The other stores are of the same table; they use this one's connection, for two would wait for each other.
        """
        table, link, links = self._table(), self._link, [store._link for store in others]
        for other in others:
            self._same_table(other)
        try:
            with link.connect().transaction():
                set_lock_timeout(link.connect())
                link.connect().execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table.name))
                link.held = True
                for other in others:
                    other._link = link
                try:
                    yield
                finally:
                    link.held = False
                    for other, own in zip(others, links):
                        other._link = own
        except psycopg.Error as error:
            raise explained(error, self.name, link.lost) from None

    def close(self) -> None:
        self._link.close()
