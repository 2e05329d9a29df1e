# SPDX-License-Identifier: Apache-2.0
"""Notes of what others change in a table: triggers that put the ids of rows into a table of notes.

The note is written by the transaction that changes the row, so it is there if and only if the change is, however late
that transaction commits. Triggers compare with WHEN, so rows whose vector and text stay cost nothing, and they follow
columns by number, so a cutover that renames them changes nothing. The function runs with the rights of the migration:
who may write the table need not know of the notes. The migration's own writes say kedge.quiet, and leave none.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Collection

from psycopg import sql

from ..store import Note
from ..types import Id
from .postgres_key import Key
from .postgres_link import Connection
from .postgres_lock import locked
from .postgres_names import fitted
from .postgres_table import Table

QUIET = "SET LOCAL kedge.quiet = 'on'"
NOT_QUIET = "coalesce(current_setting('kedge.quiet', true), '') <> 'on'"
# A row of a side table gets the key that its document got. Where a statement moves several documents to each other's
# keys, another document has the old key at its end, or a row is in the way of another, and none is right any more.
MOVE = """IF EXISTS (SELECT 1 FROM {documents} d WHERE {of_document} = {of_old}) OR EXISTS (
      SELECT 1 FROM {side} s WHERE {of_side} = {of_new}) THEN
      INSERT INTO {side} ({key}, theirs) SELECT {new}, false FROM {side} s WHERE {of_side} = {of_old}
      ON CONFLICT DO NOTHING;
      UPDATE {side} s SET {column} = NULL WHERE {of_side} IN ({of_old}, {of_new}) AND {column} IS NOT NULL
        AND EXISTS (SELECT 1 FROM {side} s WHERE {of_side} = {of_old});
      DELETE FROM {side} s WHERE {of_side} = {of_old} AND NOT EXISTS (
        SELECT 1 FROM {documents} d WHERE {of_document} = {of_old});
    ELSE
      UPDATE {side} s SET ({key}) = ROW({new}) WHERE {of_side} = {of_old};
    END IF;"""
_FUNCTION = """CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {schemas}, pg_temp AS $note$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    INSERT INTO {notes} (what) VALUES ('gone');
  ELSIF TG_ARGV[0] = 'came' THEN
    {place}
  ELSIF TG_OP = 'DELETE' AND TG_ARGV[0] = 'old' THEN
    INSERT INTO {notes} ({id}, what) VALUES ({old}, 'old');
  ELSIF TG_OP = 'DELETE' THEN
    {remove}
    INSERT INTO {notes} ({id}, what) VALUES ({old}, 'gone');
  ELSIF TG_ARGV[0] = 'key' THEN
    {move}
    INSERT INTO {notes} ({id}, what) VALUES ({new}, 'key'), ({old}, CASE WHEN EXISTS (
      SELECT 1 FROM {documents} d WHERE {of_document} = {of_old}) THEN 'left' ELSE 'gone' END);
  ELSE
    INSERT INTO {notes} ({id}, what) VALUES ({new}, TG_ARGV[0]);
  END IF;
  RETURN NULL;
