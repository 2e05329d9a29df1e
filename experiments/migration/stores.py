#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A collection with judged queries, migrated in every kind of store: what search gives after each step.

    experiments/migration/stores.py PATH/scifact --pairs minilm-l6:mpnet-base --stores npy,postgresql,lancedb

A folder holds ENCODER-docs.npy and ENCODER-queries.npy for every encoder, and qrels.npy: rows of query, document,
grade. Of the documents, --sample are drawn by kedge-migrate; nDCG@10 is that of searches in the store, with new queries
alone and fused with the old ones, beside the same from arrays in memory. Servers are started and stopped here.
"""
import argparse
import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from kedge import migrate
from kedge.migrate import apply, cutover, fused, maps, sample, top_up, verify
from kedge.migrate.quality import ndcg
from kedge.migrate.stores.scores import unit
from kedge.migrate.texts import Texts

STEPS = ("sample", "half", "all")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/migrate"))


def fill_npy(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    np.save(folder / "docs.npy", vectors)
    return f"npy:{folder}/docs.npy"


def fill_postgresql(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import psycopg
    from postgres_server import server
    address = stack.enter_context(server())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE docs (id bigint PRIMARY KEY, embedding vector({vectors.shape[1]}))")
        with connection.cursor().copy("COPY docs FROM STDIN") as copy:
            for n, row in enumerate(vectors):
                copy.write_row((n, str(row.tolist())))
    return f"{address}&table=docs&column=embedding"


def arrow(vectors: np.ndarray) -> pa.Table:
    import pyarrow as pa
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.table({"id": np.arange(len(vectors)), "embedding": column})


def fill_lancedb(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import lancedb
    lancedb.connect(folder / "db").create_table("docs", arrow(vectors))
    return f"lancedb:{folder}/db#docs.embedding"


def fill_parquet(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import pyarrow.parquet as pq
    (folder / "docs").mkdir()
    for n, first in enumerate(range(0, len(vectors), 2000)):
        pq.write_table(arrow(vectors).slice(first, 2000), folder / f"docs/{n:03}.parquet")
    return f"parquet:{folder}/docs#embedding"


def fill_faiss(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import faiss
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(unit(vectors))
    faiss.write_index(index, str(folder / "docs.index"))
    return f"faiss:{folder}/docs.index"


def fill_qdrant(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import qdrant_client
    from qdrant_client import models
    client = qdrant_client.QdrantClient(path=str(folder / "qdrant"))
    client.create_collection("docs_1", vectors_config=models.VectorParams(size=vectors.shape[1],
                                                                         distance=models.Distance.COSINE))
    client.update_collection_aliases([models.CreateAliasOperation(create_alias=models.CreateAlias(
        collection_name="docs_1", alias_name="docs"))])
    for first in range(0, len(vectors), 500):
        some = vectors[first:first + 500]
        client.upsert("docs_1", models.Batch(ids=list(range(first, first + len(some))), vectors=some.tolist()))
    client.close()
    return f"qdrant:{folder}/qdrant#docs"


def fill_chroma(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import chromadb
    import chromadb.config
    client = chromadb.PersistentClient(str(folder / "chroma"), chromadb.config.Settings(anonymized_telemetry=False))
    collection = client.create_collection("docs", embedding_function=None,
                                          configuration={"hnsw": {"space": "cosine"}})
    for first in range(0, len(vectors), 2000):
        some = vectors[first:first + 2000]
        collection.add(ids=[str(n) for n in range(first, first + len(some))], embeddings=some)
    client.clear_system_cache()
    return f"chroma:{folder}/chroma#docs"


def fill_duckdb(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    import duckdb
    with duckdb.connect(str(folder / "docs.db")) as link:
        link.register("rows", arrow(vectors))
        link.execute("CREATE TABLE docs AS SELECT * FROM rows")
    return f"duckdb:{folder}/docs.db#docs.embedding"


def fill_sqlite_vec(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    from kedge.migrate.stores import sqlite_link
    (folder / "docs.sqlite").touch()
    link = sqlite_link.connect(str(folder / "docs.sqlite"))
    link.execute(f"CREATE VIRTUAL TABLE docs USING vec0(embedding float[{vectors.shape[1]}] distance_metric=cosine)")
    link.execute("BEGIN")
    link.executemany("INSERT INTO docs (rowid, embedding) VALUES (?, ?)",
                     [(n, row.tobytes()) for n, row in enumerate(vectors)])
    link.execute("COMMIT")
    link.close()
    return f"sqlite-vec:{folder}/docs.sqlite#docs"


def fill_milvus(folder: pathlib.Path, vectors: np.ndarray, stack: contextlib.ExitStack) -> str:
    from pymilvus import MilvusClient
    client = stack.enter_context(contextlib.closing(MilvusClient(str(folder / "milvus.db"))))
    client.create_collection("docs", dimension=vectors.shape[1], metric_type="COSINE")
    for first in range(0, len(vectors), 2000):
        client.insert("docs", [{"id": n, "vector": vectors[n].tolist()}
                               for n in range(first, min(first + 2000, len(vectors)))])
    return f"milvus:{folder}/milvus.db#docs"


FILL = {name[5:]: function for name, function in list(globals().items()) if name.startswith("fill_")}


class Measure:
    """nDCG@10 of a store and of arrays that hold the same rows."""

    def __init__(self, folder: pathlib.Path, old: str, new: str) -> None:
        load = {name: np.load(folder / name).astype(np.float32) for name in
                (f"{old}-queries.npy", f"{new}-queries.npy", f"{old}-docs.npy", f"{new}-docs.npy")}
        self.old_queries, self.new_queries, self.old, self.new = map(unit, load.values())
        self.grades: dict[int, dict[int | str, float]] = {}
        for query, document, grade in np.load(folder / "qrels.npy").tolist():
            self.grades.setdefault(query, {})[document] = grade
        self.asked = sorted(self.grades)

    def store(self, migration: migrate.Migration, both: bool) -> float:
        """Searches in the store itself."""
        old = self.old_queries[self.asked] if both else None
        found, _ = migrate.search((migration.old, migration.new), old, self.new_queries[self.asked], k=10)
        return self.mean(found)

    def arrays(self, rows: np.ndarray, both: bool) -> float:
        """The same searches in memory: all scores, no candidates."""
        new = unit(self.new_queries[self.asked]) @ unit(rows).T
        if not both:
            return self.mean(np.argsort(-new, axis=1, kind="stable")[:, :10])
        old = unit(self.old_queries[self.asked]) @ unit(self.old).T
        found = []
        for by_old, by_new in zip(old, new):
            ids = np.union1d(np.argsort(-by_old)[:fused.CANDIDATES], np.argsort(-by_new)[:fused.CANDIDATES])
            found.append(ids[np.argsort(-migrate.fuse(by_old[ids], by_new[ids]), kind="stable")[:10]])
        return self.mean(found)

    def mean(self, found: Any) -> float:
        return float(np.mean([ndcg([int(str(name)) for name in ids], self.grades[query]) for query,
                              ids in zip(self.asked, found)]))


def embed_waiting(migration: migrate.Migration, measure: Measure) -> None:
    """Plays the new model: its vectors of what waits for them."""
    ids = [name for name, _ in migration.journal.unembedded()]
    migration.journal.note(new_width=measure.new.shape[1])
    migration.journal.embed_sample(ids, measure.new[[int(str(name)) for name in ids]])


def top_up_to(migration: migrate.Migration, measure: Measure, share: float) -> None:
    total, texts = len(measure.old), Texts(migration)
    chosen = top_up.choose(migration, round(share * total) - migration.journal.count_real())
    for first in range(0, len(chosen), 500):
        some = chosen[first:first + 500]
        top_up.note(migration, texts.read(some), measure.new[[int(str(name)) for name in some]])
    apply.write_real(migration)
    migration.new.finish()


def run(kind: str, measure: Measure, rows: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """(step, translated in the store, in memory, fused in the store, in memory) after every step."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = FILL[kind](folder, measure.old, stack)
        (folder / "migrate.toml").write_text(f"store = '{address}'\nsample = {rows}\nseed = {seed}\n")
        migration = stack.enter_context(migrate.Migration(folder / "migrate.toml"))
        sample.sample(migration)
        embed_waiting(migration, measure)
        maps.fit(migration)
        apply.apply(migration)
        assert verify.verify(migration)["whole"]
        expected = migration.translator().transform(measure.old, normalize=True)
        for step, share in zip(STEPS, (0, .5, 1)):
            if step == "half":
                cutover.cutover(migration, yes=True)
            if share:
                top_up_to(migration, measure, share)
            real = [int(str(name)) for name in migration.journal.real()]
            expected[real] = unit(measure.new[real])
            yield step, *(value for both in (False, True)
                          for value in (measure.store(migration, both), measure.arrays(expected, both)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", default="minilm-l6:mpnet-base,wordllama:mpnet-base,use-multilingual:mpnet-base")
    parser.add_argument("--stores", default=",".join(FILL))
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("| pair | store | embedded again | old | one index: store, arrays | fused: store, arrays | new "
          "| fused, of the new one's |")
    print("|---|---|---|---|---|---|---|---|")
    for pair in asked.pairs.split(","):
        measure = Measure(asked.folder, *pair.split(":"))
        stay = measure.mean(np.argsort(-(unit(measure.old_queries[measure.asked]) @ unit(measure.old).T), axis=1)[:,
                                                                                                                  :10])
        best = measure.arrays(measure.new, False)
        for kind in asked.stores.split(","):
            for step, alone, alone_arrays, both, both_arrays in run(kind, measure, asked.sample, asked.seed):
                print(f"| {pair.replace(':', ' to ')} | {kind} | {step} | {stay:.4f} | {alone:.4f} {alone_arrays:.4f} "
                      f"| {both:.4f} {both_arrays:.4f} | {best:.4f} | {both / best:.3f} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
