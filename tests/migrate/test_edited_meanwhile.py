# SPDX-License-Identifier: Apache-2.0
"""Documents that an application edits while top-up embeds them: no vector is written onto a text it was not made of."""
import json
import pathlib
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from kedge.migrate.draw import text_version
from kedge.migrate.store import Store
from kedge.migrate.stores.scores import unit
from made_up import spaces
from postgres_tables import WIDTH, everything, rows_of, value
from require import require_near
from steps import facts, run

COUNT, SAMPLE = 200, 60


# (into, where new vectors are before and after a cutover) for both kinds of places
SIDE = ("", "docs JOIN docs_embedding_new s USING (id)", "s.embedding", "s.embedding")
COLUMN = ("column", "docs", "embedding_new", "embedding")


@pytest.fixture(params=[SIDE, COLUMN], ids=["side", "column"])
def place(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


@pytest.fixture
def applied(folder: pathlib.Path, sql: psycopg.Connection, address: str, place: tuple[str, ...]) -> Iterator[str]:
    """A table of documents, applied; a text is the number of a document, and the models know all documents."""
    begin(sql, address, place, spaces()[0])
    yield address


def begin(sql: psycopg.Connection, address: str, place: tuple[str, ...], old: np.ndarray) -> None:
    sql.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, embedding vector({old.shape[1]}))")
    sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, %s)",
                             [(n, str(n), str(row.tolist())) for n, row in enumerate(old[:COUNT])])
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new",
               "--sample", SAMPLE, *(["--into", place[0]] if place[0] else [])) == 0
    for step in ("sample", "fit", "apply", "verify"):
        assert run(step, "-q") == 0


def while_it_embeds(folder: pathlib.Path, edit: str) -> None:
    """The model runs these lines, with a connection 'sql', whenever it is asked for 'texts'."""
    with open(folder / "models.py", "a") as file:
        file.write(f"""
import psycopg
def new(texts, embed_new=new):
    with psycopg.connect(open({str(folder / 'address')!r}).read(), autocommit=True) as sql:
{edit}
    return embed_new(texts)
""")
    sys.modules.pop("models", None)


def vectors(sql: psycopg.Connection, place: tuple[str, ...], after: bool = False) -> dict[int, tuple[int, np.ndarray]]:
    """{id: (the number that is its text, its new vector)}."""
    table, column = place[1], place[3 if after else 2]
    found = sql.execute(f"SELECT id, body, {column}::text FROM {table} WHERE {column} IS NOT NULL").fetchall()
    return {one: (int(body), np.array(json.loads(text), np.float32)) for one, body, text in found}


