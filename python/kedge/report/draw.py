# SPDX-License-Identifier: Apache-2.0
"""Draws into axes that are given: what the report's figures and kedge.plot have in common. Nothing here makes a figure
or computes a mean."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from . import measure, style
from .measure import Metric
from .style import Looks

if TYPE_CHECKING:
    from .geometry import Paint, Window

PLAIN: dict[str, Any] = {"parse_math": False, "color": style.INK}  # names may hold $ and _


def few_ticks(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def whole_ticks(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))


def errors(std: NDArray[np.float64], scale: float = 1) -> NDArray[np.float64] | None:
    """No whisker if nothing is known of the noise."""
    return None if np.isnan(std).all() else np.nan_to_num(std) * scale


def short(metric: Metric, value: float) -> str:
    """A number beside a mark, where there is little room."""
    return metric.text(value, 1 if metric.unit else None)


def marks(ax: Axes, table: pd.DataFrame, places: Sequence[float] | NDArray[Any], metric: Metric,
          look: tuple[str, str]) -> None:
    """A mark with its whisker for each row of `table`."""
    colour, mark = look
    ax.errorbar(table["mean"] * metric.scale, places, xerr=errors(table["std"].to_numpy(), metric.scale), color=colour,
                marker=mark, linestyle="none", capsize=2, elinewidth=1.2)


def show_range(ax: Axes, table: pd.DataFrame, metric: Metric, references: Any = (), room: float = 0.05) -> None:
    """Shows the range from the lowest number to the highest, so that differences can be seen, but at least a tenth of
    the highest, so that noise does not look like a difference. `room` is the share left free on the right."""
    spread = np.nan_to_num(table["std"].to_numpy())
    ends = np.concatenate([table["mean"] - spread, table["mean"] + spread, np.atleast_1d(references)]) * metric.scale
    high = np.nanmax(ends)
    low = min(np.nanmin(ends), high - 0.1 * abs(high))
    side = (high - low or 1) * 0.05
    ax.set_xlim(low - side, high + side + room * (high - low))
    few_ticks(ax.xaxis)


def dots(ax: Axes, table: pd.DataFrame, metric: Metric, look: Looks, reference: float = np.nan) -> None:
    """A mark for each row of `table` (columns mean and std, by method) with its number; `reference` is a dashed
    line."""
    for place, method in enumerate(table.index):
        row = table.iloc[[place]]
        marks(ax, row, [place], metric, look[method])
        end = (row["mean"] + row["std"].fillna(0)).iloc[0] * metric.scale
        ax.annotate(short(metric, row["mean"].iloc[0]), (end, place), (8, 0), textcoords="offset points", va="center",
                    fontsize=9.5, color=style.INK)
    if np.isfinite(reference):
        ax.axvline(reference * metric.scale, color=style.INK, linestyle=(0, (4, 3)), linewidth=1.2,
                   label=f"absolute, own head {short(metric, reference)}")
    ax.set_yticks(range(len(table)), [style.label(name) for name in table.index], **PLAIN)
    ax.set_ylim(len(table) - 0.45, -0.55)
    show_range(ax, table, metric, reference, room=0.16)


def thinned(values: Sequence[float], logarithmic: bool) -> list[float]:
    """Ticks at measured values, as many as can be read."""
    scale = np.log(values) if logarithmic else np.asarray(values, float)
    kept = [len(values) - 1]
    for index in range(len(values) - 2, -1, -1):
        if scale[kept[-1]] - scale[index] > 0.16 * (scale[-1] - scale[0]):
            kept.append(index)
    return [values[index] for index in reversed(kept)]


def lines(ax: Axes, table: pd.DataFrame, axis: str, metric: Metric, look: Looks, methods: Sequence[str],
          levels: Mapping[str, float]) -> None:
    """A line for each method of `table` (columns mean and std, by method and value of `axis`); `levels`, by method, are
    level lines. If the values are names, no lines join them."""
    values = measure.ordered(table.index.get_level_values(axis))
    named = any(isinstance(value, str) for value in values)
    places = {value: index if named else value for index, value in enumerate(values)}
    for method in methods:
        colour, mark = look[method]
        if method in levels:
            own = ", own head" if method == "absolute" else ""
            ax.axhline(levels[method] * metric.scale, color=colour, linestyle=(0, (4, 3)), linewidth=1.4,
                       label=method + own)
        elif method in table.index.get_level_values("method"):
            line = table.xs(method, level="method")
            line = line.loc[measure.ordered(line.index)]
            ax.errorbar([places[value] for value in line.index], line["mean"] * metric.scale,
                        yerr=errors(line["std"].to_numpy(), metric.scale), label=method, color=colour, marker=mark,
                        markersize=5.5, linewidth=1.8, capsize=2.5, elinewidth=1, markeredgecolor="white",
                        markeredgewidth=0.6, linestyle="none" if named else "-")
    logarithmic = not named and values[0] > 0 and values[-1] / values[0] > 10
    if logarithmic:
        ax.set_xscale("log")
    ticks = values if named else thinned(values, logarithmic)
    ax.set_xticks([places[value] for value in ticks], [measure.amount(value, axis) for value in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.margins(x=0.2 if named else 0.05)
    ax.set_xlabel("support rows" if axis == "support" else axis)
    ax.set_ylabel(metric.name + metric.unit)
    few_ticks(ax.yaxis)


def cloud(ax: Axes, points: NDArray[np.float64], paint: Paint, limits: Window) -> None:
    """Points in a square window without numbers."""
    paint.draw(ax, points, 13 if len(points) <= 600 else 6)
    ax.set(xlim=limits[0], ylim=limits[1], xticks=[], yticks=[], aspect="equal")
