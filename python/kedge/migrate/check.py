# SPDX-License-Identifier: Apache-2.0
"""check: what search will keep, by cross-validation on the sample, and what to do about it."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .._errors import BadFile, Error, UsageError
from . import cut_offs, maps, quality, worth
from .draw import as_text
from .fused import search
from .migration import Migration, usable
from .quality import Interval, Judgements, Measured
from .queries import Queries, read_queries
from .types import Floats, Found, Id, Places, Vectors

# The share embedded again, and means by way and measure.
TopUpCurve: TypeAlias = list[tuple[float, dict[str, dict[str, float]]]]

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


def check(migration: Migration, whole: bool = False, gate: float | None = None) -> Found:
    """Measures all ways on the sample, and with judged queries in a store that is not too large, or if 'whole' is asked
    for, also in all of it. Returns means with 95 % intervals, the curve of a top-up, and the verdict; with a gate, also
    whether what the verdict asks for keeps that share of the old model's score."""
    ids, old, new = migration.journal.sample()
    if len(ids) < LEAST_ROWS:
        raise Error(f"a check needs at least {LEAST_ROWS} documents that both models have embedded, and there are "
                    f"{len(ids)}; run 'kedge-migrate sample'")
    method = migration.journal.fact("map")
    if method is None:
        raise Error("there is no map yet; run 'kedge-migrate fit'")
    if gate is not None and not migration.config.judgements:
        raise UsageError("a gate needs judgements, since overlap says little about relevance; give judgements")
    new = migration.as_new(new)
    translated = out_of_fold(migration, old, new, method)
    gone = migration.config.old_encoder == "gone"
    queries = read_queries(migration, old.shape[1], new.shape[1], either=gone)
    bench, kind = make_bench(migration, queries, ids, old, new, translated)
    measured = bench.measure()
    found = {"rows": len(ids), "queries": kind, "map": method,
             "scores": {way: {name: quality.interval(values) for name, values in scores.items()}
                        for way, scores in measured.items()},
             "gain": gains(measured), "share": shares(measured), "curve": curve(bench, len(ids), migration.config.seed)}
    away = distances(old)
    line = worth.error_by_distance(away, new, translated)
    if kind != "documents":  # the order of a top-up comes from the log
        found["ordered"] = ordered_curve(bench, worth.expected_error(away, line), migration.config.seed)
    maps_of_cut_offs, found["cut_offs"] = cut_offs.measure(bench, migration.old.describe().metric)
    # A sample of a large store has few of the judged documents; the store has them all.
    whole = whole or migration.old.describe().rows <= WHOLE_ROWS
    old_queries, new_queries = queries or (None, None)
    if old_queries is not None and new_queries is not None and migration.config.judgements and whole:
        found.update(whole_store(migration, old_queries, new_queries))
    found["verdict"], found["why"] = verdict(found, migration.config.old_encoder)
    if gate is not None:
        found["gate"] = passed(found, gate, gone)
    migration.journal.note(check=found, error_by_distance=line, thresholds={
        way: dataclasses.asdict(one) for way, one in maps_of_cut_offs.items()})
    migration.journal.log("check", found)
    return found


def out_of_fold(migration: Migration, old: Vectors, new: Vectors, method: str) -> Vectors:
    """Every document of the sample, translated by a map that has not seen it."""
    translated, fold = np.empty_like(new), folds(len(old))
    for n in range(FOLDS):
        seen, held = fold != n, fold == n
        bundle, _, _ = maps.learn(old[seen], new[seen], method)
        translated[held] = migration.translate(bundle.translator("old", "new"), old[held])
    return translated


def folds(rows: int) -> Places:
    """Which map a row of the sample is translated by; the sample is in random order."""
    return np.arange(rows) % FOLDS


def distances(old: Vectors) -> Floats:
    """Of each row of the sample to the rows that its map has seen."""
    found, fold = np.empty(len(old)), folds(len(old))
    for n in range(FOLDS):
        found[fold == n] = worth.distance(old[fold == n], old[fold != n])
    return found


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


