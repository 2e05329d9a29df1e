# SPDX-License-Identifier: Apache-2.0
"""Which model vectors are of. Two models whose vectors are equally wide mix without any error, so vectors are held
against the sample, which knows both models."""
from __future__ import annotations

import numpy as np

import kedge

from .._errors import Error, UsageError
from .migration import Migration, usable
from .types import Vectors

LEAST_ROWS = 500  # of a sample, to know a model by
MOST_ROWS = 2000
LOOK_AT = 256  # rows of a store
FEW = 16  # vectors that are too few to judge documents by


def require_width(migration: Migration, width: int) -> None:
    """The new model's vectors are all of one width."""
    noted = migration.journal.fact("new_width")
    if noted is None:
        migration.journal.note(new_width=width)
    elif noted != width:
        raise UsageError(f"these vectors have {width} values, those before had {noted}; is it the same model?")


def require_new(migration: Migration, vectors: Vectors) -> None:
    """New vectors of documents are of the model that embedded the sample."""
    require_width(migration, vectors.shape[1])
    if _strange(migration, "new", vectors):
        raise UsageError("these vectors have nothing in common with those that the new model made of the sample; is it "
                         "the same model, with the same settings?")


def require_old(migration: Migration) -> None:
    """The store's vectors are of the model that had embedded the sample."""
    if _known(migration, "old") is None:
        return
    some = [batch.matrix for batch in migration.old.glance(LOOK_AT).batches if len(batch)]
    if some and _strange(migration, "old", np.concatenate(some)):
        raise Error(f"the vectors of {migration.old.shown} have nothing in common with those that the sample was drawn "
                    "from, so the map does not fit them; put the old model's vectors back, or begin another migration")


def require_queries(migration: Migration, queries: Vectors, model: str) -> None:
    """Queries are not of the other model, which would find documents, but not the right ones. A query is like no
    document in particular, so it is refused only if it is like the other model's vectors."""
    widths = migration.journal.widths()
    if len(set(widths.values())) != 1 or queries.shape[1] != widths[model]:
        return  # a query of the wrong width is refused anyway
    other = "old" if model == "new" else "new"
    own, places = _known(migration, model), np.flatnonzero(usable(queries))
    if own is None or not own.can_tell or not len(places):
        return
    places = places[own.distances(queries[places]) > own.UNLIKE]
    others = _known(migration, other) if len(places) else None
    if others is None or not others.can_tell:
        return
    wrong = places[others.distances(queries[places]) < others.LIKE]
    if len(wrong):
        raise UsageError(f"query {wrong[0]} was given as the {model} model's and looks like one of the {other} model, "
                         f"whose vectors have {queries.shape[1]} values too; embed it with the {model} model")


def _strange(migration: Migration, model: str, vectors: Vectors) -> bool:
    rows = vectors[usable(vectors)]
    if len(rows) < FEW:
        return False
    known = _known(migration, model)
    if known is None or not known.can_tell:
        return False
    return rows.shape[1] != known.dim or bool(np.median(known.distances(rows)) > known.UNLIKE)


def _known(migration: Migration, model: str) -> kedge.Likeness | None:
    """What the sample knows of a model; None if that is too little."""
    if model not in migration.models:
        rows = migration.journal.sampled(model, MOST_ROWS)
        if len(rows) < LEAST_ROWS:
            return None  # until the sample has more
        migration.models[model] = kedge.Likeness(rows)
    return migration.models[model]
