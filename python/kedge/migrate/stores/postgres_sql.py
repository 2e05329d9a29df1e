# SPDX-License-Identifier: Apache-2.0
"""Search over the old and the new vectors at once, as one SQL function that any client of the database can call.

    SELECT * FROM kedge_search_docs(old_query => '[...]', new_query => '[...]', k => 10);

It is kedge.migrate.search in SQL: the candidates are the best of both columns, and their score is the mean of both
columns' scores, each weighted by its weight divided by its standard deviation over the candidates. A candidate without
a vector in a column counts as the worst there; a column whose scores are all alike counts nothing. With one query only,
its column is searched alone. 'among' is a list of ids, if only they may be found. A key of several columns comes in
columns of their names, and 'among' has it as a text: ARRAY(SELECT (tenant_id, id)::text FROM docs WHERE ...).
"""
from __future__ import annotations

import json

from psycopg import sql

from ..._errors import Error
from ..store import Store
from .postgres_index import OPERATORS
from .postgres_names import fitted
from .postgres_rows import PostgresRows
from .postgres_table import MARK, Table
from .scores import LEAST_SPREAD

LEAST_SERVER = 140000
# A cosine with a vector of zeros is not a number; it scores 0. Distances are squared, as kedge.migrate.search does.
SCORES = {"cosine": "CASE WHEN {d} = 'NaN' THEN 0 ELSE 1 - {d} END", "inner": "-{d}", "euclidean": "-{d} * {d} / 2"}

TAKEN = {"old_query", "new_query", "k", "candidates", "old_weight", "new_weight", "among", "score"}
# Parameters carry the function's name, for a column of the table may be called k. The body is parsed once and follows
# columns by number, so it means the same two columns after they are renamed.
_FUNCTION = """CREATE OR REPLACE FUNCTION {function}(
  old_query {old_type}, new_query {new_type}, k integer DEFAULT 10, candidates integer DEFAULT 100,
  old_weight float8 DEFAULT 1, new_weight float8 DEFAULT 1, among {among_type}[] DEFAULT NULL)
RETURNS TABLE ({columns}, score float8) LANGUAGE sql STABLE
{settings}
BEGIN ATOMIC
  WITH candidate AS (
    (SELECT {d_named} FROM {table} d WHERE {f}.old_query IS NOT NULL AND d.{old} IS NOT NULL
     AND ({f}.among IS NULL OR {d_among} = ANY({f}.among))
     ORDER BY {old_distance} LIMIT greatest({f}.candidates, {f}.k))
    UNION
    (SELECT {s_named} FROM {new_table} s WHERE {f}.new_query IS NOT NULL AND s.{new} IS NOT NULL
     AND ({f}.among IS NULL OR {s_among} = ANY({f}.among))
     ORDER BY {new_distance} LIMIT greatest({f}.candidates, {f}.k))
  ), scored AS (
    SELECT {c_list}, {old_score} AS a, {new_score} AS b FROM candidate c JOIN {documents} d ON {d_key} = {c_key}
    LEFT JOIN {new_table} s ON {s_key} = {c_key}
  ), spread AS (
    SELECT min(a) AS worst_a, min(b) AS worst_b,
      CASE WHEN stddev_pop(a) > {least} THEN {f}.old_weight / stddev_pop(a) ELSE 0 END AS share_a,
      CASE WHEN stddev_pop(b) > {least} THEN {f}.new_weight / stddev_pop(b) ELSE 0 END AS share_b FROM scored
  ), fused AS (
    SELECT {s_list}, CASE WHEN {f}.old_query IS NULL THEN b WHEN {f}.new_query IS NULL THEN a ELSE
      coalesce((share_a * coalesce(a, worst_a, 0) + share_b * coalesce(b, worst_b, 0))
               / nullif(abs(share_a) + abs(share_b), 0), 0) END AS score
    FROM scored s CROSS JOIN spread
  )
  SELECT {fused_list}, fused.score FROM fused ORDER BY fused.score DESC, {fused_list} LIMIT {f}.k;
END"""


