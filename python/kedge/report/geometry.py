# SPDX-License-Identifier: Apache-2.0
"""Clouds of points before and after, and pictures that decoders made."""
import io

import matplotlib.image
import numpy as np

from . import draw, style


class Paint:
    """Colours that follow the item: by its class, or by its place along the first axis of the first space."""

    def __init__(self, drawings):
        self.labels = drawings.get("labels")
        first = drawings.get("raw") or next((entry["points"] for key in ("relative", "similarities")
                                             for entry in drawings.get(key, [])), None)
        if self.labels is not None:
            self.look = style.class_looks(self.labels)
        elif first:
            values = next(iter(first.values()))[:, 0]
            self.place = np.argsort(np.argsort(values)) / max(1, len(values) - 1)

    def draw(self, ax, points, size):
        options = {"s": size, "linewidths": 0.25, "edgecolors": "white"}
        if self.labels is None:
            ax.scatter(*points.T, c=self.place, cmap="viridis", vmin=0, vmax=1, **options)
            return
        for mark in dict.fromkeys(mark for _, mark in self.look.values()):
            rows = np.array([self.look[label][1] == mark for label in self.labels])
            colours = [self.look[label][0] for label in self.labels[rows]]
            ax.scatter(*points[rows].T, c=colours, marker=mark, **options)

    def legend(self):
        if self.labels is None or len(self.look) > 40:
            return []
        return [style.Key(f"class {name}", colour, style.MARKS[mark]) for name, (colour, mark) in self.look.items()]

    def words(self):
        if self.labels is None:
            return ("There are no labels, so an item's colour is its place along the first axis of the first space; it "
                    "is the same in every panel.")
        kinds = f"{len(self.look)} classes" if len(self.look) > 1 else "one class"
        shapes = " (colour and shape together)" if len(self.look) > 20 else ""
        return f"A dot is a test row, its colour the class ({kinds}){shapes}; the same in every panel."


def reach(points):
    """Lowest and highest x and y, but for the outermost hundredth on each side: one far dot would shrink all others."""
    points = points[np.isfinite(points).all(axis=1)]
    return np.percentile(points, [1, 99], axis=0) if len(points) else np.array([[-1.0, -1.0], [1.0, 1.0]])


def window(low, high):
    """A square around these corners, as (x limits, y limits), and half its side."""
    middle, half = (low + high) / 2, max((high - low).max() / 2, 1e-9) * 1.15
    return tuple(zip(middle - half, middle + half)), half


def cloud(points, paint, limits, says, dpi):
    figure, ax = style.axes(2.3, 2.3)
    draw.cloud(ax, points, paint, limits)
    ax.spines[:].set_visible(False)
    figure.get_layout_engine().set(w_pad=0, h_pad=0)
    return style.png(style.bytes_of(figure, format="png", dpi=dpi, pil_kwargs={"compress_level": 9}), says)


def chosen(entries):
    """One entry per name, all with the same encoder held out if possible."""
    held_out = next((entry["held_out"] for entry in entries if entry["held_out"] is not None), None)
    kept = {}
    for entry in entries:
        if entry["name"] not in kept or (kept[entry["name"]]["held_out"] != held_out and entry["held_out"] == held_out):
            kept[entry["name"]] = entry
    return list(kept.values())


def common_basis(entry, paint, dpi, what):
    """All panels in one window, except spaces that would be a speck in it: those are magnified, with a note."""
    reaches = {space: reach(points) for space, points in entry["points"].items()}
    lows, highs = zip(*reaches.values())
    common, half = window(np.min(lows, axis=0), np.max(highs, axis=0))
    panels = []
    for space, points in entry["points"].items():
        notes, shown = ["held out"] if space == entry["held_out"] else [], common
        closer, small = window(*reaches[space])
        if small < half / 1000:
            notes.append("over 1,000 x smaller")
        elif small < half / 4:
            notes.append(f"magnified {half / small:,.0f} x")
            shown = closer
        drawing = cloud(points, paint, shown, f"RR of {space}, {what} {entry['name']}", dpi)
        panels.append(style.Panel(space, drawing, ", ".join(notes)))
    cosine = f"centred cosine {entry['centred_cosine']:.2f}" if entry["centred_cosine"] is not None else ""
    return style.Group(panels, entry["name"], cosine, size="cloud")


def sharpness(drawings):
    """Dots per inch: fewer if there are many panels, so that the page stays small."""
    entries = chosen(drawings.get("relative", [])) + chosen(drawings.get("similarities", []))
    count = len(drawings.get("raw", {})) + sum(len(entry["points"]) for entry in entries)
    return 160 if count <= 60 else 100


def before(drawings, paint):
    panels = [style.Panel(space, cloud(points, paint, window(*reach(points))[0], f"PCA of {space}", sharpness(drawings)))
              for space, points in drawings.get("raw", {}).items()]
    return [style.Group(panels, "Before: each space on its own", size="cloud")] if panels else []


def after(drawings, key, paint):
    """One group per method ('relative') or per similarity ('similarities'), each in one basis."""
    what = "method" if key == "relative" else "similarity"
    return [common_basis(entry, paint, sharpness(drawings), what) for entry in chosen(drawings.get(key, []))
            if entry["points"]]


def pixels(rows, shape, scale):
    """samples x values -> samples x height x width (x 3), clipped to 0..1."""
    images = np.clip(np.nan_to_num(rows) / scale, 0, 1)
    if len(shape) == 2:
        return images.reshape(-1, *shape)
    if shape[2] not in (1, 3) and shape[0] in (1, 3):  # channels first
        images = images.reshape(-1, *shape).transpose(0, 2, 3, 1)
    else:
        images = images.reshape(-1, *shape)
    return images if images.shape[-1] == 3 else images.mean(axis=-1)


def strip(rows, shape, scale, says):
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


def pictures(drawn, methods):
    """Rows original, absolute, then each method, with the error of the samples that are shown."""
    original, shape = drawn["original"], drawn["shape"]
    if len(shape) == 3 and not {1, 3} & {shape[0], shape[2]}:
        return None
    scale = 255 if np.nanmax(original, initial=0) > 2 else 1
    order = [name for name in methods if name in drawn["methods"]]
    order += [name for name in drawn["methods"] if name not in order]
    panels = [style.Panel("original", strip(original, shape, scale, "the originals"))]
    for name in order:
        made = drawn["methods"][name]
        error = np.nanmean((made - original) ** 2)
        panels.append(style.Panel(name, strip(made, shape, scale, f"reconstructions with {name}"), f"MSE {error:.3g}"))
    return style.Group(panels, size="strip")
