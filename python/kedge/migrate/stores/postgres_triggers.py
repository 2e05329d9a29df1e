# SPDX-License-Identifier: Apache-2.0
"""Triggers that others have put on a table, and how to keep them from running."""
from __future__ import annotations

from typing import NamedTuple

from psycopg import errors

from ..._errors import Error
from .postgres_link import Connection
from .postgres_table import Column, Table


class Trigger(NamedTuple):
    name: str
    says: str       # its definition, after CREATE TRIGGER
    stubborn: bool  # it runs, or runs only, in sessions that skip the others


def update_triggers(connection: Connection, table: Table, column: Column | None) -> list[Trigger]:
    """Others' triggers that run when a vector is written: all on updates, but for those that name other columns."""
    found = connection.execute(
        "SELECT tgname, pg_get_triggerdef(oid, true), tgenabled IN ('A', 'R') FROM pg_trigger WHERE tgrelid = %s AND "
        "NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 > 0 AND (cardinality(tgattr::int2[]) = 0 OR %s = "
        "ANY(tgattr::int2[]) AND NOT starts_with(tgname, 'kedge_')) ORDER BY 1",
        [table.oid, 0 if column is None else column.number]).fetchall()
    return [Trigger(name, " ".join(says.split("TRIGGER ", 1)[1].split()), stubborn) for name, says, stubborn in found]


def skip_triggers(connection: Connection, triggers: list[Trigger], who: str) -> None:
    """No trigger runs for the rest of the transaction."""
    stubborn = ", ".join(trigger.name for trigger in triggers if trigger.stubborn)
    if stubborn:
        raise Error(f"{who}: {stubborn} is enabled as ALWAYS or REPLICA, so it would run although triggers are "
                    "skipped; nothing was changed; disable it for the time of the migration, or use --fire-triggers")
    try:
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
    except errors.InsufficientPrivilege:
        raise Error(f"{who}: this user may not skip the triggers {', '.join(trigger.name for trigger in triggers)}; "
                    "nothing was changed; a superuser can allow it with GRANT SET ON PARAMETER "
                    "session_replication_role, or use --fire-triggers") from None
