# SPDX-License-Identifier: Apache-2.0
"""The tasks that every rival gets: the same rows, draws and scores.

A task gives each draw its rows, and scores what a rival makes of them query by query. All searches are by
kedge.retrieve and cosine, so no rival is judged by code of its own.
"""
from __future__ import annotations

import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import kedge
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments" / "translation"))
from collection import Collection, unit  # noqa: E402

__all__ = ["ROOT", "Collection", "HeldOut", "Join", "Map", "Outcome", "Translate", "Translation", "unit"]
Map = Callable[[np.ndarray], np.ndarray]
Translate = Callable[[np.ndarray, np.ndarray], Map]              # fitted on rows of the old and the new encoder
# Fitted on rows of the sources and of the unseen encoder; for each source, where its rows and the unseen one's meet.
Join = Callable[[Sequence[np.ndarray], np.ndarray], list[tuple[Map, Map]]]


@dataclasses.dataclass
class Outcome:
    """Scores of the queries that count, by their number, and seconds of one processor."""
    queries: list[int]
    scores: list[float]
    fit_s: float
    apply_s: float


def shuffled(rows: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """A share of the rows, drawn at random, change places among each other."""
    wrong = rng.choice(len(rows), round(share * len(rows)), replace=False)
    mixed = rows.copy()
    mixed[wrong] = rows[np.roll(wrong, 1)]
    return mixed


class Translation:
    """nDCG@10 of a search with the new model's queries, in documents of the old model that were translated. The support
    is not searched. `wrong` is the share of the support's pairs that do not belong together."""
    measure = "nDCG@10"

    def __init__(self, collection: Collection, old: str, new: str, support: int, wrong: float = 0) -> None:
        self.collection, self.old, self.new, self.support, self.wrong = collection, old, new, support, wrong
        self.group = f"{collection.name}, {old} to {new}"
        self.title = f"{support:,} rows" + (f", {wrong:.0%} wrong" if wrong else "")
        self.key = f"{collection.name} {collection.documents} {old} {new} {support} {wrong}"

    def rows(self, draw: int) -> tuple[np.ndarray, np.random.Generator]:
        rng = np.random.default_rng(draw)
        return np.sort(rng.permutation(self.collection.documents)[:self.support]), rng

    def search(self, queries: str, documents: np.ndarray, support: np.ndarray) -> tuple[list[int], list[float]]:
        found = kedge.retrieve(self.collection.rows(queries, "queries"), documents.astype(np.float32),
                               self.collection.qrels, exclude=support, each=True)["each"]
        return found["query"], found["ndcg@10"]

    def whole(self, encoder: str, draw: int) -> Outcome:
        """All documents as this encoder embeds them."""
        return Outcome(*self.search(encoder, self.collection.rows(encoder, "docs"), self.rows(draw)[0]), 0, 0)

    def run(self, fit: Translate, draw: int) -> Outcome:
        support, rng = self.rows(draw)
        old, new = (self.collection.rows(encoder, "docs") for encoder in (self.old, self.new))
        began = time.process_time()
        translate = fit(shuffled(old[support], self.wrong, rng), new[support])
        fitted = time.process_time()
        documents = translate(old)
        applied = time.process_time()
        return Outcome(*self.search(self.new, documents, support), fitted - began, applied - fitted)


class HeldOut:
    """MRR of finding a test row of each source among those of an encoder that joins them later: each encoder of the
    folder is held out in turn. `wrong` is the share of the pairs that do not belong together in all sources but the
    first."""
    measure = "MRR"
    TEST = 11  # one row of so many at the end

    def __init__(self, folder: pathlib.Path, encoders: Sequence[str], support: int, wrong: float = 0) -> None:
        self.spaces = {name: np.load(folder / f"{name}.npy").astype(np.float32) for name in encoders}
        rows = len(self.spaces[encoders[0]])
        self.train, self.support, self.wrong = rows - rows // self.TEST, support, wrong
        self.group = f"{folder.name}, an encoder that joins {len(encoders) - 1} others"
        self.title = f"{support:,} rows" + (f", {wrong:.0%} wrong in all but one" if wrong else "")
        self.key = f"{folder.name} {rows} {' '.join(encoders)} {support} {wrong}"

    def run(self, fit: Join, draw: int) -> Outcome:
        rng = np.random.default_rng(draw)
        rows = np.sort(rng.permutation(self.train)[:self.support])
        scores, fit_s, apply_s = [], 0.0, 0.0
        for unseen in self.spaces:
            sources = [name for name in self.spaces if name != unseen]
            seen = [self.spaces[name][rows] for name in sources]
            if self.wrong:
                seen[1:] = [shuffled(space, self.wrong, rng) for space in seen[1:]]
            began = time.process_time()
            pairs = fit(seen, self.spaces[unseen][rows])
            fitted = time.process_time()
            met = [[go(self.spaces[name][self.train:]) for go, name in zip(pair, (source, unseen))]
                   for pair, source in zip(pairs, sources)]
            apply_s += time.process_time() - fitted
            fit_s += fitted - began
            scores += [self.found(*both) for both in met]
        return Outcome(list(range(len(scores[0]))), np.mean(scores, axis=0).tolist(), fit_s, apply_s)

    @staticmethod
    def found(queries: np.ndarray, documents: np.ndarray) -> list[float]:
        own = np.arange(len(queries))
        qrels = np.column_stack([own, own, np.ones_like(own)])
        found = kedge.retrieve(np.float32(queries), np.float32(documents), qrels, k=len(own), each=True)
        scores: list[float] = found["each"][f"mrr@{len(own)}"]
        return scores
