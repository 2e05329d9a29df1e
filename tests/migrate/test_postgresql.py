# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as a store: what is written is what is read, and nothing that goes wrong leaves anything half-done."""
import datetime
import threading
import uuid

import numpy as np
import psycopg
import pytest
from postgres_server import server

from kedge.migrate.errors import Error, UsageError
from kedge.migrate.store import Missing, Rows, open_store
from kedge.migrate.stores import postgres_link
from kedge.migrate.stores.postgres_link import Address

ROWS, WIDTH = 60, 12


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres") / "data") as made:
        yield made


@pytest.fixture
def sql(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public; CREATE EXTENSION vector")
        yield connection


def rows_of(count=ROWS, width=WIDTH, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fill(sql, ids, vectors, kind="integer", type="vector", table="docs"):
    sql.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, body text, changed timestamptz DEFAULT now(), "
                f"embedding {type}({vectors.shape[1]}))")
    with sql.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} (id, body, embedding) VALUES (%s, %s, %s)",
                           [(one, f"text {one}", str(row.tolist())) for one, row in zip(ids, vectors)])


@pytest.fixture
def docs(sql, address):
    """A table of numbered documents, and its store."""
    fill(sql, range(ROWS), rows_of())
    store = open_store(f"{address}&table=docs&column=embedding&text=body")
    yield store
    store.close()


@pytest.fixture
def new(docs):
    """An empty column beside the old one."""
    store = docs.beside("_new")
    store.create(docs, WIDTH + 4, "one")
    yield store
    store.close()


def everything(store, **asked):
    batches = list(store.read(**asked))
    return Rows([one for batch in batches for one in batch.ids],
                np.concatenate([batch.vectors for batch in batches]) if batches else None,
                [text for batch in batches for text in batch.texts or []])


def columns(sql, table="docs"):
    return [name for name, in sql.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND "
                                          "attnum > 0 AND NOT attisdropped ORDER BY attnum", [table])]


IDS = {
    "integer": list(range(ROWS)),
    "bigint": [n * 2**40 - 2**45 for n in range(ROWS)],
    "text": [f"döc '{n:03}'\\\n\"%s" for n in range(ROWS)],
    "uuid": [str(uuid.UUID(int=n * 3**70)) for n in range(ROWS)],
    "numeric": [f"{n}.50" for n in range(ROWS)],
    "char(8)": [f"d{n}" for n in range(ROWS)],
}


@pytest.mark.parametrize("type", ["vector", "halfvec"])
@pytest.mark.parametrize("kind", IDS)
def test_what_is_written_is_read_bit_for_bit(sql, address, kind, type):
    exact = np.float16 if type == "halfvec" else np.float32
    given = rows_of().astype(exact).astype(np.float32)
    fill(sql, IDS[kind], given, kind, type)
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

    made = old.beside("_new")
    made.create(old, 5, "one")
    new_rows = rows_of(ROWS - 1, 5, 1).astype(exact).astype(np.float32)
    for first in range(0, ROWS - 1, 9):
        made.write(wanted[first:first + 9], new_rows[first:first + 9])
    again = everything(made, size=11)
    assert again.ids == wanted and np.array_equal(again.vectors, new_rows)
    assert np.array_equal(everything(old).vectors, whole.vectors)
    assert everything(made, after=wanted[20], size=11).ids == wanted[21:]
    assert sorted(everything(made, ids=wanted[3:9] + wanted[30:31], size=2).ids) == sorted(wanted[3:9] + wanted[30:31])
    assert made.describe().kind == ("float16" if type == "halfvec" else "float32")
    made.write(wanted[:4], None)
    assert everything(made).ids == wanted[4:]


def test_no_vectors_asked_for_and_none_there(docs, new):
    batch, = docs.read(vectors=False, texts=True)
    assert batch.vectors is None and len(batch) == len(batch.texts) == ROWS
    assert list(new.read()) == [] and list(docs.read(after=ROWS)) == [] and list(docs.read(ids=[])) == []
    assert list(docs.read(ids=[10**12])) == []
    new.write([], np.zeros((0, WIDTH + 4)))


