# SPDX-License-Identifier: Apache-2.0
"""Documents whose keys others change while a migration is under way, and after it: vectors go along."""
import json
import pathlib
from collections.abc import Sequence

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate.moved import whole_moves, with_moves
from kedge.migrate.store import BATCH_ROWS, Note
from kedge.migrate.stores.postgres_side import PostgresSide
from kedge.migrate.stores.postgresql import PostgresStore
from kedge.migrate.stores.scores import unit
from kedge.migrate.types import Id, Vectors
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


def free() -> int:
    """Number of a document without a real vector."""
    return min(set(range(ROWS)).difference(drawn()))


def embed(sql: psycopg.Connection, into: str, key: int, text: int) -> None:
    """As an application that has the new model does, after the cutover."""
    table = "docs" if into else "docs_embedding_new"
    sql.execute(f"UPDATE {table} SET embedding = %s WHERE id = %s", [text_of(unit(spaces()[1])[text]), key])


def may_exchange(sql: psycopg.Connection) -> None:
    sql.execute("ALTER TABLE docs DROP CONSTRAINT docs_pkey, ADD PRIMARY KEY (id) DEFERRABLE")


STALE = "SELECT array_agg(id ORDER BY id) FROM docs_embedding_new WHERE stale"


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
    require_near(shown(sql, 9, into), np.array(shown(sql, 8, into)))


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


@pytest.mark.parametrize("into", ["", "column"])
def test_an_application_s_vector_before_the_cutover(applied: psycopg.Connection, into: str) -> None:
    sql, one = applied, free()
    table, column = ("docs", "embedding_new") if into else ("docs_embedding_new", "embedding")
    right = unit(spaces()[1])[one]
    sql.execute(f"UPDATE {table} SET {column} = %s WHERE id = %s", [text_of(right), one])
    if not into:  # in a column it is translated again then
        assert run("apply", "-q") == 0
    sql.execute(f"UPDATE docs SET id = 1005 WHERE id = {one}")
    assert run("apply", "-q") == 0
    require_near(json.loads(value(sql, f"SELECT {column}::text FROM {table} WHERE id = 1005")), right)


