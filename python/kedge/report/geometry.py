# SPDX-License-Identifier: Apache-2.0
"""Clouds of points before and after, and pictures that decoders made."""
from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.image
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from . import draw, style
from .measure import R1

Window = tuple[tuple[float, float], tuple[float, float]]  # limits of x and y
Entry = Mapping[str, Any]  # of figures.json, as figures_file checked it
COLOURS = 128  # of a cloud: its classes, and what lies between each and white


class Paint:
    """Colours that follow the item: by its class, or by its place along the first axis of the first space."""

    def __init__(self, drawings: Mapping[str, Any]) -> None:
        self.labels = drawings.get("labels")
        first = drawings.get("raw") or next((entry["points"] for key in ("relative", "similarities")
                                             for entry in drawings.get(key, [])), None)
        if self.labels is not None:
            self.look = style.class_looks(self.labels)
        elif first:
            values = next(iter(first.values()))[:, 0]
            self.place = np.argsort(np.argsort(values)) / max(1, len(values) - 1)

    def draw(self, ax: Axes, points: NDArray[np.float64], size: float) -> None:
        options: dict[str, Any] = {"s": size, "linewidths": 0.25, "edgecolors": "white"}
        if self.labels is None:
            ax.scatter(points[:, 0], points[:, 1], c=self.place, cmap="viridis", vmin=0, vmax=1, **options)
            return
        for mark in dict.fromkeys(mark for _, mark in self.look.values()):
            rows = np.array([self.look[label][1] == mark for label in self.labels])
            colours = [self.look[label][0] for label in self.labels[rows]]
            ax.scatter(points[rows, 0], points[rows, 1], c=colours, marker=mark, **options)

    def legend(self) -> list[style.Key]:
        if self.labels is None or len(self.look) > 40:
            return []
        return [style.Key(f"class {name}", colour, style.MARKS[mark]) for name, (colour, mark) in self.look.items()]

    def words(self) -> str:
        if self.labels is None:
            return ("There are no labels, so an item's colour is its place along the first axis of the first space; it "
                    "is the same in every panel.")
        kinds = f"{len(self.look)} classes" if len(self.look) > 1 else "one class"
        shapes = " (colour and shape together)" if len(self.look) > 20 else ""
        return f"A dot is a test row, its colour the class ({kinds}){shapes}; the same in every panel."


