# SPDX-License-Identifier: Apache-2.0
"""How good searches by old, translated, fused or real vectors are, measured on documents that have all of them."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .fused import CANDIDATES
from .stores.scores import closeness, fuse
from .types import Floats, Id, Mask, Places, Vectors

Interval: TypeAlias = list[float]                    # mean, low, high
Judgements: TypeAlias = dict[int, dict[Id, float]]   # the grades of documents, by query
Measured: TypeAlias = dict[str, dict[str, Floats]]   # a value for every query, by way and measure

K = 10
AnyId = TypeVar("AnyId", bound=Id)
RESAMPLES = 1000


class Bench:
    """Documents with old, new and translated vectors, and queries to search them with.

    skip: for every query a document that it must not find, itself, or -1. judged: {query: {document: grade}} or None.
    Without old queries, for the old model is gone, nothing is measured that needs them.
    """

    def __init__(self, old: Vectors, new: Vectors, translated: Vectors, old_queries: Vectors | None,
                 new_queries: Vectors, skip: Places, judged: Judgements | None, metrics: tuple[str, str]) -> None:
        self.by_old = None if old_queries is None else _without(closeness(old_queries, old, metrics[0]), skip)
        self.by_new = _without(closeness(new_queries, new, metrics[1]), skip)
        self.by_translated = _without(closeness(new_queries, translated, metrics[1]), skip)
        self.judged, self.truth = judged, _best(self.by_new)
        # The queries that a measure has values of.
        every = np.arange(len(new_queries))
        self.asked = {"overlap": every, "ndcg": every[[bool(judged and judged.get(int(query))) for query in every]]}

    def measure(self, real: Mask | None = None) -> Measured:
        """A value for every query, by way and measure; 'real' says which documents are embedded again [none]."""
        new = self.by_translated if real is None else np.where(real, self.by_new, self.by_translated)
        ways = {"translated": _best(new), "new": self.truth}
        if self.by_old is not None:
            ways = {"old": _best(self.by_old), "translated": ways["translated"],
                    "fused": self._fused(self.by_old, new), "new": self.truth}
        return {way: self._scores(found) for way, found in ways.items()}

    def lists(self, k: int) -> list[Places]:
        """The k best documents of every query before anything is embedded again, fused if the old model answers."""
        if self.by_old is None:
            return _best(self.by_translated, k)
        return self._fused(self.by_old, self.by_translated, k)

    def _fused(self, old: Floats, new: Floats, k: int = K) -> list[Places]:
        found = []
        for old_scores, new_scores in zip(old, new):
            ids = np.union1d(*(np.argsort(-scores, kind="stable")[:CANDIDATES] for scores in (old_scores, new_scores)))
            ids = ids[np.isfinite(old_scores[ids])]
            found.append(ids[np.argsort(-fuse(old_scores[ids], new_scores[ids]), kind="stable")[:k]])
        return found

    def _scores(self, found: list[Places]) -> dict[str, Floats]:
        measured = {"overlap": np.array([len(np.intersect1d(a, b)) / max(len(b), 1)
                                         for a, b in zip(found, self.truth)])}
        if self.judged is not None:
            measured["ndcg"] = np.array([ndcg(found[query], self.judged[query]) for query in self.asked["ndcg"]])
        return measured


class Ranking:
    """The best candidates of either model among rows that come in batches, with the scores of both."""

    def __init__(self, old_queries: Vectors, new_queries: Vectors, metrics: tuple[str, str]) -> None:
        self.queries, self.metrics = (old_queries, new_queries), metrics
        self.kept: list[tuple[list[Id], Floats]] = [([], np.empty((2, 0))) for _ in new_queries]
        self.rows = 0

    def add(self, ids: Sequence[Id], old: Vectors, new: Vectors) -> None:
        self.rows += len(ids)
        scores = [closeness(queries, rows, metric)
                  for queries, rows, metric in zip(self.queries, (old, new), self.metrics)]
        for query, (known, before) in enumerate(self.kept):
            both = np.hstack([before, np.stack([scores[0][query], scores[1][query]])])
            best = np.unique(np.argsort(-both, axis=1, kind="stable")[:, :CANDIDATES])
            self.kept[query] = [(known[n] if n < len(known) else ids[n - len(known)]) for n in best], both[:, best]

    def ways(self) -> dict[str, list[list[Id]]]:
        """{way: the K best ids for every query}."""
        def top(scores: Floats, ids: Sequence[Id]) -> list[Id]:
            return [ids[n] for n in np.argsort(-scores, kind="stable")[:K]]
        return {"old": [top(scores[0], ids) for ids, scores in self.kept],
                "translated": [top(scores[1], ids) for ids, scores in self.kept],
                "fused": [top(fuse(*scores), ids) for ids, scores in self.kept]}


def _without(scores: Floats, skip: Places) -> Floats:
    there = np.flatnonzero(np.asarray(skip) >= 0)
    scores[there, np.asarray(skip)[there]] = -np.inf
    return scores


def _best(scores: Floats, k: int = K) -> list[Places]:
    return [row[np.isfinite(scores[n][row])] for n, row in enumerate(np.argsort(-scores, axis=1, kind="stable")[:, :k])]


def ndcg(found: Iterable[AnyId], grades: Mapping[AnyId, float], k: int = K) -> float:
    """nDCG@k with linear gains; 'grades' holds the documents that are right, by id."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gained = np.array([grades.get(key, 0) for key in list(found)[:k]])
    ideal = np.sort(list(grades.values()))[::-1][:k]
    best = ideal @ discount[:len(ideal)]
    return float(gained @ discount[:len(gained)] / best) if best > 0 else 0.0


def interval(values: npt.ArrayLike, seed: int = 0) -> Interval | None:
    """(mean, low, high): 95 % of bootstrap means over queries lie between."""
    values = np.asarray(values, np.float64)
    if not len(values):
        return None
    return _bounds(float(values.mean()), values[_drawn(len(values), seed)].mean(axis=1))


def share(values: Floats, of: Floats, seed: int = 0) -> Interval | None:
    """The same for the quotient of two means over the same queries."""
    if not len(values) or not np.any(of):
        return None
    drawn = _drawn(len(values), seed)
    return _bounds(float(values.mean() / of.mean()),
                   values[drawn].mean(axis=1) / np.maximum(of[drawn].mean(axis=1), 1e-12))


def _drawn(queries: int, seed: int) -> Places:
    return np.random.default_rng(seed).integers(0, queries, (RESAMPLES, queries))


def _bounds(value: float, resampled: Floats) -> Interval:
    return [value, float(np.quantile(resampled, .025)), float(np.quantile(resampled, .975))]
