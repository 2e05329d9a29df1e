# SPDX-License-Identifier: Apache-2.0
"""Locks on a table that others use: asked for once, given up soon, and asked for again after a pause.

Whoever waits for a lock makes all who come later wait behind it. So a transaction here takes one lock, the strongest it
needs, with its first statement; it never holds a weaker one and asks for more, which is how two sessions block each
other for good.
"""
from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg
from psycopg import errors, sql

from .postgres_link import Connection, set_lock_timeout

PAUSES = (.5, 1, 2, 4, 8, 15)  # seconds between tries


@contextlib.contextmanager
def locked(connection: Connection, first: sql.Composed) -> Iterator[None]:
    """A transaction whose first statement takes the lock; what follows in it should be quick."""
    for pause in (*PAUSES, None):
        with connection.transaction() as transaction:
            set_lock_timeout(connection)
            try:
                connection.execute(first)
            except (errors.LockNotAvailable, errors.DeadlockDetected):
                if pause is None:
                    raise
                raise psycopg.Rollback(transaction) from None
            yield
            return
        time.sleep(pause or 0)


def lock_table(table: sql.Composable) -> sql.Composed:
    """Keeps readers and writers out."""
    return sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(table)
