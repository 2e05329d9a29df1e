# SPDX-License-Identifier: Apache-2.0
"""All steps of a migration over FAISS and Parquet files, by the command; the end is what arrays in memory give."""
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kedge import migrate
from kedge.migrate import __main__ as command
from kedge.migrate.store import Store
from kedge.migrate.stores.scores import unit
from made_up import NEW, OLD, ROWS, models, spaces
from require import vectors_of


def make_faiss(words: str) -> Callable[[pathlib.Path, np.ndarray], str]:
    def make(folder: pathlib.Path, old: np.ndarray) -> str:
        index = faiss.index_factory(OLD, words, faiss.METRIC_INNER_PRODUCT)
        index.train(old)
        index.add_with_ids(old, np.arange(ROWS)) if "IDMap" in words or "IVF" in words else index.add(old)
        faiss.write_index(index, "docs.index")
        return "faiss:docs.index"
    return make


def make_parquet(folder: pathlib.Path, old: np.ndarray) -> str:
    (folder / "docs").mkdir()
    for name, part in (("a", slice(0, 150)), ("b", slice(150, ROWS))):
        pq.write_table(pa.table({"id": np.arange(ROWS)[part], "text": [str(n) for n in range(ROWS)][part],
                                 "v": pa.FixedSizeListArray.from_arrays(pa.array(old[part].ravel()), OLD)}),
                       folder / "docs" / f"{name}.parquet", row_group_size=64)
    return "parquet:docs#v?text=text"


MAKERS = {"Flat": make_faiss("Flat"), "IDMap": make_faiss("IDMap2,Flat"), "IVF": make_faiss("IVF4,Flat"),
          "HNSW": make_faiss("HNSW16,Flat"), "SQ8": make_faiss("SQ8"), "parquet": make_parquet}


@pytest.fixture(params=MAKERS)
def address(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("models", None)
    old, new = spaces()
    old[5] = 0  # a document that was empty: it is not translated, and the others keep their places
    models(tmp_path, new)
    (tmp_path / "texts.txt").write_text("".join(f"{n}\n" for n in range(ROWS)))
    return MAKERS[request.param](tmp_path, old)


def run(*words: object) -> None:
    assert command.main([*map(str, words), "-q"]) == 0


def rows_of(store: Store) -> dict[Any, np.ndarray]:
    return {key: row for batch in store.read() for key, row in zip(batch.ids, vectors_of(batch))}


def test_every_step(address: str) -> None:
    texts = [] if address.startswith("parquet") else ["--texts", "texts.txt"]
    run("plan", "--store", address, *texts, "--sample", 120, "--embed", "models:new")
    before = rows_of(migrate.open_store(address))
    for step in ("sample", "fit", "check", "apply", "verify"):
        run(step)
    with migrate.Migration() as opened:
        real, new = set(opened.journal.real()), rows_of(opened.new)
        translator = opened.translator()
    assert set(new) == {key for key, row in before.items() if row.any()} | real
    others = [key for key in new if key not in real]
    expected = unit(translator.transform(np.array([before[key] for key in others])))
    np.testing.assert_allclose(unit(np.array([new[key] for key in others])), expected, atol=2e-6)
    run("cutover", "--yes")
    assert migrate.open_store(address).describe().width == NEW
    run("rollback")
    assert migrate.open_store(address).describe().width == OLD
    assert all((row == before[key]).all() for key, row in rows_of(migrate.open_store(address)).items())
    for words in (["apply"], ["verify"], ["cutover", "--yes"], ["top-up", "--rows", str(ROWS)]):
        run(*words)
    store, model = migrate.open_store(address), np.load("new_model.npy")
    found = rows_of(store)
    kept = [key for key in found if key != 5]
    assert set(found) >= set(range(ROWS)) - {5}
    np.testing.assert_allclose(unit(np.array([found[key] for key in kept])), model[kept], atol=1e-5)
    ids, _ = store.search(model[20:60], 1)
    assert np.mean([row[0] == n for row, n in zip(ids, range(20, 60))]) > 0.85
