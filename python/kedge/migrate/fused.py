# SPDX-License-Identifier: Apache-2.0
"""Search while a migration is under way: the scores of both models, each divided by its spread, added up."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._address import scheme_of
from .._errors import UsageError
from . import models
from .migration import Migration
from .store import Store
from .stores.scores import closeness, fuse
from .types import Floats, Found, Id, Vectors

Answer: TypeAlias = tuple[list[Any], Any]  # ids and scores of a query; of a matrix of queries, lists of both

CANDIDATES = 100
QUERIES_AT_ONCE = 32


def search(store: Migration | str | os.PathLike[str] | tuple[Store, Store], old_query: npt.ArrayLike | None,
           new_query: npt.ArrayLike | None, k: int = 10, *, candidates: int = CANDIDATES,
           weights: tuple[float, float] = (1, 1), where: str | None = None, params: Sequence[object] = ()) -> Answer:
    """The k best documents by both models: (ids, scores), best first; lists of them for a matrix of queries.

    Parameters
    ----------
    store : Migration, path of a migrate.toml, or (old store, new store)
        Where to search.
    old_query, new_query : vector or matrix
        The query as either model embeds it. Without an old one (None) the new vectors are searched alone; if there are
        none yet, the query is translated back and the old ones are searched.
    candidates : int
        How many of either list are scored by both models.
    weights : (float, float)
        Of the old and the new model's score.
    where, params : str and its values
        A condition on the documents, for PostgreSQL: where="tenant_id = %s", params=[7].
    """
    if not isinstance(store, (tuple, Migration)):
        with Migration(store, alone=False) as opened:
            opened.models_asked = False  # which takes longer than one search
            return search(opened, old_query, new_query, k, candidates=candidates, weights=weights, where=where,
                          params=params)
    if isinstance(store, Migration):
        for model, query in (("old", old_query), ("new", new_query)):
            if query is not None and store.models_asked:
                models.require_queries(store, np.atleast_2d(np.asarray(query, np.float32)), model)
        old, new, old_query = _places(store, old_query, new_query)
    else:
        old, new = store
    if where is not None:
        old, new = old.filtered(where, params), None if new is None else new.filtered(where, params)
    return _search(old, new, old_query, new_query, k, candidates, weights)


def _places(migration: Migration, old_query: npt.ArrayLike | None,
            new_query: npt.ArrayLike | None) -> tuple[Store, Store | None, npt.ArrayLike | None]:
    """The stores to search, and the old model's query, which may be the new one's translated back."""
    if migration.journal.fact("applied") is not None:
        return migration.old, migration.new, old_query
    if new_query is None:
        return migration.old, None, old_query
    if old_query is None:
        query = np.asarray(new_query, np.float32)
        back = np.asarray(migration.translator(back=True).transform(np.atleast_2d(query)))
        return migration.old, None, back[0] if query.ndim == 1 else back
    raise UsageError("the new vectors are not all there yet; run 'kedge-migrate apply', or search with one model's "
                     "query")


def _search(old: Store, new: Store | None, old_query: npt.ArrayLike | None, new_query: npt.ArrayLike | None, k: int,
            candidates: int, weights: tuple[float, float]) -> Answer:
    asked = [(store, query) for store, query in ((old, old_query), (new, new_query))
             if store is not None and query is not None]
    if not asked:
        raise UsageError("a search needs the query as at least one of the models embeds it")
    for store, query in asked:
        width = store.facts().width
        if np.shape(query)[-1] != width:
            raise UsageError(f"{store.shown} holds vectors of {width} values; got a query of {np.shape(query)[-1]}")
    queries = [np.atleast_2d(np.asarray(query, np.float32)) for _, query in asked]
    if len(asked) == 1:
        ids, scores = asked[0][0].search(queries[0], k)
        found: list[tuple[list[Id], Floats]] = [(some, row[:len(some)]) for some, row in zip(ids, scores)]
    else:
        found = _both([store for store, _ in asked], queries, k, max(candidates, k), weights)
    return found[0] if np.ndim(asked[0][1]) == 1 else ([ids for ids, _ in found], [scores for _, scores in found])


def _both(stores: list[Store], queries: list[Vectors], k: int, candidates: int,
          weights: tuple[float, float]) -> list[tuple[list[Id], Floats]]:
    if len(queries[0]) != len(queries[1]):
        raise UsageError(f"there are {len(queries[0])} old queries and {len(queries[1])} new ones; they must be the "
                         "same")
    metrics = [store.facts().metric for store in stores]
    found: list[tuple[list[Id], Floats]] = []
    for first in range(0, len(queries[0]), QUERIES_AT_ONCE):
        asked = [rows[first:first + QUERIES_AT_ONCE] for rows in queries]
        lists = [store.search(rows, candidates)[0] for store, rows in zip(stores, asked)]
        unions = [list(dict.fromkeys(by_old + by_new)) for by_old, by_new in zip(*lists)]
        vectors = stores[0].lookup(stores[1], list({key for ids in unions for key in ids}))
        for n, ids in enumerate(unions):
            scores = [_scores(there, rows[n], ids, metric) for there, rows, metric in zip(vectors, asked, metrics)]
            total = fuse(scores[0], scores[1], weights)
            best = np.argsort(-total, kind="stable")[:k]
            found.append(([ids[place] for place in best], total[best]))
    return found


def _scores(vectors: Mapping[Id, Vectors], query: Vectors, ids: Sequence[Id], metric: str) -> Floats:
    """The score of every id; NaN for one that is not there."""
    found = np.full(len(ids), np.nan)
    there = [n for n, key in enumerate(ids) if key in vectors]
    if there:
        found[there] = closeness(query[None], np.stack([vectors[ids[n]] for n in there]), metric)[0]
    return found


def sql(migration: Migration, install: bool = False) -> Found:
    """The fused search as an SQL function, and whether it was installed. For PostgreSQL."""
    if scheme_of(migration.place.address) != "postgresql":
        raise UsageError(f"{migration.place.shown}: an SQL function is for PostgreSQL; other stores search with "
                         "kedge.migrate.search")
    from .stores import postgres_sql, postgresql

    old, new = migration.old, migration.new
    assert isinstance(old, postgresql.PostgresStore)
    text = postgres_sql.fused_search_sql(old, new)
    if install:
        postgres_sql.install(old, new)
    return {"sql": text, "installed": install}
