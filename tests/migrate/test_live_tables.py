# SPDX-License-Identifier: Apache-2.0
"""A migration of a table that others use: a second connection writes, reads and holds locks at the worst moments."""
import contextlib
import pathlib
import re
import threading
import time
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate.stores import postgres_link, postgres_lock
from made_up import spaces
from postgres_tables import columns, link_of, value
from require import number, require_near, vectors_of
from steps import facts, run

ROWS = 300
PLACES = ["", "column"]


@pytest.fixture
def table(folder: pathlib.Path, sql: psycopg.Connection, address: str) -> str:
    """The address of 300 documents with an index, in the folder of a migration."""
    old, _ = spaces()
    sql.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, embedding vector(12) NOT NULL)")
    with sql.cursor().copy("COPY docs FROM STDIN") as copy:
        for n, row in enumerate(old[:ROWS]):
            copy.write_row((n, str(n), str(row.tolist())))
    sql.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    return f"{address}&table=docs&column=embedding&text=body"


def until(last: str, table: str, into: str = "") -> None:
    assert run("plan", "-q", "--store", table, "--embed", "models:new", "--sample", 80, "--map", "ridge",
               *(["--into", into] if into else [])) == 0
    for step in ("sample", "fit", "apply", "verify", "cutover"):
        assert run(step, "-q") == 0
        if step == last:
            return


def text_of(vector: np.ndarray) -> str:
    return str(vector.tolist())


def edit(sql: psycopg.Connection, key: int, column: str = "embedding", sign: int = -1) -> np.ndarray:
    """Gives a document another vector, as an application does."""
    vector = np.asarray(sign * spaces()[0][key])
    sql.execute(f"UPDATE docs SET {column} = %s WHERE id = %s", [text_of(vector), key])
    return vector


def require_translated(*ids: int) -> None:
    """The new vectors of these are the translations of their old ones."""
    with migrate.Migration(alone=False) as one:
        old, new = ({key: row for rows in store.read(ids=ids) for key, row in zip(rows.ids, vectors_of(rows))}
                    for store in (one.old, one.new))
        assert set(new) == set(old) == set(ids)
        expected = one.translate(one.translator(), np.stack([old[key] for key in ids]))
        require_near(np.stack([new[key] for key in ids]), expected)


@pytest.mark.parametrize("into", PLACES)
def test_what_others_change_is_caught_up_without_a_column_that_says_so(table: str, sql: psycopg.Connection, into: str,
                                                                       capsys: pytest.CaptureFixture[str]) -> None:
    until("apply", table, into)
    with migrate.Migration(alone=False) as one:
        real = next(key for key in one.journal.sample()[0])
    for key in (1, 2, number(real)):
        edit(sql, key)
    sql.execute("INSERT INTO docs VALUES (1000, '7', %s)", [text_of(spaces()[0][350])])
    sql.execute("DELETE FROM docs WHERE id = 9")
    assert run("verify", "--json") == 0
    found = facts(capsys)
    assert found["noted"] >= 4 and found["differ"] == 0, "what is noted is not wrong, it is to be caught up"
    assert run("apply", "--json") == 0
    found = facts(capsys)
    assert (found["arrived"], found["changed"]) == (1, 3) and found["removed"] <= 1
    require_translated(1, 2, number(real), 1000)
    assert run("verify", "--json", "--rows", 400) == 0
    assert facts(capsys)["noted"] == 0
    edit(sql, 3)  # after verify
    sql.execute("DELETE FROM docs WHERE id = 10")
    assert run("cutover", "-q") == 0
    require_translated(1, 2, 3, 1000)
    with migrate.Migration(alone=False) as one:
        assert not {9, 10}.intersection(key for rows in one.new.read(vectors=False) for key in rows.ids)


def test_a_table_that_is_emptied_and_filled_again(table: str, sql: psycopg.Connection) -> None:
    until("verify", table)
    old, new = spaces()
    sql.execute("TRUNCATE docs")
    for key in (1, 2):
        sql.execute("INSERT INTO docs VALUES (%s, '7', %s)", [key, text_of(old[350])])
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0 and run("cutover", "-q") == 0
    require_translated(1, 2)
    sql.execute("TRUNCATE docs")
    sql.execute("INSERT INTO docs (id, body) VALUES (3, '8')")
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (3, %s)", [text_of(new[8])])
    assert run("cutover", "-q") == 0
    assert value(sql, "SELECT count(*) FROM kedge_docs") == 1, "a document with a new vector alone is not gone"


