# SPDX-License-Identifier: Apache-2.0
"""What PostgreSQL's catalogue says of a table with vectors: its id, its vector columns, and whose they are."""
from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection
from typing import Any

from psycopg import sql

from ..._address import TableAddress
from ..._errors import UsageError
from ..store import Missing
from .postgres_key import Key
from .postgres_link import Connection

MARK = "kedge-migrate "


@dataclasses.dataclass
class Table:
    oid: int
    schema: str
    plain_name: str
    partitioned: bool
    key: Key
    changed_type: str | None
    extension: str            # the schema pgvector lives in
    version: tuple[int, ...]  # of pgvector
    vector_oids: dict[str, int]

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.plain_name)

    def of_extension(self, name: str) -> sql.Identifier:
        """A type or function of pgvector, wherever it was installed."""
        return sql.Identifier(self.extension, name)

    def operator(self, symbol: str) -> sql.Composed:
        return sql.SQL("OPERATOR({}." + symbol + ")").format(sql.Identifier(self.extension))


@dataclasses.dataclass
class Column:
    number: int          # stays when the column is renamed
    half: bool
    width: int           # 0 if the column takes any
    mark: dict[str, Any] | None    # what a migration left on it: its owner, and the number of the column it replaces

    @property
    def type(self) -> str:
        return "halfvec" if self.half else "vector"

    @property
    def model(self) -> str:
        """Whose vectors it has, in the words of notes."""
        return "new" if self.mark else "old"


