# SPDX-License-Identifier: Apache-2.0
"""Searches with conditions, and vectors whose index is on another form of them: the server counts scans of the
index."""
import json
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate import Error, UsageError
from kedge.migrate.fused import search
from kedge.migrate.store import Store, open_store
from kedge.migrate.stores.postgres_sql import install
from kedge.migrate.stores.postgresql import PostgresStore
from kedge.migrate.stores.scores import unit
from made_up import spaces
from postgres_tables import link_of, rows_of, value
from require import number, of_kind
from steps import facts, run

pytestmark = pytest.mark.long

ROWS, OLD, NEW, TENANTS = 1500, 8, 12, 5
OLD_ROWS, NEW_ROWS = rows_of(ROWS, OLD, 1), rows_of(ROWS, NEW, 2)


@pytest.fixture(params=["", "column"], ids=["side", "column"])
def stores(sql: psycopg.Connection, address: str, request: pytest.FixtureRequest) -> Iterator[tuple[Store, Store]]:
    sql.execute(f"CREATE TABLE docs (id int PRIMARY KEY, tenant_id int, embedding vector({OLD}))")
    with sql.cursor().copy("COPY docs FROM STDIN") as copy:
        for one, row in enumerate(OLD_ROWS):
            copy.write_row((one, one % TENANTS, str(row.tolist())))
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_cosine_ops)")
    old = open_store(f"{address}&table=docs&column=embedding")
    new = old.new_place(request.param)
    new.create(old, NEW, "one")
    new.write(list(range(ROWS)), NEW_ROWS)
    new.finish()
    sql.execute("ANALYZE; ALTER DATABASE postgres SET enable_seqscan = off")  # as for a table that is not so small
    for store in (old, new):
        store.close()
    yield old, new
    sql.execute("ALTER DATABASE postgres RESET enable_seqscan")
    for store in (old, new):
        store.close()


def best(rows: np.ndarray, query: np.ndarray, tenant: int, k: int) -> list[int]:
    scores = np.where(np.arange(len(rows)) % TENANTS == tenant, rows @ query, -9)
    return [int(one) for one in np.argsort(-scores)[:k]]


def scans(sql: psycopg.Connection, store: Store) -> int:
    """Of all HNSW indexes."""
    link_of(store).connect().execute("SELECT pg_stat_force_next_flush()")
    sql.execute("SELECT pg_stat_force_next_flush()")
    return int(value(sql, "SELECT sum(idx_scan) FROM pg_stat_user_indexes JOIN pg_class c ON c.oid = indexrelid JOIN "
                     "pg_am a ON a.oid = relam WHERE amname = 'hnsw'"))


def test_a_condition_holds_for_every_hit_and_the_index_finds_them(stores: tuple[Store, Store],
                                                                  sql: psycopg.Connection) -> None:
    old, new = stores
    old_query, new_query = rows_of(1, OLD, 3)[0], rows_of(1, NEW, 4)[0]
    for store, rows, query in ((old, OLD_ROWS, old_query), (new, NEW_ROWS, new_query)):
        before = scans(sql, store)
        ids, _ = store.filtered("tenant_id = %s", [3]).search(query, 10)
        assert scans(sql, store) == before + 1
        assert all(number(one) % TENANTS == 3 for one in ids[0]) and len(ids[0]) == 10
        assert len(set(ids[0]) & set(best(rows, query, 3, 10))) >= 8
    found, _ = search(stores, old_query, new_query, 40, where="tenant_id = %s AND id > %s", params=[3, 100])
    assert len(found) == 40 and all(one % TENANTS == 3 and one > 100 for one in found)
    assert len(search(stores, old_query, new_query, 40)[0]) == 40
    alone, _ = search(stores, None, new_query, 5, where="tenant_id IN (1, 2)")
    assert len(alone) == 5 and all(one % TENANTS in (1, 2) for one in alone)
    with pytest.raises(Error, match='column "tenant" does not exist'):
        search(stores, old_query, new_query, where="tenant = 3")


def test_the_function_searches_among_ids(stores: tuple[Store, Store], sql: psycopg.Connection) -> None:
    old, new = (of_kind(PostgresStore, store) for store in stores)
    install(old, new)
    queries = [str(rows_of(1, OLD, 3)[0].tolist()), str(rows_of(1, NEW, 4)[0].tolist())]
    before = scans(sql, old)
    found = sql.execute("SELECT id FROM kedge_search_docs(%s, %s, k => 20, among => ARRAY(SELECT id FROM docs WHERE "
                        "tenant_id = 2))", queries).fetchall()
    assert len(found) == 20 and all(one % TENANTS == 2 for one, in found) and scans(sql, old) == before + 2


def test_other_stores_say_that_they_take_no_condition(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "docs.npy", OLD_ROWS)
    with pytest.raises(UsageError, match="takes no condition for a search"):
        open_store(f"npy:{tmp_path}/docs.npy").filtered("tenant_id = 3")


