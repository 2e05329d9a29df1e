# SPDX-License-Identifier: Apache-2.0
"""What plan says of a table, what that costs, and what it refuses before any work."""
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from kedge.migrate import Error, UsageError, survey
from kedge.migrate.store import Store, open_store
from kedge.migrate.stores import postgres_rows
from made_up import models, spaces
from postgres_tables import ROWS, fill, link_of, rows_of, value
from steps import facts, run

COUNT = 400


@pytest.fixture
def table(sql: psycopg.Connection, folder: pathlib.Path) -> psycopg.Connection:
    old, _ = spaces()
    sql.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, embedding vector(12))")
    sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, %s)",
                             [(n, str(n), str(row.tolist())) for n, row in enumerate(old[:COUNT])])
    return sql


def plan(address: str, capsys: pytest.CaptureFixture[str], *settings: object) -> dict[str, Any]:
    assert run("plan", "--json", "--store", f"{address}&table=docs&column=embedding&text=body", *settings) == 0
    return facts(capsys)


def test_rows_without_a_vector_are_named(table: psycopg.Connection, address: str,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    table.execute("UPDATE docs SET embedding = NULL WHERE id < 7")
    assert run("plan", "--store", f"{address}&table=docs&column=embedding&text=body") == 0
    assert "  393 rows of 12 values" in (said := capsys.readouterr().out) and "  7 rows without a vector" in said


def test_a_large_table_is_judged_by_some_of_its_rows(table: psycopg.Connection, address: str,
                                                     capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    table.execute("INSERT INTO docs SELECT n, n::text, CASE WHEN n % 4 > 0 THEN '[1,2,3,4,5,6,7,8,9,0,1,2]'::vector "
                  "END FROM generate_series(1000, 12999) n; ANALYZE docs")
    monkeypatch.setattr(postgres_rows, "COUNTED", 1000)
    monkeypatch.setattr(survey, "LOOK_AT", 3000)
    found = plan(address, capsys)
    assert not found["counted"] and 1000 < found["looked_at"] <= 6000
    assert found["rows"] + found["without_vector"] == COUNT + 12000 and 8500 < found["rows"] < 10500
    monkeypatch.setattr(postgres_rows, "COUNTED", 10**6)
    store = open_store(f"{address}&table=docs&column=embedding")
    glance = store.glance(3000)
    assert (glance.rows, glance.without_vector, glance.counted) == (9400, 3000, True)
    assert 1000 < sum(len(batch) for batch in glance.batches) <= 6000


def test_money_is_tokens_at_a_price(table: psycopg.Connection, address: str, folder: pathlib.Path,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    table.execute("UPDATE docs SET body = repeat('word', 100)")
    found = plan(address, capsys, "--price", 2, "--sample", 40)
    assert found["tokens_all"] == 100 * COUNT
    assert found["cost_all"] == pytest.approx(100 * COUNT * 2 / 1e6) and found["cost_sample"] == pytest.approx(.008)


@pytest.mark.parametrize("into", ["", "column"])
@pytest.mark.parametrize("width", [96, 600])
def test_the_room_is_what_apply_takes(sql: psycopg.Connection, address: str, docs: Store, into: str,
                                      width: int) -> None:
    """Within a quarter; 600 values do not fit into a row."""
    sql.execute("INSERT INTO docs SELECT n, 'x', now(), embedding FROM generate_series(1000, 4999) n, docs WHERE id = "
                "1; CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops) WITH (m = 4, ef_construction = 8)")
    count = value(sql, "SELECT count(*) FROM docs")
    ids, made = [one for one, in sql.execute("SELECT id FROM docs ORDER BY id")], rows_of(count, width)
    new = docs.new_place(into)
    expected = new.room(docs, count, width)
    sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = " \
            "'public'::regnamespace"
    before, log = value(sql, sizes), value(sql, "SELECT pg_current_wal_insert_lsn()")
    new.create(docs, width, "one")
    new.write(ids, made)
    new.finish()
    grown, logged = value(sql, sizes) - before, value(sql, "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", log)
    assert expected.index is not None and expected.log is not None
    assert float(grown) == pytest.approx(expected.vectors + expected.index, rel=.25)
    # An index on a column whose rows move is changed many times over.
    assert expected.log / 2 < float(logged) < expected.log * (2 if into else 1.3)


def test_what_will_not_go_is_refused_before_any_work(table: psycopg.Connection, address: str, folder: pathlib.Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    table.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops)")
    models(folder, np.ones((COUNT, 4001), np.float32))
    store = f"{address}&table=docs&column=embedding&text=body"
    assert run("plan", "--store", store, "--embed", "models:new") == 1
    assert "indexes vectors of at most 4000 values; the new vectors have 4001" in capsys.readouterr().err
    assert not (folder / "migrate.toml").exists()


def refused(store: str, capsys: pytest.CaptureFixture[str], *settings: object) -> str:
    """What plan says as it refuses; it has left nothing behind."""
    assert run("plan", "--store", store, *settings) == 1
    assert not pathlib.Path("migrate.toml").exists()
    return capsys.readouterr().err


def test_names_that_are_taken_are_said_before_any_work(table: psycopg.Connection, address: str,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    store = f"{address}&table=docs&column=embedding&text=body"
    for make, drop, said in (
            ("TABLE docs_embedding_new (id int)", "TABLE docs_embedding_new", "not this migration's"),
            ("VIEW kedge_docs AS SELECT 1 AS one", "VIEW kedge_docs", "is not kedge-migrate's view of docs"),
            ("TABLE kedge_docs_old (id int)", "TABLE kedge_docs_old", "is not kedge-migrate's view of docs"),
            ("FUNCTION docs_embedding_new_theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'",
             "FUNCTION docs_embedding_new_theirs", "there is a function")):
        table.execute(f"CREATE {make}")
        assert said in refused(store, capsys)
        table.execute(f"DROP {drop}")
    table.execute("ALTER TABLE docs ADD embedding_new vector(3)")
    assert "not this migration's" in refused(store, capsys, "--into", "column")
    assert run("plan", "-q", "--store", store) == 0


def test_rights_that_lack_are_said_before_any_work(table: psycopg.Connection, address: str,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    table.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public TO reader; "
                  "GRANT SELECT ON docs TO reader; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    store = address.replace("//postgres:@", "//reader@") + "&table=docs&column=embedding&text=body"
    assert "GRANT CREATE ON SCHEMA public" in refused(store, capsys)
    assert "does not own docs" in refused(store, capsys, "--into", "column")
    table.execute("GRANT CREATE ON SCHEMA public TO reader")
    assert run("plan", "--store", store) == 0
    assert "this role does not own the table, so that no trigger" in capsys.readouterr().out
    table.execute("DROP OWNED BY reader; DROP ROLE reader")


@pytest.mark.long
def test_long_names_stay_apart(sql: psycopg.Connection, address: str) -> None:
    """PostgreSQL cuts a name at 63 bytes, so that these two would have the same side table, views and notes."""
    made = []
    for ending in ("first", "second"):
        name = "documents_" * 5 + "of_" + ending
        fill(sql, range(ROWS), rows_of(), table=name)
        old = open_store(f"{address}&table={name}&column=embedding&text=body")
        new = old.new_place()
        new.require_place(old, ending)
        new.create(old, 7, ending)
        old.watch(new, ending)
        new.write([1], rows_of(1, 7))
        new.finish()
        old.switch(new, old.beside("_old"))
        made.append((new, old.shows()))
        assert old.watching(ending) and new.describe().rows == 1
    assert made[0][1] != made[1][1]
    names = [name for name, in sql.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                                           "AND relkind IN ('r', 'v')")]
    assert len(names) == 2 * 5, names
    for new, _ in made:
        new.close()


def test_a_password_is_not_written_down(table: psycopg.Connection, address: str, folder: pathlib.Path,
                                        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = address.replace("postgres:@", "postgres:s3cret@") + "&table=docs&column=embedding&text=body"
    assert run("plan", "--store", given) == 0
    said = capsys.readouterr().out
    assert "The password is not written to migrate.toml: have it in PGPASSWORD or ~/.pgpass" in said
    for file in folder.glob("migrate.*"):
        assert b"s3cret" not in file.read_bytes() and file.stat().st_mode & 0o777 == 0o600, file
    assert run("plan", "-q") == 0, "this server asks for none"
    assert "postgres@" in (folder / "migrate.toml").read_text()
    store = open_store(given.replace("postgres:s3cret@", "postgres@") + "&password_env=DOCS_PASSWORD")
    with pytest.raises(Error, match="the variable DOCS_PASSWORD is not set; it should hold the password"):
        store.facts()
    monkeypatch.setenv("DOCS_PASSWORD", "s3cret")
    assert store.facts().width == 12 and link_of(store).connect().info.password == "s3cret"
    store.close()


@pytest.fixture
def tenant(sql: psycopg.Connection, docs: Store, address: str) -> Iterator[str]:
    sql.execute("DROP ROLE IF EXISTS tenant; CREATE ROLE tenant LOGIN; GRANT USAGE ON SCHEMA public TO tenant; GRANT "
                "ALL ON docs TO tenant; ALTER TABLE docs ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON docs USING "
                "(id < 9)")
    yield address.replace("//postgres:@", "//tenant@") + "&table=docs&column=embedding"
    sql.execute("DROP TABLE docs; DROP OWNED BY tenant; DROP ROLE tenant")


def test_rows_that_row_security_hides_are_not_missed_silently(docs: Store, tenant: str) -> None:
    with pytest.raises(UsageError, match="row security may hide rows of docs from this user"):
        open_store(tenant).glance(10)
    assert docs.describe().rows == ROWS, "the owner sees them all"


def test_the_address_says_how_vectors_compare_where_no_index_does(docs: Store) -> None:
    assert docs.facts().metric == "cosine"
    for metric in ("inner", "euclidean"):
        store = open_store(f"{docs.address}&metric={metric}")
        assert store.facts().metric == store.new_place().address.rpartition("metric=")[2] == metric
    with pytest.raises(Error, match="metric may be cosine, inner or euclidean"):
        open_store(f"{docs.address}&metric=dot").facts()
