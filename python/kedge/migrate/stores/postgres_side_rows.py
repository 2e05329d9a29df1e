# SPDX-License-Identifier: Apache-2.0
"""A side table as it is read: vectors beside the documents' table, which has their texts and conditions."""
from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from psycopg import sql

from ..._address import TableAddress
from ..draw import text_version
from ..store import BATCH_ROWS, Document, Glance, Missing, Rows, Store
from ..types import Id, Moment
from . import postgres_index, postgres_table
from .postgres_rows import PostgresContents
from .postgres_table import Column, Table
from .postgresql import PostgresStore

COLUMN = "embedding"


class PostgresSideRows(PostgresStore):
    stays = True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        whole = TableAddress.parse(address)
        assert whole.side is not None
        self.source = PostgresStore(str(dataclasses.replace(whole, side=None)))
        self.source._link = self._link
        self.at = dataclasses.replace(whole, table=(*whole.table[:-1], whole.side), column=COLUMN, text=None, side=None,
                                      changed=None, where=None)
        self._link.name = self.name

    @property
    def documents(self) -> tuple[str, ...]:
        return self.source.at.table

    @property
    def text(self) -> str | None:
        return self.source.at.text

    @property
    def all_shown(self) -> bool:
        """A trigger cannot tell which documents meet a condition."""
        return self.source.at.where is None

    @property
    def _finished(self) -> bool:
        """Whether the migration that made it is finished, so that it holds the old vectors of the next."""
        return bool((self._column().mark or {}).get("finished"))

    def _documents(self) -> Table:
        return self.source._table()

    def _with_documents(self) -> sql.Composable:
        table = self._table()
        return sql.SQL("(SELECT {}, y.{} FROM {} x LEFT JOIN {} y ON {} = {})").format(
            table.key.columns("x"), self._name(), self.source._from(), table.name, table.key.of("y"), table.key.of("x"))

    def _table(self) -> Table:
        if self._known is None:
            # Its key has the name that the documents' has, which an address need not give.
            self.at = dataclasses.replace(self.at, id=self.source._table().key.named)
        return super()._table()

    def _find(self) -> Column | None:
        try:
            return super()._find()
        except Missing:
            self.source._table()  # unless that is what is missing
            return None

    def _like(self) -> tuple[Table, str, Column] | None:
        """The column whose vectors are translated here, by its number: it may have got another name. It is in the
        documents' table, or in the side table of an earlier migration."""
        mark = self._column().mark or {}
        try:
            table = self._beside(mark["of"])._table() if mark.get("of") else self.source._table()
        except Missing:
            return None
        with self._link.session() as connection:
            found = connection.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum = %s AND NOT "
                                       "attisdropped", [table.oid, mark.get("like")]).fetchone()
            column = None if found is None else postgres_table.find_column(connection, table, found[0], self.name)
        return None if found is None or column is None else (table, found[0], column)

    def _beside(self, side: str) -> PostgresStore:
        """Another side table of the same documents."""
        store = PostgresStore(str(dataclasses.replace(self.source.at, side=side)))
        store._link = self._link
        return store

    def _replaced(self) -> list[postgres_index.Index]:
        like = self._like()
        if like is None:
            return []
        with self._link.session() as connection:
            return postgres_index.on_column(connection, like[0].oid, like[2].number)

    def _condition(self) -> sql.Composable:
        if not self._where:
            return sql.SQL("")
        source = self.source._table()
        return sql.SQL(" AND EXISTS (SELECT 1 FROM {} t WHERE {} = {}{})").format(
            source.name, source.key.of("t"), self._table().key.of("d"), super()._condition())

    def documents_of(self, ids: Collection[Id]) -> dict[Id, Document]:
        """With what was there before the new vectors, in place of a text where there is none."""
        if not self._finished:
            return self.source.documents_of(ids)
        texts = self.source._texts_of(ids, self.text) if self.text else {}
        found = {key: Document(text, text_version(text)) for key, text in texts.items() if text}
        return {**found, **Store.documents_of(self, [key for key in ids if key not in found])}

    def all_documents(self) -> Iterator[list[Id]]:
        if not self.text:
            return Store.all_documents(self)
        key = self.source._table().key
        asked = sql.SQL("SELECT {} FROM {} d WHERE (d.{}::text <> '' OR EXISTS (SELECT 1 FROM {} s WHERE {} = {} AND "
                        "s.{} IS NOT NULL))").format(key.out("d"), self.source._from(), sql.Identifier(self.text),
                                                     self._table().name, key.of("s"), key.of("d"), self._name())
        return ([key for key, in found] for found in self._paged(asked, [], None, BATCH_ROWS))

    def without_vector(self) -> Iterator[Id]:
        if not self.text:
            return Store.without_vector(self)
        key = self.source._table().key
        asked = sql.SQL("SELECT {} FROM {} d WHERE d.{}::text <> '' AND NOT EXISTS (SELECT 1 FROM {} s WHERE {} = {} "
                        "AND s.{} IS NOT NULL)").format(key.out("d"), self.source._from(), sql.Identifier(self.text),
                                                        self._table().name, key.of("s"), key.of("d"), self._name())
        return (one for one, in self._rows(asked, []))

    def _read_facts(self) -> PostgresContents:
        return dataclasses.replace(super()._read_facts(), texts=self.text is not None)

    def glance(self, most: int) -> Glance:
        """Documents without a vector may have no row here."""
        found = super().glance(most)
        if not found.counted:
            return found
        with self._link.work() as connection:
            documents, = connection.execute(sql.SQL("SELECT count(*) FROM {} d").format(
                self.source._from())).fetchall()[0]
        return found._replace(without_vector=max(documents - found.rows, 0))

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        for rows in super().read(after=after, ids=ids, changed=changed, vectors=vectors, size=size):
            if texts and self.text:
                found = self.source._texts_of(rows.ids, self.text)
                rows.texts = [found.get(key) for key in rows.ids]
            yield rows

    def written_by_others(self, ids: Collection[Id]) -> set[Id]:
        table = self._table()
        asked = sql.SQL("SELECT {} FROM {} d WHERE d.theirs").format(table.key.out("d"), table.name)
        return {key for found in self._named(asked, [], ids, BATCH_ROWS) for key, in found}

    def triggers(self) -> list[str]:
        """Those of the documents' table do not run, since nothing is written there."""
        return []
