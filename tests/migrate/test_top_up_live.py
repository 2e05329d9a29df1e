# SPDX-License-Identifier: Apache-2.0
"""top-up and verify on a table that others edit: every vector is that of the present text, and none is paid for twice.
"""
import pathlib

import numpy as np
import psycopg
import pytest
import test_live_tables
from kedge import migrate
from made_up import spaces
from require import number, require_near
from steps import facts, run
from test_live_tables import PLACES, text_of, until

table = test_live_tables.table
ROWS = test_live_tables.ROWS


def require_real(sql: psycopg.Connection, *ids: int, into: str = "") -> None:
    """The new vectors of these are the new model's of their present texts."""
    new = spaces()[1]
    asked = ("SELECT body, embedding::text FROM docs WHERE id = %s" if into else
             "SELECT body, s.embedding::text FROM docs JOIN docs_embedding_new s USING (id) WHERE id = %s")
    for key in ids:
        found = sql.execute(asked, [key]).fetchone()
        assert found is not None and found[1] is not None, f"document {key} has no vector"
        vector = np.array(found[1].strip("[]").split(","), np.float32)
        require_near(vector, new[int(found[0])], message=f"document {key}")


def asked_for(folder: pathlib.Path) -> int:
    """How many texts were embedded so far."""
    return len((folder / "asked.txt").read_text().splitlines())


def outside_the_sample(count: int) -> list[int]:
    with migrate.Migration(alone=False) as one:
        sample = one.journal.drawn_ids()
    return [key for key in range(ROWS) if key not in sample][:count]


@pytest.mark.parametrize("into", PLACES)
@pytest.mark.parametrize("finished", [False, True])
def test_a_text_that_is_edited_after_the_cutover_is_embedded_again(table: str, sql: psycopg.Connection, into: str,
                                                                   finished: bool, folder: pathlib.Path,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, into)
    assert run("top-up", "-q") == 0
    edited = [*outside_the_sample(5), *sampled(2)]
    for key in edited:
        sql.execute("UPDATE docs SET body = %s WHERE id = %s", [str((key + 50) % 400), key])
    if finished:  # what was noted is caught up; from here on the journal alone knows who wrote these vectors
        assert run("cutover", "-q") == 0 and run("finish", "-q") == 0
    before = asked_for(folder)
    assert run("top-up", "--json") == 0
    found = facts(capsys)
    assert (found["real"], found["theirs"]) == (ROWS, 0) and asked_for(folder) == before + len(edited)
    require_real(sql, *range(ROWS), into=into)
    assert run("top-up", "-q") == 0
    assert asked_for(folder) == before + len(edited), "nothing is paid for twice"


def sampled(count: int) -> list[int]:
    with migrate.Migration(alone=False) as one:
        return [number(key) for key in one.journal.sample()[0][:count]]


@pytest.mark.parametrize("into", PLACES)
def test_what_an_application_embeds_is_not_paid_for(table: str, sql: psycopg.Connection, into: str,
                                                    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, into)
    vector, (first, second) = text_of(spaces()[1][350]), outside_the_sample(2)
    for key in (first, second):
        sql.execute("UPDATE docs SET body = '350' WHERE id = %s", [key])
        sql.execute(f"UPDATE {'docs' if into else 'docs_embedding_new'} SET embedding = %s WHERE id = %s",
                    [vector, key])
    before = asked_for(folder)
    assert run("top-up", "--json") == 0
    assert facts(capsys)["theirs"] == 2
    assert asked_for(folder) == before + ROWS - 80 - 2
    require_real(sql, *range(ROWS), into=into)


def test_documents_of_the_sample_that_were_embedded_again_do_not_differ(table: str, sql: psycopg.Connection,
                                                                        folder: pathlib.Path,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    until("verify", table)
    edited, old = sampled(4), spaces()[0]
    for key in edited[:3]:
        sql.execute("UPDATE docs SET body = %s, embedding = %s WHERE id = %s",
                    [str(key + 50), text_of(old[key + 50]), key])
    sql.execute("UPDATE docs SET body = %s WHERE id = %s", [str(edited[3] + 50), edited[3]])
    assert run("top-up", "-q") == 0
    before = asked_for(folder)
    for _ in range(2):
        require_real(sql, *range(ROWS))
        assert run("verify", "--json") == 0
        found = facts(capsys)
        assert found["whole"] and found["differ"] == 0 and found["compared"] == 80 - len(edited)
        assert run("apply", "-q") == 0 and run("top-up", "-q") == 0
    assert asked_for(folder) == before, "nothing is paid for twice"
    other = next(key for key in sampled(80) if key not in edited)
    with migrate.Migration() as one:
        one.new.write([other], -spaces()[1][[other]])
    assert run("verify", "--json") == 1
    assert facts(capsys)["differ_ids"] == [other], "what is no longer as it was made still differs"


def test_apply_leaves_what_top_up_has_embedded_since_verify(table: str, sql: psycopg.Connection) -> None:
    until("apply", table)
    key, = outside_the_sample(1)
    with migrate.Migration() as one:
        one.new.write([key], spaces()[1][[350]])
    assert run("verify", "-q") == 1
    with migrate.Migration() as one:
        one.journal.embedded([key], [0], [one.place.documents_of([key])[key].version], spaces()[1][[key]])
    assert run("apply", "-q") == 0
    require_real(sql, key)


def test_documents_that_came_after_the_cutover_are_embedded(table: str, sql: psycopg.Connection, folder: pathlib.Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    """With a new vector alone, with a text alone, and from a program that embeds with the old model."""
    until("cutover", table)
    assert run("top-up", "-q") == 0
    old, new = spaces()
    sql.execute("INSERT INTO docs (id, body) VALUES (1000, '310'), (1001, '311'), (1003, NULL)")
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (1000, %s)", [text_of(new[310])])
    sql.execute("INSERT INTO docs VALUES (1002, '312', %s)", [text_of(old[312])])
    before = asked_for(folder)
    assert run("top-up", "--json") == 0
    found = facts(capsys)
    assert (found["rows"], found["real"], found["theirs"]) == (ROWS + 3, ROWS + 3, 1)
    assert asked_for(folder) == before + 2, "what the application embedded is not paid for"
    require_real(sql, *range(ROWS), 1000, 1001, 1002)
    sql.execute("UPDATE docs SET body = '313' WHERE id = 1001")
    for _ in range(2):
        assert run("top-up", "--json") == 0
        assert facts(capsys)["real"] == ROWS + 3 and asked_for(folder) == before + 3
    require_real(sql, 1000, 1001, 1002)
    assert run("verify", "-q") == 0
