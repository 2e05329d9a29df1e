#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In which order to embed documents again: nDCG@10 against the share that is embedded, on a judged collection.

    experiments/migration/order.py PATH/scifact --sample 500 --pairs minilm-l6:mpnet-base,wordllama:mpnet-base

A folder holds ENCODER-docs.npy and ENCODER-queries.npy for every encoder, and qrels.npy. The log is one half of the
queries, and the other half asks; or, with --same, all queries are both. The orders: at random; 'found', the documents
that the log finds among the ten best most often; 'worth', that of kedge-migrate top-up: sums of 1 / rank among the
hundred best, times the expected error of the row; and 'met', the same without the error. Means over pairs.
"""
import argparse
import collections
import pathlib

import numpy as np
from cut_offs import load
from kedge.migrate import check, fuse, maps, worth
from kedge.migrate.quality import ndcg
from kedge.migrate.stores.scores import unit

SHARES = (.1, .2, .3, .5, .7, .9)
ORDERS = ("random", "found", "met", "worth")


class Collection:
    def __init__(self, folder: pathlib.Path, pair: str, rows: int, seed: int) -> None:
        old, new = pair.split(":")
        (self.old, old_queries), (self.new, new_queries) = load(folder, old), load(folder, new)
        self.grades: dict[int, dict[int | str, float]] = {}
        for query, document, grade in np.load(folder / "qrels.npy").tolist():
            self.grades.setdefault(query, {})[document] = grade
        self.sample = np.random.default_rng(seed).permutation(len(self.old))[:rows]
        bundle, _, _ = maps.learn(self.old[self.sample], self.new[self.sample], "kernel")
        applied = np.asarray(bundle.translator("old", "new").transform(self.old, normalize=True))
        applied[self.sample] = self.new[self.sample]
        self.by_old, self.by_applied, self.by_new = (a @ b.T for a, b in (
            (old_queries, self.old), (new_queries, applied), (new_queries, self.new)))
        self.errors = self.expected_errors()

    def expected_errors(self) -> np.ndarray:
        """From the sample alone, as check has it."""
        old, new = self.old[self.sample], self.new[self.sample]
        translated, fold = np.empty_like(new), check.folds(len(old))
        for n in range(check.FOLDS):
            bundle, _, _ = maps.learn(old[fold != n], new[fold != n], "kernel")
            translated[fold == n] = bundle.translator("old", "new").transform(old[fold == n], normalize=True)
        line = worth.error_by_distance(check.distances(old), new, unit(translated))
        return np.asarray(worth.expected_error(worth.distance(self.old, old), line))

    def fused(self, query: int, by_new: np.ndarray, k: int) -> np.ndarray:
        old = self.by_old[query]
        ids = np.union1d(np.argpartition(-old, 100)[:100], np.argpartition(-by_new, 100)[:100])
        return np.asarray(ids[np.argsort(-fuse(old[ids], by_new[ids]), kind="stable")[:k]])

    def order(self, name: str, log: list[int], seed: int) -> np.ndarray:
        """All documents; those of the sample are real from the start."""
        lists = [self.fused(query, self.by_applied[query], worth.SEEN).tolist() for query in log]
        met = worth.met(lists)
        value = np.zeros(len(self.old))
        if name == "found":
            for document, times in collections.Counter(n for ids in lists for n in ids[:10]).items():
                value[document] = times
        elif name != "random":
            value[[int(str(n)) for n in met]] = list(met.values())
        if name == "worth":
            value *= self.errors
        value[self.sample] = np.inf
        return np.lexsort((np.random.default_rng(seed).permutation(len(value)), -value))

    def scores(self, order: np.ndarray, share: float, asking: list[int]) -> list[float]:
        """nDCG@10 by new vectors alone, and fused."""
        real = np.zeros(len(order), bool)
        real[order[:max(len(self.sample), round(share * len(order)))]] = True
        rows = np.where(real, self.by_new, self.by_applied)
        alone = [ndcg(np.argsort(-rows[query], kind="stable")[:10].tolist(), self.grades[query]) for query in asking]
        both = [ndcg(self.fused(query, rows[query], 10).tolist(), self.grades[query]) for query in asking]
        return [float(np.mean(alone)), float(np.mean(both))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", default="minilm-l6:mpnet-base")
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found: dict[str, list[list[list[float]]]] = {name: [] for name in ORDERS}
    for pair in asked.pairs.split(","):
        one = Collection(asked.folder, pair, asked.sample, asked.seed)
        every = sorted(query for query, grades in one.grades.items() if any(grades.values()))
        for log, asking in ([(every, every)] if asked.same else [(every[::2], every[1::2]), (every[1::2], every[::2])]):
            for name in ORDERS:
                order = one.order(name, log, asked.seed)
                found[name].append([one.scores(order, share, asking) for share in SHARES])
    for way, title in enumerate(("new vectors alone", "fused")):
        print(f"| {title} | " + " | ".join(f"{share:.0%}" for share in SHARES) + " | mean |")
        print("|---" * (len(SHARES) + 2) + "|")
        for name in ORDERS:
            curve = np.array(found[name]).mean(axis=0)[:, way]
            print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in curve) + f" | {curve.mean():.4f} |")


if __name__ == "__main__":
    main()
