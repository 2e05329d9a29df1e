# SPDX-License-Identifier: Apache-2.0
"""What applications write between a cutover and a rollback, and over one another's vectors, is neither lost nor stale.
"""
import json

import numpy as np
import psycopg
import pytest
from made_up import spaces
from postgres_tables import value
from require import require_near
from steps import facts, run
from test_live_tables import edit, require_translated, table, text_of, until

__all__ = ["table"]


def embed(sql: psycopg.Connection, key: int, row: int) -> None:
    """As an application that has the new model does."""
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET "
                "embedding = excluded.embedding", [key, text_of(spaces()[1][row])])


def stored(sql: psycopg.Connection, key: int, place: str = "docs_embedding_new") -> np.ndarray:
    found = value(sql, f"SELECT embedding::text FROM {place} WHERE id = %s", key)
    return np.array([float(one) for one in found.strip("[]").split(",")])


def test_old_vectors_that_change_before_and_after_a_rollback_are_translated(table: str, sql: psycopg.Connection,
                                                                            capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table)
    edit(sql, 200)
    assert run("cutover", "-q") == 0, "which has seen the note"
    edit(sql, 200, sign=-2)
    edit(sql, 201)
    sql.execute("DELETE FROM docs WHERE id = 202")
    assert run("rollback", "-q") == 0
    edit(sql, 203)
    assert run("verify", "-q") == 0, "what is noted is not wrong, and is noted after it"
    assert run("apply", "--json") == 0
    assert facts(capsys)["changed"] == 3
    assert run("verify", "-q", "--rows", 1000) == 0 and run("cutover", "-q") == 0
    require_translated(200, 201, 203)


def test_a_table_that_is_emptied_before_a_rollback(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    sql.execute("TRUNCATE docs")
    sql.execute("INSERT INTO docs VALUES (1, '7', %s)", [text_of(spaces()[0][350])])
    assert run("cutover", "-q") == 0 and run("rollback", "-q") == 0
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0
    require_translated(1)
    assert value(sql, "SELECT count(*) FROM docs_embedding_new") == 1


def test_new_vectors_go_with_their_documents_after_a_cutover(table: str, sql: psycopg.Connection,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table)
    sql.execute("UPDATE docs SET id = 1000 WHERE id = 4")
    sql.execute("DELETE FROM docs WHERE id = 5")
    embed(sql, 5, 351)  # by a worker that comes too late
    sql.execute("UPDATE docs SET embedding = NULL WHERE id = 6")
    assert run("cutover", "-q") == 0
    orphans = "SELECT count(*) FROM docs_embedding_new s WHERE NOT EXISTS (SELECT 1 FROM docs d WHERE d.id = s.id)"
    assert value(sql, orphans) == 0
    assert value(sql, "SELECT count(*) FROM docs_embedding_new WHERE id = 6") == 1
    embed(sql, 7, 352)
    sql.execute("TRUNCATE docs")
    assert run("top-up", "-q") == 0
    assert value(sql, "SELECT count(*) FROM docs_embedding_new") == 0


def test_what_the_old_model_wrote_last_survives_a_rollback(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    embed(sql, 7, 351)
    assert run("cutover", "-q") == 0, "which has seen the note"
    vector = edit(sql, 7)
    with sql.transaction():  # whoever writes both knows both models
        both = edit(sql, 8)
        embed(sql, 8, 352)
    assert run("rollback", "-q") == 0
    require_near(stored(sql, 7, "docs"), vector)
    require_near(stored(sql, 8, "docs"), both)
    assert run("apply", "-q") == 0
    require_translated(7)
    require_near(stored(sql, 8), spaces()[1][352])


def test_a_document_that_changes_after_an_application_embedded_it_is_translated_again(
        table: str, sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    until("apply", table)
    embed(sql, 5, 351)
    embed(sql, 6, 352)
    assert run("apply", "-q") == 0
    sql.execute("UPDATE docs SET body = '77' WHERE id = 5")
    edit(sql, 5)
    with sql.transaction():
        embed(sql, 6, 353)
        sql.execute("UPDATE docs SET body = '353' WHERE id = 6")
    assert run("apply", "--json") == 0
    assert facts(capsys)["changed"] == 1
    require_translated(5)
    require_near(stored(sql, 6), spaces()[1][353])
    assert run("apply", "--json") == 0
    assert facts(capsys)["changed"] == 0
    assert run("verify", "-q", "--rows", 1000) == 0
    assert run("cutover", "-q") == 0
    embed(sql, 5, 77)
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET body = '78' WHERE id = 5")
    assert run("top-up", "-q") == 0
    require_near(stored(sql, 5), spaces()[1][78])


def test_notes_that_are_kept_cost_nothing_to_who_reads_the_others(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    notes = value(sql, "SELECT relname FROM pg_class WHERE relname LIKE 'kedge_notes_docs_%' AND relkind = 'r'")
    sql.execute(f"INSERT INTO {notes} (id, what, seen) SELECT n % 300, 'text', true FROM generate_series(1, 20000) n")
    sql.execute(f"ANALYZE {notes}")
    plan = sql.execute(f"EXPLAIN SELECT mark, id, what, by FROM {notes} WHERE mark > 0 AND NOT seen ORDER BY mark "
                       "LIMIT 4096").fetchall()
    assert any(f"{notes}_mark_idx" in line for line, in plan), plan


@pytest.mark.parametrize("into", ["", "column"])
def test_documents_that_nobody_embedded_are_listed_after_a_rollback(table: str, sql: psycopg.Connection, into: str,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, into)
    sql.execute("INSERT INTO docs (id, body) VALUES (1000, '350'), (1001, '351'), (1002, ''), (1003, NULL), (1004, "
                "'9')")
    sql.execute("UPDATE docs SET body = '352' WHERE id = 1001")
    if into:
        sql.execute("UPDATE docs SET embedding = %s WHERE id = 1004", [text_of(spaces()[1][9])])
    else:
        embed(sql, 1004, 9)
    assert run("rollback") == 0
    said = capsys.readouterr().out
    assert "1 documents came or changed since the cutover" in said and "vector of their old one" not in said
    assert "2 have a text and no vector of either model: 1000, 1001\n" in said
    with open("migrate.rollback.jsonl") as file:
        listed = {line["id"]: line["text"] for line in map(json.loads, file)}
    assert listed == {1000: "350", 1001: "352", 1004: "9"}
    assert run("cutover", "-q") == 1 and run("apply", "-q") == 0 and run("verify", "-q") == 0
    assert run("cutover", "-q") == 0 and run("top-up", "-q") == 0
    near = f"SELECT count(embedding) FROM {'docs' if into else 'kedge_docs'} WHERE id IN (1000, 1001)"
    assert value(sql, near) == 2
    assert run("rollback", "--json") == 0
    assert facts(capsys)["without_vector"] == []


def test_old_vectors_of_texts_that_are_the_same_stay(table: str, sql: psycopg.Connection) -> None:
    until("cutover", table)
    before = stored(sql, 10, "docs"), stored(sql, 11, "docs")
    embed(sql, 10, 10)
    sql.execute("UPDATE docs SET body = '353' WHERE id = 11")
    embed(sql, 11, 353)
    assert run("rollback", "-q") == 0
    np.testing.assert_array_equal(stored(sql, 10, "docs"), before[0])
    assert not np.array_equal(stored(sql, 11, "docs"), before[1]), "of another text: translated from the new vector"
