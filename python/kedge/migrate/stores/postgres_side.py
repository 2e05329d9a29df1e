# SPDX-License-Identifier: Apache-2.0
"""postgresql://host/db?table=docs&side=docs_embedding_new: new vectors in a table beside the documents'.

The side table has the documents' key and one vector each. It is filled by COPY and has an index of its own, so that the
documents' table, its pages and its indexes stay as they are. A cutover moves nothing: a view that joins the two, and
that applications may ask from the start, shows the one model's vectors or the other's.
"""
from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Collection, Sequence

import numpy as np
from psycopg import errors as pg_errors
from psycopg import sql

from ..._errors import Error, UsageError
from ..store import Note, Store
from ..types import Id, Vectors
from . import postgres_index, postgres_keep, postgres_view, postgres_watch
from .postgres_copy import copy_rows, copyable
from .postgres_link import Connection, retried, vector_array
from .postgres_lock import lock_table, locked
from .postgres_names import fitted
from .postgres_rows import PostgresRows, version_in_sql
from .postgres_side_rows import COLUMN, PostgresSideRows
from .postgres_table import Column, Table, drop_functions, mark_column
from .postgres_watch import NOT_QUIET, QUIET, Watch
from .postgresql import WRITE_BYTES, PostgresStore

OWN = "theirs", "stale"  # its columns, besides the key and the vector
# Who else writes a row of the side table has embedded it with the new model; such a row is not written over. A row
# without a vector only lets the view show the document: a vector that is inserted takes its place.
_THEIRS = """CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {key_schemas}, pg_temp AS $theirs$
BEGIN
  IF TG_OP = 'INSERT' THEN
    DELETE FROM {table} s WHERE {key} = {new_key} AND s.{column} IS NULL;
  ELSE
    NEW.theirs := NEW.{column} IS NOT NULL;
    NEW.stale := false;
  END IF;
  RETURN NEW;
END $theirs$;
REVOKE ALL ON FUNCTION {function}() FROM PUBLIC;
CREATE TRIGGER theirs_in BEFORE INSERT ON {table} FOR EACH ROW
WHEN (NEW.{column} IS NOT NULL AND {others}) EXECUTE FUNCTION {function}();
CREATE TRIGGER theirs BEFORE UPDATE OF {column} ON {table} FOR EACH ROW WHEN ({others}) EXECUTE FUNCTION {function}()"""


