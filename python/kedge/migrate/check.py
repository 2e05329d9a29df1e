# SPDX-License-Identifier: Apache-2.0
"""check: what search will keep, by cross-validation on the sample, and what to do about it."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .._errors import BadFile, Error, UsageError
from . import maps, quality
from .embed import BATCH_TEXTS, embedder
from .migration import Migration, usable
from .quality import Interval, Judgements, Measured
from .sample import read_matrix
from .texts import read_texts
from .types import Found, Id, Vectors

# The share embedded again, and means by way and measure.
TopUpCurve: TypeAlias = list[tuple[float, dict[str, dict[str, float]]]]
Queries: TypeAlias = tuple[Vectors | None, Vectors | None]  # as the old and as the new model embeds them

FOLDS = 5
LEAST_ROWS = 50
LEAST_QUERIES = 20
SHARES = (0, .25, .5, .75, .9, 1)
DRAWS = 3
MOST_QUERIES = 1000
WHOLE_ROWS = 200_000
# If the old model is gone: the share of the new model's score that makes translating worth it.
ENOUGH = .7
AS_GOOD = .97  # of the old model's score: the most that fusing lost in our measurements
ENOUGH_OVERLAP = .5


def check(migration: Migration, whole: bool = False) -> Found:
    """Measures all ways on the sample, and with judged queries in a store that is not too large, or if 'whole' is asked
    for, also in all of it. Returns means with 95 % intervals, the curve of a top-up, and the verdict."""
    ids, old, new = migration.journal.sample()
    if len(ids) < LEAST_ROWS:
        raise Error(f"a check needs at least {LEAST_ROWS} documents that both models have embedded, and there are "
                    f"{len(ids)}; run 'kedge-migrate sample'")
    method = migration.journal.fact("map")
    if method is None:
        raise Error("there is no map yet; run 'kedge-migrate fit'")
    new = migration.as_new(new)
    translated = out_of_fold(migration, old, new, method)
    gone = migration.config.old_encoder == "gone"
    queries = read_queries(migration, old.shape[1], new.shape[1], either=gone)
    bench, kind = make_bench(migration, queries, ids, old, new, translated)
    measured = bench.measure()
    found = {"rows": len(ids), "queries": kind, "map": method,
             "scores": {way: {name: quality.interval(values) for name, values in scores.items()}
                        for way, scores in measured.items()},
             "gain": gains(measured), "curve": curve(bench, len(ids), migration.config.seed)}
    # A sample of a large store has few of the judged documents; the store has them all.
    whole = whole or migration.old.describe().rows <= WHOLE_ROWS
    old_queries, new_queries = queries or (None, None)
    if old_queries is not None and new_queries is not None and migration.config.judgements and whole:
        found.update(whole_store(migration, old_queries, new_queries))
    found["verdict"], found["why"] = verdict(found, migration.config.old_encoder)
    migration.journal.note(check=found)
    migration.journal.log("check", found)
    return found


def out_of_fold(migration: Migration, old: Vectors, new: Vectors, method: str) -> Vectors:
    """Every document of the sample, translated by a map that has not seen it."""
    translated = np.empty_like(new)
    fold = np.arange(len(old)) % FOLDS  # the sample is in random order
    for n in range(FOLDS):
        seen, held = fold != n, fold == n
        bundle, _, _ = maps.learn(old[seen], new[seen], method)
        translated[held] = migration.translate(bundle.translator("old", "new"), old[held])
    return translated


def make_bench(migration: Migration, queries: Queries | None, ids: Sequence[Id], old: Vectors, new: Vectors,
               translated: Vectors) -> tuple[quality.Bench, str]:
    """The documents of the sample with queries: those of the log, or the documents themselves."""
    metric = migration.old.describe().metric
    if queries is None:
        some = np.arange(min(len(ids), MOST_QUERIES))
        return quality.Bench(old, new, translated, old[some], new[some], some, None, (metric, metric)), "documents"
    old_queries, new_queries = queries
    if new_queries is None:
        raise UsageError("a check needs the queries as the new model embeds them; give new_queries, or embed")
    judged = None
    if migration.config.judgements:
        judged = read_judgements(migration.config.judgements, len(new_queries), ids)
        if sum(bool(grades) for grades in judged.values()) < LEAST_QUERIES:
            judged = None
    nobody = np.full(len(new_queries), -1)
    return quality.Bench(old, new, translated, old_queries, new_queries, nobody, judged, (metric, metric)), (
        "log" if judged is None else "judged")


def read_queries(migration: Migration, old_width: int, new_width: int, either: bool = False) -> Queries | None:
    """(old, new) vectors of the queries in the log, or None without a log. If either is enough, one may be None."""
    config = migration.config
    texts = list(read_texts(config.queries).values()) if config.queries else None
    found: list[Vectors | None] = []
    for path, model, width, which in ((config.old_queries, config.embed_old, old_width, "old"),
                                      (config.new_queries, config.embed, new_width, "new")):
        if path:
            rows = read_matrix(path, len(texts) if texts else None, "query")
        elif texts and model:
            embed = embedder(model)
            rows = np.concatenate([embed(texts[first:first + BATCH_TEXTS])
                                   for first in range(0, len(texts), BATCH_TEXTS)])
        else:
            found.append(None)
            continue
        if rows.shape[1] != width:
            raise UsageError(f"the {which} model's queries have {rows.shape[1]} values and its documents {width}")
        found.append(rows)
    old, new = found
    if old is None and new is None:
        return None
    if old is None or new is None:
        if either:
            return old, new
        raise UsageError("a check compares both models, so it needs the queries as either embeds them; give "
                         "old_queries and new_queries, or the texts as 'queries' with embed and embed_old")
    if len(old) != len(new):
        raise UsageError(f"there are {len(old)} old queries and {len(new)} new ones; they must be the same")
    return old, new


def read_judgements(path: str, queries: int, ids: Sequence[Id] | None = None) -> Judgements:
    """{query: {document: grade}}: documents by their place in the sample's ids, or all of them by their ids as text."""
    place = None if ids is None else {str(key): n for n, key in enumerate(ids)}
    try:
        if str(path).endswith(".npy"):
            lines = np.load(path, allow_pickle=False).tolist()
        else:
            with open(path, encoding="utf-8") as file:
                lines = [line.split("\t") for line in file.read().splitlines() if line.strip()]
        judged: Judgements = {}
        for query, document, grade in lines:
            grades = judged.setdefault(int(query), {})
            if float(grade) > 0 and (place is None or str(document) in place):
                grades[str(document) if place is None else place[str(document)]] = float(grade)
    except (OSError, ValueError, TypeError) as error:
        raise BadFile(f"{path}: expected rows of query, document, grade: {error}") from None
    if judged and not 0 <= min(judged) <= max(judged) < queries:
        raise BadFile(f"{path} speaks of queries {min(judged)} to {max(judged)}, but there are {queries}, counted from "
                      "0")
    return judged


