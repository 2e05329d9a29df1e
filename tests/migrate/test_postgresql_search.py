# SPDX-License-Identifier: Apache-2.0
"""The SQL function that searches the old and the new column at once."""
import pathlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from kedge.migrate import Error, UsageError, fused
from kedge.migrate.fused import search
from kedge.migrate.store import open_store
from kedge.migrate.stores.postgres_sql import fused_search_sql, install
from kedge.migrate.stores.postgresql import PostgresStore
from kedge.migrate.stores.scores import fuse
from postgres_tables import ones, value
from require import of_kind

Stores = tuple[PostgresStore, PostgresStore]
ROWS, OLD, NEW = 3000, 8, 12


def rows_of(count: int, width: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


OLD_ROWS, NEW_ROWS = rows_of(ROWS, OLD, 0), rows_of(ROWS, NEW, 1)
OLD_QUERY, NEW_QUERY = rows_of(1, OLD, 2)[0], rows_of(1, NEW, 3)[0]


@pytest.fixture
def stores(sql: psycopg.Connection, address: str) -> Iterator[Stores]:
    """Two full columns; k is a name that the function's parameters have too."""
    sql.execute(f"CREATE TABLE docs (k int PRIMARY KEY, candidates text, embedding vector({OLD}))")
    with sql.cursor().copy("COPY docs (k, embedding) FROM STDIN") as copy:
        for one, row in enumerate(OLD_ROWS):
            copy.write_row((one, str(row.tolist())))
    old = of_kind(PostgresStore, open_store(f"{address}&table=docs&column=embedding"))
    new = of_kind(PostgresStore, old.beside("_new"))
    new.create(old, NEW, "one")
    new.write(list(range(ROWS)), NEW_ROWS)
    yield old, new
    old.close()
    new.close()


def cosines(query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query))


def by_both(a: np.ndarray, b: np.ndarray, weights: tuple[float, float] = (1, 1), k: int = 10,
            candidates: int = 100) -> tuple[list[int], np.ndarray]:
    """By kedge.migrate's own fusion; scores of all rows, NaN if a row has no vector."""
    lists = [np.argsort(-np.nan_to_num(column, nan=-9))[:max(candidates, k)] for column in (a, b)]
    found = sorted({one for column, ids in zip((a, b), lists) for one in ids.tolist() if not np.isnan(column[one])})
    total = fuse(a[found], b[found], weights)
    best = np.argsort(-total, kind="stable")[:k]
    return [found[n] for n in best], total[best]


def best(scores: np.ndarray, k: int = 10) -> tuple[list[int], np.ndarray]:
    found = np.argsort(-scores, kind="stable")[:k]
    return found.tolist(), scores[found]


def call(sql: psycopg.Connection, old_query: np.ndarray | None, new_query: np.ndarray | None,
         **named: Any) -> tuple[list[int], list[float]]:
    given = {"old_query": old_query, "new_query": new_query, **named}
    texts = {name: str(value.tolist()) if isinstance(value, np.ndarray) else value for name, value in given.items()}
    arguments = ", ".join(f"{name} => %({name})s" for name in given)
    found = sql.execute(f"SELECT * FROM kedge_search_docs({arguments})", texts).fetchall()
    return [one for one, _ in found], [score for _, score in found]


def check(sql: psycopg.Connection, expected: tuple[list[int], np.ndarray], *queries: np.ndarray | None,
          **named: Any) -> None:
    ids, scores = call(sql, *queries, **named)
    assert ids == expected[0] and np.allclose(scores, expected[1], atol=1e-4)


def test_it_is_the_definition(sql: psycopg.Connection, stores: Stores) -> None:
    install(*stores)
    a, b = cosines(OLD_QUERY, OLD_ROWS), cosines(NEW_QUERY, NEW_ROWS)
    check(sql, by_both(a, b), OLD_QUERY, NEW_QUERY)
    check(sql, by_both(a, b, (0.3, 2), 25, 40), OLD_QUERY, NEW_QUERY, k=25, candidates=40, old_weight=0.3, new_weight=2)
    check(sql, by_both(a, b, k=30, candidates=5), OLD_QUERY, NEW_QUERY, k=30, candidates=5)
    check(sql, best(b), None, NEW_QUERY)
    check(sql, best(a), OLD_QUERY, None)
    assert call(sql, None, None) == ([], [])


def test_it_is_the_search_in_python(sql: psycopg.Connection, stores: Stores) -> None:
    install(*stores)
    for old_query in (OLD_QUERY, None):
        expected = search(stores, old_query, NEW_QUERY, 20, weights=(1, 0.5))
        check(sql, expected, old_query, NEW_QUERY, k=20, new_weight=0.5)


def test_rows_without_a_new_vector_count_as_the_worst_there(sql: psycopg.Connection,
                                                            stores: Stores) -> None:
    old, new = stores
    install(old, new)
    new.write(list(range(0, ROWS, 2)), None)
    a, b = cosines(OLD_QUERY, OLD_ROWS), cosines(NEW_QUERY, NEW_ROWS)
    b[::2] = np.nan
    expected = by_both(a, b, (3, 1), 100)
    assert any(one % 2 == 0 for one in expected[0]) and any(one % 2 for one in expected[0])
    check(sql, expected, OLD_QUERY, NEW_QUERY, k=100, old_weight=3)
    new.write(list(range(ROWS)), None)
    check(sql, by_both(a, b * np.nan), OLD_QUERY, NEW_QUERY)