class PostgresSide(PostgresSideRows):
    def new_place(self, into: str = "") -> PostgresStore:
        """The next table beside the same documents: docs_embedding_new_2 after docs_embedding_new."""
        if into:
            raise UsageError(f"{self.name}: the vectors are in a side table, and the next ones go into another; leave "
                             "--into out, or give the address of the next side table")
        found = re.fullmatch(r"(.+?)(?:_new(?:_(\d+))?)?", self.at.table[-1])
        assert found is not None
        side = fitted("", found[1], f"_new_{int(found[2] or 1) + 1}")
        return PostgresStore(str(dataclasses.replace(self.source.at, side=side)))

    @retried
    def require_place(self, like: Store, owner: str) -> None:
        """Raises Error if a name is taken, if this user may not make the tables, or if the old vectors are those of a
        side table whose migration is under way."""
        table, like = self.source._table(), self._same_table(like)
        self._require_finished(like)
        for name in table.key.names:
            if name in (COLUMN, *OWN):
                raise UsageError(f"{self.name}: the key has a column {name!r}, and so has every side table; rename it, "
                                 "or use --into column; nothing was changed")
        column = None
        with contextlib.suppress(UsageError):  # a table of another shape is someone else's
            column = self._find()
        with self._link.session() as connection:
            function = self._function().as_string(connection)
            there, free, create = connection.execute(
                "SELECT to_regclass(%s) IS NOT NULL, to_regproc(%s) IS NULL, has_schema_privilege(%s, 'CREATE')",
                [sql.Identifier(table.schema, self.at.table[-1]).as_string(connection), function,
                 table.schema]).fetchall()[0]
            postgres_view.require_free(connection, table)
        mark = (None if column is None else column.mark) or {}
        if there and mark.get("finished"):
            raise Error(f"{self.name} has the vectors of a migration of this table that is finished; to migrate these, "
                        f"add &side={self.at.table[-1]} to the address; nothing was changed")
        if there and mark.get("owner") != owner:
            raise self._taken()
        if not there and not free:
            raise Error(f"{self.name}: there is a function {function} that is not this migration's; rename it, or "
                        "choose another place with 'into'; nothing was changed")
        if not create:
            raise Error(f"{self.name}: this user may not create tables in the schema {table.schema}, where the new "
                        f"vectors would go; a superuser or its owner can allow it with GRANT CREATE ON SCHEMA "
                        f"{table.schema}; nothing was changed")

    def _require_finished(self, like: PostgresRows) -> None:
        if not isinstance(like, PostgresSide):
            return
        mark = like._column().mark or {}
        if not mark.get("finished"):
            raise Error(f"{like.name}: the migration that made this side table is not finished; finish it first")
        if mark.get("where") != like.source.at.where:
            raise UsageError(f"{like.name}: its documents are those with {mark.get('where') or 'no condition'}, but "
                             f"the condition now is {like.source.at.where or 'none'}; give --where as it was")

    def _function(self) -> sql.Identifier:
        return sql.Identifier(self.source._table().schema, fitted("", self.at.table[-1], "_theirs"))

    def _add(self, like: PostgresRows, width: int, owner: str) -> None:
        table, old = self.source._table(), like._column()
        self._require_width(like, width)
        made, column = sql.Identifier(table.schema, self.at.table[-1]), sql.Identifier(COLUMN)
        mark = {"owner": owner, "like": old.number, "where": self.source.at.where}
        if isinstance(like, PostgresSide):
            self._require_finished(like)
            mark.update(of=like.at.table[-1], column=(old.mark or {})["column"])
        else:
            mark.update(column=like._column_name())
        try:
            with self._link.session() as connection, connection.transaction():
                connection.execute(sql.SQL(
                    "CREATE TABLE {} ({}, {} {}({}), theirs boolean NOT NULL DEFAULT true, stale boolean NOT NULL "
                    "DEFAULT false, PRIMARY KEY ({}))").format(made, table.key.defined, column, table.of_extension(
                        old.type), sql.Literal(width), table.key.columns()))
                connection.execute(sql.SQL(_THEIRS).format(
                    function=self._function(), table=made, column=column, key=table.key.of("s"),
                    new_key=table.key.of("NEW"), others=sql.SQL(NOT_QUIET), key_schemas=table.key.search_path))
                postgres_view.same_row_security(connection, table, made)
                postgres_view.same_rights(connection, table.name, made, ("SELECT", "INSERT", "UPDATE", "DELETE"))
                mark_column(connection, self._table(), COLUMN, mark)
        except Error as error:
            self._known = None
            if isinstance(error.__context__, pg_errors.DuplicateTable):  # another migration was quicker
                raise self._taken() from None
            raise

    @retried
    def _write_texts(self, ids: list[Id], vectors: Vectors, versions: Sequence[str | None], text: str) -> list[Id]:
        """A document is locked while its text is compared and its vector written, so that an edit that is under way is
        waited for and looked at, and one that comes later waits. Rows that someone else has written stay."""
        table, source, column = self._table(), self.source._table(), self._column()
        given = table.key.called("i")
        statement = sql.SQL(
            "WITH same AS (SELECT {i}, given.v FROM unnest({}, %s::{}[], %s::text[]) AS given ({}, v, version) JOIN {} "
            "d ON {} = {} WHERE {} = given.version FOR SHARE OF d) INSERT INTO {} AS s ({id}, {v}, theirs) SELECT {}, "
            "v, false FROM same ON CONFLICT ({id}) DO UPDATE SET {v} = excluded.{v}, stale = false WHERE NOT s.theirs "
            "RETURNING {}").format(
                table.key.arrays, table.of_extension(column.type), given.columns(), source.name, source.key.of("d"),
                given.of("given"), version_in_sql(text), table.name, given.columns(), table.key.out("s"),
                i=given.columns("given"), id=table.key.columns(), v=sql.Identifier(COLUMN))
        written: list[Id] = []
        piece = WRITE_BYTES // (8 + vectors[:1].nbytes)
        with self._link.work() as connection:
            connection.execute(QUIET)
            for first in range(0, len(ids), piece):
                some = slice(first, first + piece)
                written += [one for one, in connection.execute(statement, [*table.key.given(ids[some]), vector_array(
                    vectors[some], column.half, table.vector_oids[column.type]), list(versions[some])],
                    binary=True).fetchall()]
        return written

    @retried
    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """In one transaction. Rows that someone else has written stay as they are, unless they are the old ones of a
        migration now."""
        table, column, ids = self._table(), self._column(), self._id_list(ids)
        if vectors is None:
            delete = sql.SQL("DELETE FROM {} WHERE NOT theirs AND {}").format(table.name, table.key.among())
            with self._link.work() as connection:
                connection.execute(delete, table.key.given(ids))
                self._show_documents(connection, ids)
            return
        vectors = np.asarray(vectors)
        self._check_shape(vectors, len(ids), column)
        if not ids:
            return
        with self._link.work() as connection:
            connection.execute(QUIET)
            if copyable(table):
                with contextlib.suppress(pg_errors.UniqueViolation, ValueError), connection.transaction():
                    copy_rows(connection, table, column, ids, vectors)
                    return
            self._replace(connection, table, column, ids, vectors)

    def _replace(self, connection: Connection, table: Table, column: Column, ids: list[Id], vectors: Vectors) -> None:
        given = table.key.called("i").columns()
        statement = sql.SQL(
            "INSERT INTO {} AS s ({id}, {v}, theirs) SELECT {i}, v, false FROM unnest({}, %s::{}[]) AS given ({i}, v) "
            "ON CONFLICT ({id}) DO UPDATE SET {v} = excluded.{v}, stale = false WHERE {} OR NOT s.theirs").format(
                table.name, table.key.arrays, table.of_extension(column.type), sql.Literal(self._finished),
                i=given, id=table.key.columns(), v=sql.Identifier(COLUMN))
        piece = WRITE_BYTES // (8 + vectors[:1].nbytes)
        for first in range(0, len(ids), piece):
            connection.execute(statement, [*table.key.given(ids[first:first + piece]), vector_array(
                vectors[first:first + piece], column.half, table.vector_oids[column.type])])

    @retried
    def take_over(self, owner: str, notes: Collection[Note]) -> set[Id]:
        """Rows are locked before the notes are read, so that nobody writes one between the two."""
        table, marks = self._table(), {note.id: note.mark for note in notes if note.id is not None}
        key = table.key
        with self._link.work() as connection:
            connection.execute(QUIET)
            theirs = [one for one, in connection.execute(
                sql.SQL("SELECT {} FROM {} WHERE theirs AND {} ORDER BY {} FOR UPDATE").format(
                    key.out(), table.name, key.among(), key.columns()),
                key.given(self._id_list(list(marks))), binary=True).fetchall()]
            if not theirs:
                return set()
            stay = Watch(self.source._table(), owner).written_since(connection, {one: marks[one] for one in theirs},
                                                                    "old" if self._finished else "new")
            connection.execute(sql.SQL("UPDATE {} SET theirs = false WHERE {}").format(table.name, key.among()),
                               key.given([one for one in theirs if one not in stay]))
        return stay

    @retried
    def remove_orphans(self, ids: Collection[Id] | None = None) -> list[Id]:
        """Whoever wrote them. A document outside the address's condition exists too."""
        if ids is not None and not ids:
            return []
        table, key = self._table(), self._table().key
        some = sql.SQL("") if ids is None else sql.SQL(" AND {}").format(key.among("s"))
        delete = sql.SQL("DELETE FROM {} s WHERE NOT EXISTS (SELECT 1 FROM {} d WHERE {} = {}){} RETURNING {}").format(
            table.name, self.source._table().name, key.of("d"), key.of("s"), some, key.out("s"))
        with self._link.work() as connection:
            return [one for one, in connection.execute(
                delete, [] if ids is None else key.given(self._id_list(ids)), binary=True).fetchall()]

    def _show_documents(self, connection: Connection, ids: list[Id] | None = None) -> None:
        """Documents, these or all, that have no row here get one without a vector, so that the view shows them."""
        table, key = self._table(), self._table().key
        some = sql.SQL("") if ids is None else sql.SQL(" WHERE {}").format(key.among("d"))
        connection.execute(QUIET)
        insert = sql.SQL("INSERT INTO {} ({}, theirs) SELECT {}, false FROM {} d{} ON CONFLICT DO NOTHING").format(
            table.name, key.columns(), key.columns("d"), self.source._from(), some)
        connection.execute(insert, None if ids is None else key.given(ids))

    @retried
    def finish(self) -> None:
        """An index like the old one's, and the view, which shows the old vectors until a cutover."""
        like = self._like()
        if like is None:
            return
        (table, name, old), source, mine = like, self.source, self._column()
        with self._link.session() as connection:
            postgres_index.make_like(connection, self._table(), (name, old), (COLUMN, mine), self.name, table)
            whole = postgres_view.whole(connection, source._table())
        if not whole:
            with self._link.work() as connection:
                self._show_documents(connection)
        before = table if (mine.mark or {}).get("of") else None
        with self._link.session() as connection:
            postgres_view.make(connection, source._table(), source._from(), (mine.mark or {}).get("column", name),
                               (before, self._table()), COLUMN)
        self._look_again()

    @retried
    def follow_documents(self) -> bool:
        documents, table = self.source._table(), self._table()
        with self._link.session() as connection:
            if postgres_watch.why_not(connection, documents) is not None:
                return False
            postgres_keep.make(connection, documents, table, self.text, self.all_shown)
        return True

    @retried
    def mark_stale(self, ids: Collection[Id]) -> None:
        table = self._table()
        statement = sql.SQL("UPDATE {} SET stale = true WHERE {} IS NOT NULL AND {}").format(
            table.name, self._name(), table.key.among())
        with self._link.work() as connection:
            connection.execute(statement, table.key.given(self._id_list(ids)))

    def _mark_finished(self) -> None:
        with self._link.session() as connection:
            mark_column(connection, self._table(), COLUMN, {**(self._column().mark or {}), "finished": True})
        self._look_again()

    @retried
    def drop(self) -> None:
        """What shows or follows another side table of the documents stays."""
        column = self._find()
        if column is None:
            return
        table, documents = self._table(), self.source._table()
        endings = ["_new"] if (column.mark or {}).get("of") else list(postgres_view.ENDINGS)
        statement = sql.SQL("DROP TABLE {}").format(table.name)
        with self._link.session() as connection:
            if column.mark is None:
                raise Error(f"{self.name} was not made by kedge-migrate, so it is not dropped; to do it by hand: "
                            f"{statement.as_string(connection)}")
            if (column.mark or {}).get("finished"):
                postgres_keep.remove(connection, documents, table)
            else:
                postgres_view.remove(connection, documents, endings)  # first, as readers lock them
            with locked(connection, lock_table(table.name)):
                drop_functions(connection, table, column)
                connection.execute(statement)
                connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(self._function()))
        self._known = None
        self._look_again()
