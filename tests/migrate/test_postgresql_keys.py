# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are known by several columns together, (tenant_id, id): a migration of them as of any other."""
import json
import pathlib
import threading

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate import UsageError
from kedge.migrate.draw import as_id, as_key
from kedge.migrate.store import Missing, open_store
from kedge.migrate.stores.postgres_side import PostgresSide
from kedge.migrate.stores.scores import unit
from kedge.migrate.text_search import TextSearch
from keyed_tables import INSERT, SHAPES, TENANTS, Shape, begin, change, make, require_real, shown, text_of, where
from made_up import ROWS, spaces
from postgres_tables import value
from psycopg import sql as words
from require import require_near
from steps import facts, run

WAYS = [("numbers", ""), *(pytest.param(*way, marks=pytest.mark.long) for way in (
    ("numbers", "column"), ("texts", ""), ("texts", "column"), ("partitioned", ""), ("partitioned", "column"),
    ("moments", "")))]


@pytest.mark.parametrize(("name", "into"), WAYS)
def test_a_whole_migration(sql: psycopg.Connection, address: str, folder: pathlib.Path, name: str, into: str,
                           capsys: pytest.CaptureFixture[str]) -> None:
    (old, new), shape = spaces(), SHAPES[name]
    make(sql, shape)
    sql.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'")
    if name == "moments":  # a server may write times in its own way
        sql.execute("ALTER DATABASE postgres SET TimeZone = 'Asia/Tokyo'; "
                    "ALTER DATABASE postgres SET DateStyle = 'German'")
    begin(address, into)
    key = shape.key
    with migrate.Migration() as one:
        assert key(7) in [some for rows in one.new.read() for some in rows.ids]
        assert all(as_id(as_key(some)) == some for some in one.journal.drawn_ids())
    # Others insert, remove, write a vector, and change either part of a key.
    sql.execute(INSERT.format(shape.named), [*key(ROWS + 1), "1", text_of(old[1])])
    sql.execute(words.SQL("DELETE FROM docs WHERE {}").format(where(shape)), key(3))
    change(sql, shape, "body = '1', embedding = %s", text_of(old[1]), n=200)
    first, second = map(words.Identifier, shape.columns)
    for column, here, there in ((first, 5, 6), (second, 8, 9)):
        part = key(there)[0] if column is first else key(ROWS + there)[1]
        sql.execute(words.SQL("UPDATE docs SET {} = %s WHERE {}").format(column, where(shape)), [part, *key(here)])
    assert run("verify", "-q") == 0 and run("cutover", "--json") == 0
    found = facts(capsys)
    why = "a vector goes along with its document, but not from one partition to another unless it is a column"
    assert found["arrived"] == (2 if shape.partitions and not into else 1), why
    assert run("cutover", "-q") == 0 and run("verify", "-q", "--rows", ROWS) == 0
    keys = {key(n) for n in range(ROWS) if n not in (3, 5, 8)} | {
        key(ROWS + 1), (key(6)[0], key(5)[1]), (key(8)[0], key(ROWS + 9)[1])}
    assert shown(sql, shape, into).keys() == keys
    with migrate.Migration() as one:
        real = [n for n in range(10, ROWS) if n != 200 and key(n) in one.journal.real()]
    n, translated = real[0], next(n for n in range(12, ROWS) if n not in real)
    for old_query in (None, old[n]):
        assert migrate.search("migrate.toml", old_query, new[n], k=1)[0] == [key(n)]
    assert migrate.search("migrate.toml", None, new[n], k=9, where=words.SQL("{} = %s").format(first).as_string(sql),
                          params=[key(n)[0]])[0][0] == key(n)
    assert run("sql", "--install", "-q") == 0
    capsys.readouterr()
    fused = words.SQL("SELECT ({0})::text FROM kedge_search_docs(%s, %s, k => 5, among => ARRAY(SELECT ({0})::text "
                      "FROM docs WHERE {1} <> %s))").format(shape.named, first)
    queries = [text_of(old[n]), text_of(new[n])]
    this = words.SQL("SELECT ({})::text FROM docs WHERE {}").format(shape.named, where(shape))
    named = value(sql, this.as_string(sql), *key(n))
    hits = [one for one, in sql.execute(fused, [*queries, key(n + 1)[0]])]
    assert hits[0] == named and len(hits) == 5
    assert named not in [one for one, in sql.execute(fused, [*queries, key(n)[0]])]
    # What the application embeds itself is kept, and the rest is embedded here.
    side = words.Identifier("docs" if into else "docs_embedding_new")
    sql.execute(words.SQL("UPDATE {} SET embedding = %s WHERE {}").format(side, where(shape)),
                [text_of(unit(new)[translated]), *key(translated)])
    change(sql, shape, "body = '2'", n=11)
    moved = key(15)[0], key(ROWS + 16)[1]
    sql.execute(words.SQL("UPDATE docs SET {} = %s WHERE {}").format(second, where(shape)), [moved[1], *key(15)])
    keys = keys - {key(15)} | {moved}
    assert run("top-up", "--json") == 0
    assert facts(capsys)["theirs"] == 1
    everything = shown(sql, shape, into)
    assert everything[key(11)][0] == "2" and everything.keys() == keys
    require_real(everything)
    require_rolled_back(sql, shape, into, capsys)


