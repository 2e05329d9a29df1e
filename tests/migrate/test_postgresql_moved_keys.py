# SPDX-License-Identifier: Apache-2.0
"""Documents whose keys others change while a migration is under way, and after it: vectors go along."""
import json
import pathlib

import psycopg
import pytest
from kedge import migrate
from kedge.migrate.moved import with_moves
from kedge.migrate.store import Note
from kedge.migrate.stores.scores import unit
from keyed_tables import text_of
from made_up import ROWS, spaces
from postgres_tables import fill, value
from require import require_near
from steps import facts, run


@pytest.fixture
def applied(sql: psycopg.Connection, address: str, folder: pathlib.Path, into: str) -> psycopg.Connection:
    """Document n has the text n, whatever its id becomes."""
    fill(sql, range(ROWS), spaces()[0])
    sql.execute("UPDATE docs SET body = id::text")
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new",
               "--sample", 120, *(["--into", into] if into else [])) == 0
    for step in ("sample", "fit", "apply", "verify"):
        assert run(step, "-q") == 0
    return sql


def drawn() -> list[int]:
    """Numbers of documents with a real vector."""
    with migrate.Migration() as one:
        return sorted(int(str(key)) for key in one.journal.drawn_ids())


def shown(sql: psycopg.Connection, key: int, into: str) -> list[float]:
    """What applications see; fails if that is no vector."""
    found = value(sql, f"SELECT embedding::text FROM {'docs' if into else 'kedge_docs'} WHERE id = {key}")
    vector: list[float] = json.loads(found)
    return vector


@pytest.mark.parametrize("into", ["", "column"])
def test_searches_go_on_finding_a_document(applied: psycopg.Connection, into: str) -> None:
    """Also one that has no old vector, and at once."""
    sql, new, (one, theirs, *_) = applied, unit(spaces()[1]), drawn()
    sql.execute(f"UPDATE docs SET id = {one + 1000} WHERE id = {one}")
    sql.execute(f"UPDATE docs SET id = 2000 WHERE id = {one + 1000}")
    assert run("cutover", "-q") == 0 and shown(sql, 2000, into)
    table = "docs" if into else "docs_embedding_new"
    sql.execute(f"UPDATE docs SET {'embedding_old' if into else 'embedding'} = NULL WHERE id = {theirs}")
    sql.execute(f"UPDATE {table} SET embedding = %s WHERE id = %s", [text_of(new[theirs]), theirs])
    sql.execute(f"UPDATE docs SET id = 3000 WHERE id = {theirs}")
    other = next(n for n in range(ROWS) if n not in drawn())  # its old vector stays that of the text before
    with sql.transaction():
        sql.execute("SET LOCAL kedge.model = 'new'")
        sql.execute(f"UPDATE docs SET body = '7' WHERE id = {other}")
        sql.execute(f"UPDATE {table} SET embedding = %s WHERE id = %s", [text_of(new[7]), other])
    sql.execute(f"UPDATE docs SET id = 4000 WHERE id = {other}")
    for step in ("cutover", "top-up", "verify"):
        require_near(shown(sql, 3000, into), new[theirs])
        require_near(shown(sql, 4000, into), new[7])
        assert run(step, "-q") == 0
    require_near(shown(sql, 2000, into), new[one])


@pytest.mark.parametrize("into", ["", "column"])
def test_an_edit_before_the_key_changed_is_not_forgotten(applied: psycopg.Connection, into: str,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cutover", "-q") == 0
    applied.execute("UPDATE docs SET body = '7' WHERE id = 5")
    applied.execute("UPDATE docs SET id = 1005 WHERE id = 5")
    capsys.readouterr()
    assert run("rollback", "--json") == 0
    assert facts(capsys)["old_text"] == [1005]


@pytest.mark.parametrize("into", [""])
def test_what_is_edited_while_it_finishes_is_stale(applied: psycopg.Connection, into: str) -> None:
    """What the old model embedded last is translated first, and an edit under a former key is not forgotten."""
    sql, old = applied, spaces()[0]
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET body = '7' WHERE id = 5")
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET id = 1005 WHERE id = 5; UPDATE docs SET id = 1006, body = '7' WHERE id = 6")
    sql.execute("UPDATE docs SET body = '8', embedding = %s WHERE id = 9", [text_of(old[8])])
    assert run("finish", "-q") == 0
    assert sql.execute("SELECT id FROM docs_embedding_new WHERE stale ORDER BY id").fetchall() == [(1005,), (1006,)]
    assert shown(sql, 9, into) == shown(sql, 8, into)


@pytest.mark.parametrize("into", [""])
def test_after_finish_too(applied: psycopg.Connection, into: str) -> None:
    """Where one statement exchanges keys, no row keeps the vector of another document."""
    sql = applied
    sql.execute("ALTER TABLE docs DROP CONSTRAINT docs_pkey, ADD PRIMARY KEY (id) DEFERRABLE")
    exchange = "UPDATE docs SET id = CASE id WHEN {0} THEN {1} ELSE {0} END WHERE id IN ({0}, {1})"
    real = drawn()
    sql.execute(exchange.format(*real[:2]))
    assert shown(sql, real[0], into), "the old one, until the cutover"
    for step in ("cutover", "top-up", "verify", "finish"):
        assert run(step, "-q") == 0
    for one, other in (real[:2], reversed(real[:2])):
        require_near(shown(sql, one, into), unit(spaces()[1])[other])
    sql.execute("UPDATE docs SET id = 1000, body = '3' WHERE id = 3")
    sql.execute(exchange.format(8, 9))
    sql.execute("UPDATE docs SET id = 1004 WHERE id = 4")
    assert value(sql, "SELECT count(*) FROM docs_embedding_new") == ROWS
    lack = sql.execute("SELECT id FROM docs_embedding_new WHERE stale OR embedding IS NULL ORDER BY id").fetchall()
    assert lack == [(8,), (9,)]
    sql.execute("UPDATE docs SET id = 1005, body = '6' WHERE id = 5")
    assert value(sql, "SELECT stale FROM docs_embedding_new WHERE id = 1005")


def test_notes_follow_a_document() -> None:
    notes = [Note(1, "a", "text", 5), Note(2, "b", "key", 6), Note(3, "x", "text", 7), Note(4, "a", "gone", 6),
             Note(5, "a", "old", 8), Note(6, "c", "key", 9), Note(7, "b", "gone", 9)]
    assert [(note.mark, note.id, note.what) for note in with_moves(reversed(notes))] == [
        (1, "c", "text"), (2, "c", "moved"), (3, "x", "text"), (4, "a", "gone"), (5, "a", "old"), (6, "c", "moved"),
        (7, "b", "gone")]
    exchanged = [Note(1, "a", "new", 5), Note(2, "t", "key", 6), Note(3, "a", "gone", 6), Note(4, "a", "key", 6),
                 Note(5, "b", "gone", 6), Note(6, "b", "key", 6), Note(7, "t", "gone", 6)]
    assert [(note.id, note.what) for note in with_moves(exchanged)] == [
        ("b", "new"), ("b", "moved"), ("a", "moved"), ("b", "moved"), ("t", "gone")]
