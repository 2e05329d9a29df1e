# SPDX-License-Identifier: Apache-2.0
"""How far the replicas of a PostgreSQL server are behind it."""
from __future__ import annotations

import time

from ..._errors import Error
from .postgres_link import Connection


class Lag:
    """Notes how far the server's log was at each look, so that a replica that stands still is seen to fall behind: what
    the server itself tells of the time since is of the last thing that the replica did."""

    def __init__(self) -> None:
        self.written: list[tuple[float, int]] = []  # (when, bytes of the log)

    def look(self, connection: Connection, who: str) -> float:
        """Seconds since the last moment whose log every replica has."""
        hidden, now, replayed = connection.execute(
            "SELECT count(*) FILTER (WHERE state IS NULL), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, "
            "min(pg_wal_lsn_diff(coalesce(replay_lsn, flush_lsn, write_lsn, sent_lsn), '0/0'))::bigint FROM "
            "pg_stat_replication").fetchall()[0]
        if hidden:
            raise Error(f"{who}: this user may not see how far the replicas are behind; GRANT pg_monitor to it, or "
                        "leave --max-lag out")
        at = time.monotonic()
        self.written = [] if replayed is None else [(when, end) for when, end in (*self.written, (at, now))
                                                    if end > replayed]
        return at - self.written[0][0] if self.written else 0.0
