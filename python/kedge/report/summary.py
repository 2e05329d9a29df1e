# SPDX-License-Identifier: Apache-2.0
"""What the numbers say, in sentences. Every number is computed from the records; the first sentence leads the page."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from . import measure
from .measure import F1, MRR, MSE, PSNR, R1, Metric
from .results import Results

BASELINE = "random-cosine"


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def name(text: str) -> Markup:
    return Markup("<em>{}</em>").format(text)


def sentence(template: str, *values: object) -> Markup:
    return Markup(template).format(*values)


def change(loss: float, std: float = np.nan, unit: str = "points of F1") -> str:
    """'loses 1.8 points of F1'; a negative loss is a gain, and one that rounds to nothing is reported as such."""
    if np.isfinite(std) and std >= 0.05 and abs(loss) <= std:
        return f"shows no difference beyond noise ({-loss:+.1f} ± {std:.1f} {unit})"
    if abs(loss) < 0.05:
        return f"neither loses nor gains {unit.split(' of ')[-1] if ' of ' in unit else unit}"
    spread = f" ± {std:.1f}" if np.isfinite(std) and std >= 0.05 else ""
    return f"{'loses' if loss > 0 else 'gains'} {abs(loss):.1f}{spread} {unit}"


def own_minus(own: NDArray[Any], other: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    """Points of F1 lost in each resample of the test rows; nothing if one of the two has none."""
    fits = other is not None and len(own) == len(other) > 0
    return {F1.key: 100 * (own - other)} if fits else {}


class Losses:
    """Points of F1 that heads of one method lose on encoders they have never seen, against the encoders' own heads."""

    def __init__(self, records: pd.DataFrame, method: str) -> None:
        absolute = records[records.method == "absolute"]
        self.against = "absolute" if measure.has(absolute, F1) else method
        reference = absolute if self.against == "absolute" else measure.own(records[records.method == method])
        self.own = measure.over_seeds(reference, F1, ["encoder"])["mean"] * 100
        rows = measure.zero_shot(records[records.method == method]).dropna(subset=["weighted_f1"])
        rows = rows[rows.encoder.isin(self.own.index)]
        owns = {encoder: measure.estimate(part, F1).resampled for encoder, part in reference.groupby("encoder")}
        lost = [own_minus(owns[row.encoder], row.resampled.get(F1.key)) for row in rows.itertuples()]
        self.rows = rows.assign(weighted_f1=rows.encoder.map(self.own).astype(float) - rows.weighted_f1 * 100,
                                resampled=lost)
        self.pairs = measure.over_seeds(self.rows, F1, ["trained_on", "encoder"])["mean"]
        self.mean, self.std = measure.over_seeds(self.rows, F1, []).iloc[0]

    def same_pairs(self, other: Losses) -> pd.Series:
        """This loss on the pairs that the other method has too."""
        keys = set(other.pairs.index)
        rows = self.rows[[key in keys for key in zip(self.rows.trained_on, self.rows.encoder)]]
        return measure.over_seeds(rows, F1, []).iloc[0]


def scope(rows: pd.DataFrame) -> str:
    pairs = len(rows[["encoder", "trained_on"]].drop_duplicates())
    return f"{count(pairs, 'pair')} of encoders, {count(rows.seed.nunique(), 'seed')}"


def heads(results: Results, records: pd.DataFrame) -> Iterator[Markup]:
    """The best method's mean loss, its best and its worst pair, and the baseline on the same pairs."""
    records = measure.compared(records, F1)
    method = measure.best_method(records, F1)
    if method is None:
        return
    loss = Losses(records, method)
    if loss.pairs.empty:  # nothing to compare with
        rows = measure.zero_shot(records[records.method == method])
        value = measure.over_seeds(rows, F1, []).iloc[0]
        yield sentence("With {}, heads reach an F1 of {} on encoders they have never seen ({}).", name(method),
                       F1.text(value["mean"], 1), scope(rows))
        return
    own = np.mean([loss.own[encoder] for _, encoder in loss.pairs.index])
    kind = "a head trained on that encoder itself" if loss.against == "absolute" else "a head on that encoder's own RR"
    average = " on average" if len(loss.pairs) > 1 else ""
    yield sentence("With {}, a head trained on one encoder and used on another, which it has never seen, {}{}: {:.1f} "
                   "against {:.1f} with {} ({}).", name(method), change(loss.mean, loss.std), average, own - loss.mean,
                   own, kind, scope(loss.rows))
    if len(loss.pairs) > 1:
        for word, (source, encoder) in (("best", loss.pairs.idxmin()), ("worst", loss.pairs.idxmax())):
            yield sentence("The {} pair: a head trained on {} {} on {}, which it has never seen (its own head: "
                           "{:.1f}).", word, name(source), change(loss.pairs[source, encoder]), name(encoder),
                           loss.own[encoder])
    if method == BASELINE:
        if measure.zero_shot(records).method.nunique() > 1:
            yield sentence("No other method does better than {} here.", name(BASELINE))
        return
    baseline = Losses(records, BASELINE)
    if not baseline.pairs.empty and loss.against == "absolute":
        mean, std = baseline.same_pairs(loss)
        if np.isfinite(mean):
            yield sentence("The usual relative representation, {}, {} on the same pairs.", name(BASELINE),
                           change(mean, std))


