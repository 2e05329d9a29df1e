# SPDX-License-Identifier: Apache-2.0
"""How good searches are that use old, translated, fused or real vectors, measured on documents that have all of them."""
from __future__ import annotations

import numpy as np

from .fused import CANDIDATES
from .stores.scores import closeness, fuse

K = 10
RESAMPLES = 1000


class Bench:
    """Documents with old, new and translated vectors, and queries to search them with.

    skip: for every query a document that it must not find, itself, or -1. judged: {query: {document: grade}} or None.
    Without old queries, for the old model is gone, nothing is measured that needs them.
    """

    def __init__(self, old, new, translated, old_queries, new_queries, skip, judged, metrics):
        self.by_old = None if old_queries is None else _without(closeness(old_queries, old, metrics[0]), skip)
        self.by_new = _without(closeness(new_queries, new, metrics[1]), skip)
        self.by_translated = _without(closeness(new_queries, translated, metrics[1]), skip)
        self.judged, self.truth = judged, _best(self.by_new)

    def measure(self, real=None):
        """{way: {measure: a value for every query}}; 'real' says which documents are embedded again, none by default."""
        new = self.by_translated if real is None else np.where(real, self.by_new, self.by_translated)
        ways = {"translated": _best(new), "new": self.truth}
        if self.by_old is not None:
            ways = {"old": _best(self.by_old), "translated": ways["translated"], "fused": self._fused(new), "new": self.truth}
        return {way: self._scores(found) for way, found in ways.items()}

    def _fused(self, new):
        found = []
        for old_scores, new_scores in zip(self.by_old, new):
            ids = np.union1d(*(np.argsort(-scores, kind="stable")[:CANDIDATES] for scores in (old_scores, new_scores)))
            ids = ids[np.isfinite(old_scores[ids])]
            found.append(ids[np.argsort(-fuse(old_scores[ids], new_scores[ids]), kind="stable")[:K]])
        return found

    def _scores(self, found):
        measured = {"overlap": np.array([len(np.intersect1d(a, b)) / max(len(b), 1) for a, b in zip(found, self.truth)])}
        if self.judged is not None:
            measured["ndcg"] = np.array([ndcg(ids, self.judged[query]) for query, ids in enumerate(found)
                                         if self.judged.get(query)])
        return measured


class Ranking:
    """The best candidates of either model among rows that come in batches, with the scores of both."""

    def __init__(self, old_queries, new_queries, metrics):
        self.queries, self.metrics = (old_queries, new_queries), metrics
        self.kept = [([], np.empty((2, 0))) for _ in new_queries]

    def add(self, ids, old, new):
        scores = [closeness(queries, rows, metric) for queries, rows, metric in zip(self.queries, (old, new), self.metrics)]
        for query, (known, before) in enumerate(self.kept):
            both = np.hstack([before, np.stack([scores[0][query], scores[1][query]])])
            best = np.unique(np.argsort(-both, axis=1, kind="stable")[:, :CANDIDATES])
            self.kept[query] = [(known[n] if n < len(known) else ids[n - len(known)]) for n in best], both[:, best]

    def ways(self):
        """{way: the K best ids for every query}."""
        def top(scores, ids):
            return [ids[n] for n in np.argsort(-scores, kind="stable")[:K]]
        return {"old": [top(scores[0], ids) for ids, scores in self.kept],
                "translated": [top(scores[1], ids) for ids, scores in self.kept],
                "fused": [top(fuse(*scores), ids) for ids, scores in self.kept]}


def _without(scores, skip):
    there = np.flatnonzero(np.asarray(skip) >= 0)
    scores[there, np.asarray(skip)[there]] = -np.inf
    return scores


def _best(scores):
    return [row[np.isfinite(scores[n][row])] for n, row in enumerate(np.argsort(-scores, axis=1, kind="stable")[:, :K])]


def ndcg(found, grades, k=K):
    """nDCG@k with linear gains; 'grades' holds the documents that are right, by id."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gained = np.array([grades.get(id, 0) for id in list(found)[:k]])
    ideal = np.sort(list(grades.values()))[::-1][:k]
    best = ideal @ discount[:len(ideal)]
    return float(gained @ discount[:len(gained)] / best) if best > 0 else 0.0


def interval(values, seed=0):
    """(mean, low, high): 95 % of bootstrap means over queries lie between."""
    values = np.asarray(values, np.float64)
    if not len(values):
        return None
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    return [float(values.mean()), float(np.quantile(means, .025)), float(np.quantile(means, .975))]
