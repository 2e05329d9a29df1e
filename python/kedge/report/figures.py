# SPDX-License-Identifier: Apache-2.0
"""Bars, sweeps and loss curves, from the records and the runs."""
import collections

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from . import measure, plot
from .measure import ACCURACY, F1, MRR, MSE, NMSE, PSNR, R1, RR_STD


def errors(std, scale=1):
    """No bar if there was only one seed."""
    return None if np.isnan(std).all() else np.nan_to_num(std) * scale


def bars(results, records, metric, look):
    """One bar per method: the mean over zero-shot pairs; the own heads' mean of 'absolute' as a line."""
    records = measure.compared(records, metric)
    table = measure.over_seeds(measure.zero_shot(records), metric, ["method"])
    methods = [name for name in results.methods if name in table.index]
    table = table.loc[methods]
    reference = measure.over_seeds(records[records.method == "absolute"], metric, [])["mean"].iloc[0]
    figure, ax = plot.axes(4.4, 0.75 + 0.36 * len(methods) + (0.25 if np.isfinite(reference) else 0))
    values, places = table["mean"].to_numpy() * metric.scale, np.arange(len(methods))
    spread = errors(table["std"].to_numpy(), metric.scale)
    ax.barh(places, values, 0.62, xerr=spread, color=[look[name][0] for name in methods],
            error_kw={"ecolor": plot.INK, "capsize": 2.5, "elinewidth": 1.2})
    top = np.nanmax(np.append(values + (0 if spread is None else spread), reference * metric.scale))
    for place, value, std in zip(places, values, np.zeros(len(values)) if spread is None else spread):
        inside = value > 0.2 * top  # at the foot of the bar the number is clear of whisker and line
        ax.annotate(metric.text(value / metric.scale, 1 if metric.unit else None),
                    (0 if inside else max(value, 0) + std, place), (6, 0), textcoords="offset points", va="center",
                    fontsize=9.5, color="white" if inside else plot.INK)
    if np.isfinite(reference):
        ax.axvline(reference * metric.scale, color=plot.INK, linestyle=(0, (4, 3)), linewidth=1.2)
        ax.annotate(f"absolute, own head {metric.text(reference, 1 if metric.unit else None)}",
                    (reference * metric.scale, -0.62), (0, 2), textcoords="offset points", ha="right", fontsize=9.5)
    ax.set_yticks(places, [plot.label(name) for name in methods])
    ax.set_ylim(len(methods) - 0.45, -0.95 if np.isfinite(reference) else -0.55)
    ax.set_xlim(min(0, np.nanmin(values)), top * 1.16 or 1)
    ax.set_xlabel(metric.name + metric.unit)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.grid(axis="y", visible=False)
    said = ", ".join(f"{name} {metric.text(value)}" for name, value in table["mean"].items())
    return plot.svg(figure, f"{metric.name}, mean over zero-shot pairs: {said}")


def grouped_bars(results, records, metric, look):
    """One group per held-out encoder, one bar per method; a short line is the encoder's own absolute head."""
    records = measure.compared(records, metric)
    table = measure.over_seeds(measure.zero_shot(records), metric, ["encoder", "method"])
    methods = [name for name in results.methods if name in table.index.get_level_values("method")]
    encoders = [name for name in results.encoders if name in table.index.get_level_values("encoder")]
    absolute = measure.over_seeds(records[records.method == "absolute"], metric, ["encoder"])["mean"]
    step = 0.8 / len(methods)
    figure, ax = plot.axes(4.4, 0.7 + len(encoders) * (0.22 + 0.13 * len(methods)))
    for index, method in enumerate(methods):
        rows = table.xs(method, level="method").reindex(encoders)
        places = np.arange(len(encoders)) - 0.4 + step * (index + 0.5)
        ax.barh(places, rows["mean"] * metric.scale, step * 0.86, xerr=errors(rows["std"].to_numpy(), metric.scale),
                color=look[method][0], error_kw={"ecolor": plot.INK, "capsize": 1.5, "elinewidth": 0.9})
    for place, encoder in enumerate(encoders):
        if encoder in absolute:
            value = absolute[encoder] * metric.scale
            ax.plot([value, value], [place - 0.44, place + 0.44], color=plot.INK, linewidth=1.4, linestyle=(0, (3, 2)))
    ax.set_yticks(np.arange(len(encoders)), [plot.label(name) for name in encoders])
    ax.set_ylim(len(encoders) - 0.45, -0.55)
    ax.set_xlim(left=min(0, ax.get_xlim()[0]))
    ax.set_xlabel(metric.name + metric.unit)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.grid(axis="y", visible=False)
    return plot.svg(figure, f"{metric.name} for each held-out encoder and method")