def retrieval(results: Results, records: pd.DataFrame) -> Iterator[Markup]:
    """How often the same item is found first across encoders."""
    tested = measure.zero_shot(records)
    metric = R1 if measure.has(tested, R1) else MRR
    tested = measure.zero_shot(measure.compared(records, metric))
    method = measure.best_method(records, metric)
    if method is None:
        return
    values = measure.over_seeds(tested, R1, ["method"])["mean"]
    ranks = measure.over_seeds(tested, MRR, ["method"])["mean"]
    mrr = f", MRR {MRR.text(ranks[method])}" if method in ranks else ""
    if metric is MRR:
        yield sentence("Across encoders, the same item is found with an MRR of {} with {}.", MRR.text(ranks[method]),
                       name(method))
        return
    among = ""
    if isinstance(rows := test_rows(results), int):
        among = f" among {rows:,} test rows"
    baseline = sentence("; {}: {} %", name(BASELINE), R1.text(values[BASELINE])) \
        if BASELINE in values and method != BASELINE else ""
    yield sentence("Across encoders, the same item is found at rank 1{} in {} % of lookups with {} (R@1{}{}).",
                   among, R1.text(values[method]), name(method), mrr, baseline)


def test_rows(results: Results) -> int | None:
    limits = results.settings.get("test")
    if isinstance(limits, list) and len(limits) == 2 and all(isinstance(n, int) for n in limits):
        return int(limits[1] - limits[0])
    return None


def decoders(results: Results, records: pd.DataFrame) -> Iterator[Markup]:
    """The error of decoders on encoders they have never seen."""
    records = measure.compared(records, MSE)
    method = measure.best_method(records, MSE)
    if method is None:
        return
    tested = measure.zero_shot(records)

    def errors(rows: pd.DataFrame) -> str:
        psnr = measure.over_seeds(rows, PSNR, []).iloc[0]["mean"]
        more = f" (PSNR {PSNR.text(psnr, 1)} dB)" if np.isfinite(psnr) else ""
        return MSE.text(measure.over_seeds(rows, MSE, []).iloc[0]["mean"]) + more

    others = []
    absolute = records[records.method == "absolute"]
    if measure.has(absolute, MSE):
        others.append(sentence("; decoders trained on those encoders themselves: {}", errors(absolute)))
    if method != BASELINE and measure.has(tested[tested.method == BASELINE], MSE):
        others.append(sentence("; {}: {}", name(BASELINE), errors(tested[tested.method == BASELINE])))
    yield sentence("Decoders used on encoders they have never seen have an MSE of {} with {}{}.",
                   errors(tested[tested.method == method]), name(method), Markup("").join(others))


def sweep(results: Results) -> Iterator[Markup]:
    """What the last step along each axis still gained, and from which point there is little left to gain."""
    point = measure.reference_point(results)
    for axis in results.swept:
        fixed = {other: value for other, value in point.items() if other != axis}
        records = measure.at(results.records, fixed)
        metric = measure.primary(records)
        if metric not in (F1, MRR):
            metric = MRR
        along = measure.common(measure.zero_shot(records), metric, ["method", axis]).dropna(subset=[axis])
        method = measure.best_method(along, metric)
        if method is None:
            continue
        line = measure.over_seeds(along[along.method == method], metric, [axis])["mean"]
        line = line.loc[measure.ordered(line.index)]
        if len(line) < 2:
            continue
        if isinstance(line.index[0], str) and metric.text(line.max()) == metric.text(line.min()):
            yield sentence("With {}, {} is {} with every {}.", name(method), metric.name, metric.text(line.max()), axis)
            continue
        if isinstance(line.index[0], str):
            yield sentence("With {}, {} is best with {} ({}) and worst with {} ({}).", name(method), metric.name,
                           *(part for value in (line.idxmax(), line.idxmin())
                             for part in (measure.axis_words(axis, value), metric.text(line[value]))))
            continue
        (before, after), (old, new) = line.index[-2:], line.iloc[-2:]
        steps = f"from {measure.amount(before, axis)} to {measure.axis_words(axis, after)}"
        if axis == "shrinkage":
            steps = f"from shrinkage {before:g} to {after:g}"
        if metric is F1:
            moved = change((old - new) * 100, unit="points")
            moved = "does not change" if moved.startswith("neither") else moved
        else:
            moved = f"{'gains' if new >= old else 'loses'} {MRR.text(abs(new - old))}"
        near = {F1.key: ("half a point", 0.005), MRR.key: (".010", 0.010)}[metric.key]
        below = np.flatnonzero(~(line.to_numpy() >= line.max() - near[1]))
        good = list(line.index[below[-1] + 1 if len(below) else 0:])[::-1]
        yield sentence("With {}, {} {} {}{}.", name(method), steps, metric.name, moved,
                       saturation(axis, line, good, near[0]))


