# SPDX-License-Identifier: Apache-2.0
"""An index that is made while others use the table, and how far it is."""
from __future__ import annotations

import contextlib
import contextvars
import threading
from typing import Any

import psycopg
from psycopg import errors, sql

from ..._errors import Error
from ..._progress import command_progress
from .postgres_link import Connection

SECONDS = .5  # between two looks
# An index of IVF lists is loaded by tuples, an HNSW index by blocks of the table; other phases count nothing of use.
_PHASE = """SELECT phase, CASE WHEN phase = 'building index: loading tuples' AND tuples_total > 0
THEN 100 * tuples_done / tuples_total WHEN phase IN ('building index: loading tuples',
'building index: assigning tuples', 'index validation: scanning table') AND blocks_total > 0
THEN 100 * blocks_done / blocks_total END FROM pg_stat_progress_create_index
WHERE datname = current_database() AND relid = %s"""


def build(connection: Connection, table_oid: int, statement: sql.Composed, who: str) -> None:
    """Runs CREATE INDEX CONCURRENTLY, which no transaction may contain, and reports its phases meanwhile."""
    done = threading.Event()
    # Who listens to progress is known to the thread that began the step.
    looks = threading.Thread(target=contextvars.copy_context().run, args=(_look, connection, table_oid, done),
                             daemon=True)
    with _connection_beside(connection) as builder:
        looks.start()
        try:
            builder.execute(statement)
        except errors.QueryCanceled as error:  # by someone who does not want it now, so it is not tried again
            raise Error(f"{who}: PostgreSQL stopped the index build ({error.diag.message_primary}); all vectors are "
                        "written; run it again to make the index anew") from None
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
    """Reports every phase as a step of its own, until the index is made; how far it is, where the server knows."""
    step, progress = None, None
    with contextlib.suppress(psycopg.Error):  # the index matters, not this
        while not done.wait(SECONDS):
            # A table has one such index at a time.
            found = connection.execute(_PHASE, [table_oid]).fetchone()
            if found is None:
                continue
            phase, percent = found
            if step != (phase, percent is None) or progress is None:
                if progress is not None:
                    progress.close()
                step = phase, percent is None
                progress = command_progress(f"kedge-migrate index, {phase}", 0 if percent is None else 100,
                                            quiet=False, unit="%")
            progress.advance((percent or 0) - progress.done)
    if progress is not None:
        progress.close()
