# SPDX-License-Identifier: Apache-2.0
"""check: what search will keep, by cross-validation on the sample, and what to do about it."""
from __future__ import annotations

import numpy as np

from . import maps, quality
from .embed import embedder
from .errors import BadFile, Error, UsageError
from .sample import read_matrix
from .texts import read_texts

FOLDS = 5
LEAST_ROWS = 50
LEAST_QUERIES = 20
SHARES = (0, .25, .5, .75, .9, 1)
DRAWS = 3
MOST_QUERIES = 1000


def check(migration):
    """Measures all ways on the sample. Returns means with 95 % intervals, the curve of a top-up, and the verdict."""
    ids, old, new = migration.journal.sample()
    if len(ids) < LEAST_ROWS:
        raise Error(f"a check needs at least {LEAST_ROWS} documents that both models have embedded, and there are {len(ids)}; "
                    "run 'kedge-migrate sample'")
    method = migration.journal.fact("map")
    if method is None:
        raise Error("there is no map yet; run 'kedge-migrate fit'")
    new = migration.as_new(new)
    translated = out_of_fold(migration, old, new, method)
    bench, queries = make_bench(migration, ids, old, new, translated)
    measured = bench.measure()
    found = {"rows": len(ids), "queries": queries, "map": method,
             "scores": {way: {name: quality.interval(values) for name, values in scores.items()}
                        for way, scores in measured.items()},
             "gain": gains(measured), "curve": curve(bench, len(ids), migration.config.seed)}
    found["verdict"], found["why"] = verdict(found, migration.config.old_encoder)
    migration.journal.note(check=found)
    migration.journal.log("check", found)
    return found


def out_of_fold(migration, old, new, method):
    """Every document of the sample, translated by a map that has not seen it."""
    translated = np.empty_like(new)
    fold = np.arange(len(old)) % FOLDS  # the sample is in random order
    for n in range(FOLDS):
        seen, held = fold != n, fold == n
        bundle, _, _ = maps.learn(old[seen], new[seen], method)
        translated[held] = migration.translate(bundle.translator("old", "new"), old[held])
    return translated


def make_bench(migration, ids, old, new, translated):
    """The documents of the sample with queries: those of the log, or the documents themselves."""
    metric = migration.old.describe().metric
    queries = read_queries(migration, old.shape[1], new.shape[1])
    if queries is None:
        some = np.arange(min(len(ids), MOST_QUERIES))
        return quality.Bench(old, new, translated, old[some], new[some], some, None, (metric, metric)), "documents"
    old_queries, new_queries = queries
    judged = None
    if migration.config.judgements:
        judged = read_judgements(migration.config.judgements, len(new_queries), ids)
        if sum(bool(grades) for grades in judged.values()) < LEAST_QUERIES:
            judged = None
    nobody = np.full(len(new_queries), -1)
    return quality.Bench(old, new, translated, old_queries, new_queries, nobody, judged, (metric, metric)), (
        "log" if judged is None else "judged")


def read_queries(migration, old_width, new_width):
    """(old, new) vectors of the queries in the log, or None without a log."""
    config = migration.config
    texts = list(read_texts(config.queries).values()) if config.queries else None
    found = []
    for path, model, width, which in ((config.old_queries, config.embed_old, old_width, "old"),
                                      (config.new_queries, config.embed, new_width, "new")):
        if path:
            rows = read_matrix(path, len(texts) if texts else len(np.load(path, mmap_mode="r")), "query")
        elif texts and model:
            rows = embedder(model)(texts)
        else:
            found.append(None)
            continue
        if rows.shape[1] != width:
            raise UsageError(f"the {which} model's queries have {rows.shape[1]} values and its documents {width}")
        found.append(rows)
    if found[0] is None and found[1] is None:
        return None
    if found[0] is None or found[1] is None:
        raise UsageError("a check compares both models, so it needs the queries as either embeds them; give old_queries and "
                         "new_queries, or the texts as 'queries' with embed and embed_old")
    if len(found[0]) != len(found[1]):
        raise UsageError(f"there are {len(found[0])} old queries and {len(found[1])} new ones; they must be the same")
    return found


