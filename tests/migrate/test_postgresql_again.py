# SPDX-License-Identifier: Apache-2.0
"""A second migration of a table whose first is finished: from the first's side table to another."""
import pathlib

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate.stores.scores import unit
from made_up import models, spaces
from postgres_tables import value
from steps import facts, run
from test_live_rollback import stored
from test_live_tables import ROWS, require_translated, table, text_of, until

__all__ = ["table"]
NEAR = "SELECT id FROM kedge_docs WHERE id < 300 ORDER BY embedding <=> %s LIMIT 1"
THIRD = unit(spaces()[0] @ np.random.default_rng(3).normal(size=(12, 9)))  # another view of the same documents


def relations(sql: psycopg.Connection) -> set[str]:
    return {name for name, in sql.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                                          "AND relkind IN ('r', 'v')")}


@pytest.fixture
def second(table: str, sql: psycopg.Connection, folder: pathlib.Path) -> str:
    """The address of the vectors that the first migration has left; the second one is planned and sampled."""
    until("cutover", table)
    assert run("sql", "--install", "-q") == 0 and run("top-up", "-q") == 0 and run("finish", "-q") == 0
    for file in folder.glob("migrate.*"):
        file.unlink()
    models(folder, THIRD.astype(np.float32))
    return f"{table}&side=docs_embedding_new"


@pytest.mark.long
def test_it_begins_where_the_first_has_ended(second: str, table: str, sql: psycopg.Connection,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--store", table, "--embed", "models:new") == 1
    assert "add &side=docs_embedding_new to the address" in capsys.readouterr().err
    until("verify", second)
    assert relations(sql) - {"docs", "docs_embedding_new", "docs_embedding_new_2", "kedge_docs", "kedge_docs_new"} == {
        name for name in relations(sql) if name.startswith("kedge_notes_docs_")}
    near = text_of(spaces()[1][5])
    assert value(sql, NEAR, near) == 5, "the view shows the first migration's vectors"
    changed = text_of(-spaces()[1][5])
    sql.execute("UPDATE docs_embedding_new SET embedding = %s WHERE id = 5", [changed])
    sql.execute("DELETE FROM docs WHERE id = 6; DELETE FROM docs_embedding_new WHERE id = 8")
    sql.execute("INSERT INTO docs (id, body) VALUES (901, '351')")
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (901, %s)", [text_of(spaces()[1][351])])
    assert run("cutover", "--json") == 0
    found = facts(capsys)
    assert (found["arrived"], found["changed"], found["removed"]) == (1, 1, 1)
    require_translated(5, 901)
    assert value(sql, NEAR, text_of(stored(sql, 7, "docs_embedding_new_2"))) == 7
    assert sql.execute("SELECT id FROM kedge_search_docs(%s, %s, 3)", [
        text_of(spaces()[1][7]), text_of(stored(sql, 7, "docs_embedding_new_2"))]).fetchall()[0] == (7,)
    with migrate.Migration() as one:
        assert migrate.search(one, spaces()[1][7], THIRD[7], 3)[0][0] == 7


def test_a_rollback_returns_to_the_first(second: str, sql: psycopg.Connection) -> None:
    before = relations(sql)
    until("cutover", second)
    sql.execute("INSERT INTO docs (id, body) VALUES (901, '351')")
    sql.execute("INSERT INTO docs_embedding_new_2 (id, embedding) VALUES (901, %s)", [text_of(THIRD[351])])
    with migrate.Migration() as one:
        assert [set(found) for found in one.old.lookup(one.new, [901])] == [set(), {901}], "it has no old vector"
        assert migrate.search(one, None, THIRD[351], 3)[0][0] == 901
    assert run("rollback", "-q") == 0
    assert value(sql, NEAR, text_of(spaces()[1][5])) == 5
    back = stored(sql, 901, "kedge_docs")
    assert back.shape == (16,) and back @ spaces()[1][351] > .5, "its old vector is translated back"
    assert run("rollback", "-q", "--drop", "--yes") == 0
    assert relations(sql) == before
    sql.execute("DELETE FROM docs WHERE id = 5")
    assert value(sql, "SELECT count(*) FROM docs_embedding_new WHERE id = 5") == 0, "what the first left goes on"


@pytest.mark.long
def test_its_end_leaves_one_side_table(second: str, sql: psycopg.Connection,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    sql.execute("DROP FUNCTION kedge_search_docs; ALTER TABLE docs DROP COLUMN embedding")
    until("cutover", second.replace("&column=embedding", ""))
    assert run("top-up", "-q") == 0 and run("finish") == 0
    assert "docs_embedding_new is removed" in capsys.readouterr().out
    assert run("finish", "-q") == 0, "once more changes nothing"
    assert run("status") == 0 and "finished" in capsys.readouterr().out
    assert relations(sql) == {"docs", "docs_embedding_new_2", "kedge_docs"}
    assert value(sql, NEAR, text_of(THIRD[5])) == 5 and value(sql, "SELECT count(*) FROM kedge_docs") == ROWS
    sql.execute("DELETE FROM docs WHERE id = 5; UPDATE docs SET body = '6' WHERE id = 7")
    assert sql.execute("SELECT id, stale FROM docs_embedding_new_2 WHERE id IN (5, 7)").fetchall() == [(7, True)]
    triggers = sql.execute("SELECT DISTINCT proname FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE tgrelid = "
                           "'docs'::regclass").fetchall()
    assert triggers == [("kedge_keep_docs_embedding_new_2",)]
