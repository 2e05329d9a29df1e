# SPDX-License-Identifier: Apache-2.0
"""kedge itself, with its defaults: every row is in the support."""
from collections.abc import Sequence
from typing import Any

import kedge
import numpy as np
from adapt import each_pair
from protocol import Join, Map, Translate

PACKAGE = "kedge"


def translate(**options: Any) -> Translate:
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        bundle = kedge.fit({"old": old, "new": new}, support=len(old), **options)
        transform: Map = bundle.translator("old", "new").transform
        return transform
    return fit


def join(robust: bool = False, **options: Any) -> Join:
    def fit(sources: Sequence[np.ndarray], unseen: np.ndarray) -> list[tuple[Map, Map]]:
        names = [f"source {n}" for n in range(len(sources))]
        bundle = kedge.fit(dict(zip(names, sources)), support=len(unseen), robust=robust, **options)
        new = bundle.attach("unseen", unseen, robust=robust)
        return [(bundle[name].transform, new.transform) for name in names]
    return fit


TRANSLATE = {"kernel": translate(method="kernel"), "kernel, robust": translate(method="kernel", robust=True),
             "ridge": translate(method="ridge"), "ridge, raw": translate(method="ridge", similarity="inner"),
             "procrustes": translate(method="procrustes"), "consensus": translate(),
             "consensus, rows kept": translate(keep_rows=True)}
JOIN = {"consensus": join(), "consensus, robust": join(robust=True), "consensus by kernel": join(attach="kernel"),
        "ridge of each pair": each_pair(translate(method="ridge")),
        "random rows, cosine": join(method="random", similarity="cosine")}
