# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with PostgreSQL ends in a sentence, and leaves the table as it was or a whole batch further."""
import multiprocessing
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores.postgresql import PostgresStore
from postgres_tables import link_of, ones, value
from require import number, of_kind, require_errors, vectors_of

pytestmark = pytest.mark.long

ROWS, WIDTH, BATCH, KILLS = 400, 8, 16, 30


@pytest.fixture
def docs(sql: psycopg.Connection, address: str) -> Iterator[Store]:
    """A table whose vectors tell their ids, and its store."""
    sql.execute(f"""GRANT USAGE ON SCHEMA public TO public;
                    CREATE TABLE docs (id int PRIMARY KEY, changed timestamptz DEFAULT now(),
                                       embedding vector({WIDTH}));
                    INSERT INTO docs SELECT i, now(), array_fill(i::real, ARRAY[{WIDTH}])::vector
                    FROM generate_series(1, {ROWS}) i""")
    store = open_store(f"{address}&table=docs&column=embedding")
    yield store
    store.close()


@pytest.fixture
def new(docs: Store) -> Iterator[Store]:
    store = docs.beside("_new")
    store.create(docs, WIDTH, "one")
    yield store
    store.close()


def table_as_text(sql: psycopg.Connection) -> tuple[Any, ...] | None:
    """All there is to see of the table: its columns, their comments, its rows, its indexes."""
    return sql.execute("""SELECT (SELECT array_agg(attname || coalesce(col_description(attrelid, attnum), '') ORDER BY
                          attnum) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND NOT attisdropped)::text,
                          (SELECT array_agg(d::text ORDER BY id) FROM docs d)::text,
                          (SELECT array_agg(indexdef ORDER BY 1) FROM pg_indexes WHERE tablename = 'docs')::text
                       """).fetchone()


