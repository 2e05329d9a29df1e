# SPDX-License-Identifier: Apache-2.0
"""postgresql://host/db?table=docs&side=docs_embedding_new: new vectors in a table beside the documents'.

The side table has the documents' key and one vector each. It is filled by COPY and has an index of its own, so that the
documents' table, its pages and its indexes stay as they are. A cutover moves nothing: a view that joins the two, and
that applications may ask from the start, shows the one model's vectors or the other's.
"""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
from psycopg import errors as pg_errors
from psycopg import sql

from ..._address import TableAddress
from ..._errors import Error
from ..store import BATCH_ROWS, Document, Missing, Note
from ..types import Id, Vectors
from . import postgres_index, postgres_table, postgres_view
from .postgres_copy import copy_rows, copyable
from .postgres_link import Connection, retried, vector_array
from .postgres_lock import lock_table, locked
from .postgres_rows import PostgresRows, version_in_sql
from .postgres_table import Column, Table, drop_functions, mark_column
from .postgres_watch import QUIET, Watch
from .postgresql import WRITE_BYTES, PostgresStore

COLUMN = "embedding"
# Who else writes a row of the side table has embedded it with the new model; such a row is not written over.
_THEIRS = """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS
$theirs$ BEGIN NEW.theirs := true; RETURN NEW; END $theirs$;
CREATE TRIGGER theirs BEFORE UPDATE OF {column} ON {table} FOR EACH ROW
WHEN (coalesce(current_setting('kedge.quiet', true), '') <> 'on') EXECUTE FUNCTION {function}()"""


