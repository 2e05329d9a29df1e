# SPDX-License-Identifier: Apache-2.0
"""How every figure looks: one colour and mark per method, and drawings that go straight into the page."""
from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
from cycler import cycler
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

Looks = dict[str, tuple[str, str]]  # by method: colour and mark
INK, SOFT, GRID = "#2b3138", "#6b7480", "#e6e9ed"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK,
    "text.parse_math": False,  # names may hold $ and _
    "axes.labelcolor": INK, "axes.edgecolor": "#c3c9d1", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "axes.prop_cycle": cycler(color=["#1f6fb2"]),
    "grid.color": GRID, "grid.linewidth": 0.8, "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "xtick.major.size": 0, "ytick.major.size": 0, "lines.linewidth": 1.8,
    "lines.markersize": 5.5, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "svg.fonttype": "path", "svg.hashsalt": "kedge",
}
COLOURS = {"absolute": "#3d4550", "ridge": "#6b4f9e", "random-cosine": "#98a2ae", "random-wip": "#c8a45c",
           "kmeans-wip": "#7fae6e", "fps-cosine": "#a58fcb", "param-cosine": "#e08e45", "param-single": "#79b4dd",
           "param-multi": "#1f6fb2", "consensus": "#b8324f"}
OTHERS = ["#2a9d8f", "#8c6d31", "#d4679f", "#5b5fc7", "#7a8b2f", "#a0522d", "#008bb5", "#6f4e7c"]
MARKS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖", "p": "⬟"}


@dataclasses.dataclass
class Key:
    """One entry of a legend, which the page writes itself so that it never covers data."""
    name: str
    colour: str
    mark: str = "■"


@dataclasses.dataclass
class Panel:
    title: str
    drawing: Markup
    note: str = ""


@dataclasses.dataclass
class Group:
    """Panels that belong together; the page lays them side by side as far as there is room."""
    panels: list[Panel]
    title: str = ""
    text: str = ""
    size: str = "plot"          # plot, cloud, strip
    legend: list[Key] = dataclasses.field(default_factory=list)


def looks(methods: Sequence[str]) -> Looks:
    """Method -> (colour, mark), the same in every figure of a page."""
    unknown = [name for name in methods if name not in COLOURS]
    colours = {**COLOURS, **{name: OTHERS[i % len(OTHERS)] for i, name in enumerate(unknown)}}
    marks = list(MARKS)
    return {name: (colours[name], marks[i % len(marks)]) for i, name in enumerate(methods)}


def legend(methods: Sequence[str], look: Looks, mark: str | None = None) -> list[Key]:
    return [Key(name, look[name][0], mark or MARKS[look[name][1]]) for name in methods]


def axes(width: float, height: float, **options: Any) -> tuple[Figure, Axes]:
    """A figure of its own (no global state) with one pair of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**options)


def bytes_of(figure: Figure, **options: Any) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a name in a script the font lacks is no failure
        figure.savefig(file, **options)
    return file.getvalue()


def svg(figure: Figure, says: str) -> Markup:
    """Inline SVG as wide as its place; ids get a prefix, since all drawings share one page."""
    text = bytes_of(figure, format="svg", metadata={"Date": None, "Creator": None}).decode()
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.S)
    prefix = "f" + hashlib.md5(text.encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" {}>', text, count=1, flags=re.S)
    text = re.sub(r"\n\s*", "\n", text)
    opening, rest = text.split("{}>", 1)
    said = Markup('role="img" aria-label="{}" xmlns:xlink="http://www.w3.org/1999/xlink">').format(says)
    return Markup(opening) + said + Markup(rest)


def png(data: bytes, says: str) -> Markup:
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(says, base64.b64encode(data).decode())


def label(name: str, length: int = 22) -> str:
    """A name next to a bar, on two lines if it is long; a longer one loses its middle, since the ends tell more."""
    if len(name) <= length:
        return name
    if len(name) > 2 * length:
        name = name[:length] + "…" + name[1 - length:]
    breaks = [i for i in range(len(name) - length, length + 1) if name[i - 1] in "-_/. :"]
    middle = min(breaks, key=lambda i: abs(2 * i - len(name)), default=length)
    return name[:middle] + "\n" + name[middle:]


def class_looks(labels: Iterable[Any]) -> dict[Any, tuple[str, str]]:
    """Class -> (colour, mark): ten strong colours, twenty if there are more classes, then the next mark."""
    classes, marks = sorted(set(labels)), list(MARKS)
    table = matplotlib.colormaps["tab10" if len(classes) <= 10 else "tab20"]
    colours: list[Any] = list(table(range(table.N)))
    return {name: (to_hex(colours[i % len(colours)]), marks[i // len(colours) % len(marks)])
            for i, name in enumerate(classes)}
