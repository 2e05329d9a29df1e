# SPDX-License-Identifier: Apache-2.0
"""What stays on the documents' table after a migration: triggers by which the side table follows it.

A foreign key would do the half of it, and would also refuse TRUNCATE and DETACH PARTITION to programs that have always
used them. The vector of a document that goes goes with it, one that comes is shown without a vector, and a vector whose
text has changed since is stale: it is still found, and whoever writes it again makes it fresh.
"""
from __future__ import annotations

import hashlib

from psycopg import sql

from .postgres_link import Connection
from .postgres_lock import locked
from .postgres_names import fitted
from .postgres_table import Table
from .postgres_watch import differs, fire_for_replicas_too, move_to_key

# Who writes a vector and then, in the same transaction, the text that it was made of has left nothing stale. A row that
# only got another key in it looks as if its vector had been written too, so kedge.moved says that there may be such.
_STALE = """UPDATE {side} s SET stale = true WHERE {of_side} = {document} AND embedding IS NOT NULL AND NOT stale AND
      (s.xmin::text <> (txid_current() % 4294967296)::text OR current_setting('kedge.moved', true) = 'on');"""
_FUNCTION = """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {schemas}, pg_temp AS $keep$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {side};
  ELSIF TG_OP = 'DELETE' THEN
    DELETE FROM {side} s WHERE {of_side} = {of_old};
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO {side} ({key}, theirs) VALUES ({new}, false) ON CONFLICT DO NOTHING;
  ELSIF TG_ARGV[0] = 'key' THEN
    IF EXISTS (SELECT 1 FROM {side} s WHERE {of_side} = {of_old} AND
        s.xmin::text <> (txid_current() % 4294967296)::text) THEN
      PERFORM set_config('kedge.moved', 'on', true);
    END IF;
    {move}
  ELSIF TG_ARGV[0] = 'edited' THEN
    {old_stale}
  ELSE
    {new_stale}
  END IF;
  RETURN NULL;
END $keep$"""


def _function(side: Table) -> sql.Identifier:
    return sql.Identifier(side.schema, fitted("kedge_keep_", side.plain_name))


def make(connection: Connection, table: Table, side: Table, text: str | None, every: bool) -> None:
    """Makes the triggers, anew if some of them are there, with one lock on the table. every: whether each document that
    comes belongs to the side table, and not only those that meet a condition."""
    function, key = _function(side), table.key
    row = "CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW {}EXECUTE FUNCTION {}({})"
    events: list[tuple[str, sql.Composable, sql.Composable, str]] = [("gone", sql.SQL("DELETE"), sql.SQL(""), "")]
    if every:
        events.append(("came", sql.SQL("INSERT"), sql.SQL(""), ""))
    for name, columns in (("key", key.names), ("text", (text,) if text else ())):
        if columns:
            other = sql.SQL(" OR ").join(map(differs, columns))
            events.append((name, sql.SQL("UPDATE OF {}").format(sql.SQL(", ").join(map(sql.Identifier, columns))),
                           sql.SQL("WHEN ({}) ").format(other), name))
    if text:  # by its name this fires before 'key', and unlike a function it follows a column that is renamed
        events.append(("edited", sql.SQL("UPDATE OF {}").format(key.columns()), sql.SQL("WHEN (({}) AND {}) ").format(
            sql.SQL(" OR ").join(map(differs, key.names)), differs(text)), "edited"))
    stale = [sql.SQL(_STALE).format(side=side.name, of_side=key.of("s"), document=key.of(row))
             for row in ("OLD", "NEW")]
    made = [sql.SQL(_FUNCTION).format(function=function, side=side.name, key=key.columns(), new=key.columns("NEW"),
                                      of_side=key.of("s"), of_old=key.of("OLD"), old_stale=stale[0],
                                      move=move_to_key(table, side, "embedding"), new_stale=stale[1],
                                      schemas=key.search_path),
            sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(function)]
    made += [sql.SQL(row).format(_trigger(side, name), event, table.name, when, function, sql.Literal(word))
             for name, event, when, word in events]
    made.append(sql.SQL("CREATE TRIGGER {} AFTER TRUNCATE ON {} EXECUTE FUNCTION {}()").format(
        _trigger(side, "all"), table.name, function))
    with locked(connection, sql.SQL("; ").join([*_drops(table, side), *made])):
        fire_for_replicas_too(connection, function)


def remove(connection: Connection, table: Table, side: Table) -> None:
    with locked(connection, sql.SQL("; ").join(_drops(table, side))):
        pass


def _drops(table: Table, side: Table) -> list[sql.Composed]:
    drop = sql.SQL("DROP TRIGGER IF EXISTS {} ON {}")
    names = "gone", "came", "edited", "key", "text", "all"
    return [*(drop.format(_trigger(side, name), table.name) for name in names),
            sql.SQL("DROP FUNCTION IF EXISTS {}()").format(_function(side))]


def _trigger(side: Table, name: str) -> sql.Identifier:
    """A table may have several side tables, each with triggers of its own."""
    return sql.Identifier(f"kedge_keep_{hashlib.sha256(side.plain_name.encode()).hexdigest()[:8]}_{name}")
