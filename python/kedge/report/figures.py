# SPDX-License-Identifier: Apache-2.0
"""Dots, sweeps and loss curves, from the records and the runs."""
from __future__ import annotations

import collections
from collections.abc import Iterator

import numpy as np
import pandas as pd
from markupsafe import Markup

from . import draw, measure, style
from .measure import ACCURACY, F1, MRR, MSE, NMSE, PSNR, R1, RR_STD, Metric
from .results import Results
from .style import Looks


def dots(results: Results, records: pd.DataFrame, metric: Metric, look: Looks) -> Markup:
    """One dot per method: the mean over zero-shot pairs; the own heads' mean of 'absolute' as a line."""
    records = measure.compared(records, metric)
    table = measure.over_seeds(measure.zero_shot(records), metric, ["method"])
    table = table.loc[[name for name in results.methods if name in table.index]]
    reference = measure.over_seeds(records[records.method == "absolute"], metric, [])["mean"].iloc[0]
    known = np.isfinite(reference)
    figure, ax = style.axes(4.4, 0.75 + 0.36 * len(table) + (0.25 if known else 0))
    draw.dots(ax, table, metric, look, reference)
    if known:
        ax.set_ylim(top=-0.95)
        ax.annotate(f"absolute, own head {draw.short(metric, reference)}", (reference * metric.scale, -0.62), (0, 2),
                    textcoords="offset points", ha="right", fontsize=9.5)
    ax.set_xlabel(metric.name + metric.unit)
    said = ", ".join(f"{name} {metric.text(value)}" for name, value in table["mean"].items())
    return style.svg(figure, f"{metric.name}, mean over zero-shot pairs: {said}")


def grouped_dots(results: Results, records: pd.DataFrame, metric: Metric, look: Looks) -> Markup:
    """One group per held-out encoder, one dot per method; a short line is the encoder's own absolute head."""
    records = measure.compared(records, metric)
    table = measure.over_seeds(measure.zero_shot(records), metric, ["encoder", "method"])
    methods = [name for name in results.methods if name in table.index.get_level_values("method")]
    encoders = [name for name in results.encoders if name in table.index.get_level_values("encoder")]
    absolute = measure.over_seeds(records[records.method == "absolute"], metric, ["encoder"])["mean"]
    step = 0.8 / len(methods)
    figure, ax = style.axes(4.4, 0.7 + len(encoders) * (0.22 + 0.13 * len(methods)))
    for index, method in enumerate(methods):
        rows = table.xs(method, level="method").reindex(encoders)
        places = np.arange(len(encoders)) - 0.4 + step * (index + 0.5)
        draw.marks(ax, rows, places, metric, look[method])
    for place, encoder in enumerate(encoders):
        if encoder in absolute:
            value = absolute[encoder] * metric.scale
            ax.plot([value, value], [place - 0.44, place + 0.44], color=style.INK, linewidth=1.4, linestyle=(0, (3, 2)))
    ax.set_yticks(np.arange(len(encoders)), [style.label(name) for name in encoders])
    ax.set_ylim(len(encoders) - 0.45, -0.55)
    draw.show_range(ax, table, metric, absolute)
    ax.set_xlabel(metric.name + metric.unit)
    ax.grid(axis="y", visible=False)
    return style.svg(figure, f"{metric.name} for each held-out encoder and method")


def sweep_panel(results: Results, records: pd.DataFrame, axis: str, metric: Metric, look: Looks) -> Markup:
    """A line per method over one swept axis; methods that do not depend on the axis are level lines."""
    tested = measure.common(measure.zero_shot(records), metric, ["method", axis])
    table = measure.over_seeds(tested.dropna(subset=[axis]), metric, ["method", axis])
    levels = {}
    for method in set(results.methods) - set(table.index.get_level_values("method")):
        rows = measure.on(measure.own(records), tested) if method == "absolute" else tested
        level = measure.over_seeds(rows[(rows.method == method) & rows[axis].isna()], metric, [])["mean"].iloc[0]
        if np.isfinite(level):
            levels[method] = level
    figure, ax = style.axes(4.4, 3.1)
    draw.lines(ax, table, axis, metric, look, results.methods, levels)
    return style.svg(figure, f"{metric.name} against {axis}, a line per method")


