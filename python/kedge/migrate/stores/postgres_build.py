# SPDX-License-Identifier: Apache-2.0
"""An index that is made while others use the table, and how far it is."""
from __future__ import annotations

import contextlib
import contextvars
import threading
from typing import Any

import psycopg
from psycopg import sql

from ..._progress import command_progress
from .postgres_link import Connection

SECONDS = .5  # between two looks


def build(connection: Connection, table_oid: int, statement: sql.Composed) -> None:
    """Runs CREATE INDEX CONCURRENTLY, which no transaction may contain, and reports its phases meanwhile."""
    done = threading.Event()
    # Who listens to progress is known to the thread that began the step.
    looks = threading.Thread(target=contextvars.copy_context().run, args=(_look, connection, table_oid, done),
                             daemon=True)
    with _connection_beside(connection) as builder:
        looks.start()
        try:
            builder.execute(statement)
        finally:
            done.set()
            looks.join()


def _connection_beside(connection: Connection) -> Connection:
    """A session of its own, which may take as long as an index does. A pool that takes no options for a session leaves
    the server's limits as they are."""
    asked: dict[str, Any] = {**connection.info.get_parameters(), "password": connection.info.password or None}
    options = asked.pop("options", "")
    try:
        return psycopg.connect(**asked, options=f"{options} -c statement_timeout=0", autocommit=True)
    except psycopg.OperationalError:
        return psycopg.connect(**asked, options=options, autocommit=True)


def _look(connection: Connection, table_oid: int, done: threading.Event) -> None:
    """Reports every phase as a step of its own, until the index is made."""
    phase, progress = "", None
    with contextlib.suppress(psycopg.Error):  # the index matters, not this
        while not done.wait(SECONDS):
            # A table has one such index at a time.
            found = connection.execute(
                "SELECT p.phase, greatest(p.tuples_done, 0), greatest(p.tuples_total, c.reltuples::bigint, 0) FROM "
                "pg_stat_progress_create_index p JOIN pg_class c ON c.oid = p.relid WHERE p.datname = "
                "current_database() AND p.relid = %s", [table_oid]).fetchone()
            if found is None:
                continue
            if found[0] != phase or progress is None:
                if progress is not None:
                    progress.close()
                phase = found[0]
                progress = command_progress(f"kedge-migrate index, {phase}", found[2], quiet=False)
            progress.advance(found[1] - progress.done)
    if progress is not None:
        progress.close()
