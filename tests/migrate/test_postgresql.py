# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as a store: what is written is what is read, in any type of id."""
import datetime
import uuid
from typing import Any

import contract
import numpy as np
import psycopg
import pytest
from kedge._address import TableAddress
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Store, open_store
from postgres_tables import ROWS, WIDTH, everything, fill, ones, rows_of, value
from require import texts_of, vectors_of


class TestNumbers(contract.StoreContract):
    kind, vector_type, index = "integer", "vector", "vector_l2_ops"

    def made_id(self, number: int) -> int | str:
        return number

    @pytest.fixture
    def filled(self, sql: psycopg.Connection, address: str) -> contract.Filled:
        ids = [self.made_id(3 * n) for n in np.random.default_rng(7).permutation(contract.ROWS).tolist()]
        vectors = contract.unit_rows(contract.ROWS, contract.OLD_WIDTH)
        fill(sql, ids, vectors, self.kind, self.vector_type)
        sql.execute(f"CREATE INDEX docs_index ON docs USING hnsw (embedding {self.index})")
        return contract.Filled(open_store(f"{address}&table=docs&column=embedding&text=body"), ids, vectors,
                               [f"text {one}" for one in ids], self.made_id(10**6))


class TestWords(TestNumbers):
    kind, index = "text", "vector_cosine_ops"

    def made_id(self, number: int) -> int | str:
        return f"döc '{number}'"


class TestHalf(TestNumbers):
    kind, vector_type, index = "uuid", "halfvec", "halfvec_ip_ops"

    def made_id(self, number: int) -> int | str:
        return str(uuid.UUID(int=number * 3**60))


IDS: dict[str, list[Any]] = {
    "integer": list(range(ROWS)),
    "bigint": [n * 2**40 - 2**45 for n in range(ROWS)],
    "text": [f"döc '{n:03}'\\\n\"%s" for n in range(ROWS)],
    "uuid": [str(uuid.UUID(int=n * 3**70)) for n in range(ROWS)],
    "numeric": [f"{n}.50" for n in range(ROWS)],
    "char(8)": [f"d{n}" for n in range(ROWS)],
}


@pytest.mark.parametrize("vector_type", ["vector", "halfvec"])
@pytest.mark.parametrize("kind", IDS)
def test_what_is_written_is_read_bit_for_bit(sql: psycopg.Connection, address: str, kind: str,
                                             vector_type: str) -> None:
    exact = np.float16 if vector_type == "halfvec" else np.float32
    given = rows_of().astype(exact).astype(np.float32)
    fill(sql, IDS[kind], given, kind, vector_type)
    sql.execute("UPDATE docs SET embedding = NULL WHERE body = (SELECT max(body) FROM docs)")
    with sql.cursor() as cursor:
        wanted = [str(one) if not isinstance(IDS[kind][0], int) else one for one, in
                  cursor.execute("SELECT id FROM docs WHERE embedding IS NOT NULL ORDER BY id")]
    wanted = [one.rstrip() if kind == "char(8)" else one for one in wanted]
    old = open_store(f"{address}&table=docs&text=body")
    whole = everything(old, texts=True, size=7)
    assert whole.ids == wanted and len(wanted) == ROWS - 1
    assert np.array_equal(whole.vectors, given[[IDS[kind].index(one) for one in wanted]])
    assert whole.texts == [f"text {one}" for one in wanted]

    new = old.beside("_new")
    new.create(old, 5, "one")
    new_rows = rows_of(ROWS - 1, 5, 1).astype(exact).astype(np.float32)
    for first in range(0, ROWS - 1, 9):
        new.write(wanted[first:first + 9], new_rows[first:first + 9])
    again = everything(new, size=11)
    assert again.ids == wanted and np.array_equal(again.vectors, new_rows)
    assert np.array_equal(everything(old).vectors, whole.vectors)
    assert everything(new, after=wanted[20], size=11).ids == wanted[21:]
    assert sorted(everything(new, ids=wanted[3:9] + wanted[30:31], size=2).ids) == sorted(wanted[3:9] + wanted[30:31])
    assert new.describe().kind == ("float16" if vector_type == "halfvec" else "float32")
    new.write(wanted[:4], None)
    assert everything(new).ids == wanted[4:]


def test_no_vectors_asked_for_and_none_there(docs: Store, new: Store) -> None:
    batch, = docs.read(vectors=False, texts=True)
    assert batch.vectors is None and len(batch) == len(texts_of(batch)) == ROWS
    assert list(new.read()) == [] and list(docs.read(after=ROWS)) == [] and list(docs.read(ids=[])) == []
    assert list(docs.read(ids=[10**12])) == []
    new.write([], ones(0, WIDTH + 4))