def name_of(table: Table) -> str:
    return fitted("kedge_search_", table.plain_name)


def fused_search_sql(old: PostgresRows, new: Store, name: str | None = None) -> str:
    """The statements that make the function, as text, for two columns of a table or for one and its side table, or for
    two side tables."""
    new, table = old._same_table(new), old._table()
    name = name or name_of(old._documents())
    function = sql.Identifier(table.schema, name)
    key = table.key  # which both tables have
    found = key.called("id")  # a name of the table's may be one of the function's own
    named = key if key.several and TAKEN.isdisjoint(key.names) else found
    parts = {"function": function, "f": sql.Identifier(name), "table": old._from(), "documents": old._with_documents(),
             "new_table": new._from(), "columns": named.defined,
             "c_list": found.columns("c"), "c_key": found.of("c"),
             "s_list": found.columns("s"), "fused_list": found.columns("fused"),
             "among_type": sql.SQL("text" if key.several else key.type), "least": sql.Literal(LEAST_SPREAD),
             "settings": _settings(old, new)}
    for row in ("d", "s"):
        parts[f"{row}_key"], parts[f"{row}_named"] = key.of(row), key.renamed(row, found)
        parts[f"{row}_among"] = sql.SQL("ROW{}::text" if key.several else "{}").format(key.of(row))
    for which, store, alias in (("old", old, "d"), ("new", new, "s")):
        metric = store.metric()
        parts[which] = store._name()
        parts[f"{which}_type"] = table.of_extension(store._column().type)
        vector, kind = store.compared(alias)
        parts[f"{which}_distance"] = distance = sql.SQL("({} {} {}.{}::{})").format(
            vector, table.operator(OPERATORS[metric]), parts["f"], sql.Identifier(f"{which}_query"), kind)
        parts[f"{which}_score"] = sql.SQL(SCORES[metric]).format(d=distance)
    remark = sql.SQL("COMMENT ON FUNCTION {} IS {}").format(function, sql.Literal(_mark(old, new)))
    return f"{sql.SQL(_FUNCTION).format(**parts).as_string()};\n{remark.as_string()};\n"


def _mark(old: PostgresRows, new: Store) -> str:
    """Which vectors the function is for; a cutover that renames columns changes nothing in it."""
    return MARK + json.dumps({"tables": [store._table().plain_name for store in (old, old._same_table(new))]})


def _settings(old: PostgresRows, new: PostgresRows) -> sql.Composed:
    """How the function is planned: by index, since its limits are not known when it is."""
    settings = {"enable_hashjoin": "off", "enable_mergejoin": "off"}
    if old._table().version < (0, 8):  # later ones go on by themselves, from what the caller has set
        settings["hnsw.ef_search"] = "100"
    else:
        settings.update({"hnsw.iterative_scan": "strict_order", "ivfflat.iterative_scan": "relaxed_order"})
    if all(any(index.metric for index in store._indexes()) for store in (old, new)):
        settings.update({"enable_seqscan": "off", "enable_sort": "off"})
    return sql.SQL("\n").join(sql.SQL(f"SET {name} = {value}") for name, value in settings.items())


def install(old: PostgresRows, new: Store, name: str | None = None) -> None:
    """Makes the function, or makes it anew."""
    statements = fused_search_sql(old, new, name)
    with old._link.session() as connection, connection.transaction():
        if connection.info.server_version < LEAST_SERVER:
            raise Error(f"{old.name}: the search function needs PostgreSQL 14 or later; this server is "
                        f"{connection.info.server_version // 10000}; use kedge.migrate.search instead")
        connection.execute(statements)


def point_again(old: PostgresRows, new: Store) -> None:
    """If the function is there, and as an earlier migration of the table has left it, makes it for these two."""
    table = old._documents()
    with old._link.session() as connection:
        found = connection.execute(
            "SELECT obj_description(p.oid, 'pg_proc') FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE "
            "nspname = %s AND proname = %s", [table.schema, name_of(table)]).fetchall()
    if any((mark or "").startswith(MARK) and mark != _mark(old, new) for mark, in found):
        install(old, new)
