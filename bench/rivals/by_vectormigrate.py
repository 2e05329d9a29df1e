# SPDX-License-Identifier: Apache-2.0
"""vectormigrate: its three adapters want spaces of one width, which padding gives them."""
from typing import Any

import numpy as np
from adapt import padded
from protocol import Map, Translate
from vectormigrate import compat

PACKAGE = "vectormigrate"


def adapter(make: Any) -> Translate:
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        width = max(old.shape[1], new.shape[1])
        fitted = make().fit(padded(old, width), padded(new, width))
        return lambda rows: fitted.transform(padded(rows, width))[:, :new.shape[1]]
    return fit


TRANSLATE = {f"{name}, padded": adapter(getattr(compat, name))
             for name in ("OrthogonalProcrustesAdapter", "LowRankAffineAdapter", "ResidualMLPAdapter")}