END $note$"""


@dataclasses.dataclass
class Watch:
    """The notes of one migration of a table; both are named after them."""
    table: Table
    owner: str

    def _named(self, kind: str) -> sql.Identifier:
        return sql.Identifier(self.table.schema, fitted(f"kedge_{kind}_", self.table.plain_name, f"_{self.owner[:8]}"))

    @property
    def notes(self) -> sql.Identifier:
        return self._named("notes")

    @property
    def key(self) -> Key:
        """The documents', as the notes have it."""
        return self.table.key.called("id")

    @property
    def function(self) -> sql.Identifier:
        return self._named("note")

    def there(self, connection: Connection) -> bool:
        """Whether the table of notes is there, and triggers that fill it."""
        found = connection.execute(
            "SELECT to_regclass(%s) IS NOT NULL AND EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = %s AND tgfoid = "
            "to_regproc(%s) AND tgenabled <> 'D')",
            [self.notes.as_string(connection), self.table.oid, self.function.as_string(connection)]).fetchall()
        return bool(found[0][0])

    def make(self, connection: Connection, old: tuple[Table, str], text: str | None, new: tuple[Table, str],
             every: bool) -> None:
        """Makes it all, anew if some of it is there: someone may have disabled or dropped the triggers. It is whole
        with the last transaction, which makes the table's own triggers; each locks one table, and briefly.

        old and new are the columns of old and new vectors, with the tables that they are in; text is a column of the
        documents' table. every: each document that comes is to be shown, also without a new vector.
        """
        side, name = new
        apart, moved_before = side.oid != self.table.oid, old[0].oid != self.table.oid
        again = connection.execute("SELECT to_regclass(%s)", [self.notes.as_string(connection)]).fetchall() != [(None,)]
        self._drop_triggers(connection)
        key = self.table.key
        remove = sql.SQL("DELETE FROM {} s WHERE {} = {};").format(side.name, key.of("s"), key.of("OLD"))
        move = move_to_key(self.table, side, name)
        place = sql.SQL("INSERT INTO {} ({}, theirs) VALUES ({}, false) ON CONFLICT DO NOTHING;").format(
            side.name, key.columns(), key.columns("NEW"))
        # Of what is kept for a rollback there may be very much more than of what nobody has read.
        index = sql.SQL("CREATE INDEX ON {} (mark) WHERE NOT seen").format(self.notes)
        # Notes that nobody has read yet stay.
        first = [sql.SQL("CREATE TABLE IF NOT EXISTS {} (mark bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {}, "
                         "what text NOT NULL, seen boolean NOT NULL DEFAULT false, by bigint NOT NULL DEFAULT "
                         "txid_current())").format(self.notes, self.key.defined),
                 *([] if again else [index]),
                 sql.SQL("DROP FUNCTION IF EXISTS {}()").format(self.function),
                 sql.SQL(_FUNCTION).format(notes=self.notes, function=self.function, id=self.key.columns(),
                                           old=key.columns("OLD"), new=key.columns("NEW"), schemas=key.search_path,
                                           documents=self.table.name, of_document=key.of("d"), of_old=key.of("OLD"),
                                           remove=remove if apart else sql.SQL(""),
                                           move=move if apart and every else sql.SQL(""),
                                           place=place if apart else sql.SQL("")),
                 sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(self.function)]
        of_new = self._triggers(side.name, "new", name)
        with locked(connection, sql.SQL("; ").join(first + (of_new if apart else []))):
            self._fire_for_replicas_too(connection)
        of_old = self._triggers(old[0].name, "old", old[1])
        if moved_before:
            had_one = sql.SQL("OLD.{} IS NOT NULL").format(sql.Identifier(old[1]))
            with locked(connection, sql.SQL("; ").join([
                    *of_old, self._trigger(old[0].name, "old_out", sql.SQL("DELETE"), had_one, "old"),
                    self._when_emptied(old[0].name)])):
                self._fire_for_replicas_too(connection)
        made = ([] if moved_before else of_old) + ([] if apart else of_new)
        if apart and every:
            made.append(self._trigger(self.table.name, "came", sql.SQL("INSERT"), None, "came"))
        moved = sql.SQL("{} IS DISTINCT FROM {}").format(key.of("OLD"), key.of("NEW"))
        made.append(self._trigger(self.table.name, "key", sql.SQL("UPDATE OF {}").format(key.columns()), moved, "key"))
        made.append(self._trigger(self.table.name, "gone", sql.SQL("DELETE")))
        if text is not None:
            words = differs(text)
            made.append(self._trigger(self.table.name, "text", sql.SQL("UPDATE OF {}").format(sql.Identifier(text)),
                                      words, "text"))
        made.append(self._when_emptied(self.table.name))
        with locked(connection, sql.SQL("; ").join(made)):
            self._fire_for_replicas_too(connection)
            if again:  # rows that went unnoted are found by comparing
                connection.execute(sql.SQL("INSERT INTO {} (what) VALUES ('gone')").format(self.notes))

    def _triggers(self, table: sql.Identifier, what: str, column: str) -> list[sql.Composed]:
        """Of a column of vectors. An update may name a column and leave it as it was."""
        here = sql.Identifier(column)
        changed = sql.SQL("((OLD.{c} IS NULL) <> (NEW.{c} IS NULL) OR NOT OLD.{c} {} NEW.{c})").format(
            self.table.operator("="), c=here)
        return [self._trigger(table, f"{what}_in", sql.SQL("INSERT"), sql.SQL("NEW.{} IS NOT NULL").format(here), what),
                self._trigger(table, f"{what}_set", sql.SQL("UPDATE OF {}").format(here), changed, what)]

    def _trigger(self, table: sql.Identifier, name: str, event: sql.Composable, when: sql.Composable | None = None,
                 *words: str) -> sql.Composed:
        conditions = sql.SQL(" AND ").join([sql.SQL(NOT_QUIET), *([when] if when is not None else [])])
        return sql.SQL("CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW WHEN ({}) EXECUTE FUNCTION {}({})").format(
            self._trigger_name(name), event, table, conditions, self.function,
            sql.SQL(", ").join(map(sql.Literal, words)))

    def _when_emptied(self, table: sql.Identifier) -> sql.Composed:
        return sql.SQL("CREATE TRIGGER {} AFTER TRUNCATE ON {} EXECUTE FUNCTION {}()").format(
            self._trigger_name("all"), table, self.function)

    def _trigger_name(self, name: str) -> sql.Identifier:
        return sql.Identifier(f"kedge_{self.owner[:8]}_{name}")

    def _fire_for_replicas_too(self, connection: Connection) -> None:
        fire_for_replicas_too(connection, self.function)

    @property
    def _id(self) -> sql.Composed:
        """What a note n is of, or NULL."""
        key = self.key
        return sql.SQL("CASE WHEN {} IS NOT NULL THEN {} END" if key.several else "{1}").format(
            key.of("n"), key.out("n"))

    def read(self, connection: Connection, seen: bool, size: int, after: int) -> list[Note]:
        which = sql.SQL("" if seen else " AND NOT seen")
        return [Note(*found) for found in connection.execute(
            sql.SQL("SELECT mark, {}, what, by FROM {} n WHERE mark > %s{} ORDER BY mark LIMIT %s").format(
                self._id, self.notes, which), [after, size], binary=True).fetchall()]

    def last(self, connection: Connection, ids: Collection[Id] | None) -> list[Note]:
        some = sql.SQL("true") if ids is None else self.key.among()
        return [Note(*found) for found in connection.execute(
            sql.SQL("SELECT DISTINCT ON ({id}) mark, {}, what, by FROM (SELECT *, max(mark) OVER (PARTITION BY {}, by, "
                    "what = 'text') AS latest FROM {} WHERE {} IS NOT NULL AND {}) n ORDER BY {id}, what = 'text', "
                    "latest DESC, what IN ('old', 'key') DESC, mark DESC").format(
                        self._id, self.key.columns(), self.notes, self.key.of(), some, id=self.key.columns("n")),
            [] if ids is None else self.key.given(ids), binary=True).fetchall()]

    def written_since(self, connection: Connection, marks: dict[Id, int], what: str = "new",
                      seen: bool = True) -> set[Id]:
        """Those of these ids whose new, or old, vector others have written after the mark."""
        found = connection.execute(
            sql.SQL("SELECT {}, mark FROM {} n WHERE {} AND what = ANY(%s) AND mark > %s{}").format(
                self._id, self.notes, self.key.among("n"), sql.SQL("" if seen else " AND NOT seen")),
            [*self.key.given(list(marks)), [what, "key"], min(marks.values(), default=0)],
            binary=True).fetchall()
        return {one for one, mark in found if mark > marks[one]}

    def forget(self, connection: Connection, notes: Collection[Note], keep: bool) -> None:
        how = "UPDATE {} SET seen = true WHERE mark = ANY(%s)" if keep else "DELETE FROM {} WHERE mark = ANY(%s)"
        connection.execute(sql.SQL(how).format(self.notes), [[note.mark for note in notes]])

    def remove(self, connection: Connection) -> None:
        """Triggers go first, for a table that others write takes them with a lock; then all they filled."""
        self._drop_triggers(connection)
        with locked(connection, sql.SQL("DROP FUNCTION IF EXISTS {}(); DROP TABLE IF EXISTS {}").format(
                self.function, self.notes)):
            pass

    def _drop_triggers(self, connection: Connection) -> None:
        """A transaction for each table: readers lock the documents' and then the side table, so whoever holds the one
        and waits for the other may wait for them for good."""
        found = connection.execute(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE tgfoid = to_regproc(%s) AND tgparentid = 0 "
            "ORDER BY tgrelid <> %s, tgrelid", [self.function.as_string(connection), self.table.oid]).fetchall()
        for table in dict.fromkeys(table for table, _ in found):
            drops = [sql.SQL("DROP TRIGGER {} ON " + on).format(sql.Identifier(name)) for on, name in found
                     if on == table]
            with locked(connection, sql.SQL("; ").join(drops)):
                pass