def sweeps(results: Results, look: Looks) -> Iterator[style.Group]:
    """One group per swept axis; the other axes stay at the reference point."""
    point = measure.reference_point(results)
    for axis in results.swept:
        fixed = {other: value for other, value in point.items() if other != axis}
        records = measure.at(results.records, fixed)
        along = measure.zero_shot(records).dropna(subset=[axis])
        metrics = [metric for metric in (F1, ACCURACY, MRR, R1, NMSE, RR_STD, MSE, PSNR) if measure.has(along, metric)]
        if R1 in metrics and F1 in metrics:
            metrics.remove(R1)  # MRR says it already
        text = [f"Everything else stays at {measure.point_words(fixed)}."] if fixed else []
        text += measure.comparison(records, metrics, ["method", axis])
        metrics = [metric for metric in metrics if len(measure.common(measure.zero_shot(records), metric,
                                                                      ["method", axis]))]
        panels = [style.Panel(metric.name, sweep_panel(results, records, axis, metric, look)) for metric in metrics]
        shown = [name for name in results.methods
                 if any(measure.has(records[records.method == name], metric) for metric in metrics)]
        keys = style.legend(shown, look)
        for key in keys:
            if key.name not in set(along.method):
                key.mark = "╌╌"  # a level line
        if panels or text:
            yield style.Group(panels, f"Against {'support rows' if axis == 'support' else axis}", " ".join(text),
                             legend=keys)


def loss_curves(results: Results, look: Looks) -> style.Group | None:
    """Total and parts over epochs: a thin line per run, a thick one for the mean of each method."""
    point = measure.reference_point(results)
    runs = collections.defaultdict(list)
    for run in results.runs:
        here = all(pd.isna(run[axis]) or run[axis] == value for axis, value in point.items())
        if run["history"] and here:
            runs[run["method"]].append(run["history"])
    parts = list(dict.fromkeys(key for histories in runs.values() for history in histories for epoch in history
                               for key in epoch))
    panels = []
    for part in sorted(parts, key=lambda name: name != "total"):
        figure, ax = style.axes(4.4, 2.8)
        for index, (method, histories) in enumerate(runs.items()):
            curves = np.full((len(histories), max(map(len, histories))), np.nan)
            for row, history in zip(curves, histories):
                row[:len(history)] = [epoch.get(part, np.nan) for epoch in history]
            curves = curves[~np.isnan(curves).all(axis=1)]
            if not len(curves):
                continue
            epochs, colour = np.arange(1, curves.shape[1] + 1), look.get(method, (style.SOFT,))[0]
            if 1 < len(curves) <= 12:
                ax.plot(epochs, curves.T, color=colour, linewidth=0.7, alpha=0.35)
            elif len(curves) > 12:
                ax.fill_between(epochs, np.nanmin(curves, axis=0), np.nanmax(curves, axis=0), color=colour, alpha=0.2,
                                linewidth=0)
            there = ~np.isnan(curves).all(axis=0)
            ax.plot(epochs[there], np.nanmean(curves[:, there], axis=0), color=colour,
                    marker="o" if there.sum() == 1 else None,
                    linestyle=[(0, ()), (0, (5, 3)), (0, (1.5, 1.5))][index % 3])  # equal curves both stay visible
        ax.set_xlabel("epoch")
        draw.whole_ticks(ax.xaxis)
        draw.few_ticks(ax.yaxis)
        panels.append(style.Panel(part, style.svg(figure, f"The loss {part} over epochs")))
    methods = [name for name in results.methods if name in runs]
    methods += [name for name in runs if name not in methods]
    keys = [style.Key(name, look.get(name, (style.SOFT,))[0], "▬") for name in methods]
    return style.Group(panels, legend=keys) if panels else None