class PostgresSide(PostgresStore):
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

    def _table(self) -> Table:
        if self._known is None:
            # Its key has the name that the documents' has, which an address need not give.
            self.at = dataclasses.replace(self.at, id=self.source._table().id_name)
        return super()._table()

    def _find(self) -> Column | None:
        try:
            return super()._find()
        except Missing:
            self.source._table()  # unless that is what is missing
            return None

    def _like(self) -> tuple[PostgresStore, str, Column] | None:
        """The column whose vectors are translated here, by its number: it may have got another name."""
        table = self.source._table()
        with self._link.session() as connection:
            found = connection.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum = %s AND NOT "
                                       "attisdropped", [table.oid, (self._column().mark or {}).get("like")]).fetchone()
            column = None if found is None else postgres_table.find_column(connection, table, found[0], self.name)
        return None if found is None or column is None else (self.source, found[0], column)

    def _replaced(self) -> list[postgres_index.Index]:
        like = self._like()
        return [] if like is None else self.source._indexes(like[2].number)

    def _add(self, like: PostgresRows, width: int, owner: str) -> None:
        table, old = self.source._table(), like._column()
        self._require_width(like, width)
        made, column = sql.Identifier(table.schema, self.at.table[-1]), sql.Identifier(COLUMN)
        function = sql.Identifier(table.schema, postgres_index.new_name(self.at.table[-1], "_theirs"))
        try:
            with self._link.session() as connection, connection.transaction():
                connection.execute(sql.SQL(
                    "CREATE TABLE {} ({} " + table.id_type + " PRIMARY KEY, {} {}({}) NOT NULL, "
                    "theirs boolean NOT NULL DEFAULT true)").format(
                        made, table.id, column, table.of_extension(old.type), sql.Literal(width)))
                connection.execute(sql.SQL(_THEIRS).format(function=function, table=made, column=column))
                postgres_view.same_row_security(connection, table, made)
                postgres_view.same_rights(connection, table, made, ("SELECT", "INSERT", "UPDATE", "DELETE"))
                mark_column(connection, self._table(), COLUMN, {"owner": owner, "like": old.number})
        except Error as error:
            self._known = None
            if isinstance(error.__context__, pg_errors.DuplicateTable):  # another migration was quicker
                raise self._taken() from None
            raise

    def _condition(self) -> sql.Composable:
        table, source = self._table(), self.source._table()
        return sql.SQL(" AND EXISTS (SELECT 1 FROM {} t WHERE t.{} = d.{}").format(source.name, source.id, table.id) + (
            super()._condition() + sql.SQL(")")) if self._where else sql.SQL("")

    def documents_of(self, ids: Collection[Id]) -> dict[Id, Document]:
        return self.source.documents_of(ids)

    def written_by_others(self, ids: Collection[Id]) -> set[Id]:
        table = self._table()
        asked = sql.SQL("SELECT d.{}{} FROM {} d WHERE d.theirs").format(
            table.id, sql.SQL("" if table.integers else "::text"), table.name)
        return {key for found in self._named(asked, [], ids, BATCH_ROWS) for key, in found}

    def triggers(self) -> list[str]:
        """Those of the documents' table do not run, since nothing is written there."""
        return []

    @retried
    def _write_texts(self, ids: list[Id], vectors: Vectors, versions: Sequence[str | None], text: str) -> list[Id]:
        """A document is locked while its text is compared and its vector written, so that an edit that is under way is
        waited for and looked at, and one that comes later waits. Rows that someone else has written stay."""
        table, source, column = self._table(), self.source._table(), self._column()
        statement = sql.SQL(
            "WITH same AS (SELECT given.i, given.v FROM unnest(%s::" + table.id_cast("[]") + ", %s::{}[], %s::text[]) "
            "AS given (i, v, version) JOIN {} d ON d.{} = given.i WHERE {} = given.version FOR SHARE OF d) INSERT INTO "
            "{} AS s ({id}, {v}, theirs) SELECT i, v, false FROM same ON CONFLICT ({id}) DO UPDATE SET {v} = "
            "excluded.{v} WHERE NOT s.theirs RETURNING s.{id}{}").format(
                table.of_extension(column.type), source.name, source.id, version_in_sql(text), table.name,
                sql.SQL("" if table.integers else "::text"), id=table.id, v=sql.Identifier(COLUMN))
        written: list[Id] = []
        piece = WRITE_BYTES // (8 + vectors[:1].nbytes)
        with self._link.work() as connection:
            connection.execute(QUIET)
            for first in range(0, len(ids), piece):
                some = slice(first, first + piece)
                written += [one for one, in connection.execute(statement, [ids[some], vector_array(
                    vectors[some], column.half, table.vector_oids[column.type]), list(versions[some])]).fetchall()]
        return written

    @retried
    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """In one transaction. Rows that someone else has written stay as they are."""
        table, column, ids = self._table(), self._column(), self._id_list(ids)
        if vectors is None:
            delete = sql.SQL("DELETE FROM {} WHERE NOT theirs AND {} = ANY(%s::" + table.id_cast("[]") + ")").format(
                table.name, table.id)
            with self._link.work() as connection:
                connection.execute(delete, [ids])
            return
        vectors = np.asarray(vectors)
        self._check_shape(vectors, len(ids), column)
        if not ids:
            return
        with self._link.work() as connection:
            connection.execute(QUIET)
            if copyable(table):
                with contextlib.suppress(pg_errors.UniqueViolation), connection.transaction():
                    copy_rows(connection, table, column, ids, vectors)
                    return
            self._replace(connection, table, column, ids, vectors)

    def _replace(self, connection: Connection, table: Table, column: Column, ids: list[Id], vectors: Vectors) -> None:
        statement = sql.SQL(
            "INSERT INTO {} AS s ({id}, {v}, theirs) SELECT i, v, false FROM unnest(%s::" + table.id_cast("[]")
            + ", %s::{}[]) AS given (i, v) ON CONFLICT ({id}) DO UPDATE SET {v} = excluded.{v} "
            "WHERE NOT s.theirs").format(
                table.name, table.of_extension(column.type), id=table.id, v=sql.Identifier(COLUMN))
        piece = WRITE_BYTES // (8 + vectors[:1].nbytes)
        for first in range(0, len(ids), piece):
            connection.execute(statement, [ids[first:first + piece], vector_array(
                vectors[first:first + piece], column.half, table.vector_oids[column.type])])

    @retried
    def take_over(self, owner: str, notes: Collection[Note]) -> set[Id]:
        """Rows are locked before the notes are read, so that nobody writes one between the two."""
        table, marks = self._table(), {note.id: note.mark for note in notes if note.id is not None}
        with self._link.work() as connection:
            connection.execute(QUIET)
            theirs = [one for one, in connection.execute(
                sql.SQL("SELECT {id}{} FROM {} WHERE theirs AND {id} = ANY(%s::" + table.id_cast("[]") + ") ORDER BY "
                        "{id} FOR UPDATE").format(sql.SQL("" if table.integers else "::text"), table.name, id=table.id),
                [self._id_list(list(marks))]).fetchall()]
            if not theirs:
                return set()
            stay = Watch(self.source._table(), owner).new_since(connection, {one: marks[one] for one in theirs})
            connection.execute(
                sql.SQL("UPDATE {} SET theirs = false WHERE {} = ANY(%s::" + table.id_cast("[]") + ")").format(
                    table.name, table.id), [[one for one in theirs if one not in stay]])
        return stay

    @retried
    def remove_orphans(self, ids: Collection[Id] | None = None) -> list[Id]:
        """Whoever wrote them. A document outside the address's condition exists too."""
        if ids is not None and not ids:
            return []
        table, source = self._table(), self.source._table()
        some = sql.SQL("" if ids is None else " AND s.{id} = ANY(%s::" + table.id_cast("[]") + ")")
        delete = sql.SQL("DELETE FROM {} s WHERE NOT EXISTS (SELECT 1 FROM {} d WHERE d.{} = s.{id}){} RETURNING "
                         "s.{id}{}").format(table.name, source.name, source.id, some.format(id=table.id),
                                            sql.SQL("" if table.integers else "::text"), id=table.id)
        with self._link.work() as connection:
            return [one for one, in connection.execute(
                delete, [] if ids is None else [self._id_list(ids)]).fetchall()]

    @retried
    def finish(self) -> None:
        """An index like the old one's, and the view, which shows the old vectors until a cutover."""
        like = self._like()
        if like is None:
            return
        source, name, old = like
        with self._link.session() as connection:
            postgres_index.make_like(connection, self._table(), (name, old), (COLUMN, self._column()), self.name,
                                     source._table())
            postgres_view.make(connection, source._table(), source._from(), name, self._table(), COLUMN)
        self._look_again()

    @retried
    def drop(self) -> None:
        column = self._find()
        if column is None:
            return
        table = self._table()
        statement = sql.SQL("DROP TABLE {}").format(table.name)
        with self._link.session() as connection:
            if column.mark is None:
                raise Error(f"{self.name} was not made by kedge-migrate, so it is not dropped; to do it by hand: "
                            f"{statement.as_string(connection)}")
            function = sql.Identifier(table.schema, postgres_index.new_name(self.at.table[-1], "_theirs"))
            postgres_view.remove(connection, self.source._table())  # first, as readers lock them
            with locked(connection, lock_table(table.name)):
                drop_functions(connection, table, column)
                connection.execute(statement)
                connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(function))
        self._known = None
        self._look_again()