def test_a_document_that_is_edited_keeps_no_vector_of_its_old_text(
        folder: pathlib.Path, applied: str, place: tuple[str, ...], sql: psycopg.Connection,
        capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    before = vectors(sql, place)
    (folder / "address").write_text(applied)
    while_it_embeds(folder, """
        for text in texts[::3]:
            sql.execute("UPDATE docs SET body = (id + 200)::text WHERE id = %s AND id < 200", [int(text) % 200])
""")
    assert run("top-up", "--json") == 0
    found, after = facts(capsys), vectors(sql, place)
    edited = [one for one, (body, _) in after.items() if body != one]
    assert len(edited) > 40 and found["edited"] == len(edited) and found["real"] == COUNT - len(edited)
    for one, (body, row) in after.items():
        expected = before[one][1] if one in edited else unit(new)[body]
        require_near(row, expected)
    (folder / "models.py").write_text((folder / "models.py").read_text().split("import psycopg")[0])
    sys.modules.pop("models")
    assert run("top-up", "--json") == 0 and facts(capsys)["real"] == COUNT
    for body, row in vectors(sql, place).values():
        require_near(row, unit(new)[body])


def test_what_applications_have_embedded_is_neither_overwritten_nor_paid_for(
        folder: pathlib.Path, applied: str, place: tuple[str, ...], sql: psycopg.Connection,
        capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    assert run("cutover", "-q") == 0
    (folder / "address").write_text(applied)
    asked = (folder / "asked.txt").read_text().split()
    theirs = [one for one in range(COUNT) if str(one) not in asked][:30]
    table = "docs_embedding_new" if place == SIDE else "docs"
    for one in theirs:
        sql.execute("UPDATE docs SET body = %s WHERE id = %s", [str(one + COUNT), one])
        sql.execute(f"UPDATE {table} SET embedding = %s WHERE id = %s", [str(new[one + COUNT].tolist()), one])
    while_it_embeds(folder, f"""
        for text in texts[::3]:
            vector = str(np.load({str(folder / 'new_model.npy')!r})[int(text) + 200].tolist())
            sql.execute("UPDATE docs SET body = (id + 200)::text WHERE id = %s", [int(text)])
            sql.execute("UPDATE {table} SET embedding = %s WHERE id = %s", [vector, int(text)])
""")
    assert run("top-up", "--json") == 0
    found = facts(capsys)
    assert found["theirs"] == len(theirs) and found["edited"] > 20
    assert run("top-up", "--json") == 0
    again = facts(capsys)
    assert again["theirs"] == found["edited"] and again["real"] == COUNT
    paid = (folder / "asked.txt").read_text().split()[len(asked):]
    assert len(paid) == len(set(paid)) == COUNT - SAMPLE - len(theirs)
    for body, row in vectors(sql, place, after=True).values():
        require_near(unit(row), unit(new)[body])


def test_vectors_made_by_hand_belong_to_the_text_that_was_handed_out(
        folder: pathlib.Path, applied: str, place: tuple[str, ...], sql: psycopg.Connection,
        capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    text = (folder / "migrate.toml").read_text()
    (folder / "migrate.toml").write_text(text.replace('embed = "models:new"', ""))
    assert run("top-up", "--json", "--rows", 30) == 0
    lines = [json.loads(line) for line in (folder / facts(capsys)["to_embed"]).read_text().splitlines()]
    np.save("made.npy", new[[int(line["text"]) for line in lines]])
    before, edited = vectors(sql, place), [line["id"] for line in lines[:10]]
    sql.execute("UPDATE docs SET body = (id + 200)::text WHERE id = ANY(%s)", [edited])
    assert run("top-up", "-q", "--rows", 30) == 0, "the same list, of the same versions"
    assert run("top-up", "--json", "--vectors", "made.npy") == 0
    found, after = facts(capsys), vectors(sql, place)
    assert found["edited"] == 10 and found["real"] == SAMPLE + 20 and found["to_embed"] is None
    for line in lines:
        expected = before[line["id"]][1] if line["id"] in edited else unit(new)[line["id"]]
        require_near(after[line["id"]][1], expected)


def test_rows_of_zeros_get_the_vectors_of_their_texts(
        folder: pathlib.Path, sql: psycopg.Connection, address: str, place: tuple[str, ...],
        capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    old[5:9] = 0
    begin(sql, address, place, old)
    assert run("cutover", "-q") == 0 and run("top-up", "--json") == 0
    found, after = facts(capsys), vectors(sql, place, after=True)
    assert (found["real"], found["without_text"], found["not_there"]) == (COUNT, 0, 0) and len(after) == COUNT
    require_near(after[6][1], unit(new)[6])


def wait_until(reached: Callable[[], bool]) -> None:
    for _ in range(600):
        if reached():
            return
        threading.Event().wait(.05)
    raise AssertionError("it did not come")


@pytest.fixture(params=["", "column"], ids=["side", "column"])
def new(request: pytest.FixtureRequest, docs: Store) -> Iterator[Store]:
    store = docs.new_place(request.param)
    store.create(docs, WIDTH + 4, "one")
    yield store
    store.close()


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_write_waits_for_an_edit_under_way_and_looks_again(docs: Store, new: Store, address: str,
                                                             sql: psycopg.Connection, ends: str) -> None:
    written: list[object] = []
    versions = [text_version(f"text {one}") for one in (1, 2, 3)]
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("UPDATE docs SET body = 'edited' WHERE id = 2")
        rows = rows_of(3, WIDTH + 4)
        writer = threading.Thread(target=lambda: written.extend(new.write_version([1, 2, 3], rows, versions, docs)))
        writer.start()
        wait_until(lambda: value(sql, "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0)
        other.execute(ends)
        writer.join()
    expected = [1, 3] if ends == "COMMIT" else [1, 2, 3]
    assert sorted(map(str, written)) == list(map(str, expected)) and everything(new).ids == expected


def test_documents_without_a_text_are_told_by_their_vectors(docs: Store, new: Store, sql: psycopg.Connection) -> None:
    sql.execute("UPDATE docs SET body = NULL WHERE id IN (1, 2)")
    versions = [document.version for _, document in sorted(docs.documents_of([1, 2, 3]).items())]
    docs.write([2], rows_of(1, WIDTH, 9))
    assert sorted(map(str, new.write_version([1, 2, 3], rows_of(3, WIDTH + 4), versions, docs))) == ["1", "3"]

