# SPDX-License-Identifier: Apache-2.0
"""After a cutover in one column, between models of one width: who writes vectors says whose they are.

The server cannot tell the vectors apart, and a program that still embeds with the old model would put them among the
new ones unnoticed. So a trigger refuses what comes from a session that has not said kedge.model = 'new'.
"""
from __future__ import annotations

from psycopg import sql

from .postgres_link import Connection
from .postgres_names import fitted
from .postgres_table import Column, Table
from .postgres_watch import NOT_QUIET

_GUARD = """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = {message},
    HINT = 'A session that writes vectors of the new model says so: SET kedge.model = ''new''';
END $guard$;
CREATE TRIGGER kedge_model_in BEFORE INSERT ON {table} FOR EACH ROW
WHEN (NEW.{column} IS NOT NULL AND {other}) EXECUTE FUNCTION {function}();
CREATE TRIGGER kedge_model_set BEFORE UPDATE OF {column} ON {table} FOR EACH ROW
WHEN (NEW.{column} IS NOT NULL AND (OLD.{column} IS NULL OR NOT OLD.{column} {equal} NEW.{column}) AND {other})
EXECUTE FUNCTION {function}()"""


def _function(table: Table) -> sql.Identifier:
    return sql.Identifier(table.schema, fitted("kedge_model_", table.plain_name))


def follow_switch(connection: Connection, table: Table, column: str, came: Column, left: Column) -> None:
    """Models of one width are told apart by what a session says; where the widths differ the server does it."""
    if came.mark is not None and came.width == left.width:
        make(connection, table, column)
    elif there(connection, table):
        remove(connection, table)


def make(connection: Connection, table: Table, column: str) -> None:
    """For a column that has new vectors now. It follows the column by number."""
    message = f"{table.plain_name}.{column} has vectors of another model since it was cut over"
    connection.execute(sql.SQL(_GUARD).format(
        function=_function(table), table=table.name, column=sql.Identifier(column), equal=table.operator("="),
        message=sql.Literal(message),
        other=sql.SQL(f"{NOT_QUIET} AND coalesce(current_setting('kedge.model', true), '') <> 'new'")))


def remove(connection: Connection, table: Table) -> None:
    for name in ("kedge_model_in", "kedge_model_set"):
        connection.execute(sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(sql.Identifier(name), table.name))
    connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(_function(table)))


def there(connection: Connection, table: Table) -> bool:
    return connection.execute("SELECT to_regproc(%s) IS NOT NULL",
                              [_function(table).as_string(connection)]).fetchall() == [(True,)]
