# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as a store: columns and indexes that are made, switched and dropped, while others use the table."""
import threading

import numpy as np
import psycopg
import pytest
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores import postgres_index, postgres_link, postgres_lock
from kedge.migrate.stores.postgresql import PostgresStore
from postgres_tables import ROWS, WIDTH, columns, everything, fill, link_of, ones, rows_of, value
from require import of_kind, require_errors


def test_create_marks_its_owner_and_refuses_others(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    new.create(docs, WIDTH + 4, "one")
    with pytest.raises(Error, match="docs.embedding_new exists and is not this migration's"):
        new.create(docs, WIDTH + 4, "two")
    with pytest.raises(Error, match=f"holds vectors of {WIDTH + 4} values, made by this migration; it now asks for 9"):
        new.create(docs, 9, "one")
    sql.execute("ALTER TABLE docs ADD embedding_mine vector(3)")
    with pytest.raises(Error, match="embedding_mine exists and is not this migration's"):
        docs.beside("_mine").create(docs, 3, "one")
    assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new", "embedding_mine"]


def test_two_migrations_at_once_make_one_column(docs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = docs.beside("_new"), docs.beside("_new")
    monkeypatch.setattr(second, "_find", lambda: None)  # as it was when the second one looked
    first.create(docs, 4, "one")
    with pytest.raises(Error, match="not this migration's"):
        second.create(docs, 4, "two")
    assert first.describe().owner == "one"


def test_limits_of_pgvector(docs: Store, sql: psycopg.Connection) -> None:
    new = docs.beside("_new")
    with pytest.raises(Error, match="pgvector keeps a vector of at most 16000 values; the new vectors have 20000"):
        new.create(docs, 20000, "one")
    sql.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    with pytest.raises(Error, match="pgvector indexes vectors of at most 4000 values; the new vectors have 5000"):
        new.create(docs, 5000, "one")
    assert "embedding_new" not in columns(sql)


def test_finish_makes_the_same_indexes(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("""CREATE INDEX plain ON docs USING hnsw (embedding vector_ip_ops) WITH (m = 8, ef_construction = 30);
                   CREATE INDEX cast_one ON docs USING hnsw ((embedding::halfvec(12)) halfvec_l2_ops)
                   WHERE embedding IS NOT NULL AND body <> 'embedding (12)';
                   CREATE INDEX lists ON docs USING ivfflat (embedding vector_cosine_ops) WITH (lists = 3);
                   CREATE INDEX other ON docs (body)""")
    new.write(list(range(ROWS)), rows_of(ROWS, WIDTH + 4))
    new.finish()
    new.finish()
    docs.switch(new, docs.beside("_old"))
    docs.finish()  # all there, under other names
    docs.switch(docs.beside("_old"), new)
    built: dict[str, str] = dict(sql.execute("SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE '%_new'"))
    assert {name: text.split(" USING ")[1] for name, text in built.items()} == {
        "plain_new": "hnsw (embedding_new vector_ip_ops) WITH (m='8', ef_construction='30')",
        "cast_one_new": "hnsw (((embedding_new)::halfvec(16)) halfvec_l2_ops) WHERE ((embedding_new IS NOT NULL) AND "
                        "(body <> 'embedding (12)'::text))",
        "lists_new": "ivfflat (embedding_new vector_cosine_ops) WITH (lists='3')"}


def test_finish_makes_an_index_again_that_a_crash_left(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("CREATE INDEX plain ON docs USING hnsw (embedding vector_l2_ops)")
    new.finish()
    sql.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'plain_new'::regclass")
    before = sql.execute("SELECT 'plain_new'::regclass::oid").fetchone()
    new.finish()
    after = sql.execute("SELECT 'plain_new'::regclass::oid").fetchone()
    assert after != before
    assert sql.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'plain_new'::regclass").fetchone() == (True,)


def test_names_that_need_quotes(sql: psycopg.Connection, address: str) -> None:
    sql.execute('CREATE SCHEMA "My Schema"')
    fill(sql, range(ROWS), rows_of(), table='"My Schema"."The.Docs"')
    sql.execute("""ALTER TABLE "My Schema"."The.Docs" RENAME embedding TO "vector";
                   ALTER TABLE "My Schema"."The.Docs" RENAME id TO "Id {}";
                   CREATE INDEX ON "My Schema"."The.Docs" USING hnsw (("vector"::vector(12)) vector_l2_ops)""")
    store = open_store(address + "&table=%22My Schema%22.%22The.Docs%22&text=body")
    new = store.beside(' {New} "x"')
    new.create(store, 3, "o'ne")
    new.write(list(range(ROWS)), rows_of(ROWS, 3))
    new.finish()
    again = of_kind(PostgresStore, open_store(new.address))
    assert (again.describe().rows, again.describe().owner, again.metric()) == (ROWS, "o'ne", "euclidean")
    kept = store.beside("_old")
    store.switch(new, kept)
    assert store.describe().width == 3 and kept.describe().width == WIDTH
    assert of_kind(PostgresStore, open_store(address + "&table=My Schema.The")).at.table == ("My Schema", "The")
    with pytest.raises(Missing, match="there is no table My Schema.The in this database"):
        open_store(address + "&table=My Schema.The").describe()
    with pytest.raises(UsageError, match="the name 'a%b' has a % in it"):
        open_store(address + "&table=%22My Schema%22.%22The.Docs%22&column=a%25b").describe()


def test_switch_and_back(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    new.write(list(range(ROWS)), rows_of(ROWS, WIDTH + 4))
    sql.execute("CREATE VIEW seen AS SELECT id, embedding FROM docs")
    kept = docs.beside("_old")
    for _ in range(2):
        docs.switch(new, kept)
        assert columns(sql) == ["id", "body", "changed", "embedding_old", "embedding"]
        assert docs.describe().width == WIDTH + 4 and docs.describe().owner == "one"
    assert open_store(docs.address.replace("&column=embedding", "")).describe().width == WIDTH + 4
    for _ in range(2):
        docs.switch(kept, new)
        assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new"]
    assert np.array_equal(everything(docs).vectors, rows_of())
    assert sql.execute("SELECT count(embedding) FROM seen").fetchone() == (ROWS,)
    new.drop()
    new.drop()
    assert columns(sql) == ["id", "body", "changed", "embedding"]
    with pytest.raises(Error, match="neither of the two exist; nothing was changed"):
        docs.switch(new, kept)
    with pytest.raises(Error, match='to do it by hand: ALTER TABLE "public"."docs" DROP COLUMN "embedding"'):
        docs.drop()


def test_rows_that_come_after_a_switch_need_no_old_vector(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("ALTER TABLE docs ALTER embedding SET NOT NULL")
    docs.switch(new, docs.beside("_old"))
    sql.execute("INSERT INTO docs (id, embedding) VALUES (9999, %s)", [str([1.0] * (WIDTH + 4))])


def test_switch_waits_for_others_and_gives_up(docs: Store, new: Store, address: str, sql: psycopg.Connection,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_link, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(postgres_lock, "PAUSES", (.1,))
    kept = docs.beside("_old")
    with psycopg.connect(address) as other:
        other.execute("UPDATE docs SET body = 'mine' WHERE id = 1")
        require_errors("others hold a lock on the table, and it did not become free .*; this step was undone",
                       lambda: docs.switch(new, kept), new.drop, docs.frozen(new).__enter__,
                       lambda: docs.beside("_b").create(docs, 3, "one"))
        other.commit()
    assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new"]
    docs.switch(new, kept)


def test_nothing_arrives_between_the_last_pass_and_the_switch(docs: Store, new: Store, address: str,
                                                              sql: psycopg.Connection) -> None:
    kept = docs.beside("_old")
    stop = threading.Event()
    written: list[int] = []

    def insert() -> None:
        with psycopg.connect(address, autocommit=True) as other:
            while not stop.is_set():
                one = ROWS + len(written)
                # By position: the old column comes first, whatever it is called when the row arrives.
                other.execute("INSERT INTO docs VALUES (%s, 'x', now(), %s)", [one, str([1.0] * WIDTH)])
                written.append(one)

    def fill_in() -> None:
        there = set(everything(new).ids)
        for batch in docs.read(size=16):
            missing = [n for n, one in enumerate(batch.ids) if one not in there]
            new.write([batch.ids[n] for n in missing], ones(len(missing), WIDTH + 4))

    writer = threading.Thread(target=insert)
    writer.start()
    try:
        fill_in()
        with docs.frozen(new, kept):
            held = len(written)
            fill_in()
            docs.switch(new, kept)
            assert len(written) <= held + 1  # one was on its way
    finally:
        stop.set()
        writer.join()
    assert sql.execute("SELECT count(embedding_old) FROM docs").fetchone() == (ROWS + len(written),)
    assert all(one >= ROWS + held for one, in sql.execute("SELECT id FROM docs WHERE embedding IS NULL"))
    assert link_of(new) is not link_of(docs) and link_of(kept) is not link_of(docs)


def test_frozen_is_all_or_nothing(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    kept = docs.beside("_old")
    with pytest.raises(RuntimeError), docs.frozen(new, kept):
        new.write([1], ones(1, WIDTH + 4))
        docs.switch(new, kept)
        raise RuntimeError
    assert columns(sql)[-1] == "embedding_new" and new.describe().rows == 0


@pytest.mark.parametrize("index, least, transactions", [("hnsw (embedding vector_l2_ops)", 0.6, 5),
                                                        ("btree (body)", 0, 1)])
def test_a_slow_index_on_the_old_vectors_sees_few_of_the_rows(sql: psycopg.Connection, address: str, index: str,
                                                              least: float, transactions: int) -> None:
    """Five rows fill a page, so without turns none would stay on its own."""
    fill(sql, range(200), rows_of(200, 384))
    sql.execute(f"CREATE INDEX near ON docs USING {index}")
    old = open_store(f"{address}&table=docs")
    new = old.beside("_new")
    new.create(old, 384, "one")
    given = rows_of(200, 384, 1)
    new.write([*range(200), 999], np.vstack([given, given[:1]]))
    found = everything(new)
    assert found.ids == list(range(200)) and np.array_equal(found.vectors, given)
    assert np.array_equal(everything(old).vectors, rows_of(200, 384))
    assert sql.execute("SELECT count(DISTINCT xmin::text) FROM docs").fetchone() == (transactions,)
    link_of(new).connect().execute("SELECT pg_stat_force_next_flush()")
    stayed = value(sql, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'docs'")
    assert stayed >= least * 200


def test_beside_a_slow_index_a_transaction_keeps_few_rows_from_their_writers(sql: psycopg.Connection,
                                                                             address: str) -> None:
    fill(sql, range(1500), rows_of(1500))
    sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_l2_ops)")
    old = open_store(f"{address}&table=docs")
    new = old.beside("_new")
    new.create(old, WIDTH, "one")
    new.write(range(1500), rows_of(1500, WIDTH, 1))
    assert np.array_equal(everything(new).vectors, rows_of(1500, WIDTH, 1))
    written = "SELECT max(rows) FROM (SELECT count(*) AS rows FROM docs GROUP BY xmin::text) transactions"
    assert value(sql, written) <= postgres_index.TURN_ROWS < 1500 / postgres_index.TURNS
    for store in (old, new):
        store.close()
