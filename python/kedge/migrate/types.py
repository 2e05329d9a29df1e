# SPDX-License-Identifier: Apache-2.0
"""The kinds of values that pass between the steps of a migration and its stores."""
from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Id: TypeAlias = int | str | tuple[int | str, ...]  # a tuple of the parts of a key that has several
Moment: TypeAlias = int | float | str  # a value of the 'changed' column
Vectors: TypeAlias = npt.NDArray[np.float32]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.integer[Any]]
Found: TypeAlias = dict[str, Any]  # what a step found, by name, as JSON can hold it
