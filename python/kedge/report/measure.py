# SPDX-License-Identifier: Apache-2.0
"""Means over pairs and seeds, at one point of a sweep. A metric knows how it is written and which way is better."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .results import AXES, Results

Value = float | str  # on an axis of a sweep; shrinkage may be the name of a rule
Point = dict[str, Any]  # a value for some axes


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    name: str
    scale: float = 1          # what a value is multiplied with before it is shown
    digits: int = 3
    better: int = 1           # 1: more is better, -1: less is better, 0: neither
    unit: str = ""
    most: float = math.inf    # the shown value of a perfect result
    free: bool = False        # of any size, so digits are counted from the first that is not zero

    def text(self, value: float | None, digits: int | None = None) -> str:
        """As a reader sees it: 74.7 of F1, .719 of MRR, – if nothing was measured."""
        if value is None or not np.isfinite(value):
            return "–"
        value *= self.scale
        if self.free:
            return f"{value:.{decimals(value)}f}" if abs(value) >= 1e-4 or value == 0 else f"{value:.2g}"
        digits = self.digits if digits is None else digits
        text = f"{value:.{digits}f}"
        if value < self.most * (1 - 1e-9) and float(text) >= self.most:  # 99.997 is not 100.00, a rounded sum is
            text = f"{self.most - 10 ** -digits:.{digits}f}"
        text = "0" + text[2:] if text.startswith("-0") and float(text) == 0 else text  # no -0.0
        return text[1:] if text.startswith("0.") and not self.unit else text


def decimals(value: float) -> int:
    """Three digits that count, but no more than six after the point."""
    return 3 if value == 0 else int(min(6, max(0, 2 - math.floor(math.log10(abs(value))))))


def percent(key: str, name: str) -> Metric:
    return Metric(key, name, scale=100, digits=2, unit=" %", most=100)


F1, ACCURACY = percent("weighted_f1", "F1"), percent("accuracy", "Accuracy")
R1, R5, R10 = percent("recall@1", "R@1"), percent("recall@5", "R@5"), percent("recall@10", "R@10")
MRR, RR_STD = Metric("mrr", "MRR", most=1), Metric("rr_std", "RR_std", better=0, free=True)
NMSE, MSE = Metric("nmse", "nMSE", better=-1, free=True), Metric("mse", "MSE", better=-1, free=True)
PSNR = Metric("psnr", "PSNR", digits=2, unit=" dB")


NORMAL = 1.960  # its 97.5 % point
SEEDS_OF_STUDENT = 3


def student(freedom: float) -> float:
    """The 97.5 % point of Student's t, by its expansion around the normal."""
    x = 1 / freedom
    return NORMAL + x * (2.372 + x * (2.823 + x * (2.556 + x * 1.590)))


@dataclasses.dataclass
class Estimate:
    """A mean over pairs and seeds, with what its noise follows from: its values by seed and by resample of test
    rows."""
    seeds: pd.Series
    resampled: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return self.seeds.mean() if len(self.seeds) else np.nan

    @property
    def noise(self) -> float:
        """Half of the 95 % interval: the root of the variance over resamples plus that of a mean over seeds, times
        Student's t with the degrees of freedom of Welch and Satterthwaite; of one or two seeds, which say too little
        of their spread for that, times the normal quantile. NaN for so few without resamples."""
        few, parts = len(self.seeds) < SEEDS_OF_STUDENT, []
        if few and len(self.resampled) < 2:
            return np.nan
        if len(self.seeds) > 1:
            parts.append((self.seeds.var(ddof=1) / len(self.seeds), len(self.seeds) - 1))
        if len(self.resampled) > 1:
            parts.append((self.resampled.var(ddof=1), len(self.resampled) - 1))
        total = sum(variance for variance, _ in parts)
        if not total > 0:
            return 0.0 if total == 0 else np.nan
        factor = NORMAL if few else student(total ** 2 / sum(v ** 2 / freedom for v, freedom in parts))
        return factor * math.sqrt(total)

    def __sub__(self, other: Estimate) -> Estimate:
        both = self.seeds.index.intersection(other.seeds.index)
        fits = len(self.resampled) == len(other.resampled)
        return Estimate(self.seeds[both] - other.seeds[both],
                        self.resampled - other.resampled if fits else np.array([]))