def look_up(connection: Connection, at: TableAddress, who: str) -> Table:
    """The table of an address; 'who' is what messages call it."""
    extension = connection.execute("SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON "
                                   "n.oid = e.extnamespace WHERE e.extname = 'vector'").fetchone()
    if extension is None:
        raise Missing(f"{who}: the database has no pgvector; install it on the server and run CREATE EXTENSION vector")
    found = connection.execute(
        "SELECT c.oid, n.nspname, c.relname, c.relkind::text, row_security_active(c.oid) FROM pg_class c JOIN "
        "pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        [sql.Identifier(*at.table).as_string(connection)]).fetchone()
    if found is None:
        raise Missing(f"{who}: there is no table {'.'.join(at.table)} in this database, or this user cannot see it")
    oid, schema, table, relkind, hides = found
    if relkind not in ("r", "p"):
        raise UsageError(f"{who}: {table} is not a table; name the table that holds the vectors")
    if hides:
        raise UsageError(f"{who}: row security may hide rows of {table} from this user, which a migration would miss; "
                         "connect as the owner of the table, or as a user with BYPASSRLS")
    if "%" in (at.where or ""):
        raise UsageError(f"{who}: the condition {at.where!r} has a % in it, which kedge-migrate cannot use; write it "
                         "with starts_with or strpos")
    if at.metric not in (None, "cosine", "inner", "euclidean"):
        raise UsageError(f"{who}: metric may be cosine, inner or euclidean; found {at.metric!r}")
    types, schemas = {}, {}
    for column, kind, within in connection.execute(
            "SELECT attname, format_type(atttypid, -1), nspname FROM pg_attribute JOIN pg_type t ON t.oid = atttypid "
            "JOIN pg_namespace n ON n.oid = typnamespace WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            [oid]).fetchall():
        types[column], schemas[column] = kind, within
    for column in filter(None, (at.text, at.changed)):
        if column not in types:
            raise Missing(f"{who}: the table has no column {column!r}; it has {', '.join(types)}")
    names = _key_columns(connection, oid, at, who, types)
    for name in filter(None, (schema, table, *names, at.column, at.text, at.changed)):
        if "%" in name:  # psycopg takes it for a parameter, and doubling it is right in only some statements
            raise UsageError(f"{who}: the name {name!r} has a % in it, which kedge-migrate cannot use; rename it")
    vectors: dict[str, int] = dict(connection.execute(
        "SELECT typname, t.oid FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace WHERE nspname = %s AND "
        "typname IN ('vector', 'halfvec')", [extension[0]]).fetchall())
    return Table(oid, schema, table, relkind == "p",
                 Key(names, tuple(types[name] for name in names), tuple(schemas[name] for name in names),
                     _collations(connection, oid, names, who)),
                 types[at.changed] if at.changed else None, extension[0],
                 tuple(int(part) for part in extension[1].split(".")[:2]), vectors)


def _key_columns(connection: Connection, oid: int, at: TableAddress, who: str,
                 there: Collection[str]) -> tuple[str, ...]:
    """The columns rows are known by. Together they are unique, and so have an index: without one every batch would
    sort the table."""
    keys = {",".join(names): (tuple(names), primary) for names, primary in connection.execute(
        "SELECT array_agg(a.attname::text ORDER BY place), i.indisprimary FROM pg_index i CROSS JOIN unnest(i.indkey) "
        "WITH ORDINALITY AS k (number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
        "WHERE i.indrelid = %s AND i.indisunique AND k.place <= i.indnkeyatts AND i.indpred IS NULL AND i.indexprs IS "
        "NULL AND i.indisvalid GROUP BY i.indexrelid, i.indisprimary HAVING bool_and(a.attnotnull) ORDER BY "
        "i.indisprimary", [oid]).fetchall()}
    if at.id is None:
        for names, primary in keys.values():
            if primary:
                return names
        raise UsageError(f"{who}: the table has no primary key; if a column is unique, or some together, CREATE UNIQUE "
                         "INDEX on them and add &id=NAME or &id=NAME,NAME")
    asked = at.id if at.id in keys else re.sub(r"\s*,\s*", ",", at.id)
    if asked in keys:
        return keys[asked][0]
    for name in [asked] if asked in there else asked.split(","):
        if name not in there:
            raise Missing(f"{who}: the table has no column {name!r}; it has {', '.join(there)}")
    raise UsageError(f"{who}: there is no unique index on {asked!r} whose columns are NOT NULL; a vector is written "
                     "under its id, so name the columns of the primary key, in its order, or what else is unique")


def _collations(connection: Connection, oid: int, names: Collection[str],
                who: str) -> tuple[tuple[str, ...] | None, ...]:
    """Those of the key's columns, None where it is the type's own. Ids are compared here as they are spelled."""
    found = {name: ((schema, collation) if other else None, loose) for name, schema, collation, other, loose in
             connection.execute(
                 "SELECT attname, nspname, collname, attcollation <> t.typcollation, CASE WHEN 'citext' IN (t.typname, "
                 "b.typname) THEN 'type citext' WHEN NOT collisdeterministic THEN 'collation' END FROM pg_attribute "
                 "JOIN pg_type t ON t.oid = atttypid JOIN pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), "
                 "t.oid) JOIN pg_collation c ON c.oid = attcollation JOIN pg_namespace n ON n.oid = collnamespace "
                 "WHERE attrelid = %s AND attnum > 0", [oid]).fetchall()}
    for name in names:
        if loose := found.get(name, (None, None))[1]:
            raise UsageError(f"{who}: two spellings of one {name} are the same to the server, by its {loose}, and "
                             "would be two documents to a migration; name another unique column with &id=")
    return tuple(found.get(name, (None, None))[0] for name in names)


def only_column(connection: Connection, table: Table, who: str) -> str:
    """The vector column of a table with one, apart from what migrations put beside it, such as embedding_old."""
    names: list[str] = [name for name, in connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s AND atttypid = ANY(%s) AND NOT attisdropped ORDER BY "
        "length(attname), attnum", [table.oid, list(table.vector_oids.values())])]
    marked = connection.execute("SELECT 1 FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid = %s "
                                "AND objsubid > 0 AND starts_with(description, %s)", [table.oid, MARK]).fetchone()
    if not names:
        raise Missing(f"{who}: the table has no vector or halfvec column")
    if len(names) > 1 and not (marked and all(name.startswith(names[0] + "_") for name in names[1:])):
        raise UsageError(f"{who}: the table has the vector columns {', '.join(names)}; add &column=NAME")
    return names[0]


def find_column(connection: Connection, table: Table, name: str, who: str) -> Column | None:
    """The column of that name, or None if there is none."""
    found = connection.execute(
        "SELECT attnum, atttypid, atttypmod, col_description(attrelid, attnum), format_type(atttypid, NULL) FROM "
        "pg_attribute WHERE attrelid = %s AND attname = %s AND attnum > 0 AND NOT attisdropped",
        [table.oid, name]).fetchone()
    if found is None:
        return None
    number, oid, modifier, comment, kind = found
    if oid not in table.vector_oids.values():
        raise UsageError(f"{who} is of type {kind}; expected vector or halfvec")
    return Column(number, oid == table.vector_oids.get("halfvec"), max(modifier, 0), _mark_of(comment))


def _mark_of(comment: str | None) -> dict[str, Any] | None:
    if not comment or not comment.startswith(MARK):
        return None
    try:
        mark: dict[str, Any] = json.loads(comment[len(MARK):])
    except ValueError:
        return None
    return mark


def mark_column(connection: Connection, table: Table, name: str, mark: dict[str, Any]) -> None:
    connection.execute(sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(table.name, sql.Identifier(name),
                                                                     sql.Literal(MARK + json.dumps(mark))))


def drop_functions(connection: Connection, table: Table, column: Column) -> None:
    """Removes the search functions that kedge-migrate installed on a column; without that the column cannot go."""
    for name, in connection.execute(
            "SELECT DISTINCT p.oid::regprocedure::text FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid WHERE "
            "d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = %s AND "
            "d.refobjsubid = %s AND starts_with(obj_description(p.oid, 'pg_proc'), %s)",
            [table.oid, column.number, MARK]).fetchall():
        connection.execute(sql.SQL("DROP FUNCTION " + name))