def whole_store(migration: Migration, old_queries: Vectors, new_queries: Vectors) -> Found:
    """{"whole": nDCG@10 in the whole store as it will be after apply}, with the sample's real vectors and all others
    translated; nothing if too few queries are judged."""
    judged = read_judgements(migration.config.judgements, len(new_queries))
    if sum(bool(grades) for grades in judged.values()) < LEAST_QUERIES:
        return {}
    translator, (ids, _, new) = migration.translator(), migration.journal.sample()
    real, metric = dict(zip(ids, migration.as_new(new))), migration.old.describe().metric
    ranking = quality.Ranking(old_queries, new_queries, (metric, metric))
    for batch in migration.old.read():
        good = usable(batch.matrix)
        some = [key for key, use in zip(batch.ids, good) if use]
        if some:
            rows = migration.translate(translator, batch.matrix[good])
            for n in (n for n, key in enumerate(some) if key in real):
                rows[n] = real[some[n]]
            ranking.add(some, batch.matrix[good], rows)
    measured = {way: {"ndcg": np.array([quality.ndcg([str(key) for key in found[query]], judged[query])
                                        for query in sorted(judged) if judged[query]])}
                for way, found in ranking.ways().items()}
    return {"whole": {"scores": {way: quality.interval(values["ndcg"]) for way, values in measured.items()},
                      "gain": gains(measured)}}