@pytest.mark.parametrize("into", ["column"])
@pytest.mark.parametrize("numbers", [(1, 2, 1000), (1000, 0, 1), (1, 2, 0), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("in_use", [False, True])
def test_one_statement_moves_several_documents(applied: psycopg.Connection, into: str, numbers: tuple[int, int, int],
                                               in_use: bool) -> None:
    """Whichever row comes first, each document keeps what was noted of it: its own vector, or a changed old one."""
    sql = applied
    may_exchange(sql)
    assert not in_use or run("cutover", "-q") == 0
    old, new = ("embedding_old", "embedding") if in_use else ("embedding", "embedding_new")
    free = [n for n in range(ROWS) if n not in drawn()]
    before, other = free[:3], free[3]
    after = [before[n] if n < 3 else n for n in numbers]

    def vector(key: int) -> list[float]:
        found: list[float] = json.loads(value(sql, f"SELECT {new}::text FROM docs WHERE id = {key}"))
        return found

    own = unit(spaces()[1])[before[0]]
    right = own, np.array(vector(other)), np.array(vector(before[2]))
    sql.execute(f"UPDATE docs SET {new} = %s WHERE id = %s", [text_of(own), before[0]])
    sql.execute(f"UPDATE docs SET {old} = %s WHERE id = %s", [text_of(spaces()[0][other]), before[1]])
    cases = " ".join(f"WHEN {one} THEN {then}" for one, then in zip(before, after))
    sql.execute(f"UPDATE docs SET id = CASE id {cases} END WHERE id = ANY(%s)", [before])
    assert run("cutover" if in_use else "apply", "-q") == 0
    for key, expected in zip(after, right):
        require_near(vector(key), expected)


@pytest.mark.parametrize("into", [""])
def test_an_application_s_vector_after_the_cutover(applied: psycopg.Connection, into: str) -> None:
    """It stays, and it is stale at the end only if the text was edited after it."""
    sql, new, one = applied, unit(spaces()[1]), free()
    assert run("cutover", "-q") == 0
    for key, text in ((one, one), (one + 1, 7)):
        sql.execute(f"UPDATE docs SET body = '{text}' WHERE id = {key}")
        embed(sql, into, key, text)
    assert run("cutover", "-q") == 0
    sql.execute(f"UPDATE docs SET id = id + 1000 WHERE id IN ({one}, {one + 1})")
    sql.execute(f"UPDATE docs SET body = '8' WHERE id = {one + 1001}")
    for step in ("cutover", "finish"):
        assert run(step, "-q") == 0
        require_near(shown(sql, one + 1000, into), new[one])
        require_near(shown(sql, one + 1001, into), new[7])
    assert value(sql, STALE) == [one + 1001]


@pytest.mark.parametrize("into", [""])
def test_a_change_of_key_in_two_batches_of_notes(applied: psycopg.Connection, into: str) -> None:
    sql, one = applied, free()
    assert run("cutover", "-q") == 0
    embed(sql, into, one, one)
    sql.execute(f"DO $$ BEGIN FOR n IN 3..{BATCH_ROWS} LOOP UPDATE docs SET body = n::text WHERE id = {one + 1}; "
                "END LOOP; END $$")
    sql.execute(f"UPDATE docs SET id = 1005 WHERE id = {one}")
    notes = value(sql, "SELECT relname FROM pg_class WHERE relname ~ '^kedge_notes' AND relkind = 'r'")
    kinds = "SELECT array_agg(what ORDER BY mark) FROM {} WHERE mark BETWEEN {} AND {}"
    assert value(sql, kinds.format(notes, BATCH_ROWS, BATCH_ROWS + 1)) == ["key", "gone"]
    assert run("cutover", "-q") == 0
    require_near(shown(sql, 1005, into), unit(spaces()[1])[one])


@pytest.mark.parametrize("into", ["column"])
def test_one_statement_has_more_notes_than_a_batch(applied: psycopg.Connection, into: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    sql = applied
    may_exchange(sql)
    assert run("cutover", "-q") == 0
    batch, one, notes = 16, free(), PostgresStore.notes

    def few(self: PostgresStore, owner: str, seen: bool = False, size: int = batch, after: int = 0) -> list[Note]:
        return notes(self, owner, seen, size, after)

    monkeypatch.setattr("kedge.migrate.apply.BATCH_ROWS", batch)
    monkeypatch.setattr(PostgresStore, "notes", few)
    # Others, that had a vector of the new model, wait for top-up.
    before = {key: np.array(shown(sql, key, into)) for key in range(ROWS) if key not in drawn()}
    before[one] = unit(spaces()[1])[one]
    embed(sql, into, one, one)
    sql.execute("UPDATE docs SET id = id + 1")
    assert run("cutover", "-q") == 0
    for key, vector in before.items():
        require_near(shown(sql, key + 1, into), vector)


@pytest.mark.parametrize("into", [""])
def test_a_document_that_goes_while_it_finishes(applied: psycopg.Connection, into: str,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vector goes too, or goes along; whoever gets its key does not get its vector as a fresh one."""
    sql, old, write = applied, spaces()[0], PostgresSide.write
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET embedding = %s WHERE id IN (9, 11, 13)", [text_of(old[8])])

    def late(self: PostgresSide, ids: Sequence[Id], vectors: Vectors | None) -> None:
        sql.execute("DELETE FROM docs WHERE id = 9; UPDATE docs SET id = 1011 WHERE id = 11; "
                    "UPDATE docs SET id = 1013 WHERE id = 13; UPDATE docs SET id = 13 WHERE id = 10")
        write(self, ids, vectors)

    monkeypatch.setattr(PostgresSide, "write", late)
    assert run("finish", "-q") == 0
    assert value(sql, "SELECT count(*) FROM docs_embedding_new s WHERE NOT EXISTS (SELECT 1 FROM docs d "
                      "WHERE d.id = s.id)") == 0
    assert 13 in value(sql, STALE)
    sql.execute("INSERT INTO docs (id, body) VALUES (9, 'another document')")
    assert value(sql, "SELECT embedding IS NULL FROM kedge_docs WHERE id = 9")


@pytest.mark.parametrize("into", ["column"])
def test_a_document_that_gets_another_s_key_while_it_finishes(applied: psycopg.Connection, into: str,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    sql, write = applied, PostgresStore.write
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET embedding_old = %s WHERE id = 9", [text_of(spaces()[0][8])])
    right = shown(sql, 10, into)

    def late(self: PostgresStore, ids: Sequence[Id], vectors: Vectors | None) -> None:
        sql.execute("UPDATE docs SET id = 1009 WHERE id = 9; UPDATE docs SET id = 9 WHERE id = 10")
        write(self, ids, vectors)

    monkeypatch.setattr(PostgresStore, "write", late)
    assert run("finish", "-q") == 0
    require_near(shown(sql, 9, into), np.array(right))


@pytest.mark.parametrize("into", ["", "column"])
def test_an_edit_before_keys_are_exchanged_is_not_forgotten(applied: psycopg.Connection, into: str,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    sql = applied
    may_exchange(sql)
    assert run("cutover", "-q") == 0
    sql.execute("UPDATE docs SET body = '7' WHERE id = 9")
    sql.execute("UPDATE docs SET id = 17 - id WHERE id IN (8, 9)")
    capsys.readouterr()
    assert run("rollback", "--json") == 0
    assert 8 in facts(capsys)["old_text"]


@pytest.mark.parametrize("into", [""])
def test_a_key_and_a_text_in_one_transaction_after_finish(applied: psycopg.Connection, into: str) -> None:
    """In any order, with a vector of the new text or without."""
    sql = applied
    for step in ("cutover", "finish"):
        assert run(step, "-q") == 0
    orders = ("kt", "tk", "ktv", "vkt", "vtk", "tkv", "tvk")
    for one, order in enumerate(orders):
        key = one
        with sql.transaction():
            for word in order:
                if word == "k":
                    sql.execute(f"UPDATE docs SET id = {1000 + one} WHERE id = {one}")
                    key = 1000 + one
                elif word == "t":
                    sql.execute(f"UPDATE docs SET body = '17' WHERE id = {key}")
                else:
                    embed(sql, into, key, 17)
    assert value(sql, STALE) == [1000 + one for one, order in enumerate(orders) if "v" not in order]
    sql.execute("ALTER TABLE docs RENAME body TO content")
    sql.execute("UPDATE docs SET content = '17' WHERE id = 30; UPDATE docs SET id = 1031 WHERE id = 31; "
                "UPDATE docs SET id = 1032, content = '17' WHERE id = 32")
    assert value(sql, STALE) == [30, 1000, 1001, 1032]
    assert shown(sql, 1031, into)


def test_exchanged_keys_of_a_document_that_is_left_out(sql: psycopg.Connection, address: str,
                                                       folder: pathlib.Path) -> None:
    """One that meets the condition and one that has no row do not get each other's vectors after finish."""
    fill(sql, range(ROWS), spaces()[0])
    sql.execute("UPDATE docs SET body = id::text; ALTER TABLE docs ADD live boolean NOT NULL DEFAULT true")
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding&text=body", "--where", "live",
               "--embed", "models:new", "--sample", 120) == 0
    for step in ("sample", "fit", "apply", "verify", "cutover", "finish"):
        assert run(step, "-q") == 0
    may_exchange(sql)
    sql.execute("INSERT INTO docs (id, body) VALUES (9001, 'came')")
    assert value(sql, "SELECT count(*) FROM docs_embedding_new WHERE id IN (8, 9001)") == 1
    sql.execute("UPDATE docs SET id = 9009 - id WHERE id IN (8, 9001)")
    assert value(sql, "SELECT count(*) FROM docs_embedding_new WHERE id IN (8, 9001) AND embedding IS NOT NULL") == 0


def test_a_batch_of_notes_ends_before_half_a_change() -> None:
    whole = [Note(1, "a", "text", 5), Note(2, "b", "key", 6), Note(3, "a", "gone", 6)]
    assert whole_moves(whole) == whole
    assert whole_moves([*whole, Note(4, "c", "key", 7), Note(5, "d", "old", 8)]) == whole
    # Two transactions at a time: without the second half of the later one, the earlier one's is missing too.
    assert whole_moves([*whole, Note(4, "c", "key", 7), Note(5, "e", "key", 8), Note(6, "d", "gone", 7)]) == whole
    assert whole_moves([Note(4, "c", "key", 7)]) == [Note(4, "c", "key", 7)], "the next batch begins with it otherwise"


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
    up = [Note(1, "a", "new", 5), Note(2, "b", "old", 5), Note(3, "b", "key", 6), Note(4, "a", "gone", 6)]
    moved = [("b", "new"), ("c", "old"), ("b", "moved"), ("a", "gone"), ("c", "moved")]
    last = [Note(5, "c", "key", 6), Note(6, "b", "left", 6)]
    assert [(note.id, note.what) for note in with_moves([*up, *last])] == moved
    around = [*up[:3], Note(4, "a", "left", 6), Note(5, "a", "key", 6), last[1]]
    assert [(note.id, note.what) for note in with_moves(around)] == [
        ("b", "new"), ("a", "old"), ("b", "moved"), ("a", "moved")]
    then_exchanged = [Note(1, "a", "new", 5), Note(2, "c", "old", 5), Note(3, "b", "key", 6), Note(4, "a", "gone", 6),
                      Note(5, "c", "key", 6), Note(6, "b", "left", 6), Note(7, "b", "key", 6), Note(8, "c", "left", 6)]
    assert [(note.id, note.what) for note in with_moves(then_exchanged)] == [
        ("c", "new"), ("b", "old"), ("c", "moved"), ("a", "gone"), ("c", "moved"), ("b", "moved")]
    inserted_instead = [Note(1, "a", "new", 5), Note(2, "b", "key", 6), Note(3, "a", "left", 6)]
    assert [(note.id, note.what) for note in with_moves(inserted_instead)] == [
        ("b", "new"), ("b", "moved"), ("a", "gone")], "of an id that an INSERT has filled, nothing is known"


def test_notes_find_their_documents_whatever_moves_where() -> None:
    """Statements that each move some of five documents to other keys of eight, two to a transaction."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        at = dict(enumerate(rng.choice(8, 5, replace=False).tolist()))
        written: dict[int, int] = {}
        notes: list[Note] = []
        for statement in range(6):
            one = int(rng.integers(5))
            written[len(notes)] = one
            notes.append(Note(len(notes), at[one], "old", statement // 2))
            moving = rng.permutation(5)[:rng.integers(1, 5)].tolist()
            places = [key for key in range(8) if key not in at.values() or key in [at[n] for n in moving]]
            to = dict(zip(moving, rng.permutation(places)[:len(moving)].tolist()))
            before, at = at, {**at, **to}
            for n in moving:
                if before[n] != at[n]:
                    notes += [Note(len(notes), at[n], "key", statement // 2), Note(
                        len(notes) + 1, before[n], "left" if before[n] in at.values() else "gone", statement // 2)]
        found = {note.mark: note.id for note in with_moves(notes) if note.what == "old"}
        assert found == {mark: at[n] for mark, n in written.items()}
