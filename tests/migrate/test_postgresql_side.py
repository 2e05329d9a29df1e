# SPDX-License-Identifier: Apache-2.0
"""New vectors in a table beside the documents': the contract, the view that applications ask, and notes of changes."""
from collections.abc import Iterator

import contract
import numpy as np
import psycopg
import pytest
import test_postgresql
from kedge.migrate import Error
from kedge.migrate.store import Store, open_store
from postgres_tables import ROWS, WIDTH, columns, everything, rows_of, value

OWNER = contract.OWNER
NEW = WIDTH + 4


class SideContract(contract.StoreContract):
    """A cutover moves nothing, so the contract's words about switches hold in another way: see below."""

    @pytest.fixture
    def new(self, old: Store) -> Iterator[Store]:
        new = old.new_place()
        new.create(old, contract.NEW_WIDTH, OWNER)
        yield new
        new.close()

    def test_a_switch_puts_the_new_in_the_place_of_the_old(self, filled: contract.Filled, old: Store, new: Store,
                                                           written: np.ndarray) -> None:
        kept = old.beside("_old")
        assert not old.switching(new, kept)
        for _ in range(2):
            old.switch(new, kept)
            assert old.switching(new, kept)
            self.require_old(old, filled)
            self.require_new(new, filled, written)
        self.require_new(open_store(new.address), filled, written)

    def test_a_switch_is_undone_by_another(self, filled: contract.Filled, old: Store, new: Store,
                                           written: np.ndarray) -> None:
        kept = old.beside("_old")
        old.switch(new, kept)
        for _ in range(2):
            old.switch(kept, new)
            assert not old.switching(new, kept)
        self.require_new(new, filled, written)

    def test_what_is_written_after_a_switch_is_kept(self, filled: contract.Filled, old: Store, new: Store,
                                                    written: np.ndarray) -> None:
        old.switch(new, old.beside("_old"))
        changed = contract.unit_rows(2, contract.NEW_WIDTH, seed=6)
        new.write(filled.ids[7:9], changed)
        new.finish()
        written[7:9] = changed
        self.require_new(new, filled, written)
        self.require_old(old, filled)


class TestNumbers(SideContract, test_postgresql.TestNumbers):
    pass


@pytest.mark.long
class TestWords(SideContract, test_postgresql.TestWords):
    pass


@pytest.mark.long
class TestHalf(SideContract, test_postgresql.TestHalf):
    pass


@pytest.fixture
def side(docs: Store) -> Iterator[Store]:
    """A full side table, watched and finished."""
    store = docs.new_place()
    store.create(docs, NEW, OWNER)
    docs.watch(store, OWNER)
    store.write(list(range(ROWS)), rows_of(ROWS, NEW, 1))
    store.finish()
    yield store
    store.close()


def noted(docs: Store) -> list[tuple[object, str]]:
    return [(note.id, note.what) for note in docs.notes(OWNER)]