def test_pages_of_the_size_of_the_table_end(docs):
    assert [len(batch) for batch in docs.read(size=ROWS)] == [ROWS]
    assert [len(batch) for batch in docs.read(size=ROWS // 2)] == [ROWS // 2] * 2


def test_reading_goes_on_while_another_connection_writes(docs, new):
    seen = []
    for batch in docs.read(size=10):
        new.write(batch.ids, np.hstack([batch.vectors, batch.vectors[:, :4]]))
        seen += batch.ids
    assert seen == list(range(ROWS)) and new.describe().rows == ROWS


def test_rows_deleted_meanwhile_are_no_error(docs, new, sql):
    sql.execute("DELETE FROM docs WHERE id = 3")
    new.write([2, 3, 4], rows_of(3, WIDTH + 4))
    assert everything(new).ids == [2, 4]
    assert sql.execute("SELECT count(*) FROM docs").fetchone()[0] == ROWS - 1


def test_large_writes_go_in_pieces_but_in_one_transaction(docs, new, sql, monkeypatch):
    monkeypatch.setattr("kedge.migrate.stores.postgresql.WRITE_BYTES", 300)
    rows = rows_of(ROWS, WIDTH + 4)
    new.write(range(ROWS), rows)
    assert np.array_equal(everything(new).vectors, rows)
    assert sql.execute("SELECT count(DISTINCT xmin::text) FROM docs").fetchone()[0] == 1


def test_describe(docs, new, sql):
    sql.execute("CREATE INDEX docs_index ON docs USING hnsw (embedding vector_ip_ops) WITH (m = 8)")
    found = docs.describe()
    assert (found.rows, found.width, found.kind, found.metric) == (ROWS, WIDTH, "float32", "inner")
    assert found.texts and found.owner is None and found.atomic is None
    assert found.index == "docs_index USING hnsw (embedding vector_ip_ops) WITH (m='8')"
    made = new.describe()
    assert (made.rows, made.width, made.owner, made.index, made.metric) == (0, WIDTH + 4, "one", None, "cosine")


def test_a_column_without_a_width(sql, address):
    sql.execute("CREATE TABLE docs (id int PRIMARY KEY, embedding vector); INSERT INTO docs VALUES (1, '[1,2,3]')")
    store = open_store(f"{address}&table=docs")
    assert store.describe().width == 3 and everything(store).vectors.tolist() == [[1, 2, 3]]
    store.write([1], np.ones((1, 2)))
    assert store.describe().width == 2
    sql.execute("INSERT INTO docs VALUES (2, '[1,2,3]')")
    with pytest.raises(Error, match="docs.embedding holds vectors of 2 and 3 values; expected one width"):
        everything(store)


def test_changed_rows_and_transactions_still_open(sql, address, docs):
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


def test_numbers_may_say_what_changed(sql, address):
    fill(sql, range(ROWS), rows_of())
    sql.execute("ALTER TABLE docs ADD version bigint; UPDATE docs SET version = id")
    store = open_store(f"{address}&table=docs&changed=version")
    assert store.newest() == str(ROWS - 1)
    assert everything(store, changed=ROWS - 3).ids == [ROWS - 3, ROWS - 2, ROWS - 1]


TOUCH = """CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN NEW.changed := 'infinity'; RETURN NEW; END $$;
           CREATE TRIGGER touched BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION touch()"""


def test_a_trigger_on_updates_does_not_make_every_row_look_changed(sql, address, docs):
    sql.execute(TOUCH)
    old = open_store(f"{address}&table=docs&column=embedding&changed=changed")
    made = old.beside("_new")
    made.create(old, 4, "one")
    made.write([1, 2], rows_of(2, 4))
    assert everything(old, changed="2300-01-01").ids == []
    sql.execute("UPDATE docs SET body = 'new' WHERE id = 6")
    assert everything(old, changed="2300-01-01").ids == [6]


def test_create_marks_its_owner_and_refuses_others(docs, new, sql):
    new.create(docs, WIDTH + 4, "one")
    with pytest.raises(Error, match="docs.embedding_new exists and is not this migration's"):
        new.create(docs, WIDTH + 4, "two")
    with pytest.raises(Error, match=f"holds vectors of {WIDTH + 4} values, made by this migration; it now asks for 9"):
        new.create(docs, 9, "one")
    sql.execute("ALTER TABLE docs ADD embedding_mine vector(3)")
    with pytest.raises(Error, match="embedding_mine exists and is not this migration's"):
        docs.beside("_mine").create(docs, 3, "one")
    assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new", "embedding_mine"]


def test_two_migrations_at_once_make_one_column(docs, monkeypatch):
    first, second = docs.beside("_new"), docs.beside("_new")
    monkeypatch.setattr(second, "_find", lambda: None)  # as it was when the second one looked
    first.create(docs, 4, "one")
    with pytest.raises(Error, match="not this migration's"):
        second.create(docs, 4, "two")
    assert first.describe().owner == "one"


def test_limits_of_pgvector(docs, sql):
    made = docs.beside("_new")
    with pytest.raises(Error, match="pgvector keeps a vector of at most 16000 values; the new vectors have 20000"):
        made.create(docs, 20000, "one")
    sql.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    with pytest.raises(Error, match="pgvector indexes a vector of at most 2000 values; the new vectors have 3072"):
        made.create(docs, 3072, "one")
    assert "embedding_new" not in columns(sql)


def test_finish_makes_the_same_indexes(docs, new, sql):
    sql.execute("""CREATE INDEX plain ON docs USING hnsw (embedding vector_ip_ops) WITH (m = 8, ef_construction = 30);
                   CREATE INDEX cast_one ON docs USING hnsw ((embedding::halfvec(12)) halfvec_l2_ops)
                   WHERE embedding IS NOT NULL AND body <> 'embedding (12)';
                   CREATE INDEX lists ON docs USING ivfflat (embedding vector_cosine_ops) WITH (lists = 3);
                   CREATE INDEX other ON docs (body)""")
    new.write(range(ROWS), rows_of(ROWS, WIDTH + 4))
    new.finish()
    new.finish()
    made = dict(sql.execute("SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE '%_new'"))
    assert {name: text.split(" USING ")[1] for name, text in made.items()} == {
        "plain_new": "hnsw (embedding_new vector_ip_ops) WITH (m='8', ef_construction='30')",
        "cast_one_new": "hnsw (((embedding_new)::halfvec(16)) halfvec_l2_ops) WHERE ((embedding_new IS NOT NULL) AND "
                        "(body <> 'embedding (12)'::text))",
        "lists_new": "ivfflat (embedding_new vector_cosine_ops) WITH (lists='3')"}


def test_finish_makes_an_index_again_that_a_crash_left(docs, new, sql):
    sql.execute("CREATE INDEX plain ON docs USING hnsw (embedding vector_l2_ops)")
    new.finish()
    sql.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'plain_new'::regclass")
    before = sql.execute("SELECT 'plain_new'::regclass::oid").fetchone()
    new.finish()
    after = sql.execute("SELECT 'plain_new'::regclass::oid").fetchone()
    assert after != before
    assert sql.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'plain_new'::regclass").fetchone() == (True,)


def test_names_that_need_quotes(sql, address):
    sql.execute('CREATE SCHEMA "My Schema"')
    fill(sql, range(ROWS), rows_of(), table='"My Schema"."The.Docs"')
    sql.execute("""ALTER TABLE "My Schema"."The.Docs" RENAME embedding TO "vector";
                   ALTER TABLE "My Schema"."The.Docs" RENAME id TO "Id {}";
                   CREATE INDEX ON "My Schema"."The.Docs" USING hnsw (("vector"::vector(12)) vector_l2_ops)""")
    store = open_store(address + "&table=%22My Schema%22.%22The.Docs%22&text=body")
    new = store.beside(' {New} "x"')
    new.create(store, 3, "o'ne")
    new.write(range(ROWS), rows_of(ROWS, 3))
    new.finish()
    again = open_store(new.address)
    assert (again.describe().rows, again.describe().owner, again.metric()) == (ROWS, "o'ne", "euclidean")
    keep = store.beside("_old")
    store.switch(new, keep)
    assert store.describe().width == 3 and keep.describe().width == WIDTH
    assert open_store(address + "&table=My Schema.The").at.table == ("My Schema", "The")
    with pytest.raises(Missing, match="there is no table My Schema.The in this database"):
        open_store(address + "&table=My Schema.The").describe()
    with pytest.raises(UsageError, match="the name 'a%b' has a % in it"):
        open_store(address + "&table=%22My Schema%22.%22The.Docs%22&column=a%25b").describe()


def test_search_by_the_metric_of_the_index(docs, sql):
    queries = rows_of(3, seed=5)
    rows = rows_of() * np.linspace(0.2, 3, ROWS, dtype=np.float32)[:, None]
    docs.write(range(ROWS), rows)
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
        docs.search(np.ones(3), 2)


def test_switch_and_back(docs, new, sql):
    new.write(range(ROWS), rows_of(ROWS, WIDTH + 4))
    sql.execute("CREATE VIEW seen AS SELECT id, embedding FROM docs")
    keep = docs.beside("_old")
    for _ in range(2):
        docs.switch(new, keep)
        assert columns(sql) == ["id", "body", "changed", "embedding_old", "embedding"]
        assert docs.describe().width == WIDTH + 4 and docs.describe().owner == "one"
    assert open_store(docs.address.replace("&column=embedding", "")).describe().width == WIDTH + 4
    for _ in range(2):
        docs.switch(keep, new)
        assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new"]
    assert np.array_equal(everything(docs).vectors, rows_of())
    assert sql.execute("SELECT count(embedding) FROM seen").fetchone() == (ROWS,)
    new.drop()
    new.drop()
    assert columns(sql) == ["id", "body", "changed", "embedding"]
    with pytest.raises(Error, match="neither of the two exist; nothing was changed"):
        docs.switch(new, keep)
    with pytest.raises(Error, match='to do it by hand: ALTER TABLE "public"."docs" DROP COLUMN "embedding"'):
        docs.drop()


def test_switch_waits_for_others_and_gives_up(docs, new, address, sql, monkeypatch):
    monkeypatch.setattr(postgres_link, "LOCK_SECONDS", 0.2)
    keep = docs.beside("_old")
    with psycopg.connect(address) as other:
        other.execute("UPDATE docs SET body = 'mine' WHERE id = 1")
        for step in (lambda: docs.switch(new, keep), new.drop, docs.frozen(new).__enter__,
                     lambda: docs.beside("_b").create(docs, 3, "one")):
            with pytest.raises(Error, match="others use the table and it was not free within 0.2 s; nothing was"):
                step()
        other.commit()
    assert columns(sql) == ["id", "body", "changed", "embedding", "embedding_new"]
    docs.switch(new, keep)


def test_nothing_arrives_between_the_last_pass_and_the_switch(docs, new, address, sql):
    keep = docs.beside("_old")
    stop, written = threading.Event(), []

    def insert():
        with psycopg.connect(address, autocommit=True) as other:
            while not stop.is_set():
                one = ROWS + len(written)
                # By position: the old column comes first, whatever it is called when the row arrives.
                other.execute("INSERT INTO docs VALUES (%s, 'x', now(), %s)", [one, str([1.0] * WIDTH)])
                written.append(one)

    def fill_in():
        there = set(everything(new).ids)
        for batch in docs.read(size=16):
            missing = [n for n, one in enumerate(batch.ids) if one not in there]
            new.write([batch.ids[n] for n in missing], np.ones((len(missing), WIDTH + 4)))

    writer = threading.Thread(target=insert)
    writer.start()
    try:
        fill_in()
        with docs.frozen(new, keep):
            held = len(written)
            fill_in()
            docs.switch(new, keep)
            assert len(written) <= held + 1  # one was on its way
    finally:
        stop.set()
        writer.join()
    assert sql.execute("SELECT count(embedding_old) FROM docs").fetchone() == (ROWS + len(written),)
    assert all(one >= ROWS + held for one, in sql.execute("SELECT id FROM docs WHERE embedding IS NULL"))
    assert new._link is not docs._link and keep._link is not docs._link


def test_frozen_is_all_or_nothing(docs, new, sql):
    keep = docs.beside("_old")
    with pytest.raises(RuntimeError), docs.frozen(new, keep):
        new.write([1], np.ones((1, WIDTH + 4)))
        docs.switch(new, keep)
        raise RuntimeError
    assert columns(sql)[-1] == "embedding_new" and new.describe().rows == 0
    with docs.frozen(new), pytest.raises(Error, match="an index is not made while the table is locked"):
        new.finish()


def test_addresses():
    at = Address.parse("postgresql://me:p%40ss@host:5433/db?sslmode=require&table=a.b&column=c%26d&host=/run/x&id=i")
    assert at.conninfo == "postgresql://me:p%40ss@host:5433/db?sslmode=require&host=/run/x"
    assert (at.table, at.column, at.id, at.text) == (("a", "b"), "c&d", "i", None)
    assert Address.parse(str(at)) == at
    for wrong, says in (("", "names no table"), ("?table=", "gives 'table' no value"), ("?table=a.b.c", "dots"),
                        ("?table=a&table=b", "gives 'table' twice")):
        with pytest.raises(UsageError, match=says):
            open_store(f"postgresql://host/db{wrong}")
    with pytest.raises(UsageError, match="does not understand the address: invalid URI query parameter"):
        open_store("postgresql://host/db?table=docs&colum=embedding").describe()