def saturation(axis: str, line: pd.Series, good: Sequence[Any], near: str) -> str:
    if not good:
        return f"; its best was at {measure.axis_words(axis, line.idxmax())}"
    if len(good) == 1:
        return "; it had not levelled off"
    return f"; from {measure.axis_words(axis, good[-1])} on it is within {near} of its best"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value / 60:.1f} min"


def price(results: Results, best: str, other: str) -> str:
    """What two methods took at the point that is shown; nothing if a run's time is not known."""
    point = measure.reference_point(results)
    runs = [run for run in results.runs if all(pd.isna(run[axis]) or run[axis] == at for axis, at in point.items())]

    def took(method: str) -> float:
        its = [run for run in runs if run["method"] == method]
        return sum(run["seconds"] for run in its) / len({run["seed"] for run in its}) if its else np.nan

    times = took(best), took(other)
    if not np.isfinite(times).all():
        return ""
    return sentence(" Fits, maps and heads took {} with {} and {} with {}, the next best{}.", seconds(times[0]),
                    name(best), seconds(times[1]), name(other), ", for each seed" if results.seeds > 1 else "")


def advice(results: Results, records: pd.DataFrame) -> Iterator[Markup]:
    """Which method to take, how sure that is, and what it costs."""
    metric = measure.primary(records)
    best = measure.best_method(records, metric) if metric else None
    if metric is None or best is None:
        return
    tested = measure.zero_shot(measure.compared(records, metric))
    if tested.method.nunique() < 2:
        return
    found = {method: measure.estimate(rows, metric) for method, rows in tested.groupby("method", sort=False)}
    gaps = {method: found[best] - one for method, one in found.items() if method != best}
    sign = metric.better
    cost = price(results, best, max(gaps, key=lambda method: -sign * gaps[method].mean))
    close = [method for method, gap in gaps.items() if not metric.better * gap.mean > gap.noise]
    if any(np.isnan(gaps[method].noise) for method in close):
        yield sentence("Take {}: its mean {} is best here. How sure that is cannot be said of one seed without "
                       "resampled test rows.{}", name(best), metric.name, cost)
    elif close:
        yield sentence("Take {}, or what is easiest: its mean {} is best, but {} {} within noise of it.{}", name(best),
                       metric.name, Markup(", ").join(map(name, close)), "is" if len(close) == 1 else "are", cost)
    else:
        yield sentence("Take {}: its {} is better than that of every other method here, beyond noise.{}", name(best),
                       metric.name, cost)


def sentences(results: Results) -> list[Markup]:
    records = measure.at(results.records, measure.reference_point(results))
    found = [*heads(results, records), *advice(results, records), *map(Markup.escape, results.warnings),
             *decoders(results, records), *retrieval(results, records),
             *map(Markup.escape, measure.comparison(records, [F1, MSE, R1, MRR])), *sweep(results)]
    return found or [Markup("These results hold no zero-shot measurement: every head was used on the encoder it was "
                            "trained on.")]


def tiles(results: Results) -> list[tuple[str, str]]:
    """A few numbers to see before reading: (number, what it is)."""
    records = measure.at(results.records, measure.reference_point(results))
    metric = measure.primary(records)
    shown = []

    def add(rows: pd.DataFrame, metric: Metric, says: str) -> None:
        value = measure.over_seeds(rows, metric, []).iloc[0]["mean"] if len(rows) else np.nan
        if np.isfinite(value):
            shown.append((metric.text(value) + metric.unit, says))

    if metric in (F1, MSE):
        fair = measure.compared(records, metric)
        tested = measure.zero_shot(fair)
        best = measure.best_method(records, metric)
        add(tested[tested.method == best], metric, f"{metric.name} zero-shot, {best}")
        add(fair[fair.method == "absolute"], metric, f"{metric.name} of the own heads, absolute")
        if best != BASELINE:
            add(tested[tested.method == BASELINE], metric, f"{metric.name} zero-shot, {BASELINE}")
    best, tested = measure.best_method(records, R1), measure.zero_shot(measure.compared(records, R1))
    if best is not None:
        add(tested[tested.method == best], R1, f"found at rank 1, {best}")
        if metric not in (F1, MSE):
            add(tested[tested.method == best], MRR, f"MRR, {best}")
            if best != BASELINE:
                add(tested[tested.method == BASELINE], R1, f"found at rank 1, {BASELINE}")
    return shown