def test_scores_without_deviation_count_nothing(sql: psycopg.Connection, stores: Stores) -> None:
    old, new = stores
    new.write(list(range(ROWS)), ones(ROWS, NEW))
    install(old, new)
    found = call(sql, OLD_QUERY, NEW_QUERY, candidates=ROWS)
    a = cosines(OLD_QUERY, OLD_ROWS)
    check(sql, by_both(a, ones(ROWS), candidates=ROWS), OLD_QUERY, NEW_QUERY, candidates=ROWS)
    old.write([found[0][0]], 0 * ones(1, OLD))  # a cosine with zeros scores 0
    assert np.isfinite(call(sql, OLD_QUERY, NEW_QUERY, candidates=ROWS, k=ROWS)[1]).all()


def test_it_means_the_same_columns_after_the_switch(sql: psycopg.Connection, stores: Stores) -> None:
    old, new = stores
    install(old, new)
    before = call(sql, OLD_QUERY, NEW_QUERY)
    kept = of_kind(PostgresStore, old.beside("_old"))
    old.switch(new, kept)
    assert call(sql, OLD_QUERY, NEW_QUERY) == before
    install(kept, old)  # made anew with the names as they are now
    assert call(sql, OLD_QUERY, NEW_QUERY) == before
    old.switch(kept, new)
    assert call(sql, OLD_QUERY, NEW_QUERY) == before


def scans(sql: psycopg.Connection, name: str) -> int:
    sql.execute("SELECT pg_stat_force_next_flush()")
    return int(value(sql, "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s", name))


@pytest.mark.parametrize("method, options", [("hnsw", ""), ("ivfflat", "WITH (lists = 20)")])
def test_it_uses_both_indexes(sql: psycopg.Connection, stores: Stores, method: str, options: str) -> None:
    old, new = stores
    sql.execute(f"CREATE INDEX near ON docs USING {method} (embedding vector_cosine_ops) {options}")
    new.finish()
    install(old, new)
    sql.execute("VACUUM ANALYZE docs")
    before = scans(sql, "near"), scans(sql, "near_new")
    table = sql.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'docs'").fetchone()
    ids, _ = call(sql, OLD_QUERY, NEW_QUERY, k=1000)
    assert (scans(sql, "near"), scans(sql, "near_new")) == (before[0] + 1, before[1] + 1)
    assert sql.execute("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'docs'").fetchone() == table
    assert len(ids) > 150  # 100 from each, whatever the index's own limit; few are in both


def test_inner_product_and_euclidean(sql: psycopg.Connection, stores: Stores) -> None:
    old, new = stores
    sql.execute("CREATE INDEX near ON docs USING ivfflat (embedding vector_ip_ops) WITH (lists = 1)")
    sql.execute("CREATE INDEX far ON docs USING ivfflat (embedding_new vector_l2_ops) WITH (lists = 1)")
    install(old, new)
    a, b = OLD_ROWS @ OLD_QUERY, -np.square(NEW_ROWS - NEW_QUERY).sum(axis=1) / 2
    check(sql, by_both(a, b), OLD_QUERY, NEW_QUERY)


def test_dropping_the_column_takes_the_function_along(sql: psycopg.Connection, stores: Stores) -> None:
    old, new = stores
    install(old, new)
    sql.execute("CREATE VIEW seen AS SELECT embedding_new FROM docs")
    with pytest.raises(Error, match="cannot drop column embedding_new .*view seen depends on .*; drop that first"):
        new.drop()
    assert call(sql, OLD_QUERY, NEW_QUERY)[0]
    sql.execute("DROP VIEW seen")
    new.drop()
    assert sql.execute("SELECT to_regproc('kedge_search_docs')").fetchone() == (None,)


def test_the_statements_can_be_had_as_text(sql: psycopg.Connection, stores: Stores,
                                           tmp_path: pathlib.Path) -> None:
    text = fused_search_sql(*stores, name="Find It")
    assert text.startswith('CREATE OR REPLACE FUNCTION "public"."Find It"(')
    sql.execute(text)
    found = sql.execute('SELECT id FROM "Find It"(NULL, %s, 3)', [str(NEW_QUERY.tolist())]).fetchall()
    assert [one for one, in found] == np.argsort(-cosines(NEW_QUERY, NEW_ROWS))[:3].tolist()


def test_a_migration_installs_it_when_asked(sql: psycopg.Connection, stores: Stores,
                                            tmp_path: pathlib.Path) -> None:
    old, new = stores
    migration: Any = types.SimpleNamespace(place=old, old=old, new=new)
    assert not fused.sql(migration)["installed"]
    assert sql.execute("SELECT to_regproc('kedge_search_docs')").fetchone() == (None,)
    assert fused.sql(migration, install=True)["installed"]
    assert len(call(sql, OLD_QUERY, NEW_QUERY)[0]) == 10
    migration.place = migration.old = migration.new = open_store(f"npy:{tmp_path}/docs.npy")
    with pytest.raises(UsageError, match="an SQL function is for PostgreSQL"):
        fused.sql(migration)