def test_the_callers_ef_search_stays(stores: tuple[Store, Store], sql: psycopg.Connection,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.migrate.stores import postgres_index
    for given, k, expected in (("200", 10, "200"), ("10", 50, "50"), ("10", 5000, "1000")):
        with sql.transaction():
            sql.execute(f"SET LOCAL hnsw.ef_search = {given}")
            sql.execute(postgres_index.search_settings(k, (0, 8)))
            assert value(sql, "SHOW hnsw.ef_search") == expected


@pytest.mark.parametrize("into", ["", "column"])
def test_wide_vectors_have_an_index_that_searches_use(sql: psycopg.Connection, address: str, docs: Store,
                                                      into: str) -> None:
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_cosine_ops) WITH (m = 4, ef_construction = 8)")
    new, made = docs.new_place(into), rows_of(60, 2100)
    new.create(docs, 2100, "one")
    new.write(list(range(60)), made)
    new.finish()
    new.finish()  # it is there
    assert re.fullmatch(r"near_new\w* USING hnsw \(\(\(\w+\)::halfvec\(2100\)\) halfvec_cosine_ops\) WITH .*",
                        new.facts().index or "")
    before = scans(sql, new)
    link_of(new).connect().execute("SET enable_seqscan = off")
    ids, scores = new.search(made[7], 3)
    assert ids[0][0] == 7 and scores[0][0] == pytest.approx(1, abs=1e-2) and scans(sql, new) == before + 1
    install(of_kind(PostgresStore, docs), new)
    before = scans(sql, new)
    found = sql.execute("SELECT id FROM kedge_search_docs(NULL, %s, 3)", [str(made[7].tolist())]).fetchall()
    assert found[0] == (7,) and scans(sql, new) == before + 1
    with pytest.raises(Error, match="indexes vectors of at most 4000 values; the new vectors have 4001"):
        docs.beside("_wide").create(docs, 4001, "one")


def test_indexes_of_bits_get_the_new_width(sql: psycopg.Connection, docs: Store) -> None:
    sql.execute("CREATE INDEX bits ON docs USING hnsw ((binary_quantize(embedding)::bit(12)) bit_hamming_ops)")
    new = docs.new_place()
    new.create(docs, 20, "one")
    new.finish()
    assert "::bit(20)) bit_hamming_ops" in (new.facts().index or "")


@pytest.fixture
def collections(sql: psycopg.Connection, folder: pathlib.Path) -> psycopg.Connection:
    """Two collections in one table, as LangChain keeps them: of different widths, in a column without one."""
    sql.execute("CREATE TABLE docs (id text PRIMARY KEY, collection_id int, body text, embedding vector)")
    for collection, vectors in ((7, spaces()[0]), (8, rows_of(400, 5))):
        sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, %s, %s)", [
            (f"{collection}-{n}", collection, str(n), str(row.tolist())) for n, row in enumerate(vectors)])
    return sql


def test_one_collection_of_a_table_is_migrated(collections: psycopg.Connection, address: str,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    sql, (_, new) = collections, spaces()
    others = sql.execute("SELECT * FROM docs WHERE collection_id = 8 ORDER BY id").fetchall()
    settings = ("--store", f"{address}&table=docs&column=embedding&text=body", "--where",
                "collection_id = 7 AND '{}'::jsonb IS NOT NULL", "--embed", "models:new", "--sample", 120)
    assert run("plan", "-q", *settings, "--into", "column") == 2
    assert "a column is of all rows of the table" in capsys.readouterr().err
    assert run("plan", "--json", *settings) == 0
    assert facts(capsys)["rows"] == 400
    for step in ("sample", "fit", "apply"):
        assert run(step, "-q") == 0
    sql.execute("INSERT INTO docs VALUES ('8-new', 8, '1', '[1,2,3]'), ('7-new', 7, '1', %s)",
                [str(spaces()[0][1].tolist())])
    for step in ("verify", "cutover", "top-up", "verify"):
        assert run(step, "-q") == 0
    found = sql.execute("SELECT id, body, embedding::text FROM kedge_docs").fetchall()
    assert {one for one, _, _ in found} == {f"7-{n}" for n in range(400)} | {"7-new"}
    for _, body, vector in found:
        np.testing.assert_allclose(np.array(json.loads(vector)), unit(new)[int(body)], atol=1e-5)
    with migrate.Migration() as one:
        ids, _ = migrate.search(one, spaces()[0][3], new[3], 500)
        assert all(key.startswith("7-") for key in ids)
    assert sql.execute("SELECT * FROM docs WHERE collection_id = 8 AND id <> '8-new' ORDER BY id").fetchall() == others
    assert run("rollback", "-q", "--drop", "--yes") == 0


def test_conditions_are_for_postgresql_and_do_not_change(folder: pathlib.Path,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--store", "npy:docs.npy", "--where", "id = 1") == 2
    assert "'where' is a condition for PostgreSQL" in capsys.readouterr().err


def partitioned(sql: psycopg.Connection, address: str) -> tuple[object, ...]:
    """Makes the table; the settings of its migration."""
    sql.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, embedding vector(12)) PARTITION BY RANGE (id); "
                "CREATE TABLE docs_a PARTITION OF docs FOR VALUES FROM (0) TO (150); "
                "CREATE TABLE docs_b PARTITION OF docs FOR VALUES FROM (150) TO (10000)")
    sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, %s)",
                             [(n, str(n), str(row.tolist())) for n, row in enumerate(spaces()[0])])
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_cosine_ops)")
    return "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new", "--sample", 120