def read_judgements(path: str, queries: int, ids: Sequence[Id] | None = None) -> Judgements:
    """{query: {document: grade}}: documents by their place in the sample's ids, or all of them by their ids as text."""
    place = None if ids is None else {as_text(key): n for n, key in enumerate(ids)}
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
    judged_ids, there = {key for grades in judged.values() for key in grades}, set[Id]()
    for batch in migration.old.read():
        good = usable(batch.matrix)
        some = [key for key, use in zip(batch.ids, good) if use]
        if some:
            there.update(judged_ids.intersection(map(as_text, some)))
            rows = migration.translate(translator, batch.matrix[good])
            for n in (n for n, key in enumerate(some) if key in real):
                rows[n] = real[some[n]]
            ranking.add(some, batch.matrix[good], rows)
    if not there:
        raise BadFile(f"{migration.config.judgements}: none of the {len(judged_ids)} judged documents is in "
                      f"{migration.old.shown}; name them by their ids there, such as {as_text(ids[0])}")
    measured = {way: {"ndcg": np.array([quality.ndcg([as_text(key) for key in found[query]], judged[query])
                                        for query in sorted(judged) if judged[query]])}
                for way, found in ranking.ways().items()}
    scores = {way: quality.interval(values["ndcg"]) for way, values in measured.items()}
    return {"whole": {"rows": ranking.rows, "scores": scores, "gain": gains(measured), "share": shares(measured)}}


def gains(measured: Measured) -> dict[str, Interval | None]:
    """How much better than staying, query by query, with intervals."""
    if "old" not in measured:
        return {}
    name = "ndcg" if "ndcg" in measured["old"] else "overlap"
    return {way: quality.interval(measured[way][name] - measured["old"][name]) for way in measured if way != "old"}


def shares(measured: Measured) -> dict[str, Interval | None]:
    """Which share of the old model's nDCG@10 each way keeps, or if that is gone of the new one's; with intervals."""
    of = measured["old" if "old" in measured else "new"]
    return {way: quality.share(scores["ndcg"], of["ndcg"]) for way, scores in measured.items()} if "ndcg" in of else {}


def passed(found: Found, gate: float, gone: bool) -> Found:
    """Whether the lower end of the interval reaches the gate, in the whole store if that was measured."""
    way = "translated" if gone or found["verdict"] == "translate" else "fused"
    where = found if gone or "whole" not in found else found["whole"]
    kept = where["share"].get(way)
    if kept is None:
        raise UsageError(f"a gate needs judgements of {LEAST_QUERIES} queries or more, since overlap says little about "
                         "relevance; give judgements")
    return {"asked": gate, "way": way, "of": "new" if gone else "old", "share": kept, "passed": kept[1] >= gate}


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


def ordered_curve(bench: quality.Bench, errors: Floats, seed: int) -> TopUpCurve:
    """The same in the order of a top-up. It comes from one half of the queries, and the other half asks."""
    lists, found = bench.lists(worth.SEEN), []
    orders = []
    for half in (0, 1):
        met = worth.met([ids.tolist() for ids in lists[half::2]])
        value = np.array([met.get(n, 0) for n in range(len(errors))]) * errors
        at_random = np.random.default_rng((seed, half)).permutation(len(errors))
        orders.append(np.argsort(np.lexsort((at_random, -value))))
    for share in SHARES:
        halves = [bench.measure(order < round(share * len(order))) for order in orders]
        found.append((share, {way: {name: float(np.mean(np.concatenate([
            one[way][name][bench.asked[name] % 2 != half] for half, one in enumerate(halves)])))
            for name in halves[0][way]} for way in halves[0]}))
    return found


def in_the_store(migration: Migration) -> dict[str, Interval]:
    """nDCG@10 of searches in the store as it is now, by way; empty without judged queries or before apply."""
    config, old, new = migration.config, migration.old, migration.new
    if not config.judgements or migration.journal.fact("applied") is None:
        return {}
    queries = read_queries(migration, old.describe().width, new.describe().width, either=True)
    if queries is None or queries[1] is None:
        return {}
    judged = read_judgements(config.judgements, len(queries[1]))
    asked = sorted(query for query in judged if judged[query])
    by_new = queries[1][asked]
    ways: dict[str, Queries] = {"new": (None, by_new)}
    if queries[0] is not None:
        by_old = queries[0][asked]
        ways = {"old": (by_old, None), "new": (None, by_new), "fused": (by_old, by_new)}
    found: dict[str, Interval] = {}
    for way, (old_queries, new_queries) in ways.items():
        lists, _ = search((old, new), old_queries, new_queries, quality.K)
        scores = quality.interval([quality.ndcg([as_text(key) for key in ids], judged[query])
                                   for query, ids in zip(asked, lists)])
        if scores is not None:
            found[way] = scores
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
