# SPDX-License-Identifier: Apache-2.0
"""postgresql://host/db?table=docs&column=embedding: a vector or halfvec column of pgvector.

New vectors go into a table beside it (postgres_side.py), or into a column of the same table: then the switch is two
renames in one transaction. Views, functions and indexes follow a column by its number, not its name: what was built on
the old vectors keeps reading the old vectors.
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

from ..._address import TableAddress
from ..._errors import Error, UsageError
from ..store import Note, Room, Store
from ..types import Id, Vectors
from . import postgres_guard, postgres_index, postgres_room, postgres_sql, postgres_view, postgres_watch
from .postgres_link import Connection, explained, retried, vector_array
from .postgres_lock import lock_table, locked
from .postgres_names import NAME_BYTES, fitted
from .postgres_rows import PostgresRows, version_in_sql
from .postgres_table import Column, Table, drop_functions, find_column, mark_column
from .postgres_triggers import skip_triggers, update_triggers
from .postgres_watch import QUIET, Watch
from .postgres_watched import PostgresWatched

WIDEST = 16000
WRITE_BYTES = 1 << 25


class PostgresStore(PostgresWatched):
    _caught_up: tuple[str, dict[Id, int]] | None = None  # the migration, and by id the last note that take_over got

    def __new__(cls, address: str) -> PostgresStore:
        if cls is PostgresStore and TableAddress.parse(address).side is not None:
            from .postgres_side import PostgresSide
            return super().__new__(PostgresSide)
        return super().__new__(cls)

    def beside(self, ending: str) -> PostgresStore:
        column = self._column_name() + ending
        if len(column.encode()) > NAME_BYTES:
            raise UsageError(f"{self.name}: {column!r} is longer than the {NAME_BYTES} bytes PostgreSQL gives a name; "
                             "choose another place with 'into'")
        return PostgresStore(str(dataclasses.replace(self.at, column=column)))

    def new_place(self, into: str = "") -> PostgresStore:
        """A table beside it, or if asked a column of the same table."""
        if into == "column" and self.at.where:
            raise UsageError(f"{self.name}: a column is of all rows of the table, but 'where' names some of them; "
                             "leave --into out, and the new vectors go into a table beside it")
        if into == "column":
            return self.beside("_new")
        if into:
            raise UsageError(f"{self.name}: into = {into!r} means nothing here; it may be 'column' or an address")
        side = fitted("", f"{self.at.table[-1]}_{self._column_name()}", "_new")
        return PostgresStore(str(dataclasses.replace(self.at, side=side)))

    @retried
    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """One transaction, or a few if that spares an index much work; then a crash may leave some of the rows."""
        table, column, ids = self._table(), self._column(), self._id_list(ids)
        if vectors is not None:
            vectors = np.asarray(vectors)
            self._check_shape(vectors, len(ids), column)
        for turn in self._turns(ids, column):
            self._update(table, column, [ids[n] for n in turn], vectors if vectors is None else vectors[turn])

    def write_version(self, ids: Sequence[Id], vectors: Vectors, versions: Sequence[str | None],
                      documents: Store) -> list[Id]:
        """The statement that writes also compares: it waits for an edit that is under way and looks at the row again,
        and an edit that comes later waits for it."""
        text = self._same_table(documents).text
        self._check_shape(vectors, len(ids), self._column())
        by_text = [n for n, version in enumerate(versions) if text and (version or "").startswith("text ")]
        other = sorted(set(range(len(ids))).difference(by_text))
        written = super().write_version([ids[n] for n in other], vectors[other], [versions[n] for n in other],
                                        documents) if other else []
        if text is not None and by_text:
            written += self._write_texts(self._id_list([ids[n] for n in by_text]), vectors[by_text],
                                         [versions[n] for n in by_text], text)
        return written

    @retried
    def _write_texts(self, ids: list[Id], vectors: Vectors, versions: Sequence[str | None], text: str) -> list[Id]:
        """Writes under the ids whose text is still of this version; returns them."""
        table, column, written = self._table(), self._column(), list[Id]()
        for turn in self._turns(ids, column):
            written += self._update(table, column, [ids[n] for n in turn], vectors[turn], [versions[n] for n in turn],
                                    text)
        return written

    def _turns(self, ids: list[Id], column: Column) -> list[Sequence[int]]:
        """The rows in the order to write them: a list of places for every transaction."""
        with self._link.work() as connection:
            return [range(len(ids))] if self._link.held else (
                postgres_index.turns(connection, self._table(), column.number, ids))

    @retried
    def _update(self, table: Table, column: Column, ids: list[Id], vectors: Vectors | None,
                versions: Sequence[str | None] | None = None, text: str | None = None) -> list[Id]:
        """In one transaction; returns the ids without those that are gone, that others have written meanwhile or, with
        versions, that have another text."""
        given = table.key.called("i")
        source: list[sql.Composable] = [given.unnested]
        if vectors is not None:
            source.append(sql.SQL("unnest(%s::{}[]) AS vector").format(table.of_extension(column.type)))
        if versions is not None:
            source.append(sql.SQL("unnest(%s::text[]) AS version"))
        statement = sql.SQL("UPDATE {} d SET {} = {} FROM (SELECT {}) s WHERE {} = {}{} RETURNING {}").format(
            table.name, self._name(), sql.SQL("NULL" if vectors is None else "s.vector"), sql.SQL(", ").join(source),
            table.key.of("d"), given.of("s"),
            sql.SQL("") if text is None else sql.SQL(" AND {} = s.version").format(version_in_sql(text)),
            table.key.out("d"))
        written: list[Id] = []
        oid = table.vector_oids[column.type]
        piece = WRITE_BYTES // (8 + (0 if vectors is None else vectors[:1].nbytes))
        with self._link.work() as connection, connection.transaction() as undoable:
            connection.execute(QUIET)
            # A batch is small beside the table: the index is the fastest way to its rows, whatever the planner thinks.
            connection.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
                               "SET LOCAL enable_seqscan = off")
            self._skip_triggers(connection, column)
            for first in range(0, len(ids), piece):
                values: list[Any] = table.key.given(ids[first:first + piece])
                if vectors is not None:
                    values.append(vector_array(vectors[first:first + piece], column.half, oid))
                if versions is not None:
                    values.append(list(versions[first:first + piece]))
                written += [one for one, in connection.execute(statement, values, binary=True).fetchall()]
            theirs = self._written_since(connection, column, written)
            if theirs:
                raise psycopg.Rollback(undoable)
        if not theirs:
            return written
        rest = [n for n, one in enumerate(ids) if one not in theirs]
        return self._update(table, column, [ids[n] for n in rest], vectors if vectors is None else vectors[rest],
                            versions if versions is None else [versions[n] for n in rest], text)

    def _written_since(self, connection: Connection, column: Column, ids: list[Id]) -> set[Id]:
        """Those of these rows that others have written, and nobody has caught up with that. The rows are locked by
        now, so whoever did it has committed, with a note."""
        owner, marks = self._caught_up or ((column.mark or {}).get("owner"), {})
        watch = Watch(self._table(), owner or "")
        if not ids or owner is None or not watch.there(connection):
            return set()
        return watch.written_since(connection, {one: marks.get(one, 0) for one in ids}, column.model, seen=False)

    @property
    def moves_as_new(self) -> bool:  # type: ignore[override]
        return self._table().partitioned

    @retried
    def take_over(self, owner: str, notes: Collection[Note]) -> set[Id]:
        self._caught_up = owner, {note.id: note.mark for note in notes if note.id is not None}
        with self._link.work() as connection:
            return Watch(self._table(), owner).written_since(connection, self._caught_up[1], self._column().model)

    @retried
    def triggers(self) -> list[str]:
        table, column = self._table(), self._find()
        with self._link.session() as connection:
            return [trigger.says for trigger in update_triggers(connection, table, column)]

    def _skip_triggers(self, connection: Connection, column: Column | None = None) -> None:
        triggers = [] if self.fire_triggers else update_triggers(connection, self._table(), column)
        if triggers:
            skip_triggers(connection, triggers, self.name)

    def _check_shape(self, vectors: Vectors, count: int, column: Column) -> None:
        if vectors.ndim != 2 or len(vectors) != count or column.width not in (0, vectors.shape[1]):
            raise Error(f"{self.name} takes {count} vectors of {column.width or 'any number of'} values for {count} "
                        f"ids; got {' x '.join(map(str, vectors.shape))}; nothing was written")

    @retried
    def create(self, like: Store, width: int, owner: str) -> None:
        self._look_again()
        like, column = self._same_table(like), self._find()
        if column is None:
            self._add(like, width, owner)
        elif (column.mark or {}).get("owner") != owner:
            raise self._taken()
        elif column.width != width:
            raise Error(f"{self.name} holds vectors of {column.width} values, made by this migration; it now asks for "
                        f"{width}; drop the column, or choose another place with 'into'")

    @retried
    def require_place(self, like: Store, owner: str) -> None:
        column, table = self._find(), self._table()
        if column is not None and (column.mark or {}).get("owner") != owner:
            raise self._taken()
        with self._link.session() as connection:
            owns, = connection.execute("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s",
                                       [table.oid]).fetchall()[0]
        if not owns:
            raise Error(f"{self.name}: this user does not own {table.plain_name}, so that no column can be added to "
                        "it; connect as its owner, or leave --into out; nothing was changed")

    def _taken(self) -> Error:
        return Error(f"{self.name} exists and is not this migration's; finish or drop the other migration of this "
                     "table, or choose another place with 'into'; nothing was changed")

    def _require_width(self, like: PostgresRows, width: int) -> None:
        old = like._column()
        indexed = any(index.metric for index in like._indexes())
        if not self.stays and like._table().partitioned and like._indexes():
            raise Error(f"{self.name}: PostgreSQL makes no index on a column of a partitioned table without blocking "
                        "its writers; leave --into out, and the new vectors go into a table beside it; nothing was "
                        "changed")
        widest = postgres_index.WIDEST_INDEXED["halfvec"] if indexed else WIDEST  # where 'vector' ends, it takes over
        if not 0 < width <= widest:
            raise Error(f"{self.name}: pgvector {'indexes vectors' if indexed else f'keeps a {old.type}'} of at most "
                        f"{widest} values; the new vectors have {width}; choose a narrower model"
                        + (", or drop the index of the old column to do without one" if indexed else ""))

    @retried
    def room(self, like: Store, rows: int, width: int) -> Room:
        like = self._same_table(like)
        self._require_width(like, width)
        with self._link.session() as connection:
            return postgres_room.room(connection, like._table(), like._indexes(), rows, width, like._column().half,
                                      not self.stays)

    def _add(self, like: PostgresRows, width: int, owner: str) -> None:
        table, old = self._table(), like._column()
        self._require_width(like, width)
        try:
            with self._link.session() as connection, connection.transaction():
                self._skip_triggers(connection)  # says at once if that cannot be
            add = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}({})").format(
                table.name, self._name(), table.of_extension(old.type), sql.Literal(width))
            with self._link.session() as connection, locked(connection, add):
                mark_column(connection, table, self._column_name(), {"owner": owner, "like": old.number})
        except Error as error:
            if isinstance(error.__context__, pg_errors.DuplicateColumn):  # another migration was quicker
                raise self._taken() from None
            raise

    @retried
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
        self._look_again()

    @retried
    def switch(self, incoming: PostgresStore, outgoing: PostgresStore) -> None:
        if incoming.stays or outgoing.stays:
            if incoming.stays:
                postgres_sql.point_again(self, incoming)
            self._show(incoming if incoming.stays else outgoing, incoming.stays)
            return
        self._same_table(incoming)
        self._same_table(outgoing)
        table, names = self._table(), [store._name() for store in (self, incoming, outgoing)]
        for store in (self, incoming, outgoing):
            store._look_again()
        with self._link.session() as connection:
            if self._switched(connection, incoming, outgoing):
                return
            with contextlib.nullcontext() if self._link.held else locked(connection, lock_table(table.name)):
                if not self._switched(connection, incoming, outgoing):
                    rename = sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}")
                    connection.execute(rename.format(table.name, names[0], names[2]))
                    connection.execute(rename.format(table.name, names[1], names[0]))
                    # Rows that come from now on have no vector of the model that goes.
                    connection.execute(self._nullable(names[2]))
                    came, left = (find_column(connection, table, store._column_name(), store.name)
                                  for store in (self, outgoing))
                    if came is not None and left is not None:
                        postgres_guard.follow_switch(connection, table, self._column_name(), came, left)

    def _nullable(self, column: sql.Identifier) -> sql.Composed:
        return sql.SQL("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL").format(self._table().name, column)

    def _show(self, side: PostgresStore, new: bool) -> None:
        """What the view shows is all that a cutover to a side table changes."""
        self._same_table(side)
        table = self._table()
        with self._link.session() as connection:
            if self.stays:  # a document without a vector there has none, so nothing must be filled
                postgres_view.show(connection, self._documents(), new)
                return
            filled, = connection.execute("SELECT attnotnull FROM pg_attribute WHERE attrelid = %s AND attname = %s",
                                         [table.oid, self._column_name()]).fetchall()[0]
            # Whoever may not change the table keeps its NOT NULL, and applications go on writing old vectors.
            if filled and new and postgres_watch.why_not(connection, table) is None:
                with locked(connection, self._nullable(self._name())):
                    pass
            postgres_view.show(connection, table, new)

    @retried
    def switching(self, incoming: PostgresStore, outgoing: PostgresStore) -> bool:
        if not incoming.stays:
            return super().switching(incoming, outgoing)
        with self._link.session() as connection:
            return postgres_view.shows_new(connection, self._documents())

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

    @retried
    def drop(self) -> None:
        self._look_again()
        column, table = self._find(), self._table()
        if column is None:
            return
        statement = sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(table.name, self._name())
        with self._link.session() as connection:
            if column.mark is None:
                raise Error(f"{self.name} was not made by kedge-migrate, so it is not dropped; to do it by hand: "
                            f"{statement.as_string(connection)}")
            with locked(connection, lock_table(table.name)):
                drop_functions(connection, table, column)
                connection.execute(statement)

    @contextlib.contextmanager
    def frozen(self, *others: PostgresStore) -> Iterator[None]:
        """Others wait while this lasts; what is done in it with these stores is one transaction. With a side table
        nobody need wait: what comes between the last look and the switch has a note, and is caught up after it.

        The other stores are of the same table; they use this one's connection, for two would wait for each other.
        """
        if any(other.stays for other in others):
            yield
            return
        table, link, links = self._table(), self._link, [store._link for store in others]
        for other in others:
            self._same_table(other)
        try:
            # Renames need the strongest lock. Taken at once it makes nobody wait who could wait for someone else here.
            with locked(link.connect(), lock_table(table.name)):
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
        finally:
            for store in (self, *others):
                store._look_again()
