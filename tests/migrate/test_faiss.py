# SPDX-License-Identifier: Apache-2.0
"""FAISS index files as stores, of every kind that kedge-migrate reads."""
import faiss
import numpy as np
import pytest

from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate.errors import BadFile, Error
from kedge.migrate.store import open_store

OWN_IDS = [7_000_000_000 + 13 * ((n * 37) % ROWS) for n in range(ROWS)]  # large, not from 0, not in order


def index_file(path, words, vectors, ids=None, metric=faiss.METRIC_INNER_PRODUCT):
    index = faiss.index_factory(vectors.shape[1], words, metric)
    index.train(vectors)
    if ids is None:
        index.add(vectors)
    else:
        index.add_with_ids(vectors, np.array(ids, np.int64))
    faiss.write_index(index, str(path))
    return index


class FaissContract(StoreContract):
    words, own_ids, metric = "Flat", False, faiss.METRIC_INNER_PRODUCT
    nprobe = None

    @pytest.fixture
    def filled(self, tmp_path):
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), OWN_IDS if self.own_ids else list(range(ROWS))
        path = tmp_path / "docs.index"
        index_file(path, self.words, vectors, ids if self.own_ids else None, self.metric)
        if self.nprobe:
            index = faiss.read_index(str(path))
            faiss.extract_index_ivf(index).nprobe = self.nprobe
            faiss.write_index(index, str(path))
        return Filled(open_store(f"faiss:{path}"), ids, vectors)


class Gapless(FaissContract):
    """An index without ids of its own cannot leave out a row in the middle."""

    def test_writing_none_removes(self, filled, old, new, written):
        new.write(filled.ids[10:20], None)
        assert set(order(new)) == set(filled.ids[:10] + filled.ids[20:])
        with pytest.raises(Error, match="row 10"):
            new.finish()
        new.write(filled.ids[10:20], written[10:20])
        new.finish()
        self.require_new(new, filled, written)
        new.write(filled.ids[90:], None)
        new.finish()
        self.require_same(new, filled.ids[:90], written[:90], self.new_tolerance)
        assert faiss.read_index(str(new.path)).ntotal == 90


class TestFlat(Gapless):
    pass


class TestFlatL2(Gapless):
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


class TestHNSW(Gapless):
    words, recall = "HNSW8,Flat", 0.9


class TestIDMapAroundHNSW(FaissContract):
    words, own_ids, recall = "IDMap2,HNSW8,Flat", True, 0.9


class TestHalf(Gapless):
    words = "SQfp16"


class Lossy:
    tolerance, recall = 0.02, 0.8


class TestSQ(Lossy, Gapless):
    words = "SQ8"


class TestHNSWSQ(Lossy, Gapless):
    words = "HNSW8,SQ8"


class TestIVFSQOwnIds(Lossy, FaissContract):
    words, own_ids, nprobe = "IVF3,SQ8", True, 3


class TestPQ(Gapless):
    words, tolerance, recall = "PQ8x4np", 0.5, 0.3


class TestIVFPQOwnIds(FaissContract):
    words, own_ids, nprobe, tolerance, recall = "IVF3,PQ8x4np", True, 3, 0.5, 0.3


class TestIDMapAroundPQ(FaissContract):
    words, own_ids, tolerance, recall = "IDMap,PQ8x4np", True, 0.5, 0.3


class TestPCA(FaissContract):
    words, own_ids, tolerance, recall = "PCA16,IDMap,Flat", True, 1e-5, 0.3