def test_notes_are_of_what_others_changed_and_of_nothing_else(docs: Store, side: Store,
                                                              sql: psycopg.Connection) -> None:
    assert docs.watching(OWNER) and noted(docs) == []
    vector, new = str(rows_of(1, WIDTH, 9)[0].tolist()), str(rows_of(1, NEW, 9)[0].tolist())
    sql.execute("UPDATE docs SET changed = now(), body = body, embedding = embedding")
    side.write([1], rows_of(1, NEW, 3))
    docs.write([1], rows_of(1, WIDTH, 3))
    assert noted(docs) == []
    sql.execute("INSERT INTO docs VALUES (100, 'a', now(), %s), (101, 'b', now(), NULL)", [vector])
    sql.execute("UPDATE docs SET embedding = %s WHERE id = 2", [vector])
    sql.execute("UPDATE docs SET embedding = NULL WHERE id = 3")
    sql.execute("UPDATE docs SET body = 'other' WHERE id = 4")
    sql.execute("UPDATE docs SET id = 200 WHERE id = 5")
    sql.execute("DELETE FROM docs WHERE id = 6")
    sql.execute("INSERT INTO docs_embedding_new VALUES (101, %s)", [new])
    sql.execute("UPDATE docs_embedding_new SET embedding = %s WHERE id = 7", [new])
    assert noted(docs) == [(100, "old"), (2, "old"), (3, "old"), (4, "text"), (200, "key"), (5, "gone"), (6, "gone"),
                           (101, "new"), (7, "new")]
    assert 6 not in everything(side).ids, "a document that is gone is not found by its new vector"
    side.write([7, 101, 8], rows_of(3, NEW, 4))
    written = dict(zip(*everything(side, ids=[7, 8, 101])[:2]))
    assert np.array_equal(written[8], rows_of(3, NEW, 4)[2])
    for key in (7, 101):
        assert np.array_equal(written[key], rows_of(1, NEW, 9)[0]), "what the application has embedded stays"
    first = docs.notes(OWNER, size=4)
    docs.forget(OWNER, first, keep=True)
    assert len(noted(docs)) == 5 and docs.notes(OWNER, seen=True, size=4) == first
    sql.execute("TRUNCATE docs")
    assert docs.notes(OWNER)[-1].id is None
    docs.unwatch(OWNER)
    assert not docs.watching(OWNER)
    assert value(sql, "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'kedge%%'") == 0
    sql.execute("INSERT INTO docs VALUES (300, 'a', now(), %s)", [vector])


def test_a_note_of_a_transaction_that_commits_late_is_read_late(docs: Store, side: Store, address: str,
                                                                sql: psycopg.Connection) -> None:
    with psycopg.connect(address) as other:
        other.execute("UPDATE docs SET embedding = %s WHERE id = 1", [str([1.0] * WIDTH)])
        sql.execute("UPDATE docs SET embedding = %s WHERE id = 2", [str([1.0] * WIDTH)])
        notes = docs.notes(OWNER)
        assert [note.id for note in notes] == [2]
        docs.forget(OWNER, notes)
        other.commit()
    assert noted(docs) == [(1, "old")]


def test_whoever_may_write_the_table_may_go_on(docs: Store, sql: psycopg.Connection, address: str) -> None:
    sql.execute("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA public TO writer; "
                "GRANT SELECT, INSERT, UPDATE, DELETE ON docs TO writer")
    new = docs.new_place()
    new.create(docs, NEW, OWNER)
    docs.watch(new, OWNER)
    new.finish()
    with psycopg.connect(address.replace("//postgres:@", "//writer@"), autocommit=True) as writer:
        writer.execute("UPDATE docs SET body = 'mine' WHERE id = 1; DELETE FROM docs WHERE id = 2")
        writer.execute("INSERT INTO docs_embedding_new VALUES (1, %s)", [str([1.0] * NEW)])
        assert value(writer, "SELECT count(*) FROM kedge_docs") == ROWS - 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            writer.execute("SELECT * FROM kedge_notes_docs_" + OWNER[:8])
    assert len(noted(docs)) == 3
    new.drop()
    docs.unwatch(OWNER)
    sql.execute("DROP OWNED BY writer; DROP ROLE writer")


def test_the_view_shows_one_model_and_then_the_other(docs: Store, side: Store, sql: psycopg.Connection) -> None:
    kept = docs.beside("_old")
    assert docs.shows() == "public.kedge_docs"
    before = columns(sql)
    near = "SELECT id FROM kedge_docs ORDER BY embedding <=> %s LIMIT 1"
    for _ in range(2):
        assert columns(sql, "kedge_docs") == before
        assert value(sql, near, str(rows_of()[5].tolist())) == 5
        docs.switch(side, kept)
        assert columns(sql, "kedge_docs") == before
        assert value(sql, near, str(rows_of(ROWS, NEW, 1)[5].tolist())) == 5
        docs.switch(kept, side)
    sql.execute("ALTER TABLE docs ALTER embedding SET NOT NULL")
    docs.switch(side, kept)
    sql.execute("INSERT INTO docs (id, body) VALUES (500, 'no old vector')")
    assert columns(sql) == before, "the documents' table is as it was"


