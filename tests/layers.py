#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point one way: no file includes a header of its own height or above, but for its own folder.
Checks also that devices are chosen in src/compute: nothing above it in the core names CUDA."""
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORE = ["base", "compute", "io", "space", "regress", "anchors", "map", "bundle", "fit", "match", "eval"]
OPTIONS = ["options"]  # of the command and of Python, on top of the core, which knows nothing of them
LAB = ["head", "stitch", "results"]
LAYERS = CORE + OPTIONS + LAB
PUBLIC = {  # which layer each public header belongs to
    "error.h": "base", "matrix.h": "base", "progress.h": "base",
    "version.h": "base",
    "device.h": "compute",
    "rows.h": "io",
    "draw.h": "space", "likeness.h": "space", "moments.h": "space", "row_check.h": "space", "similarity.h": "space",
    "space.h": "space", "support.h": "space", "whitening.h": "space",
    "kernel.h": "regress",
    "anchors.h": "anchors", "method.h": "anchors", "param.h": "anchors",
    "attachment.h": "map", "relative_map.h": "map",
    "bundle.h": "bundle", "export.h": "bundle", "translate.h": "bundle",
    "fit.h": "fit",
    "match.h": "match",
    "metrics.h": "eval", "retrieve.h": "eval", "validate.h": "eval",
    "options/lists.h": "options", "options/option.h": "options",
    "lab/head.h": "head", "lab/stitch.h": "stitch", "lab/results.h": "results",
}
HOUSES = {"include": CORE, "src": CORE, "options/include": OPTIONS, "options": OPTIONS, "lab/include": LAB, "lab": LAB}
UMBRELLAS = ["kedge.h", "lab.h"]


def includes_of(text: str) -> list[str]:
    return re.findall(r'#include [<"](.*?)[>"]', text)


def public_problems(house: str) -> Iterator[str]:
    for header in sorted((ROOT / house / "kedge").rglob("*.h")):
        text, name = header.read_text(), header.relative_to(ROOT / house / "kedge").as_posix()
        if name not in UMBRELLAS and name not in PUBLIC:
            yield f"{name}: say in {__file__} which layer it belongs to"
        elif name in PUBLIC and PUBLIC[name] not in HOUSES[house]:
            yield f"{name}: {PUBLIC[name]} is no layer of {house}"
        if re.search(r"^\s*#\s*if", text, re.M):
            yield f"{header}: a public header holds no #if"
        for include in includes_of(text):
            if "/" in include and not include.startswith("kedge/"):
                yield f"{header}: a public header includes only the standard library and kedge, not {include}"
        yield from order_problems(header, PUBLIC.get(name, HOUSES[house][-1]), text)


def order_problems(source: pathlib.Path, layer: str, text: str) -> Iterator[str]:
    for include in includes_of(text):
        folder, slash, name = include.partition("/")
        if not slash:
            continue  # the standard library
        if folder == "kedge" and name in UMBRELLAS:
            yield f"{source.relative_to(ROOT)}: includes {include}, which is for users; name the headers it needs"
            continue
        if folder == "kedge":
            folder = PUBLIC.get(name, "nowhere")
        if folder in LAYERS and LAYERS.index(folder) > LAYERS.index(layer):
            yield f"{source.relative_to(ROOT)}: {layer} must not include {include}, which is above it"


def device_problems(source: pathlib.Path, layer: str, text: str) -> Iterator[str]:
    named = re.search(r"cuda::|Device::cuda|/cuda/|#include <cuda|#include <cublas", text)
    if layer in CORE[CORE.index("compute") + 1:] and named:
        yield f"{source.relative_to(ROOT)}: {layer} names CUDA ({named[0]}); compute chooses the device"


def problems() -> Iterator[str]:
    for house in ("include", "options/include", "lab/include"):
        yield from public_problems(house)
    for house in ("src", "options", "lab"):
        for source in sorted((ROOT / house).rglob("*")):
            layer = house if house == "options" else source.relative_to(ROOT / house).parts[0]
            if source.suffix not in (".cpp", ".h", ".cu", ".cuh") or "include" in source.relative_to(ROOT).parts:
                continue
            if layer not in HOUSES[house]:
                yield f"{source.relative_to(ROOT)}: {layer} is no layer of {house}"
            else:
                yield from order_problems(source, layer, source.read_text())
                yield from device_problems(source, layer, source.read_text())


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "includes point one way")
    sys.exit(1 if found else 0)