def gains(measured: Measured) -> dict[str, Interval | None]:
    """How much better than staying, query by query, with intervals."""
    if "old" not in measured:
        return {}
    name = "ndcg" if "ndcg" in measured["old"] else "overlap"
    return {way: quality.interval(measured[way][name] - measured["old"][name]) for way in measured if way != "old"}


def curve(bench: quality.Bench, rows: int, seed: int) -> TopUpCurve:
    """[(share embedded again, {way: {measure: mean}})]: what search keeps as real vectors replace translated ones."""
    found = []
    for share in SHARES:
        draws = []
        for draw in range(DRAWS if 0 < share < 1 else 1):
            order = np.random.default_rng((seed, draw)).permutation(rows)
            draws.append(bench.measure(order < round(share * rows)))
        found.append((share, {way: {name: float(np.mean([one[way][name].mean() for one in draws]))
                                    for name in draws[0][way]} for way in draws[0]}))
    return found


def verdict(found: Found, old_encoder: str) -> tuple[str, str]:
    """(what to do, why): translate, fuse or embed again."""
    # Without the old model what matters is the share of the new one's score, and only the sample has all new vectors.
    if found["queries"] != "judged" and ("whole" not in found or old_encoder == "gone"):
        return _by_overlap(found["scores"], old_encoder)
    if old_encoder == "gone":
        return _without_old({way: values["ndcg"][0] for way, values in found["scores"].items()})
    if "whole" in found:
        scores = {way: value[0] for way, value in found["whole"]["scores"].items()}
        where, gain = "in the whole store", found["whole"]["gain"]
    else:
        scores = {way: values["ndcg"][0] for way, values in found["scores"].items()}
        where, gain = "among the sample", found["gain"]
    numbers = (f"nDCG@10 {where} is {scores['old']:.3f} with the old model, {scores['translated']:.3f} translated, "
               f"{scores['fused']:.3f} fused")
    if gain["translated"][1] > 0 and scores["translated"] >= .99 * scores["fused"]:
        return "translate", f"translated vectors are better than the old ones, and fusing adds nothing; {numbers}"
    if gain["fused"][2] >= 0 and scores["fused"] >= AS_GOOD * scores["old"]:
        sure = "better than staying" if gain["fused"][1] > 0 else "not measurably worse than staying"
        return "fuse", f"fusing is {sure}; {numbers}{_doubt(found)}"
    return "embed again", ("even fused, search falls below the old model; enlarge the sample, or top up before a "
                           f"cutover; {numbers}{_doubt(found)}")


def _without_old(scores: dict[str, float]) -> tuple[str, str]:
    keeps = scores["translated"] / max(scores["new"], 1e-9)
    numbers = (f"nDCG@10 among the sample is {scores['translated']:.3f} translated, {scores['new']:.3f} with the new "
               "model's own")
    if keeps >= ENOUGH:
        return "translate", (f"translated vectors keep {keeps:.0%} of the new model's score, and top-up gains the "
                             f"rest; {numbers}")
    return "embed again", f"translated vectors keep only {keeps:.0%} of the new model's score; {numbers}"


def _doubt(found: Found) -> str:
    """Whether these queries show that the new model is worth the change; only the sample has all of its vectors."""
    better = found["gain"]["new"]
    if found["queries"] == "judged" and better[1] <= 0:
        return "; in the sample these queries do not show that the new model is better than the old"
    return ""


def _by_overlap(scores: Found, old_encoder: str) -> tuple[str, str]:
    kept = scores["translated"]["overlap"][0]
    doubt = "overlap says little about relevance, so judged queries would decide"
    if old_encoder == "answers":
        return "fuse", f"while the old model answers queries, fusing is the safe way; {doubt}"
    if kept >= ENOUGH_OVERLAP:
        return "translate", f"translated vectors keep {kept:.0%} of the new model's ten nearest; {doubt}"
    return "embed again", f"translated vectors keep only {kept:.0%} of the new model's ten nearest; {doubt}"