def reach(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lowest and highest x and y without the outermost hundredth on each side: one far dot would shrink all others."""
    points = points[np.isfinite(points).all(axis=1)]
    return np.percentile(points, [1, 99], axis=0) if len(points) else np.array([[-1.0, -1.0], [1.0, 1.0]])


def window(low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[Window, float]:
    """A square around these corners, as (x limits, y limits), and half its side."""
    middle, half = (low + high) / 2, max((high - low).max() / 2, 1e-9) * 1.15
    (left, bottom), (right, top) = middle - half, middle + half
    return ((left, right), (bottom, top)), half


class Easel:
    """A canvas for one cloud after another: axes take longer to make than dots to draw."""

    def __init__(self, paint: Paint) -> None:
        self.paint = paint
        self.canvas = FigureCanvasAgg(Figure(figsize=(2.3, 2.3), dpi=160, facecolor="white"))

    @functools.cached_property
    def ax(self) -> Axes:
        ax = self.canvas.figure.add_axes((0, 0, 1, 1))
        ax.set_axis_off()
        return ax

    def cloud(self, points: NDArray[np.float64], limits: Window, says: str) -> Markup:
        """Nothing but dots, in few colours, which make a small file."""
        draw.cloud(self.ax, points, self.paint, limits)
        self.canvas.draw()
        while self.ax.collections:
            self.ax.collections[0].remove()
        file, seen = io.BytesIO(), Image.fromarray(np.asarray(self.canvas.buffer_rgba())[..., :3])
        seen.quantize(COLOURS).save(file, format="png")
        return style.png(file.getvalue(), says)


def chosen(entries: Sequence[Entry]) -> list[Entry]:
    """One entry per name, all with the same encoder held out if possible."""
    held_out = next((entry["held_out"] for entry in entries if entry["held_out"] is not None), None)
    kept: dict[str, Entry] = {}
    for entry in entries:
        if entry["name"] not in kept or (kept[entry["name"]]["held_out"] != held_out and entry["held_out"] == held_out):
            kept[entry["name"]] = entry
    return list(kept.values())


def common_basis(entry: Entry, easel: Easel, what: str) -> style.Group:
    """All panels in one window, except spaces that would be a speck in it: those are magnified, with a note."""
    reaches = {space: reach(points) for space, points in entry["points"].items()}
    lows, highs = zip(*reaches.values())
    common, half = window(np.min(lows, axis=0), np.max(highs, axis=0))
    panels = []
    for space, points in entry["points"].items():
        notes, shown = ["held out"] if space == entry["held_out"] else [], common
        closer, small = window(*reaches[space])
        if small < half / 4:
            notes.append(f"magnified {half / small:,.0f} x" if np.ptp(reaches[space]) else "all in one point")
            shown = closer
        drawing = easel.cloud(points, shown, f"RR of {space}, {what} {entry['name']}")
        panels.append(style.Panel(space, drawing, ", ".join(notes)))
    return style.Group(panels, entry["name"], scores(entry), size="cloud")


def scores(entry: Entry) -> str:
    """'centred cosine 0.59, found first 93.2 %', as far as they are known."""
    cosine, found = entry["centred_cosine"], entry["found_first"]
    return ", ".join([*([] if cosine is None else [f"centred cosine {cosine:.2f}"]),
                      *([] if found is None else [f"found first {R1.text(found, 1)} %"])])


def why_wip(drawings: Mapping[str, Any]) -> list[str]:
    """Why whitening lowers the cosine of the same item and why it is useful all the same: one sentence, or none if the
    cosine is not lower."""
    known = {entry["name"]: entry for entry in drawings.get("similarities", []) if entry["centred_cosine"] is not None}
    if "wip" not in known:
        return []
    wip, best = known["wip"], max(known.values(), key=lambda entry: float(entry["centred_cosine"]))
    if f"{wip['centred_cosine']:.2f}" == f"{best['centred_cosine']:.2f}":
        return []
    text = (f"The centred cosine of wip is lower than that of {best['name']} ({wip['centred_cosine']:.2f} and "
            f"{best['centred_cosine']:.2f}) because it weighs the weak directions of an encoder, on which these "
            "encoders agree less, as much as the strong ones")
    found = [entry["found_first"] for entry in (wip, best)]
    if None in found:
        return [f"{text}."]
    shares = " and ".join(f"{R1.text(share, 1)} %" for share in found)
    gain = "the weak ones tell similar items apart, so that it still finds the same item first more often" \
        if found[0] > found[1] else "here the weak ones do not help to find the same item first"
    return [f"{text}; {gain} ({shares})."]


def before(drawings: Mapping[str, Any], easel: Easel) -> list[style.Group]:
    panels = [style.Panel(space, easel.cloud(points, window(*reach(points))[0], f"PCA of {space}"))
              for space, points in drawings.get("raw", {}).items()]
    return [style.Group(panels, "Before: each space on its own", size="cloud")] if panels else []


def after(drawings: Mapping[str, Any], key: str, easel: Easel) -> list[style.Group]:
    """One group per method ('relative') or per similarity ('similarities'), each in one basis."""
    what = "method" if key == "relative" else "similarity"
    return [common_basis(entry, easel, what) for entry in chosen(drawings.get(key, [])) if entry["points"]]


def pixels(rows: NDArray[np.float64], shape: Sequence[int], scale: float) -> NDArray[np.float64]:
    """samples x values -> samples x height x width (x 3), clipped to 0..1."""
    images = np.clip(np.nan_to_num(rows) / scale, 0, 1)
    if len(shape) == 2:
        return images.reshape(-1, *shape)
    if shape[2] not in (1, 3) and shape[0] in (1, 3):  # channels first
        images = images.reshape(-1, *shape).transpose(0, 2, 3, 1)
    else:
        images = images.reshape(-1, *shape)
    return images if images.shape[-1] == 3 else images.mean(axis=-1)


def strip(rows: NDArray[np.float64], shape: Sequence[int], scale: float, says: str) -> Markup:
    """All samples of one row as one picture, with gaps that let the card show through."""
    images = pixels(rows, shape, scale)
    height, width = images.shape[1:3]
    gap = max(1, width // 14)
    canvas = np.zeros((height, len(images) * (width + gap) - gap, 4))
    for index, image in enumerate(images):
        left = index * (width + gap)
        canvas[:, left:left + width, :3] = image if image.ndim == 3 else image[..., None]
        canvas[:, left:left + width, 3] = 1
    file = io.BytesIO()
    matplotlib.image.imsave(file, canvas, format="png")
    return style.png(file.getvalue(), says)


def pictures(drawn: Mapping[str, Any], methods: Sequence[str]) -> style.Group | None:
    """Rows original, absolute, then each method, with the error of the samples that are shown."""
    original, shape = drawn["original"], drawn["shape"]
    if len(shape) == 3 and not {1, 3} & {shape[0], shape[2]}:
        return None
    scale = 255 if np.nanmax(original, initial=0) > 2 else 1
    order = [name for name in methods if name in drawn["methods"]]
    order += [name for name in drawn["methods"] if name not in order]
    panels = [style.Panel("original", strip(original, shape, scale, "the originals"))]
    for name in order:
        decoded = drawn["methods"][name]
        error = np.nanmean((decoded - original) ** 2)
        drawing = strip(decoded, shape, scale, f"reconstructions with {name}")
        panels.append(style.Panel(name, drawing, f"MSE {error:.3g}"))
    return style.Group(panels, size="strip")
