# SPDX-License-Identifier: Apache-2.0
"""The view that applications ask: the documents with the vectors of one model, and after a cutover with the other's.

There are two views, and a cutover changes their names: kedge_docs shows the old vectors and kedge_docs_new the new ones
until then; after it kedge_docs shows the new ones and kedge_docs_old the old. Nothing but the views is locked for that.
A document without a new vector has a row without one in the side table. An outer join would show it too, but no search
through such a view uses the vectors' index.
"""
from __future__ import annotations

import json
from collections.abc import Sequence

from psycopg import sql

from ..._errors import Error
from .postgres_link import Connection
from .postgres_lock import locked
from .postgres_names import fitted
from .postgres_table import MARK, Table

ENDINGS = ("", "_new", "_old")
INVOKER = 150000  # the server from which a view asks with the rights of who asks it, as row security needs
SECOND_LOCK = "100ms"


def name_of(table: Table, ending: str = "") -> sql.Identifier:
    return sql.Identifier(table.schema, fitted("kedge_", table.plain_name, ending))


def _mark(table: Table) -> str:
    """Of the views of this table: kedge_docs_new may be the new view of docs, or the view of docs_new."""
    return MARK + json.dumps({"table": table.plain_name})


def _there(connection: Connection, table: Table, ending: str = "") -> bool:
    """Whether there is such a view of this table's; anything else of that name is an error."""
    name = name_of(table, ending).as_string(connection)
    found = connection.execute("SELECT coalesce(obj_description(oid, 'pg_class'), '') = %s FROM pg_class WHERE oid = "
                               "to_regclass(%s)", [_mark(table), name]).fetchone()
    if found is not None and not found[0]:
        raise Error(f"{name} exists and is not kedge-migrate's view of {table.plain_name}; rename it, then run this "
                    "again")
    return found is not None


def require_free(connection: Connection, table: Table) -> None:
    """Raises Error if a name of the views is someone else's."""
    for ending in ENDINGS:
        _there(connection, table, ending)


def shown(connection: Connection, table: Table) -> str | None:
    """The name of the view, if it is there."""
    return ".".join(name_of(table)._obj) if _there(connection, table) else None


def shows_new(connection: Connection, table: Table) -> bool:
    return _there(connection, table, "_old")


def whole(connection: Connection, table: Table) -> bool:
    """Whether both views are there, whichever vectors they show."""
    return _there(connection, table) and (_there(connection, table, "_new") or shows_new(connection, table))


def make(connection: Connection, table: Table, rows: sql.Composable, column: str, vectors: Sequence[Table | None],
         side_column: str) -> None:
    """Makes the views that lack, the first with the old vectors. Both have the table's columns under their own names,
    or those that the first has. rows: the table, or what selects those of its rows that are meant. vectors: the side
    tables of the old and the new ones; None for a column of the table itself."""
    if whole(connection, table):
        return
    secured, = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = %s", [table.oid]).fetchall()[0]
    if secured and connection.info.server_version < INVOKER:
        return  # such a view would show rows to everyone
    names = [name for name, in connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = coalesce(to_regclass(%s)::oid, %s) AND attnum > 0 AND NOT "
        "attisdropped ORDER BY attnum", [name_of(table).as_string(connection), table.oid])]
    names += [] if column in names else [column]  # the first model's own may be gone
    options = sql.SQL(" WITH (security_invoker)" if connection.info.server_version >= INVOKER else "")
    with connection.transaction():
        for ending, side in zip(("", "_new"), vectors):
            if _there(connection, table, ending):
                continue
            vector = sql.SQL("d.{c}" if side is None else "s.{s} AS {c}")
            source = sql.SQL("{} d").format(rows)
            if side is not None:
                source += sql.SQL(" JOIN {} s ON {} = {}").format(side.name, side.key.of("s"), table.key.of("d"))
            columns = sql.SQL(", ").join(
                vector.format(c=sql.Identifier(column), s=sql.Identifier(side_column)) if name == column
                else sql.SQL("d.{}").format(sql.Identifier(name)) for name in names)
            view = name_of(table, ending)
            connection.execute(sql.SQL("CREATE VIEW {}{} AS SELECT {} FROM {}").format(view, options, columns, source))
            connection.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(_mark(table))))
            same_rights(connection, table.name, view, ("SELECT",))


def show(connection: Connection, table: Table, new: bool) -> None:
    """Lets the view show the new vectors, or the old ones; what it showed keeps its rights under another name."""
    if shown(connection, table) is None or shows_new(connection, table) == new:
        return
    leaves, comes = ("_old", "_new") if new else ("_new", "_old")
    view, rename = name_of(table), sql.SQL("ALTER VIEW {} RENAME TO {}")
    # Two names need two locks. Who holds the one that is asked for last and waits for the first waits for a moment,
    # less than after which the server looks for a deadlock and ends one of the two.
    with locked(connection, sql.SQL("{}; SET LOCAL lock_timeout = {}; {}").format(
            rename.format(view, sql.Identifier(name_of(table, leaves)._obj[-1])), sql.Literal(SECOND_LOCK),
            rename.format(name_of(table, comes), sql.Identifier(view._obj[-1])))):
        same_rights(connection, name_of(table, leaves), view, ("SELECT",))  # also those that were given since


def remove(connection: Connection, table: Table, endings: Sequence[str] = ENDINGS) -> None:
    """Each in a transaction of its own, so that none is held while another is waited for."""
    for ending in endings:
        if _there(connection, table, ending):
            with locked(connection, sql.SQL("DROP VIEW {}").format(name_of(table, ending))):
                pass


def same_rights(connection: Connection, table: sql.Identifier, other: sql.Identifier, rights: Sequence[str]) -> None:
    """Gives another table or view those of these rights that others have on this one."""
    for right, role in connection.execute(
            "SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END FROM "
            "pg_class c CROSS JOIN aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a LEFT JOIN pg_roles r "
            "ON r.oid = a.grantee WHERE c.oid = to_regclass(%s) AND a.privilege_type = ANY(%s)",
            [table.as_string(connection), list(rights)]).fetchall():
        connection.execute(sql.SQL(f"GRANT {right} ON {{}} TO {role}").format(other))


def same_row_security(connection: Connection, table: Table, side: sql.Identifier) -> None:
    """Rows of the side table are for whom those of the table are: its policies also filter what a policy here asks, and
    with FOR UPDATE those on updates do."""
    secured, = connection.execute("SELECT relrowsecurity FROM pg_class WHERE oid = %s", [table.oid]).fetchall()[0]
    if not secured:
        return
    connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(side))
    theirs = sql.SQL("(EXISTS (SELECT 1 FROM {} d WHERE {} = {}{}))")
    for command, clause, lock in (("SELECT", "USING", ""), ("INSERT", "WITH CHECK", " FOR UPDATE"),
                                  ("UPDATE", "USING", " FOR UPDATE"), ("DELETE", "USING", " FOR UPDATE")):
        policy = sql.SQL(f"CREATE POLICY kedge_{command.lower()} ON {{}} FOR {command} {clause} ").format(side)
        connection.execute(policy + theirs.format(
            table.name, table.key.of("d"), table.key.of(sql.Identifier(side._obj[-1])), sql.SQL(lock)))
