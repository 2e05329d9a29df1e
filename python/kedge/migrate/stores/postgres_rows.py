# SPDX-License-Identifier: Apache-2.0
"""A set of vectors in PostgreSQL, as far as it is read: what is known of it, its rows in order or by id, and searches.

What is known is asked for once: a search is one question to the table, however many follow it.
"""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql
from psycopg.rows import TupleRow

from ..._address import TableAddress
from ..._errors import Error, UsageError
from ..draw import text_version
from ..store import BATCH_ROWS, Contents, Document, Glance, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from . import postgres_index
from .postgres_lag import Lag
from .postgres_link import Link, retried, vector_cell, vectors_of
from .postgres_table import Column, Table, find_column, look_up, only_column

if TYPE_CHECKING:
    from typing import Self

COUNTED = 1_000_000  # rows; a count of more takes long enough for a guess to be better


@dataclasses.dataclass
class PostgresContents(Contents):
    halved: bool = False  # whether its index is on the vectors rounded to half precision


def version_in_sql(text: str) -> sql.Composed:
    """What text_version makes of the text of a row that the statement calls d."""
    return sql.SQL("'text ' || encode(sha256(convert_to(d.{}::text, 'UTF8')), 'hex')").format(sql.Identifier(text))


class PostgresRows(Store):
    shares_documents = True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.at = TableAddress.parse(address)
        self._link = Link(self.at.conninfo, self.name, self.at.password_env)
        self._known: Table | None = None
        self._lag = Lag()
        self._where: tuple[str, tuple[object, ...]] | None = None
        self._facts: tuple[Column, PostgresContents] | None = None  # until something is changed through this object

    @property
    def name(self) -> str:
        """What messages call it; the address may hold a password."""
        return ".".join((*self.at.table, self.at.column or "?"))

    def _from(self) -> sql.Composable:
        """The rows that are meant: the table, or those of its rows that meet the address's condition."""
        name = self._table().name
        if self.at.where is None:
            return name
        return sql.SQL("(SELECT * FROM {} WHERE ").format(name) + sql.SQL(self.at.where) + sql.SQL(")")

    @property
    def documents(self) -> tuple[str, ...]:
        """The name of the table that the vectors are of."""
        return self.at.table

    def _documents(self) -> Table:
        """The table that the vectors are of."""
        return self._table()

    def _with_documents(self) -> sql.Composable:
        """Every document, with its vector here or NULL."""
        return self._from()

    @property
    def text(self) -> str | None:
        """The column of the documents' table that has the texts."""
        return self.at.text

    def all_documents(self) -> Iterator[list[Id]]:
        if self.at.text is None:
            return super().all_documents()
        table = self._table()
        asked = sql.SQL("SELECT {} FROM {} d WHERE (d.{}::text <> '' OR d.{} IS NOT NULL)").format(
            table.key.out("d"), self._from(), sql.Identifier(self.at.text), self._name())
        return ([key for key, in found] for found in self._paged(asked, [], None, BATCH_ROWS))

    def without_vector(self) -> Iterator[Id]:
        if self.at.text is None:
            return super().without_vector()
        asked = sql.SQL("SELECT {} FROM {} d WHERE d.{} IS NULL AND d.{}::text <> ''").format(
            self._table().key.out("d"), self._from(), self._name(), sql.Identifier(self.at.text))
        return (key for key, in self._rows(asked, []))

    def documents_of(self, ids: Collection[Id]) -> dict[Id, Document]:
        """A row has its text whether it has a vector or not."""
        if self.at.text is None:
            return super().documents_of(ids)
        texts = self._texts_of(ids, self.at.text)
        found = {key: Document(text, text_version(text)) for key, text in texts.items() if text}
        return {**found, **super().documents_of([key for key in texts if key not in found])}

    def _texts_of(self, ids: Collection[Id], column: str) -> dict[Id, str | None]:
        """Of the documents of these ids that exist."""
        table = self._table()
        asked = sql.SQL("SELECT {}, d.{}::text FROM {} d WHERE true").format(
            table.key.out("d"), sql.Identifier(column), self._from())
        return {key: text for found in self._named(asked, [], ids, BATCH_ROWS) for key, text in found}

    @retried
    def _table(self) -> Table:
        if self._known is None:
            with self._link.session() as connection:
                self._known = look_up(connection, self.at, self.name)
                self._link.read_as_bytes(self._known.vector_oids.values())
        return self._known

    @retried
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

    @retried
    def _find(self) -> Column | None:
        name, table = self._column_name(), self._table()
        with self._link.session() as connection:
            return find_column(connection, table, name, self.name)

    def _column(self) -> Column:
        if self._facts is not None:
            return self._facts[0]
        column = self._find()
        if column is None:
            raise Missing(f"{self.name}: the table has no column {self.at.column!r}")
        return column

    def metric(self) -> str:
        """As the address says, or as the column's index compares; without one, the index of the column it replaces;
        without any, cosine."""
        found = (index.metric for indexes in (self._indexes, self._replaced) for index in indexes() if index.metric)
        return self.at.metric or next(found, "cosine")

    def _replaced(self) -> list[postgres_index.Index]:
        """The indexes of the column whose vectors are translated into this one."""
        number = (self._column().mark or {}).get("like")
        return self._indexes(number) if number else []

    @retried
    def _indexes(self, number: int | None = None) -> list[postgres_index.Index]:
        table = self._table()
        number = number or self._column().number
        with self._link.session() as connection:
            return postgres_index.on_column(connection, table.oid, number)

    @retried
    def describe(self) -> Contents:
        self._look_again()
        found = self.facts()
        with self._link.work() as connection:
            rows, = connection.execute(sql.SQL("SELECT count({}) FROM {} d").format(
                self._name(), self._from())).fetchall()[0]
        return dataclasses.replace(found, rows=rows)

    def _look_again(self) -> None:
        self._facts = None

    @retried
    def facts(self) -> PostgresContents:
        if self._facts is None:
            self._facts = self._column(), self._read_facts()
        return self._facts[1]

    def _read_facts(self) -> PostgresContents:
        name, table, column = self._name(), self._table(), self._column()
        with self._link.session() as connection:
            rows, = connection.execute("SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = %s",
                                       [table.oid]).fetchall()[0]
            width = column.width or connection.execute(sql.SQL(
                "SELECT coalesce((SELECT {}({c}) FROM {} d WHERE {c} IS NOT NULL LIMIT 1), 0)").format(
                    table.of_extension("vector_dims"), self._from(), c=name)).fetchall()[0][0]
        indexes, metric = self._indexes(), self.metric()
        halved = not column.half and not any(index.metric == metric and index.plain for index in indexes) and any(
            index.metric == metric and index.operators.startswith("halfvec_") for index in indexes)
        return PostgresContents(rows, width, "float16" if column.half else "float32", metric, self.at.text is not None,
                                (column.mark or {}).get("owner"), "; ".join(index.says for index in indexes) or None,
                                halved=halved)

    @retried
    def glance(self, most: int) -> Glance:
        """Rows of pages drawn at random. Only tables whose rows are not too many are counted."""
        name, table = self._name(), self._table()
        guess = 0 if self.at.where else self.facts().rows  # the server's guess is of the whole table
        if guess <= COUNTED:
            with self._link.work() as connection:
                rows, without = connection.execute(sql.SQL("SELECT count({c}), count(*) - count({c}) FROM {} d").format(
                    self._from(), c=name)).fetchall()[0]
            if rows <= most or self.at.where:
                return Glance(rows, without, True, itertools.islice(self.read(), -(-most // BATCH_ROWS)))
        share = min(100.0, 100 * most / max(guess, rows + without if guess <= COUNTED else 0))
        found = self._rows(sql.SQL("SELECT {}, d.{} FROM {} d TABLESAMPLE SYSTEM ({})").format(
            table.key.out("d"), name, table.name, sql.Literal(share)), [])
        there, column = [(key, cell) for key, cell in found if cell is not None][:2 * most], self._column()
        if guess > COUNTED:
            rows = round(guess * len(there) / max(len(found), 1))
            without = guess - rows
        drawn = Rows([key for key, _ in there], vectors_of([cell for _, cell in there], column.half, column.width,
                                                           self.name))
        return Glance(rows, without, guess <= COUNTED, iter([drawn] if there else []))

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        if changed is not None and self.at.changed is None:
            raise UsageError(f"{self.name}: the address names no column that says when rows changed; add &changed=NAME")
        text = self.at.text if texts else None
        name, table, column = self._name(), self._table(), self._column()
        parts = [table.key.out("d")]
        parts += [sql.SQL("d.{}").format(name)] if vectors else []
        parts += [sql.SQL("d.{}::text").format(sql.Identifier(text))] if text else []
        conditions, values = [sql.SQL("d.{} IS NOT NULL").format(name)], []
        if changed is not None and self.at.changed is not None:
            since = sql.SQL(f"d.{{}} >= %s::text::{table.changed_type}")
            conditions.append(since.format(sql.Identifier(self.at.changed)))
            values.append(str(changed))
        asked = sql.SQL("SELECT {} FROM {} d WHERE {}").format(sql.SQL(", ").join(parts), self._from(),
                                                              sql.SQL(" AND ").join(conditions))
        batches = self._named(asked, values, ids, size) if ids is not None else self._paged(asked, values, after, size)
        for found in batches:
            columns = list(zip(*found))
            rows = vectors_of(columns[1], column.half, column.width, self.name) if vectors else None
            yield Rows(list(columns[0]), rows, list(columns[-1]) if text else None)

    def _paged(self, asked: sql.Composed, values: list[Any], after: Id | None, size: int) -> Iterator[list[TupleRow]]:
        """By pages of ids, each a short statement: no snapshot that keeps VACUUM waiting, and no cursor to lose."""
        key = self._table().key
        first = sql.SQL(" AND {} IS NOT NULL").format(key.of("d"))
        later = sql.SQL(" AND {}").format(key.after("d"))
        order = sql.SQL(" ORDER BY {} LIMIT {}").format(key.columns("d"), sql.Literal(size))
        while True:
            found = self._rows(asked + (first if after is None else later) + order,
                               values if after is None else [*values, *(one for one, in key.given([after]))])
            if found and found[-1][0] == after:
                raise Error(f"{self.name}: ids of type {key.type} do not come back from text as they were; name "
                            "another unique column with &id=")
            if found:
                yield found
                after = found[-1][0]
            if len(found) < size:
                return

    def _named(self, asked: sql.Composed, values: list[Any], ids: Collection[Id],
               size: int) -> Iterator[list[TupleRow]]:
        ids, key = self._id_list(ids), self._table().key
        named = asked + sql.SQL(" AND {}").format(key.among("d"))
        for first in range(0, len(ids), size):
            found = self._rows(named, [*values, *key.given(ids[first:first + size])])
            if found:
                yield found

    @retried
    def _rows(self, statement: sql.Composed, values: list[Any]) -> list[TupleRow]:
        with self._link.work() as connection:
            return connection.execute(statement, values, binary=True).fetchall()

    def _id_list(self, ids: Collection[Id]) -> list[Id]:
        key = self._table().key
        try:
            return key.taken(ids)
        except (ValueError, TypeError):
            kind = f"tuples of {key.named} ({key.type})" if key.several else "numbers"
            raise UsageError(f"{self.name}: the ids of this table are {kind}; found one that is none") from None

    def lookup(self, other: Store, ids: Collection[Id]) -> tuple[dict[Id, Vectors], dict[Id, Vectors]]:
        """One statement; documents that are gone are in neither."""
        if not isinstance(other, PostgresRows) or (other.at.conninfo, other.documents) != (self.at.conninfo,
                                                                                           self.documents):
            return super().lookup(other, ids)
        key, there, ids = self._table().key, other._table().key, self._id_list(ids)
        statement = sql.SQL("SELECT {}, a.{}, b.{} FROM {} a LEFT JOIN {} b ON {} = {} WHERE {}").format(
            key.out("a"), self._name(), other._name(), self._with_documents(), other._from(), there.of("b"),
            key.of("a"), key.among("a"))
        found = self._rows(statement, key.given(ids))
        return self._by_id(found, 1), other._by_id(found, 2)

    def _by_id(self, found: list[TupleRow], place: int) -> dict[Id, Vectors]:
        rows = [(row[0], row[place]) for row in found if row[place] is not None]
        column = self._column()
        return dict(zip([one for one, _ in rows], vectors_of([cell for _, cell in rows], column.half, column.width,
                                                             self.name)))

    def not_in(self, other: Store) -> Iterator[Id]:
        """The server answers this itself."""
        other, key = self._same_table(other), self._table().key
        statement = sql.SQL("SELECT {} FROM {} a LEFT JOIN {} b ON {} = {} WHERE a.{} IS NOT NULL AND b.{} IS "
                            "NULL").format(key.out("a"), self._from(), other._from(), other._table().key.of("b"),
                                           key.of("a"), self._name(), other._name())
        return (one for one, in self._rows(statement, []))

    @retried
    def newest(self) -> Moment | None:
        """A row's time is when its transaction began, so transactions still open may write times before the largest."""
        if self.at.changed is None:
            return None
        table = self._table()
        changed = sql.SQL("max({})").format(sql.Identifier(self.at.changed))
        if (table.changed_type or "").startswith(("timestamp", "date")):
            changed += sql.SQL(" - coalesce((SELECT max(clock_timestamp() - xact_start) FROM pg_stat_activity WHERE "
                               "datname = current_database() AND pid <> pg_backend_pid()), '0')")
        with self._link.work() as connection:
            found: str | None = connection.execute(
                sql.SQL("SELECT ({})::text FROM {} d").format(changed, self._from())).fetchall()[0][0]
        return found

    def filtered(self, where: str, params: Sequence[object] = ()) -> Self:
        self.facts()  # which are then known to all that come after
        found = object.__new__(type(self))
        vars(found).update(vars(self), _where=(where, tuple(params)))
        return found

    def _condition(self) -> sql.Composable:
        """Of a search for the row d; the names in it are those of the documents' table."""
        return sql.SQL(" AND (" + self._where[0] + ")") if self._where else sql.SQL("")

    def compared(self, row: str) -> tuple[sql.Composed, sql.Composed]:
        """(the vector of a row, the type of a query) as the index has them, or else as the column has them: an index of
        wide vectors is on their values rounded to half precision, and only a search for these uses it."""
        table, column = self._table(), self._column()
        vector = sql.SQL("{}.{}").format(sql.Identifier(row), self._name())
        if not self.facts().halved:
            return vector, sql.SQL("{}").format(table.of_extension(column.type))
        kind = sql.SQL("{}({})").format(table.of_extension("halfvec"), sql.Literal(column.width))
        return sql.SQL("({}::{})").format(vector, kind), kind

    @retried
    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        name, table, column, metric = self._name(), self._table(), self._column(), self.facts().metric
        queries = np.atleast_2d(np.asarray(queries, np.float32))
        if column.width not in (0, queries.shape[1]):
            raise UsageError(f"{self.name} holds vectors of {column.width} values; got a query of {queries.shape[1]}")
        vector, kind = self.compared("d")
        statement = sql.SQL("SELECT {}, {} {} %s::{} AS distance FROM {} d WHERE d.{} IS NOT NULL{} ORDER BY "
                            "distance LIMIT {}").format(
            table.key.out("d"), vector, table.operator(postgres_index.OPERATORS[metric]), kind, self._from(), name,
            self._condition(), sql.Literal(k))
        half, values = column.half or self.facts().halved, self._where[1] if self._where else ()
        ids, scores = [], np.full((len(queries), k), -np.inf, np.float32)
        with self._link.session() as connection, connection.transaction():
            connection.execute("SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'")  # as ids travel everywhere
            connection.execute(postgres_index.search_settings(k, table.version, self._where is not None))
            for row, query in enumerate(queries):
                found = connection.execute(statement, [vector_cell(query, half), *values], binary=True).fetchall()
                found.sort(key=lambda pair: pair[1])  # an IVF index may give them a little out of order
                ids.append([one for one, _ in found])
                distances = np.nan_to_num([distance for _, distance in found], nan=1.0)  # cosine with a vector of zeros
                scores[row, :len(found)] = 1 - distances if metric == "cosine" else -distances
        return ids, scores

    def _same_table(self, other: Store) -> PostgresRows:
        if not (isinstance(other, PostgresRows) and other.at.conninfo == self.at.conninfo
                and other.documents == self.documents):
            raise UsageError(f"{self.name}: the new vectors are a column of the same table or a table beside it; "
                             f"{getattr(other, 'name', other)} is not")
        return other

    @retried
    def lag(self) -> float:
        with self._link.session() as connection:
            return self._lag.look(connection, self.name)

    def close(self) -> None:
        self._look_again()
        self._link.close()
