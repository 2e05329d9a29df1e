# SPDX-License-Identifier: Apache-2.0
"""Which documents to embed next: those that queries meet near the top and whose translation is probably far off."""
from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from .fused import search
from .migration import Migration, usable
from .queries import read_queries
from .stores.scores import unit
from .types import Floats, Id, Vectors

SEEN = 100     # how far down a query's list a document counts
LEAST_ERROR = .01
ROWS_AT_ONCE = 1024


def error_by_distance(distances: Floats, new: Vectors, translated: Vectors) -> tuple[float, float]:
    """(error of a row that is in the sample, growth with the distance to it): the line through the errors of rows whose
    map has not seen them."""
    slope, start = np.polyfit(distances, 1 - (unit(translated) * unit(new)).sum(axis=1), 1)
    return float(start), float(slope)


def distance(rows: Vectors, support: Vectors) -> Floats:
    """1 - cosine, to the nearest row of the support."""
    return np.asarray(1 - (unit(rows) @ unit(support).T).max(axis=1))


def expected_error(distances: Floats, line: tuple[float, float]) -> Floats:
    return np.asarray(np.maximum(line[0] + max(line[1], 0) * distances, LEAST_ERROR))


def met(lists: Sequence[Sequence[Id]]) -> dict[Id, float]:
    """How much queries see of a document: the sum of 1 / its rank."""
    found: collections.defaultdict[Id, float] = collections.defaultdict(float)
    for ids in lists:
        for rank, key in enumerate(ids[:SEEN], 1):
            found[key] += 1 / rank
    return found


def most_worth(migration: Migration) -> list[Id]:
    """The documents that the queries of the log meet, those first that are most worth embedding; empty without a log.
    If there was no check, errors are taken to be alike."""
    old, new = migration.old, migration.new
    # Either will do: the old model may be gone.
    queries = read_queries(migration, old.describe().width, new.describe().width, either=True)
    if queries is None:
        return []
    lists, _ = search((old, new), queries[0], queries[1], k=SEEN)
    worth = met(lists)
    line = migration.journal.fact("error_by_distance")
    if line is not None:
        support = unit(migration.journal.sample()[1])
        for rows in old.read(ids=list(worth), size=ROWS_AT_ONCE):
            errors = expected_error(distance(np.where(usable(rows.matrix)[:, None], rows.matrix, 0), support), line)
            for key, error in zip(rows.ids, errors.tolist()):
                worth[key] *= error
    return sorted(worth, key=lambda key: (-worth[key], str(key)))