def test_partitions_that_come_and_go(sql: psycopg.Connection, address: str, folder: pathlib.Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "-q", *partitioned(sql, address)) == 0
    for step in ("sample", "fit", "apply", "verify"):
        assert run(step, "-q") == 0
    vector = str(spaces()[0][1].tolist())
    sql.execute("CREATE TABLE docs_c PARTITION OF docs FOR VALUES FROM (10000) TO (20000)")
    sql.execute("INSERT INTO docs VALUES (10001, '1', %s)", [vector])
    assert run("apply", "--json") == 0
    assert facts(capsys)["arrived"] == 1, "rows of a new partition are noted"
    sql.execute("CREATE TABLE docs_d (LIKE docs)")
    sql.execute("INSERT INTO docs_d VALUES (20001, '1', %s)", [vector])
    sql.execute("ALTER TABLE docs ATTACH PARTITION docs_d FOR VALUES FROM (20000) TO (30000); "
                "ALTER TABLE docs DETACH PARTITION docs_a")
    assert run("verify", "--json") == 1
    found = facts(capsys)
    assert (found["lost"], found["extra"]) == (1, 150) and not found["whole"]
    assert run("apply", "--json") == 0
    found = facts(capsys)
    assert (found["arrived"], found["removed"]) == (1, 150)
    assert run("verify", "-q") == 0 and run("cutover", "-q") == 0
    assert value(sql, "SELECT count(embedding) FROM kedge_docs") == 252
    sql.execute("UPDATE docs_a SET body = 'nobody notes this'; TRUNCATE docs_a")
    assert value(sql, "SELECT count(embedding) FROM kedge_docs") == 252


def test_a_partitioned_table(sql: psycopg.Connection, address: str, folder: pathlib.Path,
                             capsys: pytest.CaptureFixture[str]) -> None:
    (old, new), settings = spaces(), partitioned(sql, address)
    assert run("plan", "-q", *settings, "--into", "column") == 1
    assert "makes no index on a column of a partitioned table" in capsys.readouterr().err
    assert run("plan", "-q", *settings) == 0
    for step in ("sample", "fit", "apply"):
        assert run(step, "-q") == 0
    sql.execute("INSERT INTO docs VALUES (5000, '1', %s); DELETE FROM docs WHERE id IN (3, 300)".replace("%s", "$$"
                + str(old[1].tolist()) + "$$"))
    sql.execute("UPDATE docs SET embedding = %s WHERE id = 200", [str(old[1].tolist())])
    assert run("verify", "-q") == 0 and run("cutover", "--json") == 0
    found = facts(capsys)
    assert (found["arrived"], found["changed"], found["removed"]) == (1, 1, 0), "what went took its vector along"
    assert run("top-up", "-q") == 0
    rows = sql.execute("SELECT id, body, embedding::text FROM kedge_docs").fetchall()
    assert len(rows) == 399
    for _, body, vector in rows:
        np.testing.assert_allclose(np.array(json.loads(vector)), unit(new)[int(body)], atol=1e-5)
    assert run("rollback", "-q", "--drop", "--yes") == 0


def test_a_column_of_the_key_that_is_unique_by_itself_may_be_the_id(sql: psycopg.Connection, address: str,
                                                                    folder: pathlib.Path) -> None:
    old, new = spaces()
    sql.execute(f"CREATE TABLE docs (tenant_id int, id int, body text, embedding vector({old.shape[1]}), "
                "PRIMARY KEY (tenant_id, id))")
    for n, row in enumerate(old):
        sql.execute("INSERT INTO docs VALUES (%s, %s, %s, %s)", [n % TENANTS, n, str(n), str(row.tolist())])
    address += "&table=docs&column=embedding&text=body"
    sql.execute("CREATE UNIQUE INDEX CONCURRENTLY ON docs (id)")
    assert run("plan", "-q", "--store", address + "&id=id", "--embed", "models:new", "--sample", 120) == 0
    for step in ("sample", "fit", "apply", "verify", "cutover"):
        assert run(step, "-q") == 0
    assert migrate.search("migrate.toml", None, new[3], k=1)[0] == [3]
    sql.execute("DELETE FROM docs WHERE tenant_id = 0")
    assert run("top-up", "-q") == 0
    rows = sql.execute("SELECT id, embedding::text FROM kedge_docs").fetchall()
    assert len(rows) == len(old) - len(old) // TENANTS
    for key, vector in rows:
        np.testing.assert_allclose(np.array(json.loads(vector)), unit(new)[key], atol=1e-5)
