# SPDX-License-Identifier: Apache-2.0
"""Columns of LanceDB tables as stores."""
import datetime
import pathlib
import threading
from typing import Any

import lancedb
import lancedb.index
import numpy as np
import pyarrow as pa
import pytest
from contract import OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores import lance_rows
from kedge.migrate.stores import lancedb as lancedb_store
from kedge.migrate.stores.lancedb import LanceStore
from require import of_kind, require_near

FLOAT = pa.float32()


def column(vectors: np.ndarray, kind: pa.DataType = FLOAT) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)).cast(kind), vectors.shape[1])


def make(folder: pathlib.Path, columns: dict[str, Any], name: str = "docs") -> lancedb.table.Table:
    return lancedb.connect(folder).create_table(name, pa.table(columns))


class TestInts(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors = unit_rows(ROWS, OLD_WIDTH)
        ids = [3 * n for n in np.random.default_rng(7).permutation(ROWS).tolist()]
        texts = [f"document {key}" for key in ids]
        make(tmp_path / "db", {"id": ids, "body": texts, "v": column(vectors)})
        return Filled(open_store(f"lancedb:{tmp_path}/db#docs.v?text=body"), ids, vectors, texts)


class TestTexts(StoreContract):
    """Ids that are texts, with what SQL could trip over; float16; an index; a column that the address does not name."""
    recall = 0.9

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors = unit_rows(ROWS, OLD_WIDTH).astype(np.float16).astype(np.float32)
        ids = [f"it's {n} \"ä`%" for n in range(ROWS)]
        table = make(tmp_path / "db", {"the key": ids, "v": column(vectors, pa.float16())})
        table.create_index("v", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=2))
        return Filled(open_store(f"lancedb:{tmp_path}/db#docs?id=the+key"), ids, vectors)

    def test_the_index_is_made_alike(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        assert old.describe().kind == new.describe().kind == "float16"
        assert old.describe().index == new.describe().index == "IVF_FLAT, cosine"
        old.switch(new, old.beside("_old"))
        table = lancedb.connect(of_kind(LanceStore, old).path).open_table("docs")
        found = {tuple(index.columns): index for index in table.list_indices()}
        assert set(found) == {("v",), ("v_old",)}
        assert all(index.num_indexed_rows == ROWS and index.num_unindexed_rows == 0 for index in found.values())
        statistics = [table.index_stats(index.name) for index in found.values()]
        assert all(known and known.distance_type == "cosine" for known in statistics)


@pytest.fixture
def docs(tmp_path: pathlib.Path) -> pathlib.Path:
    """A table of 60 documents with a time, and its store."""
    start = datetime.datetime(2026, 1, 1)
    make(tmp_path / "db", {"id": list(range(60)), "v": column(unit_rows(60, 8)),
                           "at": [start + datetime.timedelta(hours=n) for n in range(60)],
                           "day": [(start + datetime.timedelta(hours=n)).date() for n in range(60)],
                           "number": list(range(100, 160)), "word": [f"w{n:03}" for n in range(60)]})
    return tmp_path / "db"


@pytest.mark.long
@pytest.mark.parametrize("name", ["at", "day", "number", "word"])
def test_rows_that_changed_since(docs: pathlib.Path, name: str) -> None:
    store = open_store(f"lancedb:{docs}#docs.v?changed={name}")
    assert order(store, changed=store.newest()) == ([59] if name != "day" else list(range(48, 60)))
    new = store.beside("_new")
    new.create(store, 8, OWNER)
    assert new.newest() is None
    table = lancedb.connect(docs).open_table("docs")
    later = table.search().where("id = 59").to_arrow().to_pylist()[0]
    mark = store.newest()
    later.update(id=60, at=datetime.datetime(2027, 1, 1), day=datetime.date(2027, 1, 1), number=999, word="x")
    table.add([later])
    assert order(store, changed=mark) == ([59, 60] if name != "day" else list(range(48, 61)))
    assert order(store, changed=mark, after=59) == [60]
    assert len(list(contents(store))) == 61


@pytest.mark.long
def test_rows_without_a_vector_are_not_there(docs: pathlib.Path) -> None:
    table = lancedb.connect(docs).open_table("docs")
    table.merge_insert("id").when_matched_update_all().execute(
        pa.table({"id": [3, 4], "v": pa.nulls(2, pa.list_(pa.float32(), 8))}))
    store = open_store(f"lancedb:{docs}#docs.v")
    assert store.describe().rows == 58
    assert order(store) == order(store, vectors=False) == [n for n in range(60) if n not in (3, 4)]
    assert not {3, 4} & set(store.search(unit_rows(1, 8), 60)[0][0])


@pytest.mark.long
def test_the_metric_is_the_indexs_or_the_addresss_or_the_distance(docs: pathlib.Path) -> None:
    rows, queries = contents(open_store(f"lancedb:{docs}#docs.v")), 2 * unit_rows(1, 8, seed=9)
    vectors = np.array(list(rows.values()))
    lancedb.connect(docs).open_table("docs").merge_insert("id").when_matched_update_all().execute(
        pa.table({"id": list(rows), "v": column(vectors * 3)}))
    products = (3 * vectors @ queries.T)[:, 0]
    for metric, expected in (("euclidean", -np.linalg.norm(3 * vectors - queries, axis=1)), ("inner", products),
                             ("cosine", products / 6)):
        store = open_store(f"lancedb:{docs}#docs.v?metric={metric}")
        assert store.describe().metric == metric
        found, scores = store.search(queries, 5)
        assert found[0] == np.argsort(-expected)[:5].tolist()
        require_near(scores[0], np.sort(expected)[::-1][:5])
    assert open_store(f"lancedb:{docs}#docs.v").describe().metric == "euclidean"
    with pytest.raises(UsageError, match="cosine, inner, euclidean"):
        open_store(f"lancedb:{docs}#docs.v?metric=hamming")


@pytest.mark.long
@pytest.mark.parametrize(("kind", "given"), [("IvfPq", {"num_partitions": 2, "num_sub_vectors": 9}),
                                             ("HnswSq", {"num_partitions": 2, "m": 10, "ef_construction": 77})])
def test_settings_of_an_index_are_kept(tmp_path: pathlib.Path, kind: str, given: dict[str, int]) -> None:
    table = make(tmp_path / "db", {"id": list(range(600)), "v": column(unit_rows(600, 18))})
    table.create_index("v", config=getattr(lancedb.index, kind)(**given))
    old = of_kind(LanceStore, open_store(f"lancedb:{tmp_path}/db#docs.v"))
    new, kept = old.beside("_new"), old.beside("_old")

    def settings(store: LanceStore) -> dict[str, int]:
        place = store._place()
        return place.settings((place.index() or ("none", "", ""))[0])

    before = settings(old)
    assert given.items() <= before.items()
    new.create(old, 24, OWNER)
    new.write(list(range(600)), unit_rows(600, 24))
    new.finish()
    expected = {**before, "num_sub_vectors": 8} if kind == "IvfPq" else before  # 9 does not divide 24
    assert settings(new) == expected
    old.switch(new, kept)
    assert settings(old) == expected and settings(kept) == before


def test_ids_are_read_once_and_not_at_all_for_a_search(docs: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, read = open_store(f"lancedb:{docs}#docs.v"), lance_rows.sorted_rows
    calls: list[object] = []

    def counted(*words: Any) -> Any:
        calls.append(words)
        return read(*words)

    monkeypatch.setattr(lance_rows, "sorted_rows", counted)
    old.search(unit_rows(2, 8), 5)
    assert sorted(contents(old, ids=[3, 7, 3, 999])) == [3, 7] and not calls
    monkeypatch.setattr(lancedb_store, "FEW_IDS", 2)
    for first in range(0, 60, 10):
        assert sorted(contents(old, ids=list(range(first, first + 10)))) == list(range(first, first + 10))
    assert len(calls) == 1
    lancedb.connect(docs).open_table("docs").delete("id = 5")
    assert sorted(contents(old, ids=[4, 5, 6])) == [4, 6] and len(calls) == 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["IvfSq", "IvfPq", "IvfRq", "HnswSq", "HnswPq", "HnswFlat"])
def test_indexes_of_every_kind(tmp_path: pathlib.Path, kind: str) -> None:
    table = make(tmp_path / "db", {"id": list(range(300)), "v": column(unit_rows(300, 16))})
    table.create_index("v", config=getattr(lancedb.index, kind)(distance_type="dot", num_partitions=1))
    old = open_store(f"lancedb:{tmp_path}/db#docs.v")
    new = old.beside("_new")
    new.create(old, 8, OWNER)
    new.write(list(range(300)), unit_rows(300, 8))
    new.finish()
    assert new.describe().index == old.describe().index and new.describe().metric == "inner"
    old.switch(new, old.beside("_old"))
    assert old.beside("_old").describe().index == old.describe().index and old.describe().width == 8


@pytest.mark.long
def test_other_columns_versions_and_late_rows_stay(docs: pathlib.Path) -> None:
    table = lancedb.connect(docs).open_table("docs")
    before = table.to_arrow().drop_columns(["v"]).sort_by("id")
    old = open_store(f"lancedb:{docs}#docs.v")
    new, kept = old.beside("_new"), old.beside("_old")
    new.create(old, 8, OWNER)
    new.write(list(range(50)), unit_rows(50, 8, seed=2))
    new.write([999], unit_rows(1, 8, seed=3))  # a document that was deleted meanwhile
    new.finish()
    versions = len(table.list_versions())
    assert versions == 1, "the old table is as it was until the switch"
    old.switch(new, kept)
    table.checkout_latest()
    assert table.to_arrow().drop_columns(["v", "v_old"]).sort_by("id") == before
    assert order(old) == list(range(50)) and order(kept) == list(range(60))
    assert len(table.list_versions()) > versions
    table.checkout(1)
    assert table.schema.names == ["id", "v", "at", "day", "number", "word"]


@pytest.mark.long
def test_an_application_writes_during_the_switch(docs: pathlib.Path) -> None:
    old = open_store(f"lancedb:{docs}#docs.v")
    new, kept, vectors, end = old.beside("_new"), old.beside("_old"), unit_rows(60, 16), threading.Event()
    done: list[int] = []
    new.create(old, 16, OWNER)
    new.write(list(range(60)), vectors)

    def application() -> None:
        table = lancedb.connect(docs).open_table("docs")
        while not end.wait(0.05):
            table.checkout_latest()
            table.update(where=f"id = {len(done) % 60}", values={"number": len(done)})
            done.append(len(done))

    thread = threading.Thread(target=application)
    thread.start()
    try:
        old.switch(new, kept)
    except Error as error:  # on a slow machine the application may win every time
        assert "let them pause and run it again" in str(error)
    finally:
        end.set()
        thread.join()
    old.switch(new, kept)
    np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)
    rows = lancedb.connect(docs).open_table("docs").to_arrow().to_pylist()
    numbers = {row["id"]: row["number"] for row in rows}
    assert len(rows) == len(numbers) == 60 and {key % 60: key for key in done}.items() <= numbers.items()


