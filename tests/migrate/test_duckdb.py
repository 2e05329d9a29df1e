# SPDX-License-Identifier: Apache-2.0
"""Columns of arrays in DuckDB as a store, with and without an index of the extension vss."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import duckdb
import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, unit_rows
from kedge.migrate import BadFile, Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores import duckdb_link
from limits import (
    held_by_another_process,
    nearly_full,
    only_read,
    open_folder,
    require_one_of_two_after_kills,
    small_disk,
)


def run(path: pathlib.Path, *commands: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as link:
        for command in commands:
            link.execute(command)
        found: list[tuple[Any, ...]] = link.fetchall()
        return found


def fill(path: pathlib.Path, columns: str, rows: list[tuple[Any, ...]], *more: str) -> None:
    with duckdb.connect(str(path)) as link:
        link.execute(f"CREATE TABLE docs ({columns})")
        link.execute(f"INSERT INTO docs VALUES {', '.join(['(' + ', '.join('?' * len(rows[0])) + ')'] * len(rows))}",
                     [value for row in rows for value in row])
        for command in more:
            link.execute(command)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "docs.db"


@pytest.mark.long
class TestNumbers(StoreContract):
    """Without anything but ids and vectors, which need not be in the order of the ids."""

    @pytest.fixture
    def filled(self, path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [5000 - 3 * n for n in range(ROWS)]
        fill(path, f"id BIGINT, embedding FLOAT[{OLD_WIDTH}]", list(zip(ids, vectors.tolist())))
        return Filled(open_store(f"duckdb:{path}#docs?metric=euclidean"), ids, vectors)


class TestTexts(StoreContract):
    """With a key, constraints and an index on another column."""

    @pytest.fixture
    def filled(self, path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [f"doc-{n}" for n in range(ROWS)]
        texts = [f"text of {key}" for key in ids]
        fill(path, f"key VARCHAR PRIMARY KEY, body VARCHAR DEFAULT 'none', embedding FLOAT[{OLD_WIDTH}] NOT NULL, "
                   "stamp TIMESTAMP",
             [(key, text, row, f"2026-01-01 00:{n // 60:02}:{n % 60:02}")
              for n, (key, text, row) in enumerate(zip(ids, texts, vectors.tolist()))],
             "CREATE INDEX by_stamp ON docs (stamp)")
        return Filled(open_store(f"duckdb:{path}#docs.embedding?id=key&text=body&changed=stamp"), ids, vectors, texts)

    def test_rows_that_changed_since(self, old: Store, new: Store) -> None:
        assert old.newest() == "2026-01-01T00:01:40" and new.newest() is None
        assert set(contents(old, changed="2026-01-01T00:01:38")) == {"doc-98", "doc-99", "doc-100"}

    def test_the_rest_of_the_table_stays(self, path: pathlib.Path, filled: Filled, old: Store, new: Store,
                                         written: np.ndarray) -> None:
        kept = old.beside("_old")
        new.write(["doc-5"], None)
        for store in (old, new):
            store.close()
        run(path, "UPDATE docs SET body = 'edited' WHERE key = 'doc-7'",
            "INSERT INTO docs (key, embedding) SELECT 'late', embedding FROM docs WHERE key = 'doc-1'")
        old.switch(new, kept)
        assert len(contents(old)) == ROWS - 1 and len(contents(kept)) == ROWS + 1
        for store in (old, new, kept):
            store.close()
        asked = "SELECT body, embedding IS NULL FROM docs WHERE key IN ('doc-5', 'doc-7', 'late') ORDER BY key"
        assert run(path, asked) == [("text of doc-5", True), ("edited", False), ("none", True)]
        assert run(path, "SELECT index_name FROM duckdb_indexes()") == [("by_stamp",)]
        with pytest.raises(duckdb.ConstraintException):
            run(path, "INSERT INTO docs (key) VALUES ('doc-7')")

    def test_a_column_that_is_taken(self, path: pathlib.Path, filled: Filled, old: Store, new: Store,
                                    written: np.ndarray) -> None:
        kept = old.beside("_old")
        for store in (old, new):
            store.close()
        run(path, "ALTER TABLE docs ADD COLUMN embedding_old FLOAT[3]")
        with pytest.raises(Error, match="embedding_old.* is taken"):
            old.switch(new, kept)
        with pytest.raises(Error, match="was not made by this migration"):
            kept.create(old, NEW_WIDTH, OWNER)
        self.require_new(new, filled, written)
        kept.close()


def test_an_index_of_the_extension_is_made_alike_and_used(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("duckdb_extension_vss")
    extension, = pathlib.Path(package.__path__[0]).rglob("vss.duckdb_extension")
    monkeypatch.setenv("HOME", str(path.parent))  # where DuckDB keeps what is installed
    vectors, ids = unit_rows(ROWS, OLD_WIDTH), list(range(ROWS))
    fill(path, f"id BIGINT PRIMARY KEY, body VARCHAR, embedding FLOAT[{OLD_WIDTH}]",
         list(zip(ids, map(str, ids), vectors.tolist())), f"INSTALL '{extension}'", "LOAD vss",
         "SET hnsw_enable_experimental_persistence = true", "CREATE INDEX by_body ON docs (body)",
         "CREATE INDEX near ON docs USING HNSW (embedding) WITH (metric = 'ip')")
    old = open_store(f"duckdb:{path}#docs")
    new, kept = old.beside("_new"), old.beside("_old")
    new.create(old, NEW_WIDTH, OWNER)
    vectors = unit_rows(ROWS, NEW_WIDTH, seed=2)
    new.write(ids, vectors)
    new.finish()
    assert old.describe().index == "near, HNSW, ip" and new.describe().index == "near_new, HNSW, ip"
    assert old.describe().metric == new.describe().metric == "inner"
    assert np.mean([found == [key] for key, found in zip(ids, new.search(vectors, 1)[0])]) > .9
    old.switch(new, kept)
    assert old.describe().index == "near_new, HNSW, ip" and kept.describe().index == "near, HNSW, ip"
    old.switch(kept, new)
    assert old.describe().index == "near, HNSW, ip" and new.describe().index == "near_new, HNSW, ip"
    old.switch(new, kept)
    for store in (old, new, kept):
        store.close()
    plan = run(path, "LOAD vss", "EXPLAIN SELECT id FROM docs ORDER BY array_negative_inner_product(embedding, "
                     f"{[0.5] * NEW_WIDTH}::FLOAT[{NEW_WIDTH}]) LIMIT 3")
    assert "HNSW_INDEX_SCAN" in plan[0][1]
    kept.drop()
    assert old.describe().index == "near_new, HNSW, ip"
    for store in (old, kept):
        store.close()
    assert run(path, "SELECT index_name FROM duckdb_indexes() ORDER BY 1") == [("by_body",), ("near_new",)]


def test_sentences(path: pathlib.Path) -> None:
    def require(kind: type[Exception], message: str, address: str) -> None:
        store = open_store(address)
        with pytest.raises(kind, match=message):
            store.describe()
        store.close()

    require(Missing, "there is no file", f"duckdb:{path}#docs")
    assert not path.exists()
    (path.parent / "bad.db").write_text("no database " * 1000)
    require(BadFile, "is not a DuckDB database", f"duckdb:{path.parent}/bad.db#docs")
    run(path, "CREATE TABLE docs (id BIGINT, a FLOAT[3], b DOUBLE[3], c FLOAT[])")
    require(UsageError, "2 columns of vectors; say which one, as in #docs.a", f"duckdb:{path}#docs")
    require(UsageError, "holds FLOAT.., expected vectors".replace(",", ";"), f"duckdb:{path}#docs.c")
    require(UsageError, "no column 'key' of integers or texts", f"duckdb:{path}#docs.a?id=key")
    require(UsageError, "no column 'body', which .text= names", f"duckdb:{path}#docs.a?text=body")
    require(Missing, "no table 'other'", f"duckdb:{path}#other")
    require(Missing, "no column 'd'", f"duckdb:{path}#docs.d")
    with pytest.raises(UsageError, match="the metric is one of"):
        open_store(f"duckdb:{path}#docs.a?metric=l1")


def test_it_needs_no_other_store() -> None:
    code = "import sys, kedge.migrate.stores.duckdb\nassert 'lancedb' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_process_has_it_open(path: pathlib.Path) -> None:
    run(path, "CREATE TABLE docs (id BIGINT, v FLOAT[3])")
    with held_by_another_process("import duckdb\nlink = duckdb.connect(sys.argv[1])", path):
        store = open_store(f"duckdb:{path}#docs")
        with pytest.raises(Error, match="another process has it open"):
            store.describe()
    assert store.describe().rows == 0
    store.close()


@pytest.mark.long
def test_a_switch_that_is_killed_leaves_one_of_the_two_and_completes(path: pathlib.Path) -> None:
    fill(path, "id BIGINT PRIMARY KEY, v FLOAT[8]", list(enumerate(unit_rows(200, 8).tolist())))
    require_one_of_two_after_kills(open_store(f"duckdb:{path}#docs.v"), 4, duckdb_link.Link, "join", "change")


def test_a_file_that_may_only_be_read() -> None:
    with open_folder() as folder:
        fill(folder / "docs.db", "id BIGINT, v FLOAT[3]", [(1, [1., 2., 3.])])
        old = open_store(f"duckdb:{folder}/docs.db#docs")
        with only_read(folder), pytest.raises(Error, match="this user may not"):
            old.beside("_new").create(old, 12, OWNER)


def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        fill(disk / "docs.db", "id BIGINT, v FLOAT[3]", [(1, [1., 2., 3.])])
        old = open_store(f"duckdb:{disk}/docs.db#docs")
        new, vectors = old.beside("_new"), unit_rows(400, 512)
        new.create(old, 512, OWNER)
        with nearly_full(disk, 50_000), pytest.raises(Error, match="the disk is full; make room and run it again"):
            new.write(list(range(400)), vectors)
        old.close()
        new.close()
        assert contents(new) == {}
        new.write(list(range(400)), vectors)
        assert len(contents(new)) == 400
        old.close()
        new.close()
