# SPDX-License-Identifier: Apache-2.0
"""Vectors that applications and top-up have made of the present texts are kept, whatever is caught up or rolled back.
"""
import pathlib
from collections.abc import Sequence

import numpy as np
import psycopg
import pytest
from kedge import Translator, migrate
from kedge.migrate.store import Store
from made_up import spaces
from postgres_tables import WIDTH, rows_of, value
from require import require_near
from steps import facts, run
from test_edited_meanwhile import while_it_embeds
from test_live_rollback import stored
from test_live_tables import edit, table, text_of, until
from test_postgresql_triggers import TRIGGERS
from test_top_up_live import asked_for, outside_the_sample, require_real

__all__ = ["table"]


def require_vector(sql: psycopg.Connection, key: int, expected: np.ndarray, column: str = "embedding") -> None:
    found = value(sql, f"SELECT {column}::text FROM docs WHERE id = %s", key)
    require_near([float(one) for one in found.strip("[]").split(",")], expected)


def test_a_column_that_an_application_has_written_is_left_to_it(docs: Store, new: Store,
                                                                sql: psycopg.Connection) -> None:
    docs.watch(new, "one")
    theirs, ours = rows_of(1, WIDTH + 4, 9)[0], rows_of(2, WIDTH + 4)
    sql.execute("UPDATE docs SET embedding_new = %s WHERE id = 1", [text_of(theirs)])
    new.write([1, 2], ours)
    require_vector(sql, 1, theirs, "embedding_new")
    require_vector(sql, 2, ours[1], "embedding_new")
    assert new.take_over("one", docs.notes("one")) == set()
    new.write([1, 2], ours)
    require_vector(sql, 1, ours[0], "embedding_new")


def test_catching_up_leaves_what_an_application_writes_meanwhile(table: str, sql: psycopg.Connection,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    until("cutover", table, "column")
    new, translate = spaces()[1], migrate.Migration.translate
    edit(sql, 7, "embedding_old")
    edit(sql, 8, "embedding_old")

    def slowly(self: migrate.Migration, translator: Translator, rows: np.ndarray) -> np.ndarray:
        if len(rows) == 2:
            sql.execute("UPDATE docs SET embedding = %s, body = '350' WHERE id = 7", [text_of(new[350])])
        return translate(self, translator, rows)

    monkeypatch.setattr(migrate.Migration, "translate", slowly)
    assert run("cutover", "-q") == 0
    require_vector(sql, 7, new[350])
    assert run("cutover", "-q") == 0
    require_vector(sql, 7, new[350])


@pytest.mark.long
def test_top_up_leaves_what_an_application_writes_meanwhile(table: str, sql: psycopg.Connection, address: str,
                                                            folder: pathlib.Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, "column")
    key, = outside_the_sample(1)
    (folder / "address").write_text(address)
    while_it_embeds(folder, f"""
        if {str(key)!r} in texts:
            sql.execute("UPDATE docs SET embedding = %s WHERE id = {key}", [{text_of(spaces()[1][350])!r}])
""")
    assert run("top-up", "--json") == 0
    require_vector(sql, key, spaces()[1][350])
    before = asked_for(folder)
    capsys.readouterr()
    assert run("top-up", "--json") == 0
    found = facts(capsys)
    assert (found["theirs"], found["real"], asked_for(folder)) == (1, 300, before)


@pytest.mark.long
@pytest.mark.parametrize("into", ["", "column"])
def test_what_top_up_embedded_survives_a_rollback(table: str, sql: psycopg.Connection, into: str,
                                                  folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover", table, into)
    edited, twice = outside_the_sample(2)
    old = "embedding_old" if into else "embedding"
    sql.execute("UPDATE docs SET body = '350' WHERE id = %s", [edited])
    edit(sql, twice, old)
    sql.execute("UPDATE docs SET body = '351' WHERE id = %s", [twice])
    sql.execute("INSERT INTO docs (id, body) VALUES (1000, '352')")
    assert run("top-up", "-q") == 0
    paid = asked_for(folder)
    assert run("rollback", "--json") == 0
    found = facts(capsys)
    assert sorted(found["translated_back"]) == [edited, twice, 1000] and found["old_text"] == []
    assert len((folder / "migrate.rollback.jsonl").read_text().splitlines()) == 3
    require_translated_back(sql, {edited: 350, twice: 351, 1000: 352})
    for step in ("apply", "verify", "cutover", "top-up"):
        assert run(step, "-q") == 0
    require_real(sql, edited, twice, 1000, into=into)
    assert asked_for(folder) == paid, "nothing is paid for twice"


def require_translated_back(sql: psycopg.Connection, texts: dict[int, int]) -> None:
    with migrate.Migration(alone=False) as one:
        translator = one.translator(back=True)
    for key, text in texts.items():
        expected = translator.transform(spaces()[1][[text]], normalize=True)[0]
        require_near(stored(sql, key, "docs"), expected, 1e-4)


@pytest.mark.long
def test_what_the_old_model_writes_during_a_rollback_stays(table: str, sql: psycopg.Connection,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    until("cutover", table)
    sql.execute("INSERT INTO docs (id, body) VALUES (1000, '352')")
    sql.execute("INSERT INTO docs_embedding_new (id, embedding) VALUES (1000, %s)", [text_of(spaces()[1][352])])
    vector, add_to = spaces()[0][352], migrate.journal.Journal.add_to

    def late(self: migrate.journal.Journal, name: str, ids: Sequence[int]) -> None:
        sql.execute("UPDATE docs SET embedding = %s WHERE id = 1000", [text_of(vector)])
        add_to(self, name, ids)

    monkeypatch.setattr(migrate.journal.Journal, "add_to", late)
    assert run("rollback", "-q") == 0
    require_vector(sql, 1000, vector)


def test_a_rollback_asks_what_to_do_about_triggers(table: str, sql: psycopg.Connection,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    sql.execute("ALTER TABLE docs ADD COLUMN changed timestamptz DEFAULT now();" + TRIGGERS + "; CREATE TRIGGER own "
                "AFTER UPDATE OF embedding ON docs FOR EACH ROW EXECUTE FUNCTION send()")
    until("cutover", table)
    sql.execute("INSERT INTO docs (id, body) VALUES (1000, '352')")
    assert run("top-up", "-q") == 0
    sql.execute("DELETE FROM outbox")
    assert run("rollback") == 2
    said = capsys.readouterr().err
    assert "would run own AFTER UPDATE OF embedding" in said and "sent AFTER" in said and "--skip-triggers" in said
    assert "kedge_" not in said.split("would run")[1]
    assert value(sql, "SELECT embedding IS NULL FROM docs WHERE id = 1000") and run("status", "-q") == 0
    assert run("rollback", "-q", "--skip-triggers") == 0
    assert value(sql, "SELECT count(*) FROM outbox") == 0
    require_translated_back(sql, {1000: 352})