def estimate(frame: pd.DataFrame, metric: Metric) -> Estimate:
    """Of all rows that have the metric; resampled only if every one of them is."""
    values: dict[float, list[float]] = {}
    lists: dict[float, list[Sequence[float]]] = {}
    resamples = frame["resampled"] if "resampled" in frame else [{}] * len(frame)
    for seed, value, resampled in zip(frame.seed, frame[metric.key], resamples):
        if not np.isnan(value):
            values.setdefault(seed, []).append(value)
            lists.setdefault(seed, []).append(resampled.get(metric.key, ()))
    seeds = pd.Series({seed: sum(each) / len(each) for seed, each in values.items()}, dtype=float)
    sizes = {len(one) for each in lists.values() for one in each}
    if len(sizes) != 1 or sizes == {0}:
        return Estimate(seeds, np.array([]))
    return Estimate(seeds, np.mean([np.mean(each, axis=0) for each in lists.values()], axis=0))


def over_seeds(frame: pd.DataFrame, metric: Metric, by: Sequence[str]) -> pd.DataFrame:
    """Mean and half of its 95 % interval ("std") of the mean over all else, for each group of 'by'."""
    values = frame[frame[metric.key].notna()]
    if not by:
        whole = estimate(values, metric)
        return pd.DataFrame({"mean": [whole.mean], "std": [whole.noise]})
    found = {key if len(by) > 1 else key[0]: estimate(rows, metric) for key, rows in values.groupby(by, sort=False)}
    index = pd.MultiIndex.from_tuples(found, names=by) if len(by) > 1 and found else pd.Index(found, name=by[0])
    if len(by) > 1 and not found:
        index = pd.MultiIndex.from_arrays([[] for _ in by], names=by)
    return pd.DataFrame({"mean": [one.mean for one in found.values()], "std": [one.noise for one in found.values()],
                         "estimate": list(found.values())}, index=index).astype({"mean": float, "std": float})


KEYS = ["encoder", "trained_on", "seed"]


