# SPDX-License-Identifier: Apache-2.0
"""Matrices in numpy's memory, as the C++ side can take them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = {"U": "text", "S": "text", "T": "text", "c": "complex numbers", "M": "dates", "m": "durations",
         "V": "records of several fields"}


def require_matrix(shape: Sequence[int], label: str) -> None:
    if len(shape) == 1:
        raise ValueError(f"{label}: expected a matrix of rows x dim, found one dimension of {shape[0]} values; for a "
                         "single embedding give X[None, :]")
    if len(shape) != 2:
        raise ValueError(f"{label}: expected a matrix of rows x dim, found {len(shape)} dimensions "
                         f"[{' x '.join(map(str, shape))}]; reshape it to one row per input")


def array_rows(array: NDArray[Any], label: str) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        array = unmasked(array, label)
    if array.dtype.kind == "O":
        array = plain(array, label)
    # bfloat16 and its like come from ml_dtypes, and numpy knows no more than how to convert them
    narrow = array.dtype.kind == "V" and array.dtype.names is None and np.can_cast(array.dtype, np.float32)
    if array.dtype.kind in KINDS and not narrow:
        raise ValueError(f"{label}: expected numbers, found {KINDS[array.dtype.kind]} ({array.dtype})")
    require_matrix(array.shape, label)
    if narrow or array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.itemsize <= 2):
        return array if array.dtype == np.uint8 else array.astype(np.float32)
    if array.dtype.kind in "iu" or array.itemsize > 8:
        return array.astype(np.float64)
    whole_strides = all(stride % array.itemsize == 0 for stride in array.strides)  # not so in fields of records
    return np.asarray(array if whole_strides else array.copy(), array.dtype.newbyteorder("="))


def unmasked(array: np.ma.MaskedArray[Any, Any], label: str) -> NDArray[Any]:
    masked = np.ma.getmaskarray(array)
    if masked.any():
        raise ValueError(f"{label}: row {np.argwhere(masked)[0][0]} holds masked values; leave that input out of every "
                         "space, or fill them with .filled()")
    return array.data


def plain(array: NDArray[Any], label: str) -> NDArray[Any]:
    """Numbers out of an array of objects."""
    if array.ndim == 1 and len(array) and all(np.ndim(row) == 1 for row in array):
        raise ValueError(f"{label}: expected a matrix, found an array of {len(array)} objects that are vectors; make "
                         "it one with np.stack(X)")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{label}: expected numbers, found an array of other objects, such as "
                         f"{next(iter(array.flat))!r:.40}") from None


def named(names: Sequence[object], most: int = 3) -> str:
    return ", ".join(repr(name) for name in names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))
