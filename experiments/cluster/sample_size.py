#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many rows does a fit need on one node? Scores on held-out rows against the rows it learns from, and against K.

    experiments/cluster/sample_size.py PATH/captions --train 0:6000 --test 6000:7000 --labels labels_topic.npy \\
        --method param --device cuda -o captions.png

The folder holds ENCODER.npy for each encoder, the same input in the same row of every file, and perhaps labels.
Two curves, each point a fit of all encoders:
  rows   PARAM learns from a sample of so many train rows; K is --at-support, or all rows of a smaller sample.
  K      PARAM learns from all train rows; so many of them are the support.
Means and covariances are those of all train rows, as on a cluster, where workers sum them up (kedge.Moments); with
--moments sample they are those of the sample. Consensus takes nothing else from rows outside the support, so that its
curve of rows needs --moments sample. Samples are nested: the draw of a seed is one order of the rows.

PARAM makes as many steps at every point (--steps), whatever the sample: epochs of a small one are short.

R@1 is the share of test rows that are found at rank 1 among those of another encoder, F1 (weighted) that of a ridge
classifier which was trained on one encoder's train rows and reads another's test rows; means over all ordered pairs.
Writes a picture, and the numbers as .csv beside it. Needs kedge, numpy, scikit-learn and matplotlib.
"""
import argparse
import collections
import csv
import itertools
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import kedge
import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Point = collections.namedtuple("Point", "data method moments curve rows support seed recall f1 seconds")


def rows_of(text: str) -> slice:
    first, end = text.split(":")
    return slice(int(first), int(end))


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def head(rows: np.ndarray, labels: np.ndarray) -> Any:
    return make_pipeline(StandardScaler(), RidgeClassifier(alpha=100.0)).fit(rows, labels)


class Lab:
    """The rows of one folder, and the fits of samples of them."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        names = asked.encoders.split(",") if asked.encoders else sorted(
            file.stem for file in asked.folder.glob("*.npy") if "labels" not in file.stem)
        whole = {name: np.load(asked.folder / f"{name}.npy", mmap_mode="r") for name in names}
        self.train = {name: np.ascontiguousarray(rows[asked.train]) for name, rows in whole.items()}
        self.test = {name: np.ascontiguousarray(rows[asked.test]) for name, rows in whole.items()}
        self.rows = len(self.train[names[0]])
        self.labels: np.ndarray | None = np.load(asked.folder / asked.labels) if asked.labels else None
        self.moments = kedge.Moments(self.train)

    def options(self, rows: int) -> dict[str, Any]:
        if self.asked.method != "param":
            return {}
        batch = min(self.asked.batch, rows)
        epochs = max(1, round(self.asked.steps / (rows // batch)))  # rows that fill no batch wait for the next epoch
        return {"device": self.asked.device, "batch": batch, "epochs": epochs, "attach": self.asked.attach}

    def fit(self, rows: int, support: int, seed: int) -> kedge.Bundle:
        order = np.random.default_rng(seed).permutation(self.rows)[:rows]
        sample = {name: np.ascontiguousarray(matrix[order]) for name, matrix in self.train.items()}
        moments = self.moments if self.asked.moments == "all" else None
        return kedge.fit(sample, support_ids=np.arange(support), method=self.asked.method, seed=seed,
                         anchors=min(self.asked.anchors, support), moments=moments, **self.options(rows))

    def scores(self, bundle: kedge.Bundle) -> tuple[Any, Any]:
        """R@1 and F1; F1 is None without labels."""
        found = {name: bundle[name].transform(rows) for name, rows in self.test.items()}
        pairs = list(itertools.permutations(found, 2))
        recall = np.mean([kedge.compare(found[one], found[other])["recall@1"] for one, other in pairs])
        if self.labels is None:
            return recall, None
        heads = {name: head(bundle[name].transform(rows), self.labels[self.asked.train])
                 for name, rows in self.train.items()}
        truth = self.labels[self.asked.test]
        return recall, np.mean([f1_score(truth, heads[one].predict(found[other]), average="weighted")
                                for one, other in pairs])

    def point(self, curve: str, rows: int, support: int, seed: int) -> Point:
        began = time.perf_counter()
        bundle = self.fit(rows, support, seed)
        seconds = time.perf_counter() - began
        asked = self.asked
        return Point(asked.folder.name, asked.method, asked.moments, curve, rows, support, seed, *self.scores(bundle),
                     seconds)

    def curves(self) -> Iterator[Point]:
        """Points as they are done; one that lies on both curves is fitted once."""
        done: dict[tuple[int, int, int], Point] = {}
        for seed in self.asked.seeds:
            for curve, rows, support in self.plan():
                key = rows, support, seed
                if key in done:
                    yield done[key]._replace(curve=curve)
                    continue
                done[key] = self.point(curve, rows, support, seed)
                yield done[key]

    def plan(self) -> Iterator[tuple[str, int, int]]:
        if self.asked.method == "param" or self.asked.moments == "sample":
            for rows in self.asked.rows:
                yield "rows", min(rows, self.rows), min(self.asked.at_support, rows, self.rows)
        for support in self.asked.support:
            yield "K", self.rows, min(support, self.rows)


def average(points: list[Point], curve: str) -> Iterator[tuple[Any, ...]]:
    """x of the curve, and the means over the seeds of the others."""
    groups = collections.defaultdict(list)
    for point in points:
        if point.curve == curve:
            groups[point.rows, point.support].append(point)
    for (rows, support), group in sorted(groups.items()):
        f1 = None if group[0].f1 is None else np.mean([point.f1 for point in group])
        yield rows, support, np.mean([point.recall for point in group]), f1, np.mean([point.seconds for point in group])


def print_table(points: list[Point]) -> None:
    first = points[0]
    print(f"\n{first.data}, {first.method}, moments of {'all rows' if first.moments == 'all' else 'the sample'}\n")
    print("| curve | rows | K | R@1, % | F1, % | fit, s |\n|---|---|---|---|---|---|")
    for curve in ("rows", "K"):
        for rows, support, recall, f1, seconds in average(points, curve):
            shown = "" if f1 is None else f"{100 * f1:.1f}"
            print(f"| {curve} | {rows:,} | {support:,} | {100 * recall:.1f} | {shown} | {seconds:.1f} |")


def draw(points: list[Point], path: pathlib.Path) -> None:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves = [curve for curve in ("rows", "K") if any(point.curve == curve for point in points)]
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.2), squeeze=False, sharey=True)
    for ax, curve in zip(axes[0], curves):
        lines = list(average(points, curve))
        x = [line[0] if curve == "rows" else line[1] for line in lines]
        for index, label in ((2, "R@1"), (3, "F1")):
            if lines[0][index] is not None:
                ax.plot(x, [100 * line[index] for line in lines], marker="o", label=label)
        ax.set_xscale("log")
        ax.set_xticks(x, [f"{number:,}" for number in x], rotation=45)
        ax.minorticks_off()
        ax.set_xlabel("rows to learn from" if curve == "rows" else "support rows, K")
        ax.grid(alpha=0.3)
    axes[0][0].set_ylabel("% on held-out rows")
    axes[0][0].legend()
    figure.suptitle(f"{points[0].data}, {points[0].method}")
    figure.tight_layout()
    figure.savefig(path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", type=rows_of, required=True, help="first:end")
    parser.add_argument("--test", type=rows_of, required=True, help="first:end")
    parser.add_argument("--labels", help="a file of the folder")
    parser.add_argument("--encoders", help="comma separated; all files of the folder by default")
    parser.add_argument("--method", choices=("param", "consensus"), default="param")
    parser.add_argument("--moments", choices=("all", "sample"), default="all", help="rows that statistics come from")
    parser.add_argument("--attach", choices=("mixture", "ridge"), default="mixture", help="maps of PARAM")
    parser.add_argument("--rows", type=numbers, default="250,500,1000,2000,4000,6000", help="comma separated")
    parser.add_argument("--support", type=numbers, default="250,500,1000,2000,5000", help="comma separated")
    parser.add_argument("--at-support", type=int, default=1000, help="K of the curve of rows")
    parser.add_argument("--anchors", type=int, default=300)
    parser.add_argument("--steps", type=int, default=600, help="of gradient descent, at every point")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seeds", type=numbers, default="0,1", help="comma separated")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for PARAM")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="a picture, .png or .svg")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    points = []
    for point in Lab(asked).curves():
        points.append(point)
        f1 = "" if point.f1 is None else f", F1 {100 * point.f1:.1f}"
        print(f"{point.curve}: {point.rows:,} rows, K {point.support:,}, seed {point.seed}: "
              f"R@1 {100 * point.recall:.1f}{f1}, {point.seconds:.1f} s", flush=True)
    print_table(points)
    if asked.out:
        draw(points, asked.out)
        with open(asked.out.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Point._fields)
            writer.writerows(points)


if __name__ == "__main__":
    main()