def test_pages_of_the_size_of_the_table_end(docs: Store) -> None:
    assert [len(batch) for batch in docs.read(size=ROWS)] == [ROWS]
    assert [len(batch) for batch in docs.read(size=ROWS // 2)] == [ROWS // 2] * 2


def test_reading_goes_on_while_another_connection_writes(docs: Store, new: Store) -> None:
    seen = []
    for batch in docs.read(size=10):
        new.write(batch.ids, np.hstack([vectors_of(batch), vectors_of(batch)[:, :4]]))
        seen += batch.ids
    assert seen == list(range(ROWS)) and new.describe().rows == ROWS


def test_rows_deleted_meanwhile_are_no_error(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("DELETE FROM docs WHERE id = 3")
    new.write([2, 3, 4], rows_of(3, WIDTH + 4))
    assert everything(new).ids == [2, 4]
    assert value(sql, "SELECT count(*) FROM docs") == ROWS - 1


def test_large_writes_go_in_pieces_but_in_one_transaction(docs: Store, new: Store, sql: psycopg.Connection,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kedge.migrate.stores.postgresql.WRITE_BYTES", 300)
    rows = rows_of(ROWS, WIDTH + 4)
    new.write(list(range(ROWS)), rows)
    assert np.array_equal(everything(new).vectors, rows)
    assert value(sql, "SELECT count(DISTINCT xmin::text) FROM docs") == 1


def test_describe(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("CREATE INDEX docs_index ON docs USING hnsw (embedding vector_ip_ops) WITH (m = 8)")
    found = docs.describe()
    assert (found.rows, found.width, found.kind, found.metric) == (ROWS, WIDTH, "float32", "inner")
    assert found.texts and found.owner is None and found.atomic is None
    assert found.index == "docs_index USING hnsw (embedding vector_ip_ops) WITH (m='8')"
    empty = new.describe()
    assert (empty.rows, empty.width, empty.owner, empty.index, empty.metric) == (0, WIDTH + 4, "one", None, "inner")


def test_a_column_without_a_width(sql: psycopg.Connection, address: str) -> None:
    sql.execute("CREATE TABLE docs (id int PRIMARY KEY, embedding vector); INSERT INTO docs VALUES (1, '[1,2,3]')")
    store = open_store(f"{address}&table=docs")
    assert store.describe().width == 3 and everything(store).vectors.tolist() == [[1, 2, 3]]
    store.write([1], ones(1, 2))
    assert store.describe().width == 2
    sql.execute("INSERT INTO docs VALUES (2, '[1,2,3]')")
    with pytest.raises(Error, match="docs.embedding holds vectors of 2 and 3 values; expected one width"):
        everything(store)


def test_changed_rows_and_transactions_still_open(sql: psycopg.Connection, address: str, docs: Store) -> None:
    store = open_store(f"{address}&table=docs&column=embedding&changed=changed")
    with psycopg.connect(address) as other:
        other.execute("SELECT 1")
        sql.execute("UPDATE docs SET changed = clock_timestamp() WHERE id = 5")
        newest = store.newest()
        assert isinstance(newest, str)
        other.execute("UPDATE docs SET changed = now() WHERE id = 7")  # begun before, committed after
    found = everything(store, changed=newest).ids
    assert 7 in found and 5 in found
    sql.execute("UPDATE docs SET changed = 'infinity' WHERE id = 9")
    assert everything(store, changed=datetime.datetime(2300, 1, 1)).ids == [9]
    assert docs.newest() is None
    with pytest.raises(UsageError, match="names no column that says when rows changed; add &changed=NAME"):
        list(docs.read(changed=newest))


def test_numbers_may_say_what_changed(sql: psycopg.Connection, address: str) -> None:
    fill(sql, range(ROWS), rows_of())
    sql.execute("ALTER TABLE docs ADD version bigint; UPDATE docs SET version = id")
    store = open_store(f"{address}&table=docs&changed=version")
    assert store.newest() == str(ROWS - 1)
    assert everything(store, changed=ROWS - 3).ids == [ROWS - 3, ROWS - 2, ROWS - 1]


def test_search_by_the_metric_of_the_index(docs: Store, sql: psycopg.Connection) -> None:
    queries = rows_of(3, seed=5)
    rows = rows_of() * np.linspace(0.2, 3, ROWS, dtype=np.float32)[:, None]
    docs.write(list(range(ROWS)), rows)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distances = np.linalg.norm(queries[:, None] - rows[None], axis=2)
    for operators, expected in (("vector_cosine_ops", queries @ unit.T), ("vector_ip_ops", queries @ rows.T),
                                ("vector_l2_ops", -distances)):
        sql.execute(f"DROP INDEX IF EXISTS found; CREATE INDEX found ON docs USING hnsw (embedding {operators})")
        sql.execute("ALTER DATABASE postgres SET enable_seqscan = off")
        docs.close()
        ids, scores = docs.search(queries, ROWS + 5)
        sql.execute("ALTER DATABASE postgres RESET enable_seqscan")
        assert [len(found) for found in ids] == [ROWS] * 3
        assert np.isneginf(scores[:, ROWS:]).all()
        best = np.argsort(-expected, axis=1, kind="stable")
        assert np.allclose(scores[:, :ROWS], np.take_along_axis(expected, best, axis=1), atol=1e-5)
        assert [found[:5] for found in ids] == best[:, :5].tolist()
    with pytest.raises(UsageError, match=f"holds vectors of {WIDTH} values; got a query of 3"):
        docs.search(ones(3), 2)


def test_addresses() -> None:
    at = TableAddress.parse("postgresql://me:p%40ss@host:5433/db?sslmode=require&table=a.b&column=c%26d&host=/run/x&id=i")
    assert at.conninfo == "postgresql://me:p%40ss@host:5433/db?sslmode=require&host=/run/x"
    assert (at.table, at.column, at.id, at.text) == (("a", "b"), "c&d", "i", None)
    assert TableAddress.parse(str(at)) == at
    for wrong, says in (("", "names no table"), ("?table=", "gives 'table' no value"), ("?table=a.b.c", "dots"),
                        ("?table=a&table=b", "gives 'table' twice")):
        with pytest.raises(UsageError, match=says):
            open_store(f"postgresql://host/db{wrong}")
    with pytest.raises(UsageError, match="does not understand the address: invalid URI query parameter"):
        open_store("postgresql://host/db?table=docs&colum=embedding").describe()
