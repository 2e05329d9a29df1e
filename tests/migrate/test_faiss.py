# SPDX-License-Identifier: Apache-2.0
"""FAISS index files as stores, of every kind that kedge-migrate reads."""
import errno
import os
import pathlib
from typing import Any

import faiss
import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate import Error
from kedge.migrate.store import Store, open_store
from kedge.migrate.stores.faiss import FaissStore
from limits import cut_short
from require import of_kind, require_errors, require_near

OWN_IDS = [7_000_000_000 + 13 * ((n * 37) % ROWS) for n in range(ROWS)]  # large, not from 0, not in order


def index_file(path: pathlib.Path, words: str, vectors: np.ndarray, ids: list[int] | None = None,
               metric: int = faiss.METRIC_INNER_PRODUCT) -> faiss.Index:
    index = faiss.index_factory(vectors.shape[1], words, metric)
    index.train(vectors)
    if ids is None:
        index.add(vectors)
    else:
        index.add_with_ids(vectors, np.array(ids, np.int64))
    faiss.write_index(index, str(path))
    return index


def path_of(store: Store) -> pathlib.Path:
    return of_kind(FaissStore, store).path


class FaissContract(StoreContract):
    words, own_ids, metric = "Flat", False, faiss.METRIC_INNER_PRODUCT
    nprobe: int | None = None

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), OWN_IDS if self.own_ids else list(range(ROWS))
        path = tmp_path / "docs.index"
        index_file(path, self.words, vectors, ids if self.own_ids else None, self.metric)
        if self.nprobe:
            index = faiss.read_index(str(path))
            faiss.extract_index_ivf(index).nprobe = self.nprobe
            faiss.write_index(index, str(path))
        return Filled(open_store(f"faiss:{path}"), ids, vectors)


class TestFlat(FaissContract):
    pass


class TestFlatL2(FaissContract):
    metric = faiss.METRIC_L2


class TestIDMap(FaissContract):
    words, own_ids = "IDMap,Flat", True


class TestIDMap2(FaissContract):
    words, own_ids = "IDMap2,Flat", True


class TestIVF(FaissContract):
    words, nprobe = "IVF3,Flat", 3


class TestIVFOwnIds(FaissContract):
    words, own_ids, nprobe = "IVF3,Flat", True, 3


class TestIDMapAroundIVF(FaissContract):
    words, own_ids, nprobe = "IDMap,IVF3,Flat", True, 3


class TestHNSW(FaissContract):
    words, recall = "HNSW8,Flat", 0.9


class TestIDMapAroundHNSW(FaissContract):
    words, own_ids, recall = "IDMap2,HNSW8,Flat", True, 0.9


class TestHalf(FaissContract):
    words = "SQfp16"


class Lossy:
    tolerance, recall = 0.02, 0.8


class TestSQ(Lossy, FaissContract):
    words = "SQ8"


class TestHNSWSQ(Lossy, FaissContract):
    words = "HNSW8,SQ8"


class TestIVFSQOwnIds(Lossy, FaissContract):
    words, own_ids, nprobe = "IVF3,SQ8", True, 3


class TestPQ(FaissContract):
    words, tolerance, recall = "PQ8x4np", 0.5, 0.3


class TestIVFPQOwnIds(FaissContract):
    words, own_ids, nprobe, tolerance, recall = "IVF3,PQ8x4np", True, 3, 0.5, 0.3


class TestIDMapAroundPQ(FaissContract):
    words, own_ids, tolerance, recall = "IDMap,PQ8x4np", True, 0.5, 0.3


class TestPCA(FaissContract):
    words, own_ids, tolerance, recall = "PCA16,IDMap,Flat", True, 1e-5, 0.3


