#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point one way: no file includes a header of its own height or above, but for its own folder."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = ["base", "backend", "io", "space", "anchors", "train", "map", "head", "eval"]
PUBLIC = {  # which layer each public header belongs to
    "error.h": "base", "matrix.h": "base", "names.h": "base", "option.h": "base", "progress.h": "base", "version.h": "base", "wording.h": "base",
    "device.h": "backend", "rows.h": "io", "outputs.h": "io", "space.h": "space", "whitening.h": "space", "similarity.h": "space", "anchors.h": "anchors",
    "support.h": "anchors", "param.h": "train", "consensus.h": "train", "relative_map.h": "map", "attachment.h": "map",
    "translate.h": "map", "bundle.h": "map", "export.h": "map", "fit.h": "map", "head.h": "head",
    "row_check.h": "space", "metrics.h": "eval", "stitch.h": "eval", "validate.h": "eval",
}


def problems():
    for header in (ROOT / "include/kedge").glob("*.h"):
        text = header.read_text()
        if header.name != "kedge.h" and header.name not in PUBLIC:
            yield f"{header.name}: say in {__file__} which layer it belongs to"
        if re.search(r"^\s*#\s*if", text, re.M):
            yield f"{header}: a public header holds no #if"
        for include in re.findall(r'#include [<"](.*?)[>"]', text):
            if "/" in include and not include.startswith("kedge/"):
                yield f"{header}: a public header includes only the standard library and kedge, not {include}"
    for source in sorted((ROOT / "src").rglob("*")):
        if source.suffix not in (".cpp", ".h", ".cu", ".cuh"):
            continue
        layer = source.relative_to(ROOT / "src").parts[0]
        for include in re.findall(r'#include [<"](.*?)[>"]', source.read_text()):
            folder, slash, name = include.partition("/")
            if not slash:
                continue  # the standard library
            if folder == "kedge":
                folder = PUBLIC[name]
            if folder in LAYERS and folder != layer and LAYERS.index(folder) > LAYERS.index(layer):
                yield f"{source.relative_to(ROOT)}: {layer} must not include {include}, which is above it"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "includes point one way")
    sys.exit(1 if found else 0)