def read_judgements(path, queries, ids):
    """{query: {place in the sample: grade}} of the documents in the sample."""
    place = {str(id): n for n, id in enumerate(ids)}
    try:
        if str(path).endswith(".npy"):
            lines = np.load(path, allow_pickle=False).tolist()
        else:
            lines = [line.split("\t") for line in open(path, encoding="utf-8").read().splitlines() if line.strip()]
        judged = {}
        for query, document, grade in lines:
            grades = judged.setdefault(int(query), {})
            if str(document) in place and float(grade) > 0:
                grades[place[str(document)]] = float(grade)
    except (OSError, ValueError, TypeError) as error:
        raise BadFile(f"{path}: expected rows of query, document, grade: {error}") from None
    if judged and not 0 <= min(judged) <= max(judged) < queries:
        raise BadFile(f"{path} speaks of queries {min(judged)} to {max(judged)}, but there are {queries}, counted from 0")
    return judged


def gains(measured):
    """How much better than staying, query by query, with intervals."""
    name = "ndcg" if "ndcg" in measured["old"] else "overlap"
    return {way: quality.interval(measured[way][name] - measured["old"][name]) for way in ("translated", "fused", "new")}


def curve(bench, rows, seed):
    """[(share embedded again, {way: {measure: mean}})]: what search keeps as real vectors replace translated ones."""
    found = []
    for share in SHARES:
        draws = []
        for draw in range(DRAWS if 0 < share < 1 else 1):
            order = np.random.default_rng((seed, draw)).permutation(rows)
            draws.append(bench.measure(order < round(share * rows)))
        found.append((share, {way: {name: float(np.mean([one[way][name].mean() for one in draws]))
                                    for name in draws[0][way]} for way in ("old", "translated", "fused", "new")}))
    return found


def verdict(found, old_encoder):
    """(what to do, why): translate, fuse or embed again."""
    scores, gain = found["scores"], found["gain"]
    if found["queries"] != "judged":
        return _by_overlap(scores, old_encoder)
    new = max(scores["new"]["ndcg"][0], 1e-9)
    share = {way: scores[way]["ndcg"][0] / new for way in ("old", "translated", "fused")}
    if old_encoder == "gone":
        if share["translated"] >= .7:
            return "translate", f"translated vectors keep {share['translated']:.0%} of the new model's nDCG@10; top up to gain the rest"
        return "embed again", f"translated vectors keep only {share['translated']:.0%} of the new model's nDCG@10"
    if gain["translated"][1] > 0 and share["translated"] >= share["fused"] - .01:
        return "translate", (f"translated vectors alone are better than the old ones ({share['translated']:.0%} of the new "
                             f"model's nDCG@10 against {share['old']:.0%}) and fusing adds nothing")
    if gain["fused"][2] >= 0:
        return "fuse", (f"fused with the old scores, search keeps {share['fused']:.0%} of the new model's nDCG@10; the old model "
                        f"alone {share['old']:.0%}, translated vectors alone {share['translated']:.0%}")
    return "embed again", (f"even fused, search falls below the old model: {share['fused']:.0%} of the new model's nDCG@10 against "
                           f"{share['old']:.0%}; enlarge the sample, or top up before you cut over")


def _by_overlap(scores, old_encoder):
    keep = scores["translated"]["overlap"][0]
    doubt = "overlap says little about relevance: judged queries would decide"
    if old_encoder == "answers":
        return "fuse", f"while the old model answers, fusing has been the safe way in all but a few measurements; {doubt}"
    if keep >= .5:
        return "translate", f"translated vectors keep {keep:.0%} of the new model's ten nearest; {doubt}"
    return "embed again", f"translated vectors keep only {keep:.0%} of the new model's ten nearest; {doubt}"