def test_a_flat_file_is_what_faiss_itself_writes(tmp_path: pathlib.Path) -> None:
    """Bit for bit, so that whatever reads index files reads these."""
    for words, metric in [("Flat", faiss.METRIC_L2), ("Flat", faiss.METRIC_INNER_PRODUCT),
                          ("IDMap,Flat", faiss.METRIC_L2), ("IDMap2,Flat", faiss.METRIC_INNER_PRODUCT)]:
        folder = tmp_path / f"{words}{metric}"
        folder.mkdir()
        ids = OWN_IDS if "," in words else None
        index_file(folder / "docs.index", words, unit_rows(ROWS, OLD_WIDTH), ids, metric)
        expected = index_file(folder / "expected.index", words, unit_rows(ROWS, NEW_WIDTH, 2), ids, metric)
        old = open_store(f"faiss:{folder}/docs.index")
        new = old.beside("_new")
        new.create(old, NEW_WIDTH, OWNER)
        rows: dict[Any, np.ndarray] = dict(zip(ids or range(ROWS), unit_rows(ROWS, NEW_WIDTH, 2)))
        for batch in old.read(size=10):
            new.write(batch.ids, np.array([rows[key] for key in batch.ids]))
        new.finish()
        written = (folder / "docs_new.index").read_bytes()
        assert written == (folder / "expected.index").read_bytes()
        new.write(list(rows)[50:51], unit_rows(1, NEW_WIDTH, 9))  # now by copying, and back again
        new.finish()
        assert (folder / "docs_new.index").read_bytes() != written
        new.write(list(rows)[50:51], rows[list(rows)[50]][None])
        new.finish()
        assert (folder / "docs_new.index").read_bytes() == written
        assert sorted(path.name for path in folder.iterdir()) == [
            "docs.index", "docs_new.index", "docs_new.index.made.json", "expected.index"]
        loaded, queries = faiss.read_index(str(folder / "docs_new.index")), unit_rows(3, NEW_WIDTH, 5)
        for found, known in zip(loaded.search(queries, 4), expected.search(queries, 4)):
            np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("words, becomes", [
    ("IVF5,PQ4x4np", "IVF5,PQ4x4np"), ("IVF5,PQ10x4np", "IVF5,PQ8x4np"), ("IVF5,PQ5x4np", "IVF5,PQ4x4np"),
    ("IDMap2,HNSW9,SQ8", "IDMap2,HNSW9,SQ8"),
    ("PCA4,SQ4", "PCA4,SQ4"), ("PCAR10,IVF2,SQ6", "PCAR10,IVF2,SQ6"), ("L2norm,Flat", "L2norm,Flat"),
    ("RR20,Flat", "RR20,Flat"), ("IVF4_HNSW6,Flat", "IVF4_HNSW6,Flat"), ("SQbf16", "SQbf16"),
    ("IDMap,OPQ5_10,PQ5x8np", "IDMap,OPQ5_10,PQ5x8np"), ("PCA20,PQ5x4np", "PCA20,PQ5x4np"),
    ("HNSW8,PQ5x4np", "HNSW8,PQ4x4np"),
])
def test_the_new_index_is_of_the_same_kind(words: str, becomes: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "docs.index"
    old_index = index_file(path, words, unit_rows(300, 20), list(range(300)) if "IDMap" in words else None)
    inner = faiss.try_extract_index_ivf(old_index)
    if inner is not None:
        inner.nprobe = 2
        faiss.write_index(old_index, str(path))
    old = open_store(f"faiss:{path}")
    new = old.beside("_new")
    new.create(old, NEW_WIDTH, OWNER)
    new.write(list(range(300)), unit_rows(300, NEW_WIDTH, 2))
    new.finish()
    index = new.describe().index or ""
    assert index.split(" ")[0] == becomes and (" does not fit 24 values" in index) == (words != becomes)
    loaded = faiss.read_index(str(path_of(new)))
    assert (loaded.d, loaded.ntotal, loaded.metric_type) == (NEW_WIDTH, 300, old_index.metric_type)
    again = open_store(new.address)
    of_kind(FaissStore, again).mark.path.unlink()  # now it is read as any index file, and comes out as the same kind
    assert again.describe().index == becomes
    if inner is not None:
        assert faiss.extract_index_ivf(loaded).nprobe == 2


def test_a_transform_that_cannot_be_learned_anew_is_refused(tmp_path: pathlib.Path) -> None:
    step = faiss.LinearTransform(OLD_WIDTH, OLD_WIDTH)
    faiss.copy_array_to_vector(np.eye(OLD_WIDTH, dtype=np.float32).ravel(), step.A)
    step.is_trained = True
    index = faiss.IndexPreTransform(step, faiss.IndexFlatL2(OLD_WIDTH))
    faiss.write_index(index, str(tmp_path / "docs.index"))
    old = open_store(f"faiss:{tmp_path}/docs.index")
    with pytest.raises(Error, match="LinearTransform"):
        old.beside("_new").create(old, NEW_WIDTH, OWNER)


def test_the_metric_is_cosine_where_the_rows_have_length_1(tmp_path: pathlib.Path) -> None:
    index_file(tmp_path / "unit.index", "Flat", unit_rows(50, 8))
    index_file(tmp_path / "long.index", "Flat", 3 * unit_rows(50, 8))
    index_file(tmp_path / "l2.index", "HNSW8", unit_rows(50, 8), metric=faiss.METRIC_L2)
    metrics = [open_store(f"faiss:{tmp_path}/{name}.index").describe().metric for name in ("unit", "long", "l2")]
    assert metrics == ["cosine", "inner", "euclidean"]
    queries = unit_rows(4, 8, 3)
    for name, size in (("unit", 5), ("long", 1)):
        ids, scores = open_store(f"faiss:{tmp_path}/{name}.index").search(size * queries, 1)
        expected = queries @ unit_rows(50, 8).T * (1 if name == "unit" else 3)
        assert [row[0] for row in ids] == expected.argmax(axis=1).tolist()
        np.testing.assert_allclose(scores[:, 0], expected.max(axis=1), rtol=1e-5)


def test_rows_of_a_reversed_transform_are_those_put_in(tmp_path: pathlib.Path) -> None:
    vectors = unit_rows(300, 16)
    index_file(tmp_path / "docs.index", "PCA16,IVF4,Flat", vectors, [n + 5 for n in range(300)])
    found = contents(open_store(f"faiss:{tmp_path}/docs.index"))
    require_near(np.array([found[n + 5] for n in range(300)]), vectors)


def test_a_record_that_was_cut_short_does_not_count(tmp_path: pathlib.Path) -> None:
    """What a killed process leaves at any byte of the log or of the rows."""
    index_file(tmp_path / "docs.index", "IDMap,Flat", unit_rows(ROWS, OLD_WIDTH), OWN_IDS)
    old = open_store(f"faiss:{tmp_path}/docs.index")
    new = old.beside("_new")
    new.create(old, NEW_WIDTH, OWNER)
    rows = unit_rows(ROWS, NEW_WIDTH, 2)
    log = tmp_path / "docs_new.index.log"
    new.write(OWN_IDS[:40], rows[:40])
    first = log.stat().st_size
    new.write(OWN_IDS[40:], rows[40:])
    whole = log.read_bytes()
    for length in (first, first + 1, first + 20, len(whole) - 1):
        log.write_bytes(whole[:length])
        again = open_store(new.address)
        assert order(again) == OWN_IDS[:40]
        again.write(OWN_IDS[40:], rows[40:])
        assert log.read_bytes() == whole
        assert order(again) == OWN_IDS
    again.finish()
    assert (contents(again)[OWN_IDS[77]] == rows[77]).all()


def test_a_switch_that_was_cut_short_is_completed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step at which the process can end; the old name always leads to an index."""
    for stop in range(12):
        folder = tmp_path / str(stop)
        folder.mkdir()
        index_file(folder / "docs.index", "SQ8", unit_rows(ROWS, OLD_WIDTH))
        old = of_kind(FaissStore, open_store(f"faiss:{folder}/docs.index"))
        new, kept = (of_kind(FaissStore, old.beside(ending)) for ending in ("_new", "_old"))
        new.create(old, NEW_WIDTH, OWNER)
        new.write(list(range(ROWS)), unit_rows(ROWS, NEW_WIDTH, 2))
        new.finish()
        for incoming, outgoing in ((new, kept), (kept, new)):
            with cut_short(monkeypatch, stop, (os, "link"), (os, "replace"), (os, "unlink")) as calls:
                old.switch(incoming, outgoing)
            assert faiss.read_index(str(folder / "docs.index")).ntotal == ROWS
            old, incoming, outgoing = (of_kind(FaissStore, open_store(store.address))
                                       for store in (old, incoming, outgoing))
            old.switch(incoming, outgoing)
            widths = (NEW_WIDTH, OLD_WIDTH) if "_new" in incoming.address else (OLD_WIDTH, NEW_WIDTH)
            assert (old.describe().width, outgoing.describe().width) == widths
            assert (old.describe().owner is None) == (widths[0] == OLD_WIDTH)
            assert not incoming.path.exists() and not incoming.mark.path.exists()
    assert len(calls) < 12, "the last round was not cut short"


def test_staged_rows_may_be_deleted_and_come_back_from_the_index(tmp_path: pathlib.Path) -> None:
    index_file(tmp_path / "docs.index", "IVF3,SQ8", unit_rows(ROWS, OLD_WIDTH), OWN_IDS)
    old = open_store(f"faiss:{tmp_path}/docs.index")
    new = old.beside("_new")
    new.create(old, NEW_WIDTH, OWNER)
    rows = unit_rows(ROWS, NEW_WIDTH, 2)
    new.write(OWN_IDS, rows)
    new.write(OWN_IDS[:1], rows[:1])
    new.finish()
    (tmp_path / "docs_new.index.rows").unlink()
    again = open_store(new.address)
    assert set(order(again)) == set(OWN_IDS)
    changed = unit_rows(1, NEW_WIDTH, 7)
    again.write(OWN_IDS[4:5], changed)  # as many records as were merged before
    again.finish()
    rows[4] = changed
    (tmp_path / "docs_new.index.rows").unlink()
    found = contents(open_store(new.address))
    require_near(np.array([found[key] for key in OWN_IDS]), rows, 0.03)


def damaged_files(tmp_path: pathlib.Path) -> dict[str, bytes]:
    flat = tmp_path / "flat.index"
    index_file(flat, "IDMap,Flat", unit_rows(ROWS, OLD_WIDTH), OWN_IDS)
    whole = flat.read_bytes()
    binary = faiss.IndexBinaryFlat(64)
    faiss.write_index_binary(binary, str(tmp_path / "binary.index"))
    twice = tmp_path / "twice.index"
    index_file(twice, "IDMap,Flat", unit_rows(4, OLD_WIDTH), [1, 2, 2, 3])
    return {
        "is cut short": whole[:1000], "ends within its head": whole[:60], "cannot be read": b"this is a text file",
        "cannot be read as": b"", "is damaged": whole[:45] + b"\xff" * 8 + whole[53:],
        "binary index": (tmp_path / "binary.index").read_bytes(), "several rows under the same id": twice.read_bytes(),
        "cannot be read as a FAISS index": faiss.serialize_index(faiss.index_factory(8, "HNSW8")).tobytes()[:-20],
    }


def test_a_damaged_file_is_named_in_a_sentence(tmp_path: pathlib.Path) -> None:
    for message, data in damaged_files(tmp_path).items():
        path = tmp_path / "bad.index"
        path.write_bytes(data)
        with pytest.raises(Error, match=message) as raised:
            open_store(f"faiss:{path}").describe()
        assert "bad.index" in str(raised.value) and "/project/" not in str(raised.value)


def test_a_full_disk_is_a_sentence_and_changes_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_file(tmp_path / "docs.index", "Flat", unit_rows(ROWS, OLD_WIDTH))
    old = open_store(f"faiss:{tmp_path}/docs.index")
    new = old.beside("_new")
    new.create(old, NEW_WIDTH, OWNER)
    rows = unit_rows(ROWS, NEW_WIDTH, 2)
    new.write(list(range(60)), rows[:60])

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        require_errors("the disk is full; make room", lambda: new.write(list(range(60, ROWS)), rows[60:]), new.finish)
    assert order(new) == list(range(60)) and not path_of(new).exists()
    new.write(list(range(60, ROWS)), rows[60:])
    new.finish()
    assert (np.array(list(contents(new).values())) == rows).all()


@pytest.mark.parametrize("words", ["Flat", "HNSW8,Flat", "SQ8"])
def test_a_row_without_a_vector_leaves_the_numbers_of_others_alone(words: str, tmp_path: pathlib.Path) -> None:
    index_file(tmp_path / "docs.index", words, unit_rows(ROWS, OLD_WIDTH))
    old = open_store(f"faiss:{tmp_path}/docs.index")
    new = old.beside("_new")
    new.create(old, NEW_WIDTH, OWNER)
    rows, ids = unit_rows(ROWS, NEW_WIDTH, 2), [n for n in range(ROWS) if n not in (0, 10, 11)]
    new.write(ids, rows[ids])
    new.finish()
    index = faiss.read_index(str(path_of(new)))
    assert index.ntotal == ROWS and (index.search(rows[ids], 1)[1].ravel() == ids).mean() > 0.9
    again = open_store(new.address)
    assert order(again) == ids and again.describe().rows == len(ids)
    found, scores = again.search(-rows[:5], ROWS)
    assert not {0, 10, 11} & {key for row in found for key in row}
    assert (scores[0, len(found[0]):] == -np.inf).all()
    again.write([10], rows[10:11])
    again.finish()
    assert order(open_store(new.address)) == [n for n in range(ROWS) if n not in (0, 11)]


def test_ids_are_whole_numbers(tmp_path: pathlib.Path) -> None:
    index_file(tmp_path / "docs.index", "Flat", unit_rows(ROWS, OLD_WIDTH))
    store = open_store(f"faiss:{tmp_path}/docs.index")
    with pytest.raises(Error, match="whole numbers"):
        list(store.read(ids=["a"]))
    new = store.beside("_new")
    new.create(store, NEW_WIDTH, OWNER)
    with pytest.raises(Error, match="not the number of a row"):
        new.write([-1], unit_rows(1, NEW_WIDTH))
