# SPDX-License-Identifier: Apache-2.0
"""Judged collections that several encoders have embedded, and how well a search in translated documents does on
them."""
import collections
import pathlib
from collections.abc import Iterable, Sequence

import kedge
import numpy as np

# Of one search, and of the same fused with the scores of the old encoder's own (None where there is nothing to fuse).
Scores = collections.namedtuple("Scores", "ndcg recall mrr fused", defaults=(None,))


def unit(rows: np.ndarray) -> np.ndarray:
    """An empty text may have a row of zeros; it stays one."""
    scaled: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled


class Collection:
    """Folders of ENCODER-docs.npy, ENCODER-queries.npy and qrels.npy, searched as one store."""

    def __init__(self, folders: Sequence[str | pathlib.Path], scale: bool = True) -> None:
        self.folders = [pathlib.Path(folder) for folder in folders]
        self.name = " + ".join(folder.name for folder in self.folders)
        self.prepare = unit if scale else np.asarray
        judged, first = [], np.zeros(3, dtype=np.int64)  # query, document and grade that a folder's begin with
        for folder in self.folders:
            judged.append(np.load(folder / "qrels.npy").astype(np.int64) + first)
            first += [self.count(folder, "queries"), self.count(folder, "docs"), 0]
        self.qrels = np.concatenate(judged)
        self.documents = int(first[1])

    @staticmethod
    def count(folder: pathlib.Path, kind: str) -> int:
        """All encoders have embedded the same."""
        return len(np.load(next(folder.glob(f"*-{kind}.npy")), mmap_mode="r"))

    def rows(self, encoder: str, kind: str) -> np.ndarray:
        return self.prepare(np.concatenate([np.load(folder / f"{encoder}-{kind}.npy").astype(np.float32)
                                            for folder in self.folders]))


class Pair:
    """A store of the old encoder's documents, of which the new one has embedded the support, and queries of both.
    Documents of the support are not searched."""

    def __init__(self, collection: Collection, old: str, new: str, support: int, seed: int) -> None:
        self.qrels = collection.qrels
        self.old_docs, self.old_queries = (collection.rows(old, kind) for kind in ("docs", "queries"))
        self.new_docs, self.new_queries = (collection.rows(new, kind) for kind in ("docs", "queries"))
        order = np.random.default_rng(seed).permutation(collection.documents)
        self.support, self.rest = np.sort(order[:support]), np.sort(order[support:])

    def search(self, queries: np.ndarray, documents: np.ndarray, similarity: str = "cosine") -> Scores:
        found = kedge.retrieve(queries, documents, self.qrels, exclude=self.support, similarity=similarity)
        return Scores(found["ndcg@10"], found["recall@100"], found["mrr@10"])

    def old(self) -> Scores:
        return self.search(self.old_queries, self.old_docs)

    def new(self) -> Scores:
        return self.search(self.new_queries, self.new_docs)

    def translated(self, documents: np.ndarray) -> Scores:
        """Of the old encoder's documents, where a translation has put them."""
        return self.search(self.new_queries, documents)._replace(fused=self.fused(documents).ndcg)

    def fused(self, documents: np.ndarray) -> Scores:
        """The sum of both encoders' cosines, each divided by its standard deviation, as one inner product."""
        queries, store = [], []
        for asked, searched in ((self.old_queries, self.old_docs), (self.new_queries, documents)):
            asked, searched = unit(asked), unit(searched)
            queries.append(asked / (asked @ searched[self.rest].T).std())
            store.append(searched)
        return self.search(np.hstack(queries), np.hstack(store), "inner")


def mean(scores: Sequence[Scores]) -> Scores:
    """Column by column; None where there is none."""
    return Scores(*(None if column[0] is None else float(np.mean(column)) for column in zip(*scores)))


def short(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}".removeprefix("0")


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(titles: Sequence[str]) -> str:
    return f"{line(titles)}\n|{'---|' * len(titles)}"
