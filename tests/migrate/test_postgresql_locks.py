# SPDX-License-Identifier: Apache-2.0
"""Locks of a migration and of those who use its table: nobody waits for good, and no application is the victim."""
import contextlib
import threading
import time

import psycopg
import pytest
from kedge.migrate import Migration
from kedge.migrate.store import open_store
from kedge.migrate.stores import postgres_link, postgres_lock, postgres_view
from kedge.migrate.stores.postgresql import PostgresStore
from postgres_tables import WIDTH, fill, link_of, rows_of, value
from require import number
from steps import run
from test_live_tables import ROWS, table, until

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


def wait_until(sql: psycopg.Connection, query: str, *parameters: object) -> None:
    """Until this finds something."""
    until_then = time.monotonic() + 30
    while not value(sql, query, *parameters):
        assert time.monotonic() < until_then
        time.sleep(.002)


def wait_for_waiter(sql: psycopg.Connection, relation: str) -> None:
    """Until someone waits for a lock on it."""
    wait_until(sql, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)", relation)


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
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'kedge%%' AND tgname NOT LIKE "
                      "'kedge_keep%%'") == 0


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


@pytest.mark.parametrize("into", ["", "column"])
def test_a_row_that_someone_holds_keeps_nobody_from_the_others(table: str, sql: psycopg.Connection, address: str,
                                                              into: str) -> None:
    """A batch that waits for one row lets go of those that it has locked."""
    until("cutover", table, into)
    with Migration(alone=False) as one:
        last = max(set(range(ROWS)) - {number(key) for key in one.journal.drawn_ids()})
    idle = psycopg.connect(address)
    idle.execute("UPDATE docs SET body = '1' WHERE id = %s", [last])
    with Step("top-up"), idle:  # which lets go of the row before the step is waited for
        wait_until(sql, "SELECT count(*) FROM pg_locks WHERE NOT granted")
        sql.execute("SET lock_timeout = '8s'; UPDATE docs SET body = body WHERE id < " + str(last))
    assert run("top-up", "-q") == 0 and run("verify", "-q") == 0


@pytest.mark.long
def test_an_autovacuum_that_takes_long_is_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends it for who waits longer than deadlock_timeout."""
    from postgres_server import server  # imported only if needed: it takes a while

    monkeypatch.setattr(postgres_lock, "PAUSES", (.1,))
    with server(autovacuum_naptime="1s") as address, psycopg.connect(address, autocommit=True) as sql:
        fill(sql, range(60), rows_of())
        with contextlib.closing(open_store(f"{address}&table=docs&column=embedding&text=body")) as docs:
            new = docs.new_place()
            new.create(docs, WIDTH, "one")
            # Two pages and then a pause, over and over; the first at 100 ms, the longest that the server knows.
            sql.execute("ALTER TABLE docs SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, "
                        "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1); "
                        "INSERT INTO docs SELECT i, repeat(md5(i::text), 30) FROM generate_series(10000, 40000) i; "
                        "DELETE FROM docs WHERE id >= 10000")
            wait_until(sql, "SELECT count(*) FROM pg_locks WHERE relation = 'docs'::regclass AND granted AND mode = "
                       "'ShareUpdateExclusiveLock'")
            docs.watch(new, "one")
            assert docs.watching("one")
            new.close()