def move_to_key(documents: Table, side: Table, column: str) -> sql.Composed:
    """In a trigger of the documents' table: the new vector goes along with its document."""
    key = documents.key
    return sql.SQL(MOVE).format(documents=documents.name, of_document=key.of("d"), side=side.name, key=key.columns(),
                                new=key.columns("NEW"), of_side=key.of("s"), of_old=key.of("OLD"),
                                of_new=key.of("NEW"), column=sql.Identifier(column))


def differs(column: str) -> sql.Composed:
    """Whether an update has changed this column, if only to another spelling that the server takes for the same."""
    return sql.SQL('OLD.{c}::text COLLATE "C" IS DISTINCT FROM NEW.{c}::text COLLATE "C"').format(
        c=sql.Identifier(column))


def fire_for_replicas_too(connection: Connection, function: sql.Identifier) -> None:
    """Rows also come from a replication, whose session runs no ordinary triggers."""
    for name, table in connection.execute(
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE tgfoid = to_regproc(%s) AND tgparentid = "
            "0 AND tgenabled <> 'A'", [function.as_string(connection)]).fetchall():
        connection.execute(sql.SQL("ALTER TABLE " + table + " ENABLE ALWAYS TRIGGER {}").format(sql.Identifier(name)))


def why_not(connection: Connection, table: Table) -> str | None:
    """Why this role cannot have others' changes noted, or None."""
    owns, create = connection.execute(
        "SELECT pg_has_role(relowner, 'USAGE'), has_schema_privilege(%s, 'CREATE') FROM pg_class WHERE oid = %s",
        [table.schema, table.oid]).fetchall()[0]
    if owns and create:
        return None
    # Whoever does not own a table may be allowed to make a trigger, but never to remove it.
    return "this role does not own the table" if create else f"this role may not create tables in {table.schema}"
