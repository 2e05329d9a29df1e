#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel map can compare with fewer rows than it is fitted on, and keep what it finds.

    experiments/translation/fewer.py PATH/scifact PATH/cranfield --support 2000,700 --pairs wordllama:mpnet-base

Of the support, a share is kept as centres (at random, farthest points, by ridge leverage), and all support rows fit the
coefficients at these (Nystroem). Numbers are the nDCG@10 of translated documents as a share of the new encoder's own,
less that of all rows, and the same of the share of variance that is explained; means over the seeds. Width, strength
and whitening are what kedge chooses with all rows; variance is not restored.
"""
import argparse

import kedge
import numpy as np
from collection import Collection, Pair


def farthest(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    chosen = [int(np.random.default_rng(seed).integers(len(rows)))]
    nearest = rows @ rows[chosen[0]]
    for _ in range(count - 1):
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, rows @ rows[chosen[-1]])
    return np.array(chosen)


def by_leverage(kernel: np.ndarray, strength: float, count: int, seed: int) -> np.ndarray:
    values, vectors = np.linalg.eigh(kernel)
    leverage = (vectors ** 2 @ (values / (values + strength))).clip(1e-12)
    return np.random.default_rng(seed).choice(len(kernel), count, replace=False, p=leverage / leverage.sum())


def measure(pair: Pair, seed: int) -> dict[tuple[str, float], tuple[float, float]]:
    old, new = pair.old_docs.astype(np.float64), pair.new_docs.astype(np.float64)
    bundle = kedge.fit({"old": old[pair.support], "new": new[pair.support]}, method="kernel", support=len(pair.support))
    chosen = bundle["old"].kernel or {}
    width, strength = chosen["width"], chosen["strength"] * len(pair.support)
    features = old - bundle["old"].mean
    if chosen["whitener"] is not None:
        features = features @ chosen["whitener"].astype(np.float64)
    features /= np.linalg.norm(features, axis=1, keepdims=True).clip(1e-12)
    known, start = features[pair.support], new[pair.support].mean(0)
    kernel = np.exp(width * (known @ known.T - 1))
    best = pair.new().ndcg

    def scores(centres: np.ndarray) -> tuple[float, float]:
        across = kernel[:, centres]
        jitter = 1e-10 * np.eye(len(centres))
        weights = np.linalg.solve(across.T @ across + strength * kernel[np.ix_(centres, centres)] + jitter,
                                  across.T @ (new[pair.support] - start))
        found = start + np.exp(width * (features @ known[centres].T - 1)) @ weights
        truth = new[pair.rest]
        missed = ((truth - found[pair.rest]) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum()
        return pair.search(pair.new_queries, found.astype(np.float32)).ndcg / best, 1 - missed

    rows = len(pair.support)
    results = {("all", 1.0): scores(np.arange(rows))}
    for share in (.25, .5, .67):
        count = round(share * rows)
        results["random", share] = scores(np.random.default_rng(seed).choice(rows, count, replace=False))
        results["farthest points", share] = scores(farthest(known, count, seed))
        results["leverage", share] = scores(by_leverage(kernel, strength, count, seed))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--support", default="2000", help="rows, for each collection [%(default)s]")
    parser.add_argument("--pairs", default="wordllama:mpnet-base,minilm-l6:mpnet-base")
    parser.add_argument("--seeds", default="10,11,12")
    asked = parser.parse_args()
    print("| collection | pair | rows | centres | nDCG share | R^2 |\n|---|---|---|---|---|---|")
    for folder, support in zip(asked.collections, asked.support.split(",")):
        collection = Collection([folder])
        for old, new in (pair.split(":") for pair in asked.pairs.split(",")):
            runs = [measure(Pair(collection, old, new, int(support), seed), seed)
                    for seed in map(int, asked.seeds.split(","))]
            whole = np.mean([run["all", 1.0] for run in runs], 0)
            for way, share in runs[0]:
                apart = np.mean([run[way, share] for run in runs], 0) - (whole if way != "all" else 0)
                print(f"| {collection.name} | {old} to {new} | {support} | {share:.0%} {way} | {apart[0]:+.4f} | "
                      f"{apart[1]:+.4f} |", flush=True)


if __name__ == "__main__":
    main()