def user(sql: psycopg.Connection, address: str, name: str, *grants: str) -> str:
    """The address for a user with these rights alone."""
    sql.execute(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN")
    for grant in grants:
        sql.execute(f"GRANT {grant} TO {name}")
    return address.replace("//postgres:@", f"//{name}@")


def test_a_user_who_may_only_read(sql: psycopg.Connection, address: str, docs: Store) -> None:
    reader = user(sql, address, "reader", "SELECT ON docs")
    before = table_as_text(sql)
    old = open_store(f"{reader}&table=docs&column=embedding")
    assert old.describe().rows == ROWS and sum(len(batch) for batch in old.read()) == ROWS
    require_errors("has no right to do this .*; nothing was changed; connect as the owner",
                   lambda: old.beside("_new").create(old, 3, "one"), lambda: old.write([1], ones(1, WIDTH)),
                   old.frozen().__enter__)
    assert table_as_text(sql) == before
    docs.beside("_new").create(docs, WIDTH, "one")
    before = table_as_text(sql)
    new_docs = old.beside("_new")
    for step in (new_docs.drop, new_docs.finish, lambda: old.switch(new_docs, old.beside("_old"))):
        sql.execute("CREATE INDEX IF NOT EXISTS docs_index ON docs USING hnsw (embedding vector_l2_ops)")
        before = table_as_text(sql)
        with pytest.raises(Error, match="has no right to do this"):
            step()
    assert table_as_text(sql) == before


def test_a_user_who_may_not_even_read(sql: psycopg.Connection, address: str, docs: Store) -> None:
    nobody = open_store(user(sql, address, "nobody") + "&table=docs&column=embedding")
    with pytest.raises(Error, match="docs.embedding: the user of the address has no right .*permission denied"):
        nobody.describe()


def test_a_connection_that_may_only_read(sql: psycopg.Connection, address: str, docs: Store) -> None:
    before = table_as_text(sql)
    old = open_store(f"{address}&table=docs&column=embedding&options=-c%20default_transaction_read_only%3Don")
    require_errors("this connection may only read",
                   lambda: old.beside("_new").create(old, 3, "one"), lambda: old.write([1], ones(1, WIDTH)))
    assert table_as_text(sql) == before


def test_what_is_missing(sql: psycopg.Connection, address: str, docs: Store) -> None:
    for query, says in (("table=no", "there is no table no in this database, or this user cannot see it"),
                        ("table=docs&column=no", "the table has no column 'no'"),
                        ("table=docs&text=no", "no column 'no'; it has id, changed, embedding"),
                        ("table=docs&id=no", "no column 'no'; it has id, changed, embedding")):
        with pytest.raises(Missing, match=says):
            open_store(f"{address}&{query}").describe()
    for query, says in (("table=docs&column=id", "docs.id is of type integer; expected vector or halfvec"),
                        ("table=docs&id=changed", "there is no unique index on 'changed'"),
                        ("table=pg_stat_activity", "pg_stat_activity is not a table")):
        with pytest.raises(UsageError, match=says):
            open_store(f"{address}&{query}").describe()
    sql.execute("ALTER TABLE docs ADD title vector(3)")
    with pytest.raises(UsageError, match="the table has the vector columns title, embedding; add &column=NAME"):
        open_store(f"{address}&table=docs").describe()
    sql.execute("ALTER TABLE docs DROP CONSTRAINT docs_pkey")
    with pytest.raises(UsageError, match="no primary key; if a column is unique, or some together, CREATE UNIQUE"):
        open_store(f"{address}&table=docs&column=embedding").describe()
    sql.execute("DROP TABLE docs")
    with pytest.raises(Missing):
        list(docs.read())


def test_a_database_without_the_extension(sql: psycopg.Connection, address: str) -> None:
    sql.execute("DROP DATABASE IF EXISTS bare")
    sql.execute("CREATE DATABASE bare")
    with pytest.raises(Missing, match="the database has no pgvector; install it on the server and run"):
        open_store(address.replace("/postgres?", "/bare?") + "&table=docs").describe()
    sql.execute("DROP DATABASE bare")


def test_an_extension_in_a_schema_of_its_own(sql: psycopg.Connection, address: str, docs: Store) -> None:
    sql.execute("""DROP EXTENSION vector CASCADE; CREATE SCHEMA tools; CREATE EXTENSION vector SCHEMA tools;
                   ALTER TABLE docs ADD embedding tools.vector(2); UPDATE docs SET embedding = '[1,0]';
                   CREATE INDEX near ON docs USING hnsw (embedding tools.vector_ip_ops)""")
    old = open_store(f"{address}&table=docs")
    new_docs = old.beside("_new")
    new_docs.create(old, 2, "one")
    rows: np.ndarray = np.eye(2)
    new_docs.write([1, 2], rows)
    new_docs.finish()
    assert new_docs.search(np.array([1.0, 0.5]), 2)[0] == [[1, 2]]
    assert of_kind(PostgresStore, new_docs).metric() == "inner"
    sql.execute("DROP EXTENSION vector CASCADE; DROP SCHEMA tools")


def test_no_server_and_no_password_in_the_sentence() -> None:
    with pytest.raises(Error, match="docs.embedding: cannot connect to PostgreSQL: .*; check that the") as caught:
        open_store("postgresql://me:secret@127.0.0.1:9/db?table=docs&column=embedding").describe()
    assert "secret" not in str(caught.value)


def test_a_wrong_width_and_values_that_are_no_vectors(sql: psycopg.Connection, new: Store) -> None:
    before = table_as_text(sql)
    for rows in (ones(2, WIDTH + 1), ones(3, WIDTH), ones(2)):
        with pytest.raises(Error, match=f"docs.embedding_new takes 2 vectors of {WIDTH} values for 2 ids; got"):
            new.write([1, 2], rows)
    for bad in (np.nan, np.inf):
        rows = ones(2, WIDTH)
        rows[1, 3] = bad
        with pytest.raises(Error, match="PostgreSQL refused a value: .* not allowed in vector; this step was undone"):
            new.write([1, 2], rows)
    with pytest.raises(UsageError, match="the ids of this table are numbers"):
        new.write(["a"], ones(1, WIDTH))
    assert table_as_text(sql) == before


def test_a_full_disk(sql: psycopg.Connection, new: Store) -> None:
    """The server raises what it raises when a file does not grow, at a row in the middle of a batch."""
    sql.execute("""CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 20 THEN
                   RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END IF; RETURN NEW; END $$;
                   CREATE TRIGGER fill BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION fill();
                   ALTER TABLE docs ENABLE ALWAYS TRIGGER fill""")
    before = table_as_text(sql)
    with pytest.raises(Error, match="the disk of the server is full .*could not extend file.*; this step was undone"):
        new.write(list(range(1, 41)), ones(40, WIDTH))
    assert table_as_text(sql) == before
    sql.execute("DROP TRIGGER fill ON docs")
    new.write(list(range(1, 41)), ones(40, WIDTH))
    assert new.describe().rows == 40


def cut(sql: psycopg.Connection, store: Store) -> None:
    """Ends the store's session on the server, as a restart or a broken line would."""
    process = link_of(store).connect().info.backend_pid
    sql.execute("SELECT pg_terminate_backend(%s, 5000)", [process])


def test_a_connection_lost_while_the_table_is_locked(sql: psycopg.Connection, docs: Store, new: Store) -> None:
    before = table_as_text(sql)
    kept = docs.beside("_old")
    with pytest.raises(Error, match="the connection was lost while the table was locked; nothing was changed"), \
            docs.frozen(new, kept):
        new.write([1], ones(1, WIDTH))
        docs.switch(new, kept)
        cut(sql, docs)
        with pytest.raises(Error, match="was lost"):
            new.write([2], ones(1, WIDTH))
        new.write([3], ones(1, WIDTH))  # must not go to a new connection, without the lock
    assert table_as_text(sql) == before
    with docs.frozen(new, kept):
        docs.switch(new, kept)
    assert sql.execute("SELECT count(embedding_old) FROM docs").fetchone() == (ROWS,)


def migrate(address: str) -> None:
    """Moves the vectors and switches, or switches back if that is done."""
    old = open_store(f"{address}&application_name=killed&table=docs&column=embedding")
    new, kept = old.beside("_new"), old.beside("_old")
    if "embedding_old" in vector_columns(link_of(old).connect()):
        old.switch(kept, new)
        return
    new.create(old, WIDTH, "one")
    for batch in old.read(size=BATCH):
        new.write(batch.ids, vectors_of(batch) + 1)
    new.finish()
    with old.frozen(new, kept):
        old.switch(new, kept)


def run(address: str, sql: psycopg.Connection, seconds: float | None = None) -> int | None:
    """In a process of its own, killed after so many seconds; the server goes on until its statement is done."""
    process = multiprocessing.get_context("fork").Process(target=migrate, args=(address,))
    process.start()
    while seconds is not None and process.is_alive() and not sessions(sql):
        time.sleep(0.002)
    process.join(seconds)
    process.kill()
    process.join()
    while sessions(sql):
        time.sleep(0.01)
    return process.exitcode


@pytest.mark.parametrize("index", ["btree (embedding)", "hnsw (embedding vector_l2_ops)"])
def test_killed_at_thirty_moments(sql: psycopg.Connection, address: str, docs: Store, index: str) -> None:
    sql.execute(f"CREATE INDEX near ON docs USING {index}")
    step = 1 if "hnsw" in index else BATCH  # to spare an HNSW index, a batch is a few transactions
    expected = np.repeat(np.arange(1, ROWS + 1, dtype=np.float32)[:, None], WIDTH, axis=1)
    new, kept = docs.beside("_new"), docs.beside("_old")
    began = time.monotonic()
    assert run(address, sql) == 0
    seconds = time.monotonic() - began  # on this machine, with what else it does
    docs.switch(kept, new)
    new.drop()
    chance, filled = random.Random(7), set()
    for _ in range(KILLS):
        run(address, sql, chance.random() * seconds)
        names = vector_columns(sql)
        assert names in (["embedding"], ["embedding", "embedding_new"], ["embedding", "embedding_old"])
        switched = "embedding_old" in names
        found = list((kept if switched else docs).read())
        assert np.array_equal(np.concatenate([vectors_of(batch) for batch in found]), expected)
        if len(names) > 1:
            new_docs = docs if switched else new
            rows = [(number(one), row) for batch in new_docs.read() for one, row in zip(batch.ids, vectors_of(batch))]
            assert len(rows) % step == 0 and all((row == one + 1).all() for one, row in rows)
            assert new_docs.describe().owner == "one" and (not switched or len(rows) == ROWS)
            filled.add((switched, len(rows)))
        if not switched:
            new.drop()
    assert len(filled) > 3  # or the moments were all the same
    if switched:
        docs.switch(kept, new)
    assert run(address, sql) == 0
    assert docs.describe().rows == ROWS and (docs.describe().index or "").startswith(f"near_new USING {index[:4]}")


def vector_columns(sql: psycopg.Connection) -> list[str]:
    return [name for name, in sql.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'docs'::regclass AND "
                                          "attname LIKE 'embedding%' AND NOT attisdropped ORDER BY attname")]


def sessions(sql: psycopg.Connection) -> int:
    return int(value(sql, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'killed'"))
