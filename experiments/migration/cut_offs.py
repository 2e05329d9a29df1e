#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cut-offs of one model and what takes their place, on a collection with queries.

    experiments/migration/cut_offs.py PATH/scifact --sample 1000 --pairs minilm-l6:mpnet-base,wordllama:mpnet-base

A folder holds ENCODER-docs.npy and ENCODER-queries.npy for every encoder. A kernel map is learned from --sample
documents, and all others are searched. The first table is of cut-offs of the old model, among the ten best documents of
either score. The second asks what isotrieve's recalibration asks: which documents' translated vectors pass the new
model's own cut-off, among the twenty best; with the score as it is, after isotonic regression as isotrieve has it, and
with kedge's cut-off. 'alike' is the share of decisions that are the same, 'pass' the share of what should pass that
does; both on queries that nothing was fitted to.
"""
import argparse
import pathlib

import numpy as np
from kedge.migrate import CutOffs, maps
from kedge.migrate.cut_offs import LEAST_PAIRS, measure
from kedge.migrate.quality import Bench
from kedge.migrate.stores.scores import unit
from sklearn.isotonic import IsotonicRegression

WAYS = ("new", "translated", "fused")


def load(folder: pathlib.Path, encoder: str) -> tuple[np.ndarray, np.ndarray]:
    docs, queries = (unit(np.load(folder / f"{encoder}-{what}.npy").astype(np.float32)) for what in ("docs", "queries"))
    return docs, queries


def searched(folder: pathlib.Path, pair: str, rows: int, seed: int) -> Bench:
    """Everything but the sample, translated by a map from the sample."""
    old, new = pair.split(":")
    (old_docs, old_queries), (new_docs, new_queries) = load(folder, old), load(folder, new)
    order = np.random.default_rng(seed).permutation(len(old_docs))
    sample, others = order[:rows], order[rows:]
    bundle, _, _ = maps.learn(old_docs[sample], new_docs[sample], "kernel")
    translated = np.asarray(bundle.translator("old", "new").transform(old_docs[others], normalize=True))
    nobody = np.full(len(old_queries), -1)
    return Bench(old_docs[others], new_docs[others], translated, old_queries, new_queries, nobody, None,
                 ("cosine", "cosine"))


def recalibrated(bench: Bench, cut: float, k: int = 20) -> tuple[float, list[tuple[float, float]]]:
    """(share that should pass, [(alike, pass)] of the score as it is, by isotonic regression, and by equal shares)."""
    best = [np.union1d(np.argsort(-a)[:k], np.argsort(-b)[:k]) for a, b in zip(bench.by_translated, bench.by_new)]
    halves = []
    for half in (0, 1):
        chosen = range(half, len(best), 2)
        halves.append([np.concatenate([scores[query, best[query]] for query in chosen])
                       for scores in (bench.by_translated, bench.by_new)])
    decided: list[list[np.ndarray]] = [[], [], []]
    wanted = []
    for (seen, truth), (asked, true) in (halves, halves[::-1]):
        wanted.append(true >= cut)
        decided[0].append(asked >= cut)
        decided[1].append(IsotonicRegression(out_of_bounds="clip").fit(seen, truth).predict(asked) >= cut)
        decided[2].append(asked >= CutOffs.between(truth, seen)(cut))
    should = np.concatenate(wanted)
    passed = [np.concatenate(one) for one in decided]
    if should.sum() < LEAST_PAIRS:
        return 0.0, []
    return float(should.mean()), [(float((one == should).mean()), float(one[should].mean())) for one in passed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", default="minilm-l6:mpnet-base")
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    benches = {pair: searched(asked.folder, pair, asked.sample, asked.seed) for pair in asked.pairs.split(",")}
    print("| pair | old cut-off | above it | " + " | ".join(f"{way}: at, alike (95 %), pass" for way in WAYS) + " |")
    print("|---|---|---|---|---|---|")
    for pair, bench in benches.items():
        for one in measure(bench, "cosine")[1]:
            cells = []
            for way in WAYS:
                mean, low, high = one["ways"][way]["agreement"]
                cells.append(f"{one['ways'][way]['at']:.3f}, {mean:.3f} ({low:.3f} to {high:.3f}), "
                             f"{one['ways'][way]['kept']:.2f}")
            print(f"| {pair} | {one['old']} | {one['share']:.3f} | " + " | ".join(cells) + " |")
    print("\n| pair | cut-off of the new model | above it | as it is: alike, pass | isotonic | kedge |")
    print("|---|---|---|---|---|---|")
    for pair, bench in benches.items():
        for cut in (.5, .6, .7):
            share, found = recalibrated(bench, cut)
            if found:
                print(f"| {pair} | {cut} | {share:.3f} | " + " | ".join(f"{a:.3f}, {b:.2f}" for a, b in found) + " |")


if __name__ == "__main__":
    main()