def thinned(values, logarithmic):
    """Ticks at measured values that stand far enough apart to be read."""
    scale = np.log(values) if logarithmic else np.asarray(values, float)
    kept = [len(values) - 1]
    for index in range(len(values) - 2, -1, -1):
        if scale[kept[-1]] - scale[index] > 0.16 * (scale[-1] - scale[0]):
            kept.append(index)
    return [values[index] for index in reversed(kept)]


def sweep_panel(results, records, axis, metric, look):
    """A line per method over one swept axis; methods that do not know the axis are level lines. Names stand side by
    side, with nothing between them."""
    tested = measure.common(measure.zero_shot(records), metric, ["method", axis])
    table = measure.over_seeds(tested.dropna(subset=[axis]), metric, ["method", axis])
    values = measure.ordered(table.index.get_level_values(axis))
    named = isinstance(values[0], str)
    places = {value: index if named else value for index, value in enumerate(values)}
    logarithmic = not named and values[0] > 0 and values[-1] / values[0] > 10
    figure, ax = plot.axes(4.4, 3.1)
    for method in results.methods:
        colour, mark = look[method]
        if method in table.index.get_level_values("method"):
            line = table.xs(method, level="method")
            line = line.loc[measure.ordered(line.index)]
            ax.errorbar([places[value] for value in line.index], line["mean"] * metric.scale,
                        yerr=errors(line["std"].to_numpy(), metric.scale),
                        color=colour, marker=mark, capsize=2.5, elinewidth=1, markeredgecolor="white",
                        markeredgewidth=0.6, linestyle="none" if named else "-")
        else:
            rows = measure.on(measure.own(records), tested) if method == "absolute" else tested
            level = measure.over_seeds(rows[(rows.method == method) & rows[axis].isna()], metric, [])["mean"].iloc[0]
            if np.isfinite(level):
                ax.axhline(level * metric.scale, color=colour, linestyle=(0, (4, 3)), linewidth=1.4)
    if logarithmic:
        ax.set_xscale("log")
    ticks = values if named else thinned(values, logarithmic)
    ax.set_xticks([places[value] for value in ticks], [measure.amount(value, axis) for value in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.margins(x=0.2 if named else 0.05)
    ax.set_xlabel({"anchors": "anchors", "support": "support rows", "shrinkage": "shrinkage"}[axis])
    ax.set_ylabel(metric.name + metric.unit)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    return plot.svg(figure, f"{metric.name} against {axis}, a line per method")


def sweeps(results, look):
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
        panels = [plot.Panel(metric.name, sweep_panel(results, records, axis, metric, look)) for metric in metrics]
        shown = [name for name in results.methods
                 if any(measure.has(records[records.method == name], metric) for metric in metrics)]
        keys = plot.legend(shown, look)
        for key in keys:
            if key.name not in set(along.method):
                key.mark = "╌╌"  # a level line
        if panels or text:
            yield plot.Group(panels, f"Against {'support rows' if axis == 'support' else axis}", " ".join(text),
                             legend=keys)


def loss_curves(results, look):
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
        figure, ax = plot.axes(4.4, 2.8)
        for index, (method, histories) in enumerate(runs.items()):
            curves = np.full((len(histories), max(map(len, histories))), np.nan)
            for row, history in zip(curves, histories):
                row[:len(history)] = [epoch.get(part, np.nan) for epoch in history]
            curves = curves[~np.isnan(curves).all(axis=1)]
            if not len(curves):
                continue
            epochs, colour = np.arange(1, curves.shape[1] + 1), look.get(method, (plot.SOFT,))[0]
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
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        panels.append(plot.Panel(part, plot.svg(figure, f"The loss {part} over epochs")))
    methods = [name for name in results.methods if name in runs]
    methods += [name for name in runs if name not in methods]
    keys = [plot.Key(name, look.get(name, (plot.SOFT,))[0], "▬") for name in methods]
    return plot.Group(panels, legend=keys) if panels else None
