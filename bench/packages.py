#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kedge's Python package against scikit-learn and latentis on the same arrays, in turn, several rounds.

    PYTHONPATH=build/dev/python build/torch-venv/bin/python bench/packages.py

Each line is one piece of work that both can do: seconds are medians, the ratio is kedge's share of the peer's, and the
last columns say that both did it equally well. Rows are random mixtures of common causes. Other work on the same cores
distorts the ratio. make bench runs it with what it needs.
"""
import argparse
import collections
import importlib
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import record

warnings.filterwarnings("ignore")
STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of kedge's ridge, relative to the rows' mean variance

# `ours` and `theirs` take train rows of both encoders and test rows of the first, and give what they make of the
# latter.
Work = collections.namedtuple("Work", "name peer module ours theirs score")


def make_rows(count: int, dims: int, seed: int, causes: int = 250) -> np.ndarray:
    hidden = np.random.default_rng(0).standard_normal((count, causes), dtype=np.float32)
    own = np.random.default_rng([seed, 1])
    mix = own.standard_normal((causes, dims), dtype=np.float32) / np.arange(1, causes + 1)[:, None] ** 0.5
    return (hidden @ mix + 0.5 * own.standard_normal((count, dims), dtype=np.float32)).astype(np.float32)


def kedge_pair(**options: Any) -> Callable[..., np.ndarray]:
    def run(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> Any:
        bundle = kedge.fit({"a": a, "b": b}, support=len(a), **options)
        return bundle.translator("a", "b").transform(rows)
    return run


def sklearn_ridge(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import RidgeCV
    strengths = np.array(STRENGTHS) * len(a) * a.var(axis=0).mean()
    result: np.ndarray = RidgeCV(alphas=strengths).fit(a, b).predict(rows)
    return result


def latentis_procrustes(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> np.ndarray:
    import torch
    from latentis.transform.translate.aligner import Procrustes
    aligner = Procrustes()
    aligner.fit(torch.from_numpy(a), torch.from_numpy(b))
    result: np.ndarray = aligner.transform(torch.from_numpy(rows))[0].numpy()
    return result


def explained(predicted: np.ndarray, true: np.ndarray) -> float:
    """Share of the variance of the true rows."""
    return 1 - float(((predicted - true) ** 2).sum() / ((true - true.mean(0)) ** 2).sum())


def kedge_cca(components: int) -> Callable[..., Any]:
    def run(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> Any:
        bundle = kedge.fit({"a": a, "b": b}, method="cca", anchors=components, support=len(a))
        return bundle["a"].transform(rows), bundle["b"]
    return run


def sklearn_cca(components: int) -> Callable[..., Any]:
    def run(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> Any:
        from sklearn.cross_decomposition import CCA
        cca = CCA(components, max_iter=500).fit(a, b)
        return cca.transform(rows), cca
    return run


def correlation(predicted: tuple[np.ndarray, Any], true: np.ndarray) -> float:
    """Mean over the components, on test rows: the second rows are mapped outside the clock."""
    first, other = predicted
    if hasattr(other, "y_weights_"):
        second = other.transform(np.zeros((len(true), other.x_weights_.shape[0])), true)[1]
    else:
        second = other.transform(true)
    centred = [rows - rows.mean(0) for rows in (first, second)]
    lengths = np.prod([np.linalg.norm(rows, axis=0) for rows in centred], axis=0)
    return float(np.mean(np.abs((centred[0] * centred[1]).sum(0)) / lengths))


def work(components: int) -> tuple[Work, ...]:
    raw = {"similarity": "inner"}
    return (
        Work("ridge, strength chosen", "scikit-learn RidgeCV", "sklearn.linear_model",
             kedge_pair(method="ridge", **raw),
             sklearn_ridge, explained),
        Work("Procrustes", "latentis Procrustes", "latentis.transform.translate.aligner",
             kedge_pair(method="procrustes", **raw), latentis_procrustes, explained),
        Work(f"CCA, {components} components", "scikit-learn CCA", "sklearn.cross_decomposition", kedge_cca(components),
             sklearn_cca(components), correlation),
    )


def timed(function: Callable[..., Any], *rows: np.ndarray) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(*rows)
    return time.perf_counter() - start, result


def measure(item: Work, asked: argparse.Namespace, a: np.ndarray, b: np.ndarray) -> tuple[list[float], list[float],
            list[str]]:
    """Seconds of both, round by round, and how well each did it."""
    train, test = slice(0, asked.rows), slice(asked.rows, None)
    ours, theirs = [], []
    for _ in range(asked.rounds):
        seconds, result = timed(item.ours, a[train], b[train], a[test])
        ours.append(seconds)
        seconds, made_there = timed(item.theirs, a[train], b[train], a[test])
        theirs.append(seconds)
    record.ratios(item.name, item.peer, ours, theirs)
    return ours, theirs, [f"{item.score(rows, b[test]):.4f}" for rows in (result, made_there)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000, help="to fit on [%(default)s]")
    parser.add_argument("--test", type=int, default=20_000, help="rows to map [%(default)s]")
    parser.add_argument("--dims", type=int, nargs=2, default=[384, 512], help="of the two encoders [%(default)s]")
    parser.add_argument("--components", type=int, default=10, help="of CCA [%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="[%(default)s]")
    asked = parser.parse_args()
    a, b = (make_rows(asked.rows + asked.test, dims, seed) for seed, dims in enumerate(asked.dims))
    print(f"{'work':<34}{'peer':<24}{'kedge':>9}{'peer':>9}{'ratio':>7}  scores")
    for item in work(asked.components):
        try:
            importlib.import_module(item.module)  # so that no import is timed
        except ImportError as error:
            print(f"{item.name:<34}{item.peer:<24}not measured: {error}", flush=True)
            continue
        ours, theirs, scores = measure(item, asked, a, b)
        ratio = statistics.median(own / other for own, other in zip(ours, theirs))
        print(f"{item.name:<34}{item.peer:<24}{statistics.median(ours):>7.2f} s{statistics.median(theirs):>7.2f} s"
              f"{ratio:>7.2f}  {' '.join(scores)}", flush=True)


if __name__ == "__main__":
    main()
