# SPDX-License-Identifier: Apache-2.0
"""All steps of a migration over files and databases in files, by the command; the end is what arrays in memory give."""
import contextlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kedge import migrate
from kedge.migrate import __main__ as command
from kedge.migrate.store import Store
from kedge.migrate.stores import sqlite_link
from kedge.migrate.stores.scores import unit
from made_up import NEW, OLD, ROWS, models, spaces
from pymilvus import DataType, MilvusClient
from qdrant_client import QdrantClient
from qdrant_client import models as qdrant
from require import require_near, vectors_of


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


def make_duckdb(folder: pathlib.Path, old: np.ndarray) -> str:
    rows = pa.table({"id": np.arange(ROWS), "text": [str(n) for n in range(ROWS)],
                     "v": pa.FixedSizeListArray.from_arrays(pa.array(old.ravel()), OLD)})
    with duckdb.connect("docs.db") as link:
        link.register("rows", rows)
        link.execute(f"CREATE TABLE docs AS SELECT id, text, v::FLOAT[{OLD}] AS v FROM rows")
    return "duckdb:docs.db#docs.v?text=text"


def make_sqlite_vec(folder: pathlib.Path, old: np.ndarray) -> str:
    pathlib.Path("docs.db").touch()
    link = sqlite_link.connect("docs.db")
    link.execute(f"CREATE VIRTUAL TABLE docs USING vec0(id integer primary key, v float[{OLD}] distance_metric=cosine, "
                 "+text text)")
    link.execute("BEGIN")
    link.executemany("INSERT INTO docs (id, v, text) VALUES (?, ?, ?)",
                     [(n, row.tobytes(), str(n)) for n, row in enumerate(old)])
    link.execute("COMMIT")
    link.close()
    return "sqlite-vec:docs.db#docs?text=text"


def make_qdrant(folder: pathlib.Path, old: np.ndarray) -> str:
    with contextlib.closing(QdrantClient(path=str(folder / "db"))) as client:
        client.create_collection("docs", vectors_config=qdrant.VectorParams(size=OLD, distance=qdrant.Distance.COSINE))
        client.upsert("docs", [qdrant.PointStruct(id=n, vector=row.tolist(), payload={"text": str(n)})
                               for n, row in enumerate(old)])
    return f"qdrant:{folder}/db#docs?text=text"


def make_milvus(folder: pathlib.Path, old: np.ndarray) -> str:
    client = MilvusClient(str(folder / "docs.db"))
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=OLD)
    schema.add_field("text", DataType.VARCHAR, max_length=10)
    indexes = client.prepare_index_params()
    indexes.add_index("v", index_type="FLAT", metric_type="COSINE")
    client.create_collection("docs", schema=schema, index_params=indexes)
    client.insert("docs", [{"id": n, "v": row.tolist(), "text": str(n)} for n, row in enumerate(old)])
    client.close()
    return f"milvus:{folder}/docs.db#docs?text=text"


MAKERS = {"Flat": make_faiss("Flat"), "IDMap": make_faiss("IDMap2,Flat"), "IVF": make_faiss("IVF4,Flat"),
          "HNSW": make_faiss("HNSW16,Flat"), "SQ8": make_faiss("SQ8"), "parquet": make_parquet,
          "duckdb": make_duckdb, "sqlite-vec": make_sqlite_vec, "milvus": make_milvus}


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.long] if name in ("duckdb", "milvus") else [])
                        for name in MAKERS])
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
    texts = ["--texts", "texts.txt"] if address.startswith("faiss") else []
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
    require_near(unit(np.array([new[key] for key in others])), expected, 2e-6)
    run("cutover", "--yes")
    assert migrate.open_store(address).describe().width == NEW
    run("rollback", "--yes")
    assert migrate.open_store(address).describe().width == OLD
    assert all((row == before[key]).all() for key, row in rows_of(migrate.open_store(address)).items())
    for words in (["apply"], ["verify"], ["cutover", "--yes"], ["top-up", "--rows", str(ROWS)]):
        run(*words)
    store, model = migrate.open_store(address), np.load("new_model.npy")
    found = rows_of(store)
    kept = [key for key in found if key != 5]
    assert set(found) >= set(range(ROWS)) - {5}
    require_near(unit(np.array([found[key] for key in kept])), model[kept])
    ids, _ = store.search(model[20:60], 1)
    assert np.mean([row[0] == n for row, n in zip(ids, range(20, 60))]) > 0.85


def test_every_step_into_another_vector_of_qdrants_points(tmp_path: pathlib.Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied, and both vectors can be asked for all the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("models", None)
    old, new = spaces()
    models(tmp_path, new)
    address = make_qdrant(tmp_path, old)
    run("plan", "--store", address, "--into", "vector", "--sample", 120, "--embed", "models:new")
    for step in ("sample", "fit", "apply", "verify", "cutover"):
        run(step)
    ids, _ = migrate.search("migrate.toml", old[7], new[7], k=3)
    assert ids[0] == 7
    with contextlib.closing(QdrantClient(path=str(tmp_path / "db"))) as client:
        both = {"": old[0].tolist(), "default_new": new[0].tolist()}
        client.upsert("docs", [qdrant.PointStruct(id=ROWS, vector={"default_new": both["default_new"]},
                                                  payload={"text": "0"})])
        client.set_payload("docs", {"text": "7", "kind": "edited"}, points=[7])
    run("rollback")
    with contextlib.closing(QdrantClient(path=str(tmp_path / "db"))) as client:
        assert client.count("docs").count == ROWS + 1
        assert client.retrieve("docs", [7])[0].payload == {"text": "7", "kind": "edited"}
        late: Any = client.retrieve("docs", [ROWS], with_vectors=True)[0].vector
        assert set(late) == set(both), "a document that came after the cutover has an old vector now, too"
    for words in (["apply"], ["verify"], ["cutover"], ["top-up"]):
        run(*words)
    store = migrate.open_store(f"qdrant:{tmp_path}/db#docs?vector=default_new")
    found = rows_of(store)
    require_near(np.array([found[key] for key in range(ROWS)]), new)
    store.close()
