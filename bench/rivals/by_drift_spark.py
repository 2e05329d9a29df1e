# SPDX-License-Identifier: Apache-2.0
"""drift-spark: a rotation, without means; it wants spaces of one width, which padding gives it."""
import numpy as np
from adapt import padded
from drift.adapter import DriftAdapter
from protocol import Map

PACKAGE = "drift-spark"


def adapter(old: np.ndarray, new: np.ndarray) -> Map:
    """It calls the space it maps to old, and the one it maps from new."""
    width = max(old.shape[1], new.shape[1])
    fitted = DriftAdapter().fit(padded(new, width), padded(old, width))
    return lambda rows: fitted.predict(padded(rows, width))[:, :new.shape[1]]


TRANSLATE = {"DriftAdapter, padded": adapter}
