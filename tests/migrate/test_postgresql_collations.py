# SPDX-License-Identifier: Apache-2.0
"""Ids that are texts with a COLLATE of their own: the side table and the notes have the same, so that their indexes
find the documents, and where two spellings are one id, plan says that it cannot be."""
import pathlib

import numpy as np
import psycopg
import pytest
from kedge import migrate
from kedge.migrate import UsageError
from kedge.migrate.store import open_store
from kedge.migrate.stores.scores import unit
from keyed_tables import text_of
from made_up import ROWS, spaces
from postgres_tables import fill, value
from require import require_near
from steps import run


def key(n: int) -> str:
    """Collations sort these differently, and some take none of their signs for letters."""
    return ("a", "B", "ä", "_ ", "Z-", "")[n % 6] + str(n)


@pytest.mark.parametrize("into", ["", "column"])
def test_a_whole_migration(sql: psycopg.Connection, address: str, folder: pathlib.Path, into: str) -> None:
    old, new = spaces()
    fill(sql, map(key, range(ROWS)), old, 'text COLLATE "C"')
    sql.execute("UPDATE docs SET body = substring(id from '[0-9]+')")
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new",
               "--sample", 120, *(["--into", into] if into else [])) == 0
    for step in ("sample", "fit", "apply", "verify"):
        assert run(step, "-q") == 0
    sql.execute("INSERT INTO docs (id, body, embedding) VALUES ('ÄA', '1', %s)", [text_of(old[1])])
    sql.execute("UPDATE docs SET body = '2', embedding = %s WHERE id = %s", [text_of(old[2]), key(9)])
    sql.execute("DELETE FROM docs WHERE id = %s", [key(3)])
    for step in ("cutover", "verify", "top-up", "verify"):
        assert run(step, "-q") == 0
    found = sql.execute(f"SELECT id, body, embedding::float4[] FROM {'docs' if into else 'kedge_docs'}").fetchall()
    assert {one for one, _, _ in found} == {key(n) for n in range(ROWS) if n != 3} | {"ÄA"}
    require_near(np.array([row for _, _, row in found]), unit(new)[[int(body) for _, body, _ in found]])
    assert migrate.search("migrate.toml", old[8], new[8], k=1)[0] == [key(8)]
    made = sql.execute("SELECT c.relname, collname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN "
                       "pg_collation l ON l.oid = attcollation WHERE attname = 'id' AND relkind = 'r' AND relname ~ "
                       "'^kedge|^docs'").fetchall()
    assert len(made) == (2 if into else 3) and all(collation == "C" for _, collation in made)
    if not into:
        sql.execute("ANALYZE; SET enable_seqscan = off")
        plan = "\n".join(line for line, in sql.execute(
            "EXPLAIN DELETE FROM docs_embedding_new s USING docs d WHERE s.id = d.id AND d.id = 'x'"))
        assert "Index Cond" in plan and "Seq Scan" not in plan, plan
    assert run("rollback", "-q") == 0 and run("rollback", "-q", "--drop", "--yes") == 0


def test_two_spellings_of_one_id_are_refused(sql: psycopg.Connection, address: str) -> None:
    """This server knows no collation of that kind, so one is called so; and a type of that name stands for citext's."""
    sql.execute('CREATE COLLATION loose FROM "C"; CREATE DOMAIN citext AS text; CREATE DOMAIN mail AS citext; '
                "CREATE SCHEMA apart; CREATE DOMAIN apart.citext AS text")
    sql.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose'")
    for kind, by in (("text COLLATE loose", "collation"), ("citext", "type citext"), ("mail", "type citext"),
                     ("apart.citext", "type citext")):
        sql.execute("DROP TABLE IF EXISTS docs")
        fill(sql, ["a"], spaces(1)[0], kind)
        with pytest.raises(UsageError, match=f"two spellings of one id are the same to the server, by its {by}"):
            open_store(f"{address}&table=docs&column=embedding").describe()
    sql.execute("ALTER TABLE docs ADD number int NOT NULL UNIQUE DEFAULT 1")
    assert open_store(f"{address}&table=docs&column=embedding&id=number").describe().rows == 1


def test_a_text_in_another_spelling_is_another_text(sql: psycopg.Connection, address: str) -> None:
    """Whatever the column's collation takes for the same: the model reads the spelling."""
    fill(sql, range(3), spaces(3)[0])
    old = open_store(f"{address}&table=docs&column=embedding&text=body")
    new = old.new_place()
    new.create(old, 4, "one")
    old.watch(new, "one")
    assert 'COLLATE "C"' in value(sql, "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'kedge_one_text'")
    for store in (old, new):
        store.close()