@pytest.mark.long
def test_the_names_change_in_one_version(docs: pathlib.Path) -> None:
    old = open_store(f"lancedb:{docs}#docs.v")
    new = old.beside("_new")
    new.create(old, 16, OWNER)
    new.write(list(range(60)), unit_rows(60, 16))
    old.switch(new, old.beside("_old"))
    table = lancedb.connect(docs).open_table("docs")
    widths = []
    for version in table.list_versions():
        table.checkout(version["version"])
        widths.append((table.schema.field("v").type.list_size, table.count_rows("v IS NOT NULL")))
    assert set(widths) == {(8, 60), (16, 60)} and widths == sorted(widths)


def test_sentences(docs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for address, kind, words in (
            (f"lancedb:{tmp_path}/none#docs.v", Missing, "there is no folder"),
            (f"lancedb:{docs}#none.v", Missing, "there is no table 'none'"),
            (f"lancedb:{docs}#docs.w", Missing, "has no column 'w'; it has id, v"),
            (f"lancedb:{docs}#docs.word", UsageError, "expected vectors"),
            (f"lancedb:{docs}#docs.v?id=key", UsageError, "no column 'key'"),
            (f"lancedb:{docs}#docs.v?id=at", UsageError, "no column 'at' of integers or texts")):
        with pytest.raises(kind, match=words):
            open_store(address).describe()
    for address in (f"lancedb:{docs}", f"lancedb:{docs}#docs.v?ids=id"):
        with pytest.raises(UsageError):
            open_store(address)
    with pytest.raises(UsageError, match="'when', which .changed= names"):
        list(open_store(f"lancedb:{docs}#docs.v?changed=when").read())
    with pytest.raises(Error, match="cannot search it: .*dim"):
        open_store(f"lancedb:{docs}#docs.v").search(unit_rows(1, 9), 3)
    assert not (tmp_path / "none").exists()


def test_ids_must_be_unique(tmp_path: pathlib.Path) -> None:
    make(tmp_path / "db", {"id": [1, 2, 2], "v": column(unit_rows(3, 8))})
    with pytest.raises(Error, match="the id 2 is in more than one row"):
        list(open_store(f"lancedb:{tmp_path}/db#docs.v").read())
    make(tmp_path / "db", {"id": [1, 2, None], "v": column(unit_rows(3, 8))}, "gaps")
    with pytest.raises(Error, match="1 rows have no 'id'"):
        list(open_store(f"lancedb:{tmp_path}/db#gaps.v").read())


def test_a_column_that_is_taken(docs: pathlib.Path) -> None:
    old = open_store(f"lancedb:{docs}#docs.v")
    lancedb.connect(docs).open_table("docs").add_columns(pa.field("v_old", pa.list_(pa.float32(), 8)))
    new = old.beside("_new")
    new.create(old, 8, OWNER)
    new.write(list(range(60)), unit_rows(60, 8))
    with pytest.raises(Error, match="v_old.* is taken"):
        old.switch(new, old.beside("_old"))
    with pytest.raises(Error, match="was not made by this migration"):
        old.beside("_old").create(old, 8, OWNER)
    assert old.describe().owner is None and new.describe().owner == OWNER
