# SPDX-License-Identifier: Apache-2.0
"""Figures of what was learned and measured, in the report's colours.

Every function draws into `ax` if one is given, and otherwise makes its own figure with pyplot; it returns the axes
(`spaces`: the figure) and shows nothing by itself. A `table` is what kedge.stitch and kedge.sweep return, or
pandas.read_csv of their results.csv.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ._plot_inputs import at_one_point, axes, checked, legend, legend_beside, matrices, plane
from .report import draw, geometry, measure, style
from .report.draw import PLAIN, few_ticks
from .report.results import AXES

__all__ = ["compare", "history", "pairs", "scores", "spaces", "sweep"]
HEADS = {"weighted_f1", "accuracy", "macro_f1", "mse", "psnr"}
BLUES = LinearSegmentedColormap.from_list("kedge", ["#f4f7fa", "#79b4dd", "#1f6fb2", "#123f66"])


def history(losses: Any, *, ax: Axes | None = None) -> Axes:
    """The losses of every epoch of the method 'param', or of a consensus's refinement on held-out rows.

    losses : Bundle, or a dict such as bundle.history
    """
    if hasattr(losses, "history"):
        bundle, losses = losses, losses.history
        if not losses and len(bundle.refine_losses):
            losses = {"held out": bundle.refine_losses}
        if not losses:
            raise ValueError(f"history: a bundle of the method {bundle.method} is not learned in epochs; those of "
                             "'param', and of 'consensus' with refine_epochs, are")
    if not isinstance(losses, Mapping):
        raise TypeError(f"history: expected a bundle or a dict such as bundle.history, found {type(losses).__name__}")
    if not losses:
        raise ValueError("history: the dict is empty: that bundle has no history; only method='param' learns epoch by "
                         "epoch (of a consensus with refine_epochs give the bundle itself)")
    ax = axes(ax, 6.4, 3.6)
    for index, (name, values) in enumerate(losses.items()):
        first = 0 if name == "held out" else 1  # refinement is also measured before it begins
        total = name in ("total", "held out")
        ax.plot(np.arange(first, first + len(values)), values, label=name, linewidth=2.2 if total else 1.6,
                color=style.INK if total else style.OTHERS[(index - 1) % len(style.OTHERS)],
                marker="o" if len(values) == 1 else None)
    if all(np.min(values) > 0 for values in losses.values()) and len(losses) > 1:
        ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss on held-out rows" if "held out" in losses else "loss, mean over the epoch")
    draw.whole_ticks(ax.xaxis)
    if len(losses) > 1:
        legend_beside(ax)
    return ax


def scores(table: Any, metric: str = "mrr", *, ax: Axes | None = None) -> Axes:
    """A dot per method: the mean over pairs of encoders, with its 95 % interval over seeds from three seeds on.

    Methods are compared on the pairs and seeds that all have. Heads of encoders on their own embeddings ('absolute')
    are a dashed line. In a sweep, the dots are those with the most anchors, then the most support.
    """
    table, measured, methods = checked(table, metric, "scores")
    table, point = at_one_point(table)
    table = measure.compared(table, measured)
    dots = measure.over_seeds(measure.zero_shot(table), measured, ["method"])[["mean", "std"]]
    methods = [name for name in methods if name in dots.index]
    if not methods:
        raise ValueError("scores: the methods were measured on different pairs of encoders or seeds; draw one at a "
                         "time, as in table[table.method == 'consensus']")
    own = measure.over_seeds(table[table.method == "absolute"], measured, [])["mean"].iloc[0]
    ax = axes(ax, 6, 0.9 + 0.4 * len(methods))
    draw.dots(ax, dots.loc[methods], measured, style.looks(methods), own)
    if np.isfinite(own):
        legend(ax, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
    ax.set_xlabel(f"{measured.name}{measured.unit}, mean over pairs of encoders{point}")
    return ax


def pairs(table: Any, method: str | None = None, metric: str = "mrr", *, ax: Axes | None = None) -> Axes:
    """A map of every pair of encoders, the mean over seeds; of the best method by default."""
    table, measured, methods = checked(table, metric, "pairs")
    table, point = at_one_point(table)
    method = measure.best_method(table, measured) or methods[-1] if method is None else method
    if method not in methods:
        raise ValueError(f"pairs: there is no method {method!r} in the table; it has {', '.join(methods)}")
    rows = table[table.method == method]
    names = list(dict.fromkeys([*rows.trained_on, *rows.encoder]))
    means = measure.over_seeds(rows, measured, ["encoder", "trained_on"])["mean"]
    values = means.unstack().reindex(names, columns=names).to_numpy() * measured.scale
    ax = axes(ax, 2.6 + 0.75 * len(names), 1.6 + 0.6 * len(names))
    top = np.nanmax(values)  # differences of less than a tenth are not blown up to the whole range of colours
    image = ax.imshow(values, cmap=BLUES, aspect="auto", vmin=min(np.nanmin(values), top - 0.1 * abs(top)), vmax=top)
    for (row, column), value in np.ndenumerate(values):
        dark = np.isfinite(value) and sum(image.cmap(image.norm(value))[:3]) < 1.6
        ax.text(column, row, draw.short(measured, value / measured.scale), ha="center", va="center",
                color="white" if dark else style.INK)
    slanted = max(map(len, names)) > 8
    slant: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(names)), names, **slant, **PLAIN)
    ax.set_yticks(range(len(names)), names, **PLAIN)
    ax.set_xlabel("head trained on" if measured.key in HEADS else "looked up from")
    ax.set_ylabel("used on" if measured.key in HEADS else "found in")
    ax.set_title(method + point, loc="left", fontsize="medium", **PLAIN)
    ax.grid(False)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(measured.name + measured.unit, color=style.INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelcolor=style.INK)
    return ax


def sweep(table: Any, x: str = "anchors", metric: str = "mrr", *, ax: Axes | None = None) -> Axes:
    """A line per method over one axis of a sweep, with 95 % intervals over seeds from three seeds on.

    x : 'anchors', 'support' or 'shrinkage'; the other axes stay at one value.
    """
    table, measured, methods = checked(table, metric, "sweep")
    swept = [axis for axis in AXES if table[axis].nunique() > 1]
    if x not in swept:
        raise ValueError(f"sweep: the table has fewer than two values of x={x!r}; "
                         + (f"it was swept over {', '.join(swept)}" if swept else "make one with kedge.sweep"))
    table, point = at_one_point(table, but=x)
    tested = measure.common(measure.zero_shot(table), measured, ["method", x])
    lines = measure.over_seeds(tested.dropna(subset=[x]), measured, ["method", x])
    if lines.empty:
        raise ValueError("sweep: the methods were measured on different pairs of encoders or seeds; draw one at a time")
    own = measure.on(measure.own(table), tested)
    own = measure.over_seeds(own[own.method == "absolute"], measured, [])["mean"].iloc[0]
    ax = axes(ax, 6.4, 3.6)
    draw.lines(ax, lines, x, measured, style.looks(methods), methods, {"absolute": own} if np.isfinite(own) else {})
    ax.set_xlabel(ax.get_xlabel() + point)
    legend_beside(ax)
    return ax


def spaces(spaces: Any, labels: Any = None, *, shared: bool = False, max_rows: int = 2000) -> Figure:
    """Embeddings of the same inputs side by side, each in the plane in which it varies most (PCA). Returns the figure.

    spaces : dict of name -> embeddings in memory, row n of all of the same input
    labels : class of every row, which colours it; otherwise its place along the first space's first axis does
    shared : True for rows of one shared space, such as RR: then all are seen in the plane and window of the first
    max_rows : the most rows to draw; more are thinned evenly
    """
    import matplotlib.pyplot as plt

    rows, kept, total = matrices(spaces, max_rows, "spaces")
    if labels is not None and len(labels) != total:
        raise ValueError(f"spaces: expected a label for each of the {total} rows, found {len(labels)}")
    points, titles, directions = {}, {}, None
    for name, values in rows.items():
        if directions is None or not shared:
            middle = values.mean(axis=0)
            directions, share = plane(values - middle)
        elif values.shape[1] != len(middle):
            raise ValueError(f"spaces: rows of one shared space have one length, found {len(middle)} and, of '{name}', "
                             f"{values.shape[1]}; without shared=True each gets a plane of its own")
        flat = (values - middle) @ directions.T
        points[name] = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))  # a line has but one axis
        titles[name] = name if shared else f"{name}\n{share:.0%} of the variance"
    paint = geometry.Paint({"raw": points} if labels is None else {"labels": np.asarray(labels)[kept]})
    figure = plt.figure(figsize=(2.9 * len(points), 3.3), layout="constrained")
    whole = geometry.window(*geometry.reach(np.concatenate(list(points.values()))))[0]
    for ax, (name, flat) in zip(np.atleast_1d(figure.subplots(1, len(points))), points.items()):
        limits = whole if shared else geometry.window(*geometry.reach(flat))[0]
        draw.cloud(ax, flat, paint, limits)
        ax.set_xlabel("first axis", color=style.SOFT)
        ax.set_ylabel("second axis", color=style.SOFT)
        ax.set_title(titles[name], fontsize="medium", **PLAIN)
        ax.spines[:].set_color(style.GRID)
    if labels is not None and len(paint.look) <= 20:
        handles = [Line2D([], [], linestyle="none", marker=mark, color=colour, label=str(name))
                   for name, (colour, mark) in paint.look.items()]
        legend(figure, handles=handles, loc="outside right center", title="class")
    return figure


def compare(A: Any, B: Any, *, max_rows: int = 2000, ax: Axes | None = None) -> Axes:
    """Cosines of the rows of A and B: how clearly the same input in two encoders differs from different inputs.

    A, B : rows of the same inputs in the shared space, in memory. The share at rank 1 is of the rows that are drawn.
    """
    rows, _, _ = matrices({"A": A, "B": B}, max_rows, "compare")
    if rows["A"].shape[1] != rows["B"].shape[1]:
        raise ValueError(f"compare: expected rows of one length, found {rows['A'].shape[1]} and {rows['B'].shape[1]}; "
                         "take both into the shared space first, with bundle[name].transform")
    unit = [values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-300) for values in rows.values()]
    cosines = unit[0] @ unit[1].T
    same, others = np.diag(cosines), cosines[~np.eye(len(cosines), dtype=bool)]
    first = np.mean((cosines > same[:, None]).sum(axis=1) == 0)
    ax = axes(ax, 6.4, 3.2)
    bins = np.linspace(min(cosines.min(), 0), max(cosines.max(), 1e-9), 61).tolist()
    for values, colour, name in ((others, "#98a2ae", "different inputs"), (same, "#1f6fb2", "same input")):
        if len(values):
            ax.hist(values, bins, weights=np.full(len(values), 100 / len(values)), color=colour, alpha=0.75, label=name)
    ax.set_xlabel("cosine between a row of A and a row of B")
    ax.set_ylabel("share of pairs %")
    ax.set_title(f"{first:.1%} of {len(same):,} rows found at rank 1", loc="left", fontsize="medium", **PLAIN)
    few_ticks(ax.yaxis)
    legend(ax)
    return ax
