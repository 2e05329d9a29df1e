# SPDX-License-Identifier: Apache-2.0
"""How vectors compare, and the best of many, for stores that have no search of their own and for fused search."""
from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..store import Rows
from ..types import Floats, Id, Vectors

LEAST_SPREAD = 1e-9  # scores that differ by rounding alone have no deviation


def unit(rows: npt.ArrayLike) -> Vectors:
    """Rows of length 1; rows of zeros stay what they are."""
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


def score(queries: npt.ArrayLike, rows: npt.ArrayLike, metric: str) -> Floats:
    """queries x rows, larger is nearer."""
    if metric == "cosine":
        return unit(queries) @ unit(rows).T
    products = np.asarray(queries, np.float32) @ np.asarray(rows, np.float32).T
    if metric == "inner":
        return products
    squares: Floats = (np.square(queries).sum(axis=1, keepdims=True) + np.square(rows).sum(axis=1)) - 2 * products
    return np.negative(np.sqrt(np.maximum(squares, 0)))


def closeness(queries: npt.ArrayLike, rows: npt.ArrayLike, metric: str) -> Floats:
    """As 'score', but a distance is squared and halved: among rows of length 1 that is the cosine but for a constant.
    So what is fused does not depend on whether a store speaks of cosines or of distances."""
    found = score(queries, rows, metric)
    return -np.square(found) / 2 if metric == "euclidean" else found


def fuse(old_scores: npt.ArrayLike, new_scores: npt.ArrayLike,
         weights: tuple[float, float] = (1, 1)) -> npt.NDArray[np.float64]:
    """One score for each candidate: the mean of its scores, weighted so that both count by their spread. Dividing by
    the weights keeps it on the models' own scale, so that cut-offs mean the same from one query to the next. A row
    without a new vector (NaN) has only its old score, and the other way round.

    Spreads are standard deviations over the candidates; scores that are all alike say nothing and count 0.
    """
    total, shares = np.zeros(np.shape(old_scores)), 0.0
    for scores, weight in ((old_scores, weights[0]), (new_scores, weights[1])):
        scores = np.asarray(scores, np.float64)
        there = ~np.isnan(scores)
        spread = scores[there].std() if there.any() else 0
        if spread > LEAST_SPREAD:
            # What is missing is taken for the worst candidate: a row is not punished beyond that.
            total += weight * np.where(there, scores, scores[there].min()) / spread
            shares += abs(weight) / spread
    return total / shares if shares > 0 else total


def best_of(batches: Iterable[Rows], queries: npt.ArrayLike, k: int, metric: str) -> tuple[list[list[Id]], Vectors]:
    """The ids and scores of the k best rows of all batches, for every query."""
    queries = np.atleast_2d(np.asarray(queries, np.float32))
    ids: list[list[Id]] = [[] for _ in queries]
    scores = np.full((len(queries), 0), -np.inf, np.float32)
    for batch in batches:
        if not len(batch):
            continue
        scores = np.hstack([scores, score(queries, batch.matrix, metric)])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, order, axis=1)
        ids = [[(kept + batch.ids)[n] for n in best] for kept, best in zip(ids, order)]
    if scores.shape[1] < k:
        scores = np.pad(scores, ((0, 0), (0, k - scores.shape[1])), constant_values=-np.inf)
    return ids, scores