def test_a_search_through_the_view_uses_the_index(docs: Store, side: Store, sql: psycopg.Connection) -> None:
    sql.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    side.finish()
    docs.switch(side, docs.beside("_old"))
    sql.execute("ANALYZE docs; ANALYZE docs_embedding_new; SET enable_seqscan = off; SET enable_sort = off")
    plan = "\n".join(line for line, in sql.execute(
        "EXPLAIN SELECT id, body FROM kedge_docs ORDER BY embedding <=> %s LIMIT 3", [str([1.0] * NEW)]).fetchall())
    assert "Index Scan using docs_embedding_idx_new on docs_embedding_new" in plan


def test_dropping_it_leaves_the_table_as_it_was(docs: Store, side: Store, sql: psycopg.Connection) -> None:
    before = columns(sql)
    sql.execute("CREATE VIEW seen AS SELECT * FROM kedge_docs")
    with pytest.raises(Error, match="cannot drop view kedge_docs .*view seen depends on .*; drop that first"):
        side.drop()
    sql.execute("DROP VIEW seen")
    side.drop()
    side.drop()
    docs.unwatch(OWNER)
    left = sql.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN "
                       "('r', 'v', 'S') UNION ALL SELECT proname FROM pg_proc p WHERE pronamespace = "
                       "'public'::regnamespace AND prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c') AND "
                       "proname LIKE '%kedge%'").fetchall()
    assert left == [("docs",)] and columns(sql) == before


def test_a_name_that_is_taken_is_not_ours(docs: Store, sql: psycopg.Connection) -> None:
    sql.execute("CREATE TABLE docs_embedding_new (id int PRIMARY KEY, embedding vector(3))")
    with pytest.raises(Error, match="exists and is not this migration's"):
        docs.new_place().create(docs, NEW, OWNER)
    sql.execute("DROP TABLE docs_embedding_new; CREATE VIEW kedge_docs AS SELECT 1 AS one")
    new = docs.new_place()
    new.create(docs, NEW, OWNER)
    with pytest.raises(Error, match="kedge_docs.* exists and is not kedge-migrate's"):
        new.finish()


def test_row_security_of_the_documents_is_that_of_their_new_vectors(docs: Store, sql: psycopg.Connection,
                                                                    address: str) -> None:
    sql.execute("DROP ROLE IF EXISTS tenant; CREATE ROLE tenant LOGIN; GRANT USAGE ON SCHEMA public TO tenant; "
                "GRANT SELECT, INSERT, UPDATE, DELETE ON docs TO tenant; ALTER TABLE docs ENABLE ROW LEVEL SECURITY; "
                "CREATE POLICY sees ON docs FOR SELECT USING (id < 3); CREATE POLICY writes ON docs FOR UPDATE USING "
                "(id < 2)")
    new = docs.new_place()
    new.create(docs, NEW, OWNER)
    docs.watch(new, OWNER)
    new.write(list(range(1, ROWS)), rows_of(ROWS - 1, NEW, 1))
    new.finish()
    vector = str([1.0] * NEW)
    with psycopg.connect(address.replace("//postgres:@", "//tenant@"), autocommit=True) as tenant:
        assert tenant.execute("SELECT id FROM docs_embedding_new ORDER BY id").fetchall() == [(0,), (1,), (2,)]
        changed = tenant.execute("UPDATE docs_embedding_new SET embedding = %s WHERE id > 0 RETURNING id",
                                 [vector]).fetchall()
        assert changed == [(1,)]
        tenant.execute("INSERT INTO docs_embedding_new VALUES (0, %s)", [vector])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tenant.execute("INSERT INTO docs_embedding_new VALUES (1000, %s)", [vector])
    new.drop()
