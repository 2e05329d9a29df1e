# SPDX-License-Identifier: Apache-2.0
"""embspec: least squares; it wants no fewer rows than values."""
import numpy as np
from embspec import DriftAdapter
from protocol import Map

PACKAGE = "embspec"


def adapter(old: np.ndarray, new: np.ndarray) -> Map:
    """It calls the space it maps from new."""
    transform: Map = DriftAdapter.fit(old, new).transform
    return transform


TRANSLATE = {"DriftAdapter": adapter}