def require_rolled_back(sql: psycopg.Connection, shape: Shape, into: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A document that comes after the cutover gets an old vector, and is listed by its key."""
    key, new = shape.key(ROWS + 20), text_of(unit(spaces()[1])[1])
    columns = words.SQL("INSERT INTO {} ({}, {}) VALUES (%s, %s, %s)")
    sql.execute(columns.format(words.Identifier("docs"), shape.named, words.SQL("embedding" if into else "body")),
                [*key, new if into else "1"])
    if not into:
        sql.execute(columns.format(words.Identifier("docs_embedding_new"), shape.named, words.SQL("embedding")),
                    [*key, new])
    assert run("rollback", "--json") == 0
    found = facts(capsys)
    assert list(key) in found["translated_back"] and found["only_new"] == 0
    with open(found["to_embed"]) as file:
        assert list(key) in [json.loads(line)["id"] for line in file]
    asked = words.SQL("SELECT embedding IS NOT NULL FROM docs WHERE {}").format(where(shape))
    assert value(sql, asked.as_string(sql), *key)
    before = value(sql, "SELECT count(*) FROM docs WHERE embedding IS NOT NULL")
    for step in (("apply",), ("verify",), ("cutover",), ("rollback", "--drop", "--yes")):
        assert run(*step, "-q") == 0, "again, with the notes of the first time"
    assert value(sql, "SELECT count(*) FROM docs WHERE embedding IS NOT NULL") == before
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'kedge%%' OR relname LIKE 'docs_embedding_new%%'"
    assert value(sql, left) == 0 and value(sql, "SELECT count(*) FROM pg_proc WHERE proname LIKE 'kedge%%'") == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["numbers", "partitioned"])
def test_one_tenant_is_migrated(sql: psycopg.Connection, address: str, folder: pathlib.Path, name: str) -> None:
    shape = SHAPES[name]
    make(sql, shape)
    begin(address, "", "--where", "tenant_id = 3", "--sample", 60)
    change(sql, shape, "body = '2', embedding = %s", text_of(spaces()[0][2]), n=13)
    change(sql, shape, "body = '2', embedding = %s", text_of(spaces()[0][2]), n=14)
    sql.execute("UPDATE docs SET tenant_id = 4 WHERE id = 18; UPDATE docs SET tenant_id = 3 WHERE id = 19")
    for step in ("verify", "cutover", "top-up", "verify"):
        assert run(step, "-q") == 0
    found = shown(sql, shape, "")
    assert found.keys() == {shape.key(n) for n in range(ROWS) if n % TENANTS == 3} - {(3, 18)} | {(3, 19)}
    assert found[shape.key(13)][0] == "2"
    require_real(found)
    assert all(tenant == 3 for tenant, _ in migrate.search("migrate.toml", spaces()[0][0], spaces()[1][0], 500)[0])


class Writer(threading.Thread):
    """Another session that inserts, removes and edits documents, and moves them to other keys, until it is stopped."""

    def __init__(self, address: str, shape: Shape, into: str) -> None:
        super().__init__()
        self.address, self.shape, self.into, self.stop, self.writes = address, shape, into, threading.Event(), 0

    def run(self) -> None:
        chance, (old, _), shape = np.random.default_rng(5), spaces(), self.shape
        with psycopg.connect(self.address, autocommit=True) as session:
            while not self.stop.wait(.002):
                n, other, self.writes = *(int(one) for one in chance.integers(ROWS, size=2)), self.writes + 1
                kind = self.writes % 6
                try:
                    if kind == 0:
                        session.execute(words.SQL("DELETE FROM docs WHERE {}").format(where(shape)), shape.key(n))
                    elif kind == 1:
                        session.execute(INSERT.format(shape.named), [*shape.key(ROWS + self.writes), str(other),
                                                                     text_of(old[other])])
                    elif kind == 2:
                        first, second = map(words.Identifier, shape.columns)
                        session.execute(words.SQL("UPDATE docs SET {} = %s, {} = %s WHERE {}").format(
                            first, second, where(shape)), [*shape.key(10 * ROWS + self.writes), *shape.key(n)])
                    else:
                        change(session, shape, "body = %s, embedding = %s", str(other), text_of(old[other]), n=n)
                except psycopg.errors.DataException:  # the column has vectors of another width now
                    return


@pytest.mark.long
@pytest.mark.parametrize(("name", "into"), WAYS)
def test_nothing_is_lost_or_stale_with_a_writer_at_work(sql: psycopg.Connection, address: str, folder: pathlib.Path,
                                                        name: str, into: str) -> None:
    (old, _), shape = spaces(), SHAPES[name]
    make(sql, shape)
    sql.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'")
    writer = Writer(address, shape, into)
    writer.start()
    try:
        begin(address, into, "--map", "ridge")
        for step in ("apply", "verify", "cutover"):
            assert run(step, "-q") == 0
    finally:
        writer.stop.set()
        writer.join()
    assert run("cutover", "-q") == 0, "in a side table it catches up with the last writes"
    assert writer.writes > 20
    there = shown(sql, shape, into)
    with migrate.Migration() as one:
        assert not list(one.old.not_in(one.new)) and not list(one.new.not_in(one.old))
        real, translator = one.journal.real(), one.translator()
        translated = {key: int(body) for key, (body, _) in there.items() if key not in real}
        expected = one.translate(translator, old[list(translated.values())])
    require_near([json.loads(there[key][1] or "") for key in translated], expected)
    require_real({key: found for key, found in there.items() if key in real})
    assert run("top-up", "-q") == 0
    require_real(shown(sql, shape, into))


@pytest.mark.long
def test_vectors_made_by_hand_go_under_their_keys(sql: psycopg.Connection, address: str, folder: pathlib.Path) -> None:
    """The files that say what to embed, and those of texts and judgements, have a key as JSON has it."""
    shape, (old, new) = SHAPES["texts"], spaces()
    make(sql, shape)
    keys = [shape.key(n) for n in range(ROWS)]
    with open("texts.jsonl", "w") as file:
        file.writelines(json.dumps({"id": key, "text": str(n)}) + "\n" for n, key in enumerate(keys))
    np.save("old.npy", old[:200])
    np.save("new.npy", new[:200])
    with open("judged.tsv", "w") as judged:
        judged.writelines(f"{n}\t{json.dumps(keys[n])}\t1\n" for n in range(200))
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding", "--sample", 120, "--texts",
               "texts.jsonl", "--old-queries", "old.npy", "--new-queries", "new.npy", "--judgements", "judged.tsv") == 0

    def embed(step: str, *more: object) -> None:
        assert run(step, "-q", *more) == 0
        with open(f"migrate.{step}.jsonl") as file:
            lines = [json.loads(line) for line in file]
        assert all(keys[int(line["text"])] == tuple(line["id"]) for line in lines)
        np.save("made.npy", new[[int(line["text"]) for line in lines]])
        assert run(step, "-q", "--vectors", "made.npy") == 0

    embed("sample")
    for step in ("fit", "check", "apply", "verify", "cutover"):
        assert run(step, "-q") == 0
    embed("top-up")
    with migrate.Migration() as one:
        assert one.journal.fact("check")["queries"] == "judged"
        found = {key: row for rows in one.new.read() for key, row in zip(rows.ids, rows.matrix)}
    require_near([found[key] for key in keys], unit(new))


@pytest.mark.long
def test_an_apply_that_was_stopped_goes_on_behind_the_last_key(sql: psycopg.Connection, address: str,
                                                              folder: pathlib.Path) -> None:
    shape = SHAPES["texts"]
    make(sql, shape)
    begin(address, "")
    ids = [key for rows in open_store(f"{address}&table=docs&column=embedding").read() for key in rows.ids]
    for after, gone in ((ids[200], False), (ids[300], True)):
        if gone:
            assert isinstance(after, tuple)
            sql.execute(words.SQL("DELETE FROM docs WHERE {}").format(where(shape)), after)
        with migrate.Migration() as one:
            one.journal.note(applied=None, apply_after=after, apply_rows=201)
            one.new.write([key for key in ids[201:] if key not in one.journal.real()], None)
        assert run("apply", "-q") == 0 and run("verify", "-q", "--rows", ROWS) == 0


@pytest.mark.long
def test_after_the_end_vectors_go_with_their_documents(sql: psycopg.Connection, address: str,
                                                       folder: pathlib.Path) -> None:
    shape = SHAPES["numbers"]
    make(sql, shape)
    begin(address, "")
    for step in ("verify", "cutover", "finish"):
        assert run(step, "-q") == 0
    sql.execute("DELETE FROM docs WHERE (tenant_id, id) = (2, 7); UPDATE docs SET tenant_id = 9 WHERE id = 8; UPDATE "
                "docs SET body = '3' WHERE id = 9; INSERT INTO docs VALUES (2, 5000, '1')")
    there = "SELECT array_agg((tenant_id, id)::text ORDER BY id) FROM docs_embedding_new WHERE "
    assert value(sql, there + "id IN (7, 8)") == ["(9,8)"]
    assert value(sql, there + "stale") == ["(4,9)"] and value(sql, there + "embedding IS NULL") == ["(2,5000)"]
    assert value(sql, "SELECT embedding IS NOT NULL FROM kedge_docs WHERE (tenant_id, id) = (9, 8)")
    # The next model begins from the side table.
    for file in folder.glob("migrate.*"):
        file.unlink()
    begin(f"{address}&side=docs_embedding_new", "", "--map", "ridge")
    for step in ("verify", "cutover", "top-up", "finish"):
        assert run(step, "-q") == 0
    assert value(sql, "SELECT count(embedding) FROM kedge_docs") == ROWS


@pytest.mark.long
@pytest.mark.parametrize(("kind", "moments", "copied"), [
    ("timestamptz", ["2026-01-31 01:00:00.000001+05", "1969-12-31 23:59:59 UTC", "9999-12-31 00:00:00.5 UTC"], True),
    ("timestamp", ["2026-01-31 01:00:00.25", "0001-01-01 00:00:00", "2000-01-01 00:00:00"], True),
    ("date", ["2026-01-31", "1999-12-31", "0001-01-01"], True), ("date", ["0044-03-15 BC", "infinity"], False),
    ("timestamptz", ["-infinity", "2026-01-31 UTC", "infinity"], False), ("numeric", ["1.50", "-2e30", "NaN"], False)])
def test_times_in_keys_are_written_as_they_are(sql: psycopg.Connection, address: str, kind: str, moments: list[str],
                                               copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if copied:
        monkeypatch.delattr(PostgresSide, "_replace")
    sql.execute(f"SET TimeZone = 'Asia/Tokyo'; CREATE TABLE docs (id smallint, at {kind}, embedding vector(12), "
                "PRIMARY KEY (id, at))")
    for n, moment in enumerate(moments * 2):
        sql.execute("INSERT INTO docs VALUES (%s, %s, %s)", [n, moment, text_of(spaces()[0][n])])
    old = open_store(f"{address}&table=docs&column=embedding")
    new = old.new_place()
    new.create(old, 12, "one")
    for rows in old.read(size=4):
        new.write(rows.ids, rows.matrix)
    assert value(sql, "SELECT count(*) FROM docs d JOIN docs_embedding_new s ON (s.id, s.at) = (d.id, d.at) AND "
                      "s.embedding = d.embedding") == 2 * len(moments) and not list(old.not_in(new))
    for store in (old, new):
        store.close()


@pytest.mark.long
def test_a_tenant_sees_and_writes_its_own_vectors(sql: psycopg.Connection, address: str, folder: pathlib.Path) -> None:
    shape, new = SHAPES["numbers"], spaces()[1]
    make(sql, shape)
    sql.execute("DROP ROLE IF EXISTS tenant; CREATE ROLE tenant LOGIN; GRANT USAGE ON SCHEMA public TO tenant; GRANT "
                "SELECT, INSERT, UPDATE, DELETE ON docs TO tenant; ALTER TABLE docs ENABLE ROW LEVEL SECURITY; CREATE "
                "POLICY own ON docs USING (tenant_id = 3)")
    begin(address, "")
    for step in ("verify", "cutover"):
        assert run(step, "-q") == 0
    write = ("INSERT INTO docs_embedding_new (tenant_id, id, embedding) VALUES (%s, %s, %s) ON CONFLICT (tenant_id, "
             "id) DO UPDATE SET embedding = excluded.embedding")
    with psycopg.connect(address.replace("//postgres:@", "//tenant@"), autocommit=True) as tenant:
        for place in ("docs_embedding_new", "kedge_docs"):
            assert value(tenant, f"SELECT array_agg(DISTINCT tenant_id) FROM {place}") == [3]
        tenant.execute(write, [3, 13, text_of(unit(new)[13])])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            tenant.execute(write, [4, 14, text_of(unit(new)[14])])
        tenant.execute("DELETE FROM docs WHERE tenant_id = 3 AND id = 18")
    assert run("top-up", "-q") == 0 and run("verify", "-q", "--rows", ROWS) == 0
    found = shown(sql, shape, "")
    assert len(found) == ROWS - 1
    require_real(found)
    search = TextSearch(old_model=lambda texts: spaces()[0][[int(text) for text in texts]])
    assert search("13", 1)[0][::2] == (shape.key(13), "13")
    search.close()


@pytest.mark.long
def test_plan_refuses_a_key_that_a_side_table_cannot_have(sql: psycopg.Connection, address: str, folder: pathlib.Path,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    sql.execute("CREATE TABLE docs (tenant_id int, stale int, vector vector(12), PRIMARY KEY (tenant_id, stale))")
    store = "--store", f"{address}&table=docs&column=vector"
    assert run("plan", "-q", *store) == 2
    assert "the key has a column 'stale', and so has every side table" in capsys.readouterr().err
    assert run("plan", "-q", "--config", "other.toml", *store, "--into", "column") == 0


@pytest.mark.long
def test_what_an_address_says_of_a_key(sql: psycopg.Connection, address: str) -> None:
    make(sql, SHAPES["numbers"], 20)
    sql.execute("CREATE UNIQUE INDEX ON docs (id, tenant_id); ALTER TABLE docs ADD other int DEFAULT 0")
    store = f"{address}&table=docs&column=embedding"
    for asked, first in (("", (0, 0)), ("&id=id,tenant_id", (0, 0)), ("&id=tenant_id, id", (0, 0))):
        ids = [key for rows in open_store(store + asked).read(size=7) for key in rows.ids]
        assert ids == sorted(ids) and ids[0] == first and len(ids) == 20 and len(set(ids)) == 20
    with pytest.raises(Missing, match="has no column 'no'; it has tenant_id"):
        open_store(store + "&id=tenant_id,no").describe()
    with pytest.raises(UsageError, match="there is no unique index on 'other,id'"):
        open_store(store + "&id=other,id").describe()
    sql.execute("CREATE UNIQUE INDEX ON docs (other, id)")
    with pytest.raises(UsageError, match="no unique index on 'other,id' whose columns are NOT NULL"):
        open_store(store + "&id=other,id").describe()
    with pytest.raises(UsageError, match=r"ids of this table are tuples of tenant_id,id \(integer, bigint\)"):
        list(open_store(store).read(ids=[7]))
