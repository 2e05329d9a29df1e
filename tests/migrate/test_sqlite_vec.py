# SPDX-License-Identifier: Apache-2.0
"""vec0 tables of sqlite-vec as a store."""
from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, CollectionContract, Filled, contents, unit_rows
from kedge.migrate import BadFile, Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores import sqlite_link
from kedge.migrate.stores.scores import score
from limits import nearly_full, only_read, open_folder, require_one_of_two_after_kills, small_disk


def run(path: pathlib.Path, *commands: str, rows: list[tuple[Any, ...]] | None = None) -> list[tuple[Any, ...]]:
    """Commands of an application; the last one is run for every row, if there are any."""
    path.touch()
    link = sqlite_link.connect(str(path))
    for command in commands[:-1] if rows is not None else commands:
        found = list(link.execute(command))
    if rows is not None:
        link.execute("BEGIN")
        link.executemany(commands[-1], rows)
        link.execute("COMMIT")
    link.close()
    return found if rows is None else []


class TestTexts(CollectionContract):
    """Ids are texts; the table has every kind of column that vec0 knows."""

    @pytest.fixture
    def path(self, tmp_path: pathlib.Path) -> pathlib.Path:
        return tmp_path / "docs.db"

    @pytest.fixture
    def filled(self, path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [f"doc-{n}" for n in range(ROWS)]
        texts = [f"text of {key}" for key in ids]
        run(path, "CREATE VIRTUAL TABLE docs USING vec0(id text primary key, tenant integer partition key, "
                  f"embedding float[{OLD_WIDTH}] distance_metric=cosine, +body text, stamp integer, "
                  "small int8[8], chunk_size=64)",
            "INSERT INTO docs (id, tenant, embedding, body, stamp, small) VALUES (?, ?, ?, ?, ?, vec_int8(?))",
            rows=[(key, n % 3, row.tobytes(), text, n, bytes(range(8)))
                  for n, (key, row, text) in enumerate(zip(ids, vectors, texts))])
        return Filled(open_store(f"sqlite-vec:{path}#docs.embedding?text=body&changed=stamp"), ids, vectors, texts)

    def test_other_columns_are_those_in_use_when_it_switches(self, path: pathlib.Path, filled: Filled, old: Store,
                                                             new: Store, written: np.ndarray) -> None:
        kept, asked = old.beside("_old"), "SELECT body, stamp, tenant, hex(small) FROM docs WHERE id = 'doc-7'"
        run(path, "UPDATE docs SET body = 'edited' WHERE id = 'doc-7'")
        old.switch(new, kept)
        assert run(path, asked) == [("edited", 7, 1, "0001020304050607")]
        run(path, "UPDATE docs SET body = 'edited again' WHERE id = 'doc-7'")
        old.switch(kept, new)
        assert run(path, asked)[0][0] == "edited again"
        self.require_old(old, filled)
        self.require_new(new, filled, written)
        kept.close()

    def test_a_document_without_a_new_vector_comes_back_whole(self, path: pathlib.Path, filled: Filled, old: Store,
                                                              new: Store, written: np.ndarray) -> None:
        kept = old.beside("_old")
        new.write(["doc-5"], None)
        old.switch(new, kept)
        assert len(contents(old)) == ROWS - 1
        with pytest.raises(Error, match="cannot be without a vector"):
            old.write(["doc-6"], None)
        old.switch(kept, new)
        assert run(path, "SELECT body, stamp FROM docs WHERE id = 'doc-5'") == [("text of doc-5", 5)]
        self.require_old(old, filled)
        kept.close()

    def test_rows_that_changed_since(self, old: Store, new: Store) -> None:
        assert old.newest() == ROWS - 1 and new.newest() is None
        assert set(contents(old, changed=98)) == {"doc-98", "doc-99", "doc-100"}

    def test_what_is_done_in_a_frozen_store_is_one_step(self, path: pathlib.Path, filled: Filled, old: Store,
                                                        new: Store, written: np.ndarray) -> None:
        kept, late = old.beside("_old"), unit_rows(1, NEW_WIDTH, seed=7)
        with pytest.raises(KeyboardInterrupt), old.frozen(new, kept):
            new.write(["doc-3"], late)
            old.switch(new, kept)
            assert len(contents(old)) == ROWS
            raise KeyboardInterrupt
        self.require_old(old, filled)
        self.require_new(new, filled, written)
        with old.frozen(new, kept):
            new.write(["doc-3"], late)
            old.switch(new, kept)
        written[3] = late
        self.require_new(old, filled, written)
        kept.close()


class TestNumbers(CollectionContract):
    """Ids are numbers, with the texts in a table of their own, as sqlite-vec's own examples have it."""

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [3 * n for n in range(ROWS)]
        path, texts = tmp_path / "docs.db", [f"text {key}" for key in ids]
        run(path, "CREATE TABLE articles (id INTEGER PRIMARY KEY, body TEXT)", "INSERT INTO articles VALUES (?, ?)",
            rows=list(zip(ids, texts)))
        run(path, f"CREATE VIRTUAL TABLE docs USING vec0(embedding float[{OLD_WIDTH}])",
            "INSERT INTO docs (rowid, embedding) VALUES (?, ?)",
            rows=[(key, row.tobytes()) for key, row in zip(ids, vectors)])
        return Filled(open_store(f"sqlite-vec:{path}#docs?text=articles.body"), ids, vectors, texts)

    def test_scores_are_sqlite_vecs_own(self, filled: Filled, old: Store) -> None:
        query = unit_rows(1, OLD_WIDTH, seed=9)
        ids, scores = old.search(query, 3)
        expected = score(query, filled.vectors[[filled.ids.index(key) for key in ids[0]]], "euclidean")
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


def docs(path: pathlib.Path, columns: str = "embedding float[8]") -> str:
    run(path, f"CREATE VIRTUAL TABLE docs USING vec0({columns})")
    return f"sqlite-vec:{path}#docs"


def test_sentences(tmp_path: pathlib.Path) -> None:
    def require(kind: type[Exception], message: str, address: str) -> None:
        with pytest.raises(kind, match=message):
            open_store(address).describe()

    require(Missing, "there is no file", f"sqlite-vec:{tmp_path}/none.db#docs")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "bad.db").write_text("no database " * 100)
    require(BadFile, "cannot be read as an SQLite database", f"sqlite-vec:{tmp_path}/bad.db#docs")
    good = docs(tmp_path / "a.db", "a float[8], b float[8]")
    require(UsageError, "say which column.*there are a, b", good)
    require(UsageError, "expected float compared by cosine or l2", docs(tmp_path / "b.db", "a int8[8]"))
    require(UsageError, "expected float compared", docs(tmp_path / "c.db", "a float[8] distance_metric=l1"))
    require(Missing, "there is no table 'other'", good.replace("#docs", "#other.a"))
    run(tmp_path / "a.db", "CREATE TABLE plain (id)")
    require(UsageError, "is not a vec0 table", good.replace("#docs", "#plain.a"))


@pytest.mark.long
def test_a_switch_that_is_killed_leaves_one_of_the_two(tmp_path: pathlib.Path) -> None:
    address = docs(tmp_path / "docs.db")
    run(tmp_path / "docs.db", "INSERT INTO docs (rowid, embedding) VALUES (?, ?)",
        rows=[(n, row.tobytes()) for n, row in enumerate(unit_rows(200, 8))])
    require_one_of_two_after_kills(open_store(address), 8, sqlite_link.Link, "switch")


def test_a_file_that_may_only_be_read() -> None:
    with open_folder() as folder:
        old = open_store(docs(folder / "docs.db"))
        with only_read(folder), pytest.raises(Error, match="this user may not"):
            old.beside("_new").create(old, 12, OWNER)
        assert contents(old) == {}


def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        old = open_store(docs(disk / "docs.db"))
        new = old.beside("_new")
        new.create(old, 512, OWNER)
        with nearly_full(disk, 50_000), pytest.raises(Error, match="is the disk full"):
            new.write(list(range(100)), unit_rows(100, 512))
        assert contents(new) == {}
        new.write(list(range(100)), unit_rows(100, 512))
        assert len(contents(new)) == 100
        old.close()
        new.close()
