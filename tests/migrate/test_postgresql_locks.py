# SPDX-License-Identifier: Apache-2.0
"""Locks of a migration and of those who use its table: nobody waits for good, and no application is the victim."""
import threading
import time

import psycopg
import pytest
from kedge.migrate.store import open_store
from kedge.migrate.stores import postgres_link, postgres_lock, postgres_view
from kedge.migrate.stores.postgresql import PostgresStore
from postgres_tables import link_of, value
from steps import run
from test_live_tables import table, until

__all__ = ["table"]  # a fixture


class Step(threading.Thread):
    """A command in another thread; 'with' ends when it has."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words, self.status = words, -1

    def run(self) -> None:
        self.status = run(*self.words, "-q")

    def __enter__(self) -> "Step":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()


def wait_for_waiter(sql: psycopg.Connection, relation: str) -> None:
    """Until someone waits for a lock on it."""
    until_then = time.monotonic() + 30
    while not value(sql, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)", relation):
        assert time.monotonic() < until_then
        time.sleep(.002)


@pytest.mark.parametrize("words", [("finish",), ("rollback", "--drop")], ids=" ".join)
def test_who_has_read_the_table_and_asks_the_view_is_no_victim_of_the_end(table: str, sql: psycopg.Connection,
                                                                          address: str, words: tuple[str, ...]) -> None:
    until("cutover", table)
    with psycopg.connect(address) as application, Step(*words) as step:
        application.execute("SELECT 1 FROM docs LIMIT 1")
        wait_for_waiter(sql, "docs")
        application.execute("SELECT 1 FROM kedge_docs LIMIT 1")
        application.execute("UPDATE docs SET body = body || ' ' WHERE id = 1")
        application.commit()
    assert step.status == 0
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'kedge%%'") == 0


def test_who_asks_both_views_is_no_victim_of_a_cutover(table: str, sql: psycopg.Connection, address: str) -> None:
    sql.execute("ALTER TABLE docs ALTER COLUMN embedding DROP NOT NULL")  # or a cutover locks the table for that
    until("verify", table)
    with psycopg.connect(address) as application, Step("cutover") as step:
        application.execute("SELECT 1 FROM kedge_docs_new LIMIT 1")
        wait_for_waiter(sql, "kedge_docs_new")
        application.execute("SELECT 1 FROM kedge_docs LIMIT 1")
        application.commit()
    assert step.status == 0


def test_a_view_that_is_read_is_not_waited_for_without_end(table: str, address: str,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_lock, "PAUSES", (.1,))
    monkeypatch.setattr(postgres_link, "LOCK_SECONDS", .2)
    until("cutover", table)
    store = open_store(table)
    assert isinstance(store, PostgresStore)
    with psycopg.connect(address) as reader, link_of(store).session() as connection:
        reader.execute("SELECT 1 FROM kedge_docs_old LIMIT 1")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            postgres_view.remove(connection, store._table(), ["_old"])
    store.close()


def test_triggers_that_someone_disabled_are_made_again(table: str, sql: psycopg.Connection) -> None:
    until("apply", table)
    sql.execute("UPDATE docs SET embedding = embedding * embedding WHERE id = 1")
    sql.execute("ALTER TABLE docs DISABLE TRIGGER USER; DELETE FROM docs WHERE id = 2")
    for step in ("apply", "verify"):
        assert run(step, "-q") == 0
    assert value(sql, "SELECT count(*) FROM docs_embedding_new WHERE id = 2") == 0, "nobody noted that it went"
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'kedge%%' AND tgenabled <> 'A'") == 0
