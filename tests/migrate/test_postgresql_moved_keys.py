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


def paid(folder: pathlib.Path) -> int:
    return len((folder / "asked.txt").read_text().split())


def shown(sql: psycopg.Connection, key: int, into: str) -> list[float] | None:
    found: str | None = value(sql, f"SELECT embedding::text FROM {'docs' if into else 'kedge_docs'} WHERE id = {key}")
    return None if found is None else json.loads(found)


@pytest.mark.parametrize("into", ["", "column"])
def test_real_vectors_go_along_and_are_not_paid_for_again(applied: psycopg.Connection, folder: pathlib.Path, into: str,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    sql, new, (before, later, theirs, *_) = applied, unit(spaces()[1]), drawn()
    translated = next(n for n in range(ROWS) if n not in drawn())
    table = "docs" if into else "docs_embedding_new"
    sql.execute(f"UPDATE docs SET id = {before + 1000} WHERE id = {before}; "
                f"UPDATE docs SET id = {translated + 1000} WHERE id = {translated}; "
                f"UPDATE docs SET id = {translated + 2000} WHERE id = {translated + 1000}")
    assert run("cutover", "--json") == 0
    found = facts(capsys)
    assert (found["arrived"], found["changed"], found["removed"]) == (0, 0, 0)
    require_near(shown(sql, before + 1000, into), new[before])
    sql.execute(f"UPDATE {table} SET embedding = %s WHERE id = %s", [text_of(new[theirs]), theirs])
    for n in (theirs, later):  # searches find it at once
        vector = shown(sql, n, into)
        sql.execute(f"UPDATE docs SET id = {n + 1000} WHERE id = {n}")
        assert vector is not None and shown(sql, n + 1000, into) == vector
    asked = paid(folder)
    assert run("top-up", "-q") == 0
    assert paid(folder) - asked == ROWS - 120
    for n in (before + 1000, later + 1000, theirs + 1000, translated + 2000):
        require_near(shown(sql, n, into), new[n % 1000])
    assert run("verify", "-q") == 0
    with migrate.Migration() as one:
        assert one.journal.real() == {int(key) for key, in sql.execute("SELECT id FROM docs")}


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
def test_after_finish_too(applied: psycopg.Connection, into: str) -> None:
    """Where one statement exchanges keys, no row keeps the vector of another document."""
    sql = applied
    sql.execute("ALTER TABLE docs DROP CONSTRAINT docs_pkey, ADD PRIMARY KEY (id) DEFERRABLE")
    exchange = "UPDATE docs SET id = CASE id WHEN {0} THEN {1} ELSE {0} END WHERE id IN ({0}, {1})"
    real = drawn()
    sql.execute(exchange.format(*real[:2]))
    assert shown(sql, real[0], into) is not None, "the old one, until the cutover"
    for step in ("cutover", "top-up", "verify", "finish"):
        assert run(step, "-q") == 0
    for one, other in (real[:2], reversed(real[:2])):
        require_near(shown(sql, one, into), unit(spaces()[1])[other])
    sql.execute("UPDATE docs SET id = 1000, body = '3' WHERE id = 3")
    sql.execute(exchange.format(8, 9))
    sql.execute("UPDATE docs SET id = 1004 WHERE id = 4")
    found = dict(sql.execute("SELECT id, stale OR embedding IS NULL FROM docs_embedding_new"))
    assert len(found) == ROWS and {one for one, lacks in found.items() if lacks} == {8, 9}
    sql.execute("UPDATE docs SET id = 1005, body = '6' WHERE id = 5")
    assert value(sql, "SELECT stale FROM docs_embedding_new WHERE id = 1005")


def test_notes_follow_a_document() -> None:
    notes = [Note(1, "a", "text", 5), Note(2, "b", "key", 6), Note(3, "x", "text", 7), Note(4, "a", "gone", 6),
             Note(5, "a", "old", 8), Note(6, "c", "key", 9), Note(7, "b", "gone", 9)]
    found, moves = with_moves(reversed(notes))
    assert moves == [("a", "b"), ("b", "c")]
    assert [note.id for note in found] == ["c", "c", "x", "a", "a", "c", "b"]
