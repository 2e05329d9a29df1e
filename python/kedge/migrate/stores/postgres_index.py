# SPDX-License-Identifier: Apache-2.0
"""Indexes on a vector column: how they compare, and the same one again on another column."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from psycopg import sql

from ..._errors import Error
from ..types import Id
from .postgres_build import build
from .postgres_link import Connection
from .postgres_names import fitted
from .postgres_table import Column, Table

WIDEST_INDEXED = {"vector": 2000, "halfvec": 4000}
TURNS, TURN_ROWS = 8, 128
QUICK = ("btree", "hash", "brin")
OPERATORS = {"cosine": "<=>", "inner": "<#>", "euclidean": "<->"}
# Names and types as pg_get_indexdef writes them. What stands in quotes is taken whole: nothing in it is replaced.
_WORDS = re.compile(r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | [A-Za-z_\u0080-\uffff][\w$]* | \(\d+\)""", re.VERBOSE)


@dataclasses.dataclass
class Index:
    name: str
    schema: str
    method: str
    valid: bool
    operators: str   # the class of operators, such as vector_cosine_ops
    tail: str        # of its definition, after 'USING method'

    @property
    def metric(self) -> str | None:
        if self.method not in ("hnsw", "ivfflat"):
            return None
        known = {"_cosine_ops": "cosine", "_ip_ops": "inner", "_l2_ops": "euclidean"}
        return next((metric for end, metric in known.items() if self.operators.endswith(end)), None)

    @property
    def plain(self) -> bool:
        """On the column itself and on all of its rows."""
        return not self.tail.startswith("((") and " WHERE " not in self.tail

    @property
    def says(self) -> str:
        return f"{self.name} USING {self.method} {self.tail}"


def on_column(connection: Connection, table_oid: int, number: int) -> list[Index]:
    """The indexes that depend on a column, also through an expression; those a crash left unfinished are not valid."""
    found = connection.execute(
        "SELECT c.relname, n.nspname, m.amname, i.indisvalid, o.opcname, pg_get_indexdef(c.oid) FROM pg_index i JOIN "
        "pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am m ON m.oid = "
        "c.relam JOIN pg_opclass o ON o.oid = i.indclass[0] WHERE i.indrelid = %s AND EXISTS (SELECT 1 FROM pg_depend "
        "d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND "
        "d.refobjid = i.indrelid AND d.refobjsubid = %s) ORDER BY c.relname", [table_oid, number]).fetchall()
    return [Index(name, schema, method, valid, operators, text.split(f" USING {method} ", 1)[1])
            for name, schema, method, valid, operators, text in found]


def worth_turns(connection: Connection, table_oid: int, number: int) -> bool:
    """Whether the table has an index that is slow to take rows, and this column has none."""
    mine = {index.name for index in on_column(connection, table_oid, number)}
    others = connection.execute(
        "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam WHERE "
        "i.indrelid = %s AND m.amname <> ALL(%s)", [table_oid, list(QUICK)]).fetchall()
    return not mine and bool(others)


def turns(connection: Connection, table: Table, number: int, ids: list[Id]) -> list[Sequence[int]]:
    """The order in which to write a column of these rows: a list of places for every transaction.

    A row whose new version finds room on its own page stays where it is for all indexes. Pages are full, so the rows of
    a page take turns: what the first left behind is room for the next. An HNSW index on another column, which takes
    rows many times slower than the table does, then sees one row of a page and not all. That row is so slow that a
    transaction takes few of them: whoever else writes one waits for its end.
    """
    if not worth_turns(connection, table.oid, number):
        return [range(len(ids))]
    places: dict[Id, int] = dict(connection.execute(sql.SQL(
        "SELECT {}, row_number() OVER (PARTITION BY d.tableoid, (d.ctid::text::point)[0] ORDER BY d.ctid) FROM {} d "
        "WHERE {}").format(table.key.out("d"), table.name, table.key.among("d")), table.key.given(ids),
        binary=True).fetchall())
    found: list[list[int]] = [[] for _ in range(TURNS)]
    for n, one in enumerate(ids):
        found[places.get(one, 0) % TURNS].append(n)
    return [turn[first:first + TURN_ROWS] for turn in found for first in range(0, len(turn), TURN_ROWS)]


