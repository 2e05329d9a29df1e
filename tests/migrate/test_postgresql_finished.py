# SPDX-License-Identifier: Apache-2.0
"""After a migration has ended, the new vectors still belong to their documents, whoever changes these."""
import psycopg
import pytest
from made_up import spaces
from postgres_tables import value
from steps import facts, run
from test_live_rollback import embed
from test_live_tables import ROWS, table, text_of, until

__all__ = ["table"]
STALE = "SELECT array_agg(id ORDER BY id) FROM docs_embedding_new WHERE stale"


@pytest.fixture
def finished(table: str, sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> psycopg.Connection:
    until("cutover", table)
    assert run("finish", "--json") == 0
    assert facts(capsys)["follows"]
    return sql


def test_vectors_go_with_their_documents(finished: psycopg.Connection) -> None:
    finished.execute("DELETE FROM docs WHERE id = 7; UPDATE docs SET id = 1008 WHERE id = 8")
    there = "SELECT array_agg(id ORDER BY id) FROM docs_embedding_new WHERE id IN (7, 8, 1008)"
    assert value(finished, there) == [1008]
    assert value(finished, "SELECT embedding IS NOT NULL FROM kedge_docs WHERE id = 1008")
    with finished.transaction():
        finished.execute("TRUNCATE docs")
    assert value(finished, "SELECT count(*) FROM docs_embedding_new") == 0


def test_the_vector_of_an_edited_text_is_stale_until_it_is_written_again(finished: psycopg.Connection) -> None:
    finished.execute("UPDATE docs SET body = body, embedding = embedding WHERE id < 20")
    assert value(finished, STALE) is None
    finished.execute("UPDATE docs SET body = '350' WHERE id IN (5, 6)")
    assert value(finished, STALE) == [5, 6]
    embed(finished, 5, 350)
    assert value(finished, STALE) == [6]
    with finished.transaction():  # in either order
        embed(finished, 9, 351)
        finished.execute("UPDATE docs SET body = '351' WHERE id IN (9, 10)")
        embed(finished, 10, 351)
    assert value(finished, STALE) == [6]


@pytest.mark.long
def test_texts_that_were_edited_before_the_end_leave_stale_vectors(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    sql.execute("UPDATE docs SET body = '350' WHERE id IN (5, 6, 7)")
    assert run("cutover", "-q") == 0, "which has seen these notes"
    embed(sql, 6, 350)
    sql.execute("UPDATE docs SET body = '351' WHERE id IN (8, 9)")
    embed(sql, 9, 351)
    assert run("finish", "-q") == 0
    assert value(sql, STALE) == [5, 7, 8]


@pytest.mark.long
def test_writers_without_rights_on_the_side_table_go_on(finished: psycopg.Connection, address: str) -> None:
    finished.execute("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA public TO writer; "
                     "GRANT SELECT, INSERT, UPDATE, DELETE ON docs TO writer")
    with psycopg.connect(address.replace("//postgres:@", "//writer@"), autocommit=True) as writer:
        writer.execute("CREATE TEMP TABLE docs_embedding_new (id int); INSERT INTO docs (id, body) VALUES (900, '1'); "
                       "UPDATE docs SET body = '2' WHERE id = 3; DELETE FROM docs WHERE id = 4")
    assert value(finished, "SELECT array_agg(id) FROM docs_embedding_new WHERE id IN (4, 900)") == [900]
    assert value(finished, STALE) == [3]
    finished.execute("DROP OWNED BY writer; DROP ROLE writer")


@pytest.mark.long
def test_what_stays_is_removed_as_the_page_says(finished: psycopg.Connection) -> None:
    finished.execute("DROP FUNCTION kedge_keep_docs_embedding_new CASCADE")
    assert value(finished, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass") == 0
    finished.execute("DELETE FROM docs WHERE id = 7")
    assert value(finished, "SELECT count(*) FROM docs_embedding_new WHERE id = 7") == 1


@pytest.mark.parametrize("last", ["cutover", pytest.param("finish", marks=pytest.mark.long)])
def test_the_view_shows_documents_without_a_new_vector(table: str, sql: psycopg.Connection, last: str) -> None:
    sql.execute("ALTER TABLE docs ALTER embedding DROP NOT NULL; UPDATE docs SET embedding = NULL WHERE id = 3")
    until("cutover", table)
    if last == "finish":
        assert run("finish", "-q") == 0
    sql.execute("INSERT INTO docs (id, body) VALUES (900, '350'), (901, '351')")
    shown = "SELECT array_agg(id ORDER BY id) FROM kedge_docs WHERE embedding IS NULL"
    assert value(sql, shown) == [3, 900, 901] and value(sql, "SELECT count(*) FROM kedge_docs") == ROWS + 2
    sql.execute("SET enable_seqscan = off; SET enable_sort = off")
    near = "SELECT id FROM kedge_docs ORDER BY embedding <=> %s LIMIT 3"
    plan = sql.execute("EXPLAIN " + near, [text_of(spaces()[1][5])]).fetchall()
    assert any("Index Scan using docs_embedding_idx_new" in line for line, in plan), plan
    assert not {3, 900, 901} & {one for one, in sql.execute(near, [text_of(spaces()[1][5])])}
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (900, %s)", [text_of(spaces()[1][350])])
    assert value(sql, near, text_of(spaces()[1][350])) == 900, "an INSERT takes the place of the row without a vector"
    embed(sql, 901, 351)
    assert value(sql, shown) == [3]
    if last == "cutover":
        assert run("top-up", "-q") == 0
        assert value(sql, shown) is None