def common(rows: pd.DataFrame, metric: Metric, by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """The rows on which each group of 'by' was measured: the same pairs of encoders and the same seeds for all, so that
    their means can be compared. Empty if they have none in common."""
    rows = rows[rows[metric.key].notna()]
    return rows[of_all(rows, by)]


def of_all(rows: pd.DataFrame, by: Sequence[str]) -> NDArray[np.bool_]:
    """Whether each row's pair of encoders and seed are there in every group of 'by'."""
    groups = list(zip(*(pd.factorize(rows[name])[0] for name in by)))  # numbers, because no NaN equals another
    having: dict[Any, set[Any]] = {}
    keys = list(zip(*(rows[name] for name in KEYS)))
    for key, group in zip(keys, groups):
        having.setdefault(key, set()).add(group)
    count = len(set(groups))
    return np.array([len(having[key]) == count for key in keys], np.bool_)


def on(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The rows whose encoder and seed the others have too."""
    have = set(zip(others.encoder, others.seed))
    return rows[np.array([key in have for key in zip(rows.encoder, rows.seed)], dtype=bool)]


def compared(records: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Records on which methods can be compared: zero-shot ones on the pairs and seeds that all have, and heads on those
    encoders themselves with those seeds. Absolute heads limit this too, unless nothing would be left."""
    records = records[records[metric.key].notna()]
    tested = np.array(records.zero_shot, dtype=bool)
    if not tested.any():
        return records
    others, places = ~tested, list(zip(records.encoder, records.seed))

    def where(chosen: NDArray[Any]) -> NDArray[np.bool_]:
        have = {place for place, one in zip(places, chosen) if one}
        return np.array([place in have for place in places])

    tested[tested] = of_all(records[tested], ["method"])
    limited = tested & where(others & (records.method == "absolute"))
    tested = limited if limited.any() else tested
    return records[tested | (others & where(tested))]


def comparison(records: pd.DataFrame, metrics: Iterable[Metric], by: Sequence[str] | None = None) -> list[str]:
    """Sentences that say what is compared; none if all was measured on the same pairs and seeds. 'by' names what
    is compared in a sweep: methods and values of an axis."""
    said: dict[str, list[str]] = {}
    who = "The methods and points" if by else "The methods"
    for metric in metrics:
        rows = zero_shot(records).dropna(subset=[metric.key])
        kept = common(rows, metric, by) if by else zero_shot(compared(records, metric))
        if len(kept) == len(rows):
            continue
        if kept.empty:
            words = f"{who} were measured on different pairs of encoders or seeds and have none in common, so they " \
                    "are not compared"
        else:
            pairs, seeds = (len(kept[keys].drop_duplicates()) for keys in (KEYS[:2], ["seed"]))
            words = f"{who} were not all measured on the same pairs of encoders and seeds, so they are compared on " \
                    f"what all have: {len(kept[KEYS].drop_duplicates()):,} of {len(rows[KEYS].drop_duplicates()):,} " \
                    f"measurements ({pairs:,} pair{'s' * (pairs > 1)}, {seeds:,} seed{'s' * (seeds > 1)})"
        said.setdefault(words, []).append(metric.name)
    return [f"{words}." if len(said) == 1 else f"{words} ({', '.join(names)})." for words, names in said.items()]


def at(records: pd.DataFrame, point: Point) -> pd.DataFrame:
    """The records at one point of a sweep; a method that does not depend on an axis (null) is at each of its values."""
    for axis, value in point.items():
        records = records[records[axis].isna() | (records[axis] == value)]
    return records


def reference_point(results: Results) -> Point:
    return point_of_sweep(results.records, results.swept)


def point_of_sweep(records: pd.DataFrame, swept: list[str]) -> Point:
    """The point of a sweep that tables and dots show: most anchors, then most support, then the shrinkage nearest 0.15,
    or the first one if all are names."""
    points = records.dropna(subset=swept)[swept].drop_duplicates() if swept else pd.DataFrame()
    if points.empty:
        return {axis: ordered(records[axis].dropna())[-1] for axis in swept}
    order = [column if name != "shrinkage" else -(column.map(place) - 0.15).abs() for name, column in points.items()]
    best = pd.concat(order, axis=1).sort_values(list(points.columns), ascending=False, kind="stable").index[0]
    return {axis: points.loc[best, axis] for axis in swept}


def place(value: Value) -> float:
    """Where a value lies on its axis; the name of a rule lies beyond all numbers."""
    try:
        return float(value)
    except ValueError:
        return np.inf


def ordered(values: Iterable[Value]) -> list[Any]:
    """Each value once: numbers by size, then names as they came."""
    return sorted(dict.fromkeys(values), key=place)


def own(records: pd.DataFrame) -> pd.DataFrame:
    return records[records.encoder == records.trained_on]


def zero_shot(records: pd.DataFrame) -> pd.DataFrame:
    return records[records.zero_shot]


def has(records: pd.DataFrame, metric: Metric) -> bool:
    return bool(records[metric.key].notna().any())


def primary(records: pd.DataFrame) -> Metric | None:
    """What the results are about: the heads' F1, or the decoders' error, or retrieval."""
    return next((metric for metric in (F1, MSE, MRR, R1) if has(zero_shot(records), metric)), None)


def best_method(records: pd.DataFrame, metric: Metric) -> str | None:
    """The method with the best mean over the zero-shot pairs that all have; None if there is none."""
    means = over_seeds(zero_shot(compared(records, metric)), metric, ["method"])["mean"] * (metric.better or 1)
    return None if means.empty else means.idxmax()


def amount(value: Value, axis: str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if axis != "shrinkage" else f"{value:g}"


def axis_words(axis: str, value: Any) -> str:
    """'300 anchors', '5,000 support rows', 'shrinkage 0.15'."""
    if axis == "shrinkage":
        return f"shrinkage {amount(value, axis)}"
    word = {"anchors": "anchor", "support": "support row"}[axis]
    return f"{value:,.0f} {word}{'' if value == 1 else 's'}"


def point_words(point: Point) -> str:
    return ", ".join(axis_words(axis, point[axis]) for axis in AXES if axis in point)
