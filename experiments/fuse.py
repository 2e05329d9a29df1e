#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judged searches after a change of model: stay with the old one, translate, or fuse both (docs/join-vector-stores.md).

    experiments/fuse.py FOLDER --support 400 --pairs minilm-l6:mpnet-base,mpnet-base:minilm-l6

FOLDER holds ENCODER-docs.npy and ENCODER-queries.npy for every encoder, and qrels.npy: rows of query, document, grade.
"""
import argparse
import pathlib

import kedge
import numpy as np


def cosines(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """An empty text may have a row of zeros; it is like nothing."""
    unit = [rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (queries, documents)]
    scores: np.ndarray = unit[0] @ unit[1].T
    return scores


def fuse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scores: np.ndarray = a / a.std() + b / b.std()
    return scores


def top(scores: np.ndarray, k: int = 10) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def ndcg(scores: np.ndarray, grades: np.ndarray, k: int = 10) -> float:
    """Over the queries that have a judged document here."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gained = np.take_along_axis(grades, top(scores, k), axis=1) @ discount
    most = -np.sort(-grades, axis=1)[:, :k] @ discount
    return float(np.mean(gained[most > 0] / most[most > 0]))


def overlap(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(top(found), top(truth))]))


def measure(old: list[np.ndarray], new: list[np.ndarray], grades: np.ndarray, support: int,
            seed: int) -> tuple[list[float], list[float]]:
    """Two rows of figures: documents outside the sample, and the whole store with the sample embedded again."""
    (old_docs, old_queries), (new_docs, new_queries) = old, new
    order = np.random.default_rng(seed).permutation(len(old_docs))
    sample, rest = np.sort(order[:support]), np.sort(order[support:])
    bundle = kedge.fit({"old": old_docs[sample], "new": new_docs[sample]})
    store = bundle.translator("old", "new").transform(old_docs)
    stay, truth = cosines(old_queries, old_docs), cosines(new_queries, new_docs)
    moved = cosines(new_queries, store)
    outside = [x[:, rest] for x in (stay, moved, truth)]
    outside.insert(2, fuse(outside[0], outside[1]))
    store[sample] = new_docs[sample]
    one_index = cosines(new_queries, store)
    fused = fuse(stay, one_index)
    return ([ndcg(x, grades[:, rest]) for x in outside] + [overlap(x, outside[3]) for x in outside[:3]],
            [ndcg(x, grades) for x in (stay, one_index, fused, truth)]
            + [np.isin(top(x), sample).mean() for x in (one_index, fused, truth)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--support", type=int, default=400)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--pairs", default="minilm-l6:mpnet-base,mpnet-base:minilm-l6,wordllama:mpnet-base,"
                                           "use-multilingual:mpnet-base")
    options = parser.parse_args()
    judged = np.load(options.folder / "qrels.npy")

    def load(name: str) -> list[np.ndarray]:
        return [np.load(options.folder / f"{name}-{kind}.npy").astype(np.float32) for kind in ("docs", "queries")]

    titles = (
        ("documents outside the sample", "nDCG@10: old  translated  fused   new    overlap: old  translated  fused"),
        ("the whole store", "nDCG@10: old  one index   fused   new    from the sample: one index  fused   new"))
    runs = {}
    for pair in options.pairs.split(","):
        old, new = (load(name) for name in pair.split(":"))
        grades = np.zeros((len(old[1]), len(old[0])))
        grades[judged[:, 0], judged[:, 1]] = judged[:, 2]
        runs[pair.replace(":", " to ")] = np.array(
            [measure(old, new, grades, options.support, seed) for seed in range(options.splits)])
    runs["mean"] = np.mean(list(runs.values()), axis=0)
    for table, (title, columns) in enumerate(titles):
        print(f"{title:32}{columns}")
        for pair, figures in runs.items():
            means = figures[:, table].mean(axis=0)
            shown = [f"{value:.3f}".lstrip("0") for value in means]
            print(f"{pair:32}{shown[0]:>12}{shown[1]:>12}{shown[2]:>7}{shown[3]:>6}{shown[4]:>{(16, 28)[table]}}"
                  f"{shown[5]:>{(12, 7)[table]}}{shown[6]:>{(7, 6)[table]}}")
            if pair != "mean":
                better = (figures[:, table, 1:3] > figures[:, table, :1]).sum(axis=0)
                print(f"{'  above old, of ' + str(options.splits):32}{'':12}{better[0]:>12}{better[1]:>7}")
        print()


if __name__ == "__main__":
    main()
