# SPDX-License-Identifier: Apache-2.0
"""How vectors compare, and the best of many, for stores that have no search of their own and for fused search."""
from __future__ import annotations

import numpy as np


def unit(rows):
    """Rows of length 1; rows of zeros stay what they are."""
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def score(queries, rows, metric):
    """queries x rows, larger is nearer."""
    if metric == "cosine":
        return unit(queries) @ unit(rows).T
    products = np.asarray(queries, np.float32) @ np.asarray(rows, np.float32).T
    if metric == "inner":
        return products
    squares = (np.square(queries).sum(axis=1, keepdims=True) + np.square(rows).sum(axis=1)) - 2 * products
    return -np.sqrt(np.maximum(squares, 0))


def closeness(queries, rows, metric):
    """queries x rows, in the same order as 'score' for each query, and for rows of length 1 the same up to a constant
    whatever the metric: what is fused must not depend on whether a store says cosine or distance."""
    if metric != "euclidean":
        return score(queries, rows, metric)
    rows = np.asarray(rows, np.float32)
    return np.asarray(queries, np.float32) @ rows.T - np.square(rows).sum(axis=1) / 2


def best_of(batches, queries, k, metric):
    """The ids and scores of the k best rows of all batches, for every query."""
    queries = np.atleast_2d(np.asarray(queries, np.float32))
    ids = [[] for _ in queries]
    scores = np.full((len(queries), 0), -np.inf, np.float32)
    for batch in batches:
        if not len(batch):
            continue
        scores = np.hstack([scores, score(queries, batch.vectors, metric)])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores = np.take_along_axis(scores, order, axis=1)
        ids = [[(kept + batch.ids)[n] for n in best] for kept, best in zip(ids, order)]
    if scores.shape[1] < k:
        scores = np.pad(scores, ((0, 0), (0, k - scores.shape[1])), constant_values=-np.inf)
    return ids, scores
