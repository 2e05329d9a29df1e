# SPDX-License-Identifier: Apache-2.0
"""What the figures of kedge.plot share: axes in the report's style, checked tables, rows in a plane."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from . import _inputs
from ._arrays import named, require_matrix
from .report import measure, style
from .report.measure import Metric
from .report.results import AXES, METHODS

METRICS = {metric.key: metric for metric in (
    measure.F1, measure.ACCURACY, measure.R1, measure.R5, measure.R10, measure.MRR, measure.RR_STD, measure.NMSE,
    measure.MSE, measure.PSNR, measure.percent("macro_f1", "Macro F1"),
    Metric("paired_cosine", "Paired cosine"), Metric("linear_cka", "Linear CKA"))}


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Those given, or some in a new figure; styled one by one, since rcParams are the user's."""
    import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#c3c9d1")
    ax.tick_params(which="both", length=0, labelcolor=style.INK)
    ax.grid(True, color=style.GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(style.INK)
    return ax


def legend(of: Axes | Figure, **options: Any) -> None:
    for text in of.legend(frameon=False, labelcolor=style.INK, **options).get_texts():
        text.set_parse_math(False)


def legend_beside(ax: Axes) -> None:
    """To the right if the layout makes room for it, as our own figures do."""
    beside = ax.figure.get_layout_engine() is not None
    legend(ax, **({"loc": "center left", "bbox_to_anchor": (1, 0.5)} if beside else {"loc": "best"}))


def checked(table: Any, key: str, who: str) -> tuple[pd.DataFrame, Metric, list[str]]:
    """The records, the metric and the methods in the report's order."""
    if not hasattr(table, "columns"):
        raise TypeError(f"{who}: expected the table that kedge.stitch or kedge.sweep returns, found "
                        f"{type(table).__name__}; read a results.csv with pandas.read_csv")
    needed = ["method", "encoder", "trained_on", "zero_shot", "seed", *AXES, key]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise ValueError(f"{who}: the table has no column {named(missing)}; expected what kedge.stitch and "
                         f"kedge.sweep return, with a metric such as {named([*METRICS][:6], 6)}")
    table = table.assign(zero_shot=table.zero_shot.astype(bool))
    metric = METRICS.get(key) or Metric(key, key)
    if not measure.has(measure.zero_shot(table), metric):
        tested = measure.zero_shot(table)
        there = [name for name in METRICS if name in table.columns and tested[name].notna().any()]
        raise ValueError(f"{who}: {metric.key} was not measured between encoders; what was: {', '.join(there) or '-'}")
    found = list(dict.fromkeys(table.method))
    return table, metric, sorted(found, key=lambda name: METHODS.index(name) if name in METHODS else len(METHODS))


def at_one_point(table: pd.DataFrame, but: str | None = None) -> tuple[pd.DataFrame, str]:
    """The records at one point of a sweep, along all axes but one, and how a label says so."""
    swept = [axis for axis in AXES if table[axis].nunique() > 1]
    point = {axis: value for axis, value in measure.point_of_sweep(table, swept).items() if axis != but}
    words = measure.point_words(point)
    return measure.at(table, point), f" at {words}" if words else ""


def matrices(spaces: Any, max_rows: int, who: str) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64], int]:
    """At most `max_rows` rows of each, the same in all and evenly spaced; which rows those are, and out of how many."""
    if not isinstance(spaces, Mapping):
        raise TypeError(f"{who}: expected names with embeddings, such as {{'vit': X1, 'rex': X2}}, found "
                        f"{type(spaces).__name__}")
    found = {}
    for name, given in spaces.items():
        if isinstance(given, (str, os.PathLike)):
            raise TypeError(f"{who}: '{name}': expected rows in memory, found the path '{os.fsdecode(given)}'; read "
                            "them first, an .npy file with np.load(path, mmap_mode='r')")
        rows = np.asarray(given if isinstance(given, np.ndarray) else _inputs.rows_of(given, f"{who}: '{name}'"))
        require_matrix(rows.shape, f"{who}: '{name}'")
        found[name] = rows
    counts = {len(rows) for rows in found.values()}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"{who}: expected the same inputs in every space, found "
                         + (", ".join(f"{len(rows)} rows of '{name}'" for name, rows in found.items()) or "no space"))
    total = counts.pop()
    kept = np.unique(np.linspace(0, total - 1, min(total, max_rows)).astype(int))
    return {name: np.asarray(rows[kept], np.float64) for name, rows in found.items()}, kept, total


def plane(centred: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The two directions of most variance, one by row, and their share of it."""
    rows, dim = centred.shape
    small = centred.T @ centred if dim <= rows else centred @ centred.T
    variances, vectors = np.linalg.eigh(small)
    axes = vectors.T[::-1][:2] if dim <= rows else vectors.T[::-1][:2] @ centred
    axes = axes / np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-300)
    signs = np.where(axes.sum(axis=1, keepdims=True) < 0, -1, 1)  # LAPACK's may differ between machines
    return axes * signs, variances[-2:].sum() / max(variances.sum(), 1e-300)
