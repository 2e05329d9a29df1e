# SPDX-License-Identifier: Apache-2.0
"""A set of vectors in PostgreSQL whose documents others change: notes of that, and what remains when they end."""
from __future__ import annotations

from collections.abc import Collection

from ..store import BATCH_ROWS, Note, Store
from ..types import Id
from . import postgres_guard, postgres_view, postgres_watch
from .postgres_link import retried
from .postgres_lock import lock_table, locked
from .postgres_rows import PostgresRows
from .postgres_watch import Watch


class PostgresWatched(PostgresRows):
    @property
    def all_shown(self) -> bool:
        """Whether a document that comes is shown at once, also without a vector."""
        return True

    def _same_table(self, other: Store) -> PostgresWatched:
        found = super()._same_table(other)
        assert isinstance(found, PostgresWatched)
        return found

    def _mark_finished(self) -> None:
        """The migration that made this place has ended."""

    @retried
    def shows(self) -> str | None:
        with self._link.session() as connection:
            return postgres_view.shown(connection, self._documents())

    @retried
    def unseen(self) -> str | None:
        with self._link.session() as connection:
            why = postgres_watch.why_not(connection, self._documents())
        return None if why is None else (
            f"{why}, so that no trigger can note what others change; rows that come and go are found by comparing, and "
            + ("a changed vector if its transaction commits before the next look" if self.at.changed else
               "a changed vector not at all, unless a column says when (&changed=NAME)"))

    @retried
    def watching(self, owner: str) -> bool:
        with self._link.session() as connection:
            return Watch(self._documents(), owner).there(connection)

    @retried
    def watch(self, new: Store, owner: str) -> None:
        new, table = self._same_table(new), self._documents()
        places = [(store._table(), store._column_name()) for store in (self, new)]
        with self._link.session() as connection:
            if postgres_watch.why_not(connection, table) is None:
                Watch(table, owner).make(connection, places[0], self.text, places[1], new.all_shown)

    @retried
    def notes(self, owner: str, seen: bool = False, size: int = BATCH_ROWS, after: int = 0) -> list[Note]:
        with self._link.work() as connection:
            return Watch(self._documents(), owner).read(connection, seen, size, after)

    @retried
    def last_notes(self, owner: str, ids: Collection[Id] | None = None) -> list[Note]:
        with self._link.work() as connection:
            return Watch(self._documents(), owner).last(connection, None if ids is None else self._id_list(ids))

    @retried
    def forget(self, owner: str, notes: Collection[Note], keep: bool = False) -> None:
        with self._link.session() as connection:
            Watch(self._documents(), owner).forget(connection, notes, keep)

    @retried
    def unwatch(self, owner: str, last: Store | None = None) -> None:
        table = self._documents()
        with self._link.session() as connection:
            Watch(table, owner).remove(connection)
            if postgres_view.shows_new(connection, table):
                postgres_view.remove(connection, table, ["_old"])
            if postgres_guard.there(connection, table):
                with locked(connection, lock_table(table.name)):
                    postgres_guard.remove(connection, table)
        if last is not None:
            self._same_table(last)._mark_finished()
