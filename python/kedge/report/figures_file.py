# SPDX-License-Identifier: Apache-2.0
"""Checks OUT/figures.json and turns its lists into arrays: points are rows x 2, images samples x values."""
from __future__ import annotations

import pathlib
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._errors import BadFile


def fail(path: pathlib.Path, expected: str, found: object) -> NoReturn:
    raise BadFile(f"{path}: expected {expected}, found {found}; make the file again, or remove it for a report "
                     "without drawings")


def array(values: Any, path: pathlib.Path, where: str, columns: int | None = None) -> NDArray[np.float64]:
    try:
        result = np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        fail(path, f"rows of numbers of one length in {where}", "something else")
    if result.ndim != 2 or (columns and result.shape[1] != columns) or not result.size:
        wanted = f"rows of {columns} numbers" if columns else "rows of numbers"
        fail(path, f"{wanted} in {where}", f"the shape {list(result.shape)}")
    return np.where(np.abs(result) < 1e30, result, np.nan)  # cannot be drawn


def points(values: Any, path: pathlib.Path, where: str, rows: dict[str, int]) -> dict[str, NDArray[np.float64]]:
    if not isinstance(values, dict):
        fail(path, f"an object of spaces in {where}", type(values).__name__)
    checked = {str(name): array(rows_, path, f"{where}, space '{name}'", 2) for name, rows_ in values.items()}
    for name, drawn in checked.items():
        rows.setdefault("count", len(drawn))
        if len(drawn) != rows["count"]:
            found = f"{rows['count']} and, in {where}, space '{name}', {len(drawn)}"
            fail(path, "equally many rows in every space", found)
    return checked


def share(value: Any) -> float | None:
    """A number from -1 to 1, rounding aside; None for anything else."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1.001  # NaN is not
    return float(value) if good else None


def scatters(entries: Any, key: str, path: pathlib.Path, rows: dict[str, int]) -> list[dict[str, Any]]:
    if not isinstance(entries, list):
        fail(path, f"a list in '{key}'", type(entries).__name__)
    checked = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            fail(path, f"an object as entry {index} of '{key}'", type(entry).__name__)
        checked.append({"name": str(entry.get("method", entry.get("similarity", "?"))),
                        "held_out": entry.get("held_out"), "seed": entry.get("seed"),
                        "centred_cosine": share(entry.get("centred_cosine")),
                        "found_first": share(entry.get("found_first")),
                        "points": points(entry.get("points"), path, f"entry {index} of '{key}'", rows)})
    return checked


def reconstructions(entry: Any, path: pathlib.Path) -> dict[str, Any] | None:
    if not isinstance(entry, dict):
        fail(path, "an object in 'reconstructions'", type(entry).__name__)
    shape = entry.get("shape")
    if shape is None:
        return None  # values that are no image
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape) or len(shape) not in (2, 3):
        fail(path, "a shape such as [28, 28] or [32, 32, 3]", shape)
    original = array(entry.get("original"), path, "'original'", int(np.prod(shape)))
    methods = entry.get("methods") or {}
    if not isinstance(methods, dict):
        fail(path, "an object in 'methods' of 'reconstructions'", type(methods).__name__)
    decoded = {str(name): array(rows, path, f"reconstructions of '{name}'", original.shape[1])
            for name, rows in methods.items()}
    for name, rows in decoded.items():
        if len(rows) != len(original):
            fail(path, f"a reconstruction of '{name}' for each original ({len(original)})", len(rows))
    return {"shape": shape, "trained_on": str(entry.get("trained_on", "?")), "encoder": str(entry.get("encoder", "?")),
            "original": original, "methods": decoded}


def check(document: Any, path: pathlib.Path) -> dict[str, Any]:
    if not isinstance(document, dict):
        fail(path, "an object", type(document).__name__)
    rows: dict[str, int] = {}
    checked: dict[str, Any] = {}
    if document.get("raw"):
        checked["raw"] = points(document["raw"], path, "'raw'", rows)
    for key in ("relative", "similarities"):
        if document.get(key):
            checked[key] = scatters(document[key], key, path, rows)
    if document.get("reconstructions"):
        checked["reconstructions"] = reconstructions(document["reconstructions"], path)
    labels = document.get("labels")
    if labels is not None and rows:
        if not isinstance(labels, list) or len(labels) != rows["count"] or not all(isinstance(n, int) for n in labels):
            fail(path, f"whole numbers in 'labels', one for each drawn row ({rows['count']})", "something else")
        checked["labels"] = np.array(labels)
    return {key: value for key, value in checked.items() if value is not None}