def rewritten(tail: str, old_name: str, new_name: str, old_width: int, new_width: int) -> str:
    """The definition for another column: its name, and its width if a cast in an expression gives one."""
    previous = ""

    def replace(match: re.Match[str]) -> str:
        nonlocal previous
        word, before = match.group(), previous
        previous = word
        if word == old_name and not tail[:match.start()].endswith(("::", ".")):  # a type may have the column's name
            return new_name
        if word == f"({old_width})" and before in ("vector", "halfvec", "bit"):
            return f"({new_width})"
        return word

    made = _WORDS.sub(replace, tail)
    # Wider vectors have an index on their values rounded to half precision.
    wide = new_width > WIDEST_INDEXED["vector"]
    plain = re.compile(rf"\({re.escape(new_name)} ((?:\S+\.)?)vector_(\w+_ops)\)")
    return plain.sub(rf"((({new_name})::\1halfvec({new_width})) \1halfvec_\2)", made) if wide else made


def make_like(connection: Connection, table: Table, like: tuple[str, Column], on: tuple[str, Column], who: str,
              source: Table | None = None) -> None:
    """Makes on the column 'on' what the column 'like' has; both are (name, Column). What is there stays.

    source: the table of 'like', if it is another; the side table has no other columns for a condition to speak of.
    """
    (old_column, old), (new_column, new) = like, on
    ending = (new_column.removeprefix(old_column) if new_column.startswith(old_column) else "") or "_new"
    # A builder that a killed run left on the server holds this lock until it is done; then its index is there.
    with connection.transaction():
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE").format(table.name))
    there = {(index.method, index.tail): index for index in on_column(connection, table.oid, new.number)}
    old_quoted, new_quoted = connection.execute("SELECT quote_ident(%s), quote_ident(%s)",
                                                [old_column, new_column]).fetchall()[0]
    for index in on_column(connection, (source or table).oid, old.number):
        if source is not None:
            index.tail = index.tail.partition(" WHERE ")[0]
        tail = rewritten(index.tail, old_quoted, new_quoted, old.width, new.width)
        found = there.get((index.method, tail))
        if found is not None and found.valid:
            continue
        name = found.name if found is not None else fitted("", index.name, ending)
        definition = sql.SQL("{} ON {} USING {} {}").format(
            sql.Identifier(name), table.name, sql.SQL(index.method), sql.SQL(tail))
        if table.partitioned:
            raise Error(f"{who}: PostgreSQL makes no index on a partitioned table without blocking its writers; run "
                        f"CREATE INDEX {definition.as_string(connection)} at a quiet time, then go on")
        if found is not None:
            connection.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.Identifier(index.schema, name)))
        build(connection, table.oid, sql.SQL("CREATE INDEX CONCURRENTLY ") + definition, who)


def search_settings(k: int, version: tuple[int, ...], filtered: bool = False) -> str:
    """An HNSW index gives no more rows than ef_search unless it goes on by itself, which pgvector does from 0.8 on. The
    caller's ef_search stays if it is larger."""
    settings = [f"SELECT set_config('hnsw.ef_search', least(1000, greatest({k}, coalesce(current_setting("
                "'hnsw.ef_search', true), '40')::int))::text, true)"]
    if filtered:  # row by row as the index gives them, until there are enough
        settings += ["SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off"]
    if version >= (0, 8):
        settings += ["SET LOCAL hnsw.iterative_scan = strict_order", "SET LOCAL ivfflat.iterative_scan = relaxed_order"]
    return "; ".join(settings)