def test_old_vectors_that_go_after_a_cutover_take_no_new_ones_along(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    sql.execute("UPDATE docs SET embedding = NULL WHERE id < 50")
    sql.execute("DELETE FROM docs WHERE id = 60")
    assert run("cutover", "-q") == 0
    assert value(sql, "SELECT count(*) FROM docs_embedding_new") == ROWS - 1


def test_verify_names_the_rows_that_differ_and_apply_makes_them_again(table: str, sql: psycopg.Connection,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    until("apply", table)
    with migrate.Migration(alone=False) as one:
        key = next(key for key in range(ROWS) if key not in one.journal.real())
        one.new.write([key], -np.ones((1, 16), np.float32))
    sql.execute("SET kedge.quiet = 'on'; DELETE FROM docs_embedding_new WHERE id = 5")
    assert run("verify", "--rows", 400) == 1
    said = capsys.readouterr().out
    assert f"these differ: {key}\n" in said and "1 old rows are not in the new place" in said
    assert run("cutover") == 1
    assert "run 'kedge-migrate apply'" in capsys.readouterr().err
    assert run("apply", "-q") == 0 and run("verify", "-q", "--rows", 400) == 0
    require_translated(key, 5)


@pytest.mark.parametrize("into", PLACES)
def test_a_transaction_that_commits_after_verify_is_caught_up(table: str, sql: psycopg.Connection, address: str,
                                                              into: str) -> None:
    until("fit", table, into)
    assert run("apply", "-q") == 0
    with psycopg.connect(address) as late:
        edit(late, 4)
        late.execute("INSERT INTO docs VALUES (1001, '8', %s)", [text_of(spaces()[0][351])])
        edit(sql, 5)
        assert run("apply", "-q") == 0 and run("verify", "-q") == 0
        late.commit()
    assert run("cutover", "-q") == 0
    require_translated(4, 5, 1001)


class Application(threading.Thread):
    """Sessions that read a document and then write one, in one transaction, as fast as they can."""

    def __init__(self, address: str, table: str = "docs") -> None:
        super().__init__()
        self.address, self.table, self.stop = address, table, threading.Event()
        self.errors: list[psycopg.Error] = []
        self.longest, self.edited = 0.0, set[int]()

    def run(self) -> None:
        with psycopg.connect(self.address, prepare_threshold=None) as session:  # so that a pool can be between
            while not self.stop.is_set():
                key = int(np.random.default_rng().integers(100, 200))
                began = time.monotonic()
                try:
                    session.execute(f"SELECT body FROM {self.table} WHERE id = %s", [key])
                    session.execute("UPDATE docs SET body = body || ' ' WHERE id = %s", [key])
                    session.commit()
                    self.edited.add(key)
                except psycopg.Error as error:
                    self.errors.append(error)
                    session.rollback()
                self.longest = max(self.longest, time.monotonic() - began)

    def __enter__(self) -> "Application":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()


@pytest.mark.long
@pytest.mark.parametrize("into", PLACES)
def test_sessions_that_read_and_then_write_do_not_deadlock_with_a_cutover(table: str, address: str, into: str) -> None:
    until("verify", table, into)
    view = "docs" if into else "kedge_docs"
    with Application(address, view) as one, Application(address, view) as other:
        for _ in range(2):
            assert run("cutover", "-q") == 0
            assert run("rollback", "-q") == 0
            assert run("apply", "-q") == 0 and run("verify", "-q") == 0
    assert not one.errors and not other.errors
    assert one.edited and other.edited


@pytest.mark.long
@pytest.mark.parametrize("into", PLACES)
def test_an_idle_reader_stops_a_cutover_and_nothing_else(table: str, sql: psycopg.Connection, address: str, into: str,
                                                         monkeypatch: pytest.MonkeyPatch,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(postgres_lock, "PAUSES", (.1, .1))
    monkeypatch.setattr(postgres_link, "LOCK_SECONDS", .2)
    until("verify", table, into)
    before = columns(sql)
    with psycopg.connect(address) as idle, Application(address) as others:
        idle.execute("SELECT 1 FROM kedge_docs LIMIT 1" if not into else "SELECT 1 FROM docs LIMIT 1")
        assert run("cutover") == 1
        assert "(canceling statement due to lock timeout); this step was undone" in capsys.readouterr().err
        assert not others.errors and others.edited
        assert columns(sql) == before
        for step in ("status", "verify", "apply", "verify"):
            assert run(step, "-q") == 0
        assert run("top-up", "-q", "--rows", 3) == 0
        assert run("rollback") == 1
        assert "nothing was cut over" in capsys.readouterr().err
        assert run("verify", "-q") == 0
        idle.rollback()
        assert run("cutover", "-q") == 0


@contextlib.contextmanager
def statements(sql: psycopg.Connection) -> Iterator[list[str]]:
    """What sessions that begin while this lasts say to the server, by its own log; to be read afterwards."""
    log = pathlib.Path(value(sql, "SHOW data_directory"), "log")
    sql.execute("ALTER DATABASE postgres SET log_statement = 'all'")
    before, found = log.stat().st_size, list[str]()
    try:
        yield found
    finally:
        sql.execute("ALTER DATABASE postgres RESET log_statement")
        with open(log, errors="replace") as opened:
            opened.seek(before)
            found += re.findall(r"LOG:  (?:statement|execute [^:]*): (.*)", opened.read())


def test_a_fused_search_is_two_index_searches_and_one_lookup(table: str, sql: psycopg.Connection) -> None:
    until("verify", table)
    old, new = spaces()
    with migrate.Migration(alone=False) as one:
        migrate.search(one, old[3], new[3])  # what is known of the places is asked for once
        places = migrate.open_store(one.old.address), migrate.open_store(one.new.address)
        migrate.search(places, old[3], new[3])
        for searched in (one, places):
            for store in (one.old, one.new, *places):
                link_of(store).close()  # so that the server logs the next session; what is known stays known
            with statements(sql) as said:
                ids, _ = migrate.search(searched, old[3], new[3], k=5)
            assert ids[0] == 3
            asked = [one for one in said if re.match("SELECT|WITH", one) and "set_config" not in one]
            assert len(asked) == 3, said
            assert [("ORDER BY distance" in one, "= ANY(" in one) for one in asked] == [
                (True, False), (True, False), (False, True)]
            assert all(re.match("BEGIN|COMMIT|SET|SELECT", one) for one in said)


@pytest.mark.parametrize("into", PLACES)
def test_nothing_under_the_lock_looks_at_the_whole_table(table: str, sql: psycopg.Connection, into: str) -> None:
    until("verify", table, into)
    with statements(sql) as said:
        for key in (1, 2, 3):
            edit(sql, key)
        assert run("cutover", "-q") == 0
    locked = [n for n, one in enumerate(said) if re.match("LOCK TABLE.*ACCESS EXCLUSIVE|ALTER", one)]
    assert len(locked) == (4 if into else 2), "one lock and its renames; DROP NOT NULL and both renames at once"
    assert not [one for one in said if "SHARE ROW EXCLUSIVE" in one]
    first, last = locked[0], locked[-1]
    for one in said[first:last]:
        of_table = re.search(r'"docs"(?! ALTER| RENAME| IN ACCESS)', one)
        assert not of_table or "= ANY(" in one or "unnest(" in one, one


@pytest.mark.parametrize("into", PLACES)
def test_a_rollback_gives_what_came_since_old_vectors(table: str, sql: psycopg.Connection, into: str,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, into)
    old, new = spaces()
    if into:
        sql.execute("INSERT INTO docs (id, body, embedding) VALUES (1000, '350', %s)", [text_of(new[350])])
        sql.execute("UPDATE docs SET body = '351', embedding = %s WHERE id = 7", [text_of(new[351])])
    else:
        sql.execute("INSERT INTO docs (id, body) VALUES (1000, '350')")
        sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (1000, %s)", [text_of(new[350])])
        sql.execute("UPDATE docs SET body = '351' WHERE id = 7")
        sql.execute("UPDATE docs_embedding_new SET embedding = %s WHERE id = 7", [text_of(new[351])])
    sql.execute("UPDATE docs SET body = '352' WHERE id = 8")
    assert run("top-up", "-q", "--rows", 20) == 0
    assert run("rollback", "--json") == 0
    found = facts(capsys)
    assert sorted(found["translated_back"]) == [7, 1000] and found["old_text"] == [8] and not found["only_new"]
    listed = pathlib.Path(found["to_embed"]).read_text()
    assert '{"id": 1000, "text": "350"}' in listed and '{"id": 8, "text": "352"}' in listed
    with migrate.Migration() as one:
        back = one.translator(back=True)
        there = {key: row for rows in one.place.read(ids=[7, 8, 1000]) for key, row in zip(rows.ids, vectors_of(rows))}
        assert one.journal.real() >= {7, 1000}
    for key, vector in ((7, new[351]), (1000, new[350])):
        require_near(there[key], np.asarray(back.transform(vector[None], normalize=True))[0])
    np.testing.assert_array_equal(there[8], old[8])
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0 and run("cutover", "-q") == 0
    with migrate.Migration() as one:
        there = {key: row for rows in one.new.read(ids=[7, 1000]) for key, row in zip(rows.ids, vectors_of(rows))}
    require_near(there[7], new[351], 1e-6, message="what the application embedded is kept")
    require_near(there[1000], new[350], 1e-6)


@pytest.mark.parametrize("into", PLACES)
def test_writers_of_the_old_model_do_not_harm_the_new_vectors(table: str, sql: psycopg.Connection, into: str) -> None:
    """A deployment takes a while, and some sessions embed with the old model after the cutover."""
    until("cutover", table, into)
    if into:
        with pytest.raises(psycopg.errors.DataException, match="expected 16 dimensions, not 12"):
            edit(sql, 5)
        return
    edit(sql, 5)
    sql.execute("INSERT INTO docs VALUES (1000, '7', %s)", [text_of(spaces()[0][350])])
    assert run("cutover", "-q") == 0, "again: it catches up"
    require_translated(5, 1000)


@pytest.mark.long
def test_who_may_make_no_trigger_is_told_what_is_not_seen(table: str, sql: psycopg.Connection,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    sql.execute("DROP ROLE IF EXISTS other; CREATE ROLE other LOGIN; GRANT ALL ON SCHEMA public TO other; "
                "GRANT ALL ON docs TO other")
    table = table.replace("//postgres:@", "//other@")
    assert run("plan", "--store", table, "--embed", "models:new", "--sample", 80, "--map", "ridge") == 0
    assert "this role does not own the table, so that no trigger can note" in capsys.readouterr().out
    for step in ("sample", "fit", "apply"):
        assert run(step, "-q") == 0
    sql.execute("INSERT INTO docs VALUES (1000, '7', %s)", [text_of(spaces()[0][350])])
    sql.execute("DELETE FROM docs WHERE id = 9")
    for step in ("apply", "verify", "cutover"):
        assert run(step, "-q") == 0
    require_translated(1000)


def test_it_can_be_undone_by_hand(table: str, sql: psycopg.Connection) -> None:
    """As docs/live-table.md says it."""
    until("cutover", table)
    with migrate.Migration(alone=False) as one:
        eight = one.journal.owner[:8]
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "live-table.md").read_text()
    found = re.search(r"Without kedge-migrate: `([^`]*)`", page)
    assert found
    sql.execute(found[1].replace("XXXXXXXX", eight))
    assert value(sql, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', "
                      "'v')") == 1
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass") == 0
    edit(sql, 3)


def test_the_end_leaves_only_what_is_asked_for(table: str, sql: psycopg.Connection,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table)
    assert run("finish", "-q") == 0
    left = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass AND tgname NOT LIKE 'kedge_keep_%%'"
    assert value(sql, left) == 0
    sql.execute("ALTER TABLE docs DROP COLUMN embedding")
    near = "SELECT id FROM kedge_docs ORDER BY embedding <=> %s LIMIT 1"
    assert isinstance(value(sql, near, text_of(spaces()[1][3])), int)
    assert run("rollback") == 1
    assert "this migration is finished" in capsys.readouterr().err


@pytest.mark.long
def test_models_of_one_width_are_told_apart_by_what_a_session_says(table: str, folder: pathlib.Path, address: str,
                                                                   sql: psycopg.Connection) -> None:
    np.save(folder / "new_model.npy", spaces()[1][:, :12])
    until("cutover", table, "column")
    add = "INSERT INTO docs (id, body, embedding) VALUES (%s, '7', %s)"
    for statement in (lambda: sql.execute(add, [1000, text_of(spaces()[0][7])]), lambda: edit(sql, 7)):
        with pytest.raises(psycopg.errors.CheckViolation, match="has vectors of another model since it was cut over"):
            statement()
    sql.execute("UPDATE docs SET body = body, embedding = embedding WHERE id = 7")
    with sql.transaction():
        sql.execute("SET LOCAL kedge.model = 'new'")
        edit(sql, 6)
    with pytest.raises(psycopg.errors.CheckViolation):
        edit(sql, 7)
    sql.execute("ALTER ROLE postgres SET kedge.model = 'new'")
    with psycopg.connect(address) as by_role:
        edit(by_role, 6, sign=-2)
    sql.execute("ALTER ROLE postgres RESET kedge.model; SET kedge.model = 'new'")
    sql.execute(add, [1000, text_of(spaces()[1][7, :12])])
    edit(sql, 7)
    sql.execute("RESET kedge.model")
    assert run("top-up", "-q", "--rows", 5) == 0 and run("rollback", "-q") == 0
    edit(sql, 8)  # the old model's place again
    for step in ("apply", "verify", "cutover", "finish"):
        assert run(step, "-q") == 0
    edit(sql, 9)
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass") == 0
