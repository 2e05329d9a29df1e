# SPDX-License-Identifier: Apache-2.0
"""Search while a migration is under way: the scores of both models, each divided by its spread, added up."""
from __future__ import annotations

import numpy as np

from .address import scheme_of
from .errors import UsageError
from .migration import Migration
from .stores.scores import closeness, fuse

CANDIDATES = 100
QUERIES_AT_ONCE = 32


def search(store, old_query, new_query, k=10, *, candidates=CANDIDATES, weights=(1, 1)):
    """The k best documents by both models: (ids, scores), best first; lists of them for a matrix of queries.

    Parameters
    ----------
    store : Migration, path of a migrate.toml, or (old store, new store)
        Where to search.
    old_query, new_query : vector or matrix
        The query as either model embeds it. Without an old one (None) the new vectors are searched alone; where there
        are none yet, the query is translated back and the old ones are searched.
    candidates : int
        How many of either list are scored by both models.
    weights : (float, float)
        Of the old and the new model's score.
    """
    if isinstance(store, tuple):
        return _search(*store, old_query, new_query, k, candidates, weights)
    if isinstance(store, Migration):
        return _of(store, old_query, new_query, k, candidates, weights)
    with Migration(store, alone=False) as opened:
        return _of(opened, old_query, new_query, k, candidates, weights)


def _of(migration, old_query, new_query, k, candidates, weights):
    if migration.journal.fact("applied") is None:
        if new_query is None:
            return _search(migration.old, None, old_query, None, k, candidates, weights)
        if old_query is None:
            back = migration.translator(back=True)
            return _search(migration.old, None, back.transform(np.atleast_2d(np.asarray(new_query, np.float32))).reshape(
                (-1,) if np.ndim(new_query) == 1 else (len(new_query), -1)), None, k, candidates, weights)
        raise UsageError("the new vectors are not all there yet; run 'kedge-migrate apply', or search with one model's query")
    return _search(migration.old, migration.new, old_query, new_query, k, candidates, weights)


def _search(old, new, old_query, new_query, k, candidates, weights):
    given = [query for query in (old_query, new_query) if query is not None]
    if not given:
        raise UsageError("a search needs the query as at least one of the models embeds it")
    for store, query in ((old, old_query), (new, new_query)):
        if store is not None and query is not None and np.shape(query)[-1] != store.describe().width:
            raise UsageError(f"{store.shown} holds vectors of {store.describe().width} values; got a query of "
                             f"{np.shape(query)[-1]}")
    if old_query is None or new_query is None or new is None:
        store, query = (old, old_query) if new_query is None or new is None else (new, new_query)
        ids, scores = store.search(np.atleast_2d(np.asarray(query, np.float32)), k)
        found = [(found_ids, row[:len(found_ids)]) for found_ids, row in zip(ids, scores)]
    else:
        found = _both(old, new, *(np.atleast_2d(np.asarray(q, np.float32)) for q in given), k, max(candidates, k), weights)
    return found[0] if np.ndim(given[0]) == 1 else ([ids for ids, _ in found], [scores for _, scores in found])


def _both(old, new, old_queries, new_queries, k, candidates, weights):
    if len(old_queries) != len(new_queries):
        raise UsageError(f"there are {len(old_queries)} old queries and {len(new_queries)} new ones; they must be the same")
    metrics = old.describe().metric, new.describe().metric
    found = []
    for first in range(0, len(old_queries), QUERIES_AT_ONCE):
        asked = [queries[first:first + QUERIES_AT_ONCE] for queries in (old_queries, new_queries)]
        lists = [store.search(queries, candidates)[0] for store, queries in zip((old, new), asked)]
        unions = [list(dict.fromkeys(by_old + by_new)) for by_old, by_new in zip(*lists)]
        vectors = [_vectors(store, unions) for store in (old, new)]
        for n, ids in enumerate(unions):
            scores = [_scores(there, queries[n], ids, metric) for there, queries, metric in zip(vectors, asked, metrics)]
            total = fuse(*scores, weights)
            best = np.argsort(-total, kind="stable")[:k]
            found.append(([ids[place] for place in best], total[best]))
    return found


def _vectors(store, unions):
    """{id: vector} of everything that some query has for a candidate, read once."""
    found = {}
    for rows in store.read(ids=list({id for ids in unions for id in ids})):
        found.update(zip(rows.ids, rows.vectors))
    return found


def _scores(vectors, query, ids, metric):
    """The score of every id; NaN for one that is not there."""
    found = np.full(len(ids), np.nan)
    there = [n for n, id in enumerate(ids) if id in vectors]
    if there:
        found[there] = closeness(query[None], np.stack([vectors[ids[n]] for n in there]), metric)[0]
    return found


def sql(migration, install=False):
    """The fused search as an SQL function, and whether it was installed. For PostgreSQL."""
    if scheme_of(migration.place.address) != "postgresql":
        raise UsageError(f"{migration.place.shown}: an SQL function is for PostgreSQL; other stores search with "
                         "kedge.migrate.search")
    from .stores import postgres_sql

    text = postgres_sql.fused_search_sql(migration.old, migration.new)
    if install:
        postgres_sql.install(migration.old, migration.new)
    return {"sql": text, "installed": install}
