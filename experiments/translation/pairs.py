#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a bundle of four feature extractors translates, against regressions of each pair alone.

    experiments/translation/pairs.py --draws 100,101,102

The data are scikit-learn's digits: pixels, random Fourier features, random convolutions and a random network. Of each
draw's --rows, all are the support; the others are translated between all twelve pairs. Numbers are the share of the
variance of the true rows that is explained, and how far the mean and the worst pair are from scikit-learn's RidgeCV of
the pair. Of what a bundle's fit expects, the last column has the mean and the largest difference from what is found.
"""
import argparse
import itertools
import os
import statistics
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import kedge  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.kernel_approximation import RBFSampler  # noqa: E402
from sklearn.linear_model import RidgeCV  # noqa: E402

Rows = dict[str, np.ndarray]
Scores = dict[tuple[str, str], float]


def features() -> Rows:
    pixels = load_digits().data / 16
    random = np.random.default_rng(0)
    images = pixels.reshape(-1, 8, 8)
    maps = []
    for kernel in random.normal(size=(48, 3, 3)):
        seen = sum(kernel[a, b] * images[:, a:a + 6, b:b + 6] for a, b in itertools.product(range(3), range(3)))
        maps.append(np.maximum(seen - seen.mean(), 0).reshape(-1, 3, 2, 3, 2).mean((2, 4)).reshape(len(images), -1))
    hidden = np.maximum(pixels @ random.normal(size=(64, 128)), 0)
    fourier = RBFSampler(gamma=.05, n_components=256, random_state=0).fit_transform(pixels)
    spaces = {"pixels": pixels, "fourier": fourier,
              "convolutions": np.hstack(maps), "network": hidden @ random.normal(size=(128, 100))}
    return {name: rows.astype(np.float32) for name, rows in spaces.items()}


def explained(truth: np.ndarray, found: np.ndarray) -> float:
    return float(1 - ((truth - found) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum())


def through_bundle(known: Rows, others: Rows, **options: Any) -> tuple[Scores, Scores]:
    """What is found, and what the fit expects."""
    bundle = kedge.fit(known, support=len(next(iter(known.values()))), **options)
    pairs = list(itertools.permutations(known, 2))
    return ({(a, b): explained(others[b], bundle.translator(a, b).transform(others[a])) for a, b in pairs},
            {(a, b): bundle[a].translations[b] for a, b in pairs})


def by_kernel(known: Rows, others: Rows) -> Scores:
    """An adapter of each pair, which makes both ways."""
    scores = {}
    for a, b in itertools.combinations(known, 2):
        bundle = kedge.fit({a: known[a], b: known[b]}, method="kernel", support=len(known[a]))
        for old, new in ((a, b), (b, a)):
            scores[old, new] = explained(others[new], bundle.translator(old, new).transform(others[old]))
    return scores


def by_ridge_cv(known: Rows, others: Rows) -> Scores:
    strengths = np.logspace(-4, 6, 21)
    return {(a, b): explained(others[b], RidgeCV(strengths).fit(known[a], known[b]).predict(others[a]))
            for a, b in itertools.permutations(known, 2)}


WAYS: dict[str, dict[str, Any]] = {
    "bundle": {}, "bundle, keep_rows": {"keep_rows": True}, "bundle, best": {"effort": "best"},
    "bundle, best, keep_rows": {"effort": "best", "keep_rows": True}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default="0,1,2", help="seeds of the rows to fit on [%(default)s]")
    parser.add_argument("--rows", type=int, default=1400, help="to fit on, of 1797 [%(default)s]")
    asked = parser.parse_args()
    spaces = features()
    found: dict[str, list[Scores]] = {}
    apart: dict[str, list[float]] = {}
    for draw in map(int, asked.draws.split(",")):
        order = np.random.default_rng(draw).permutation(1797)
        known, others = ({name: rows[part] for name, rows in spaces.items()}
                         for part in (order[:asked.rows], order[asked.rows:]))
        found.setdefault("RidgeCV of the pair", []).append(by_ridge_cv(known, others))
        found.setdefault("kernel of the pair", []).append(by_kernel(known, others))
        for way, options in WAYS.items():
            scores, expected = through_bundle(known, others, **options)
            found.setdefault(way, []).append(scores)
            apart.setdefault(way, []).extend(expected[pair] - scores[pair] for pair in scores)
    print("| | mean | less RidgeCV: mean | worst pair | expected, less found |\n|---|---|---|---|---|")
    ridge = found["RidgeCV of the pair"]
    for name, draws in found.items():
        less = {pair: statistics.mean(one[pair] - other[pair] for one, other in zip(draws, ridge))
                for pair in draws[0]}
        worst = min(less, key=less.__getitem__)
        mean = statistics.mean(value for one in draws for value in one.values())
        foretold = f"{statistics.mean(apart[name]):+.4f}, {max(apart[name], key=abs):+.4f}" if name in apart else ""
        print(f"| {name} | {mean:.4f} | {statistics.mean(less.values()):+.4f} | {less[worst]:+.4f}, "
              f"{' to '.join(worst)} | {foretold} |")


if __name__ == "__main__":
    main()
