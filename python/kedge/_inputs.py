# SPDX-License-Identifier: Apache-2.0
"""What users give as embeddings, rows and labels, as the C++ side can take it.

Floats in memory and paths never come here: the module reads them itself, in place. The rest is recognised by the name
of the library it comes from, so that no library is imported that the user has not imported already.
"""
from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow
from ._address import is_parquet
from ._arrays import KINDS, array_rows, named, require_matrix, unmasked

END = 2**64 - 1  # an open end, as RowRange::kEnd


def rows_of(given: Any, label: str) -> NDArray[Any] | str:
    """A matrix of native floats (without a copy if possible), or the path of a file that holds one."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fsdecode(given)
        return _arrow.parquet_rows(path, label) if is_parquet(path) else path
    homes = homes_of(given)
    if "torch" in homes and hasattr(given, "layout"):
        return tensor_rows(given, label)
    if "pandas" in homes and hasattr(given, "iloc"):
        return frame_rows(given, label) if hasattr(given, "columns") else series_rows(given, label)
    if "scipy" in homes and hasattr(given, "toarray"):
        raise ValueError(f"{label}: expected a dense matrix, found a sparse one; use .toarray()")
    if "datasets" in homes:
        return _arrow.dataset_rows(given, label)
    if _arrow.is_arrow(given, homes):
        return _arrow.rows(given, label)
    if isinstance(given, (list, tuple)):
        return list_rows(given, label)
    if isinstance(given, (np.ndarray, memoryview)) or hasattr(given, "__array__"):
        require_processor(given, label)
        return array_rows(given if isinstance(given, np.ndarray) else np.asarray(given), label)
    raise TypeError(f"{label}: expected a matrix (an array, a tensor, a table, a column of vectors) or the path of a "
                    f"file, found {type(given).__name__}{hint_for(given)}")


def homes_of(given: Any) -> set[str]:
    """The libraries a thing comes from; of a subclass, also its parent's."""
    return {kind.__module__.partition(".")[0] for kind in type(given).__mro__}


def hint_for(given: Any) -> str:
    if isinstance(given, dict):
        return "; choose one of its entries: " + ", ".join(repr(key) for key in list(given)[:5]) if given else ""
    return "; make it a list first" if hasattr(given, "__next__") else ""


def require_processor(given: Any, label: str) -> None:
    device = getattr(given, "__dlpack_device__", None)
    if device is not None and device()[0] != 1:
        raise ValueError(f"{label}: the array is not in the processor's memory; copy it there first")


def list_rows(rows: Sequence[Any], label: str) -> NDArray[Any]:
    if len(rows) == 0:
        raise ValueError(f"{label}: expected a row of numbers for each input, found an empty {type(rows).__name__}")
    try:
        array = np.array(rows)
    except (TypeError, ValueError, RuntimeError) as error:
        lengths = [len(row) if hasattr(row, "__len__") else None for row in rows]
        for row, length in enumerate(lengths):
            if length != lengths[0]:
                raise ValueError(f"{label}: row {row} {size(length)}, but row 0 {size(lengths[0])}; all must have the "
                                 "same length") from None
        raise ValueError(f"{label}: the list cannot be turned into a matrix ({error}); give an array or a "
                         "tensor") from None
    return array_rows(array, label)


def size(length: int | None) -> str:
    return "is not a vector" if length is None else f"has length {length}"


def tensor_rows(tensor: Any, label: str) -> NDArray[Any]:
    if str(tensor.layout) != "torch.strided":
        raise ValueError(f"{label}: expected a dense tensor, found the layout {tensor.layout}; use .to_dense()")
    if tensor.device.type == "meta":
        raise ValueError(f"{label}: the tensor is on the device meta, which holds no values; create it on the "
                         "processor")
    if tensor.device.type != "cpu":
        raise ValueError(f"{label}: expected a tensor on the processor, found one on {tensor.device}; use .cpu(), or, "
                         "to stay there, map.to_torch().to(device)")
    if tensor.requires_grad:
        raise ValueError(f"{label}: the tensor requires a gradient, which would be lost; use .detach(), or "
                         "map.to_torch(), which is differentiable")
    require_matrix(tensor.shape, label)
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    tensor = tensor.resolve_conj().resolve_neg()
    # Of the floats, float8 comes here, and views whose signs were still to be flipped.
    return tensor.float().numpy() if tensor.is_floating_point() else array_rows(tensor.numpy(), label)


def frame_rows(frame: Any, label: str) -> NDArray[Any]:
    if frame.shape[1] == 1 and frame.dtypes.iloc[0].kind == "O":
        return series_rows(frame.iloc[:, 0], label)
    others = [name for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if others:
        raise ValueError(f"{label}: expected columns of numbers, but these are not: {named(others)}; choose the "
                         "columns to use, as in df[['x', 'y']], or one that holds vectors, as in df['embedding']")
    if frame.dtypes.nunique() == 1 and isinstance(frame.dtypes.iloc[0], np.dtype):
        return array_rows(frame.to_numpy(), label)
    numbers: NDArray[np.float64] = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def series_rows(series: Any, label: str) -> NDArray[Any]:
    if hasattr(series.dtype, "pyarrow_dtype"):
            return _arrow.rows(series.array.__arrow_array__(), label)
    if series.dtype.kind != "O":
        raise ValueError(f"{label}: expected a vector in every row, found a column of {series.dtype}; for several such "
                         "columns give a DataFrame, as in df[['x', 'y']]")
    return list_rows(series.tolist(), label)


def are_ids(rows: Any) -> bool:
    """Whether users choose rows one by one, by their numbers or by a mask."""
    if isinstance(rows, (str, os.PathLike)):
        return ":" not in os.fsdecode(rows)
    return rows is not None and not isinstance(rows, (slice, range, tuple)) and hasattr(rows, "__len__")


def ids_of(rows: Any, label: str = "rows") -> tuple[NDArray[np.int64], int | None]:
    """Row numbers as int64, and how many rows there must be if a mask says so."""
    if isinstance(rows, (str, os.PathLike)):
        rows = load(os.fsdecode(rows), label)
    ids = integers_of(rows, label)
    kind = getattr(rows, "dtype", None)
    mask = "bool" in str(kind) or kind is None and all(isinstance(row, (bool, np.bool_)) for row in rows)
    chosen = np.flatnonzero(ids) if mask else ids
    if not len(chosen):
        raise ValueError(f"{label}: no rows are chosen; give row numbers, or a mask that is True for some")
    return np.ascontiguousarray(chosen, np.int64), len(ids) if mask else None


def range_of(rows: Any, label: str = "rows") -> tuple[int, int] | None:
    """(first, end) of what users say; the end of an open range is END. None if they say nothing."""
    if rows is None:
        return None
    given = rows
    if isinstance(rows, str):
        before, colon, after = rows.partition(":")
        given = (before.strip() or None, after.strip() or None) if colon else None
    elif isinstance(rows, (slice, range)):
        given = (rows.start, rows.stop) if rows.step in (None, 1) else None
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError(f"{label}: expected rows as slice(0, 50000), range(0, 50000), (0, 50000), '0:50000', an "
                         f"array of row numbers or a mask, found {rows!r:.60}")
    first, end = bound(given[0], 0, rows, label), bound(given[1], END, rows, label)
    if first > end:
        raise ValueError(f"{label}: {rows!r:.60} is in reversed order: the first row comes before the end, so write "
                         f"({end}, {first})")
    return first, end


def bound(value: Any, otherwise: int, rows: Any, label: str) -> int:
    if value is None:
        return otherwise
    try:
        number = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        raise ValueError(f"{label}: expected row numbers, found {value!r:.40} in {rows!r:.60}") from None
    if not 0 <= number < END:
        raise ValueError(f"{label}: row numbers start at 0 for the first row, found {number} in {rows!r:.60}")
    return number


def integers_of(values: Any, label: str) -> NDArray[np.int64]:
    """Labels or row numbers as one dimension of int64."""
    homes = homes_of(values)
    if isinstance(values, (str, os.PathLike)):
        values = load(os.fsdecode(values), label)
    elif "datasets" in homes or _arrow.is_arrow(values, homes) and "pandas" not in homes:
        values = _arrow.values(values, label)
    elif "torch" in homes and hasattr(values, "layout"):
        values = values.detach().cpu().numpy()
    array = np.asarray(unmasked(values, label) if isinstance(values, np.ma.MaskedArray) else values)
    if array.ndim == 0:
        raise TypeError(f"{label}: expected one whole number per row, found {type(values).__name__}")
    if array.ndim > 1:
        raise ValueError(f"{label}: expected one whole number per row, found {array.ndim} dimensions; use .ravel()")
    if array.dtype.kind in "UT" or array.dtype.kind == "O" and any(isinstance(value, str) for value in array):
        raise ValueError(f"{label}: expected whole numbers, found text; number the classes with np.unique(labels, "
                         "return_inverse=True)[1] or sklearn.preprocessing.LabelEncoder")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{label}: expected whole numbers, found {KINDS[array.dtype.kind]} ({array.dtype})")
    if array.dtype.kind in "bi":
        return np.ascontiguousarray(array, np.int64)
    for row, value in enumerate(array.tolist()):
        if not is_whole(value):
            raise ValueError(f"{label}: expected whole numbers, found {value!r:.40} in row {row}")
    return np.array(array, np.int64)


def integer_rows_of(given: Any, columns: int, label: str, what: str) -> NDArray[np.int64]:
    """Rows of so many integers, what they are, as int64."""
    if "torch" in homes_of(given) and hasattr(given, "layout"):
        given = given.detach().cpu().numpy()
    expected = f"{label}: expected integers in rows of {columns} ({what})"
    try:
        array = np.asarray(unmasked(given, label) if isinstance(given, np.ma.MaskedArray) else given)
    except ValueError:
        raise ValueError(f"{expected}, found rows of different lengths") from None
    if array.size == 0:
        raise ValueError(f"{expected}, found none")
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "iu":
        raise ValueError(f"{expected}, found [{' x '.join(map(str, array.shape))}] of {array.dtype}")
    if array.max() >= 2**63:
        raise ValueError(f"{label}: {array.max()} is too large for int64")
    return np.ascontiguousarray(array, np.int64)


def judgements_of(qrels: Any) -> NDArray[np.int64] | str:
    """Rows of query, document, grade as int64, or the path of a file that holds them."""
    if isinstance(qrels, (str, os.PathLike)):
        return os.fspath(qrels)
    return integer_rows_of(qrels, 3, "qrels", "query, document, grade")


def pairs_of(pairs: Any, columns: int, what: str) -> NDArray[np.int64] | str:
    """Row numbers, pair after pair, or the path of a file that holds them."""
    if isinstance(pairs, (str, os.PathLike)):
        return os.fsdecode(pairs)
    return integer_rows_of(pairs, columns, "pairs", what).ravel()


def support_ids_of(values: Any) -> NDArray[np.int64] | None:
    """The rows to make anchors from, as fit and stitch take them; None if kedge selects them."""
    if values is None:
        return None
    ids = integers_of(values, "support_ids")
    if not len(ids):
        raise ValueError("support_ids is empty; give row numbers, or leave it out")
    return ids


def ids_of_rows(ids: Any) -> NDArray[np.int64]:
    """The id of every row as a number, for what draws the support by it: numbers from 0 stay, texts are hashed."""
    from . import _core

    if isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1:
        return np.ascontiguousarray(ids)
    if _arrow.is_arrow(ids, homes_of(ids)) and hasattr(ids, "to_pylist"):
        ids = ids.to_pylist()
    kind = getattr(ids, "dtype", None)
    if isinstance(ids, (list, tuple)) or getattr(kind, "kind", "") in "UTO" and hasattr(ids, "tolist"):
        texts = [text_of_id(value, row) for row, value in enumerate(ids if kind is None else ids.tolist())]
        joined = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, joined)], dtype=np.int64)
        return _core.id_numbers(offsets, np.frombuffer(b"".join(joined), np.uint8))
    if kind is not None and kind.kind == "u" and kind.itemsize == 8:
        return ids_of_rows([str(value) for value in np.asarray(ids).tolist()])
    return integers_of(ids, "ids")


def text_of_id(value: Any, row: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"ids: expected a whole number or a text for every row, found {value!r:.40} in row {row}")


def draw_of(support: Any) -> tuple[int, NDArray[np.int64] | None]:
    """How many support rows to draw, and which ids they must have; 0 and None if none are kept."""
    if support is None:
        return 0, None
    if isinstance(support, (int, np.integer)) and not isinstance(support, bool):
        if support < 1:
            raise ValueError(f"support: expected 1 row or more, found {support}")
        return int(support), None
    if isinstance(support, (bool, float, str)):
        raise TypeError(f"support: expected how many rows to draw, or the ids of the rows, as in "
                        f"support=bundle.support_ids; found {support!r:.40}")
    ids = integers_of(support, "support")
    if not len(ids):
        raise ValueError("support: there are no ids of support rows; give one or more, or how many rows to draw")
    return 0, ids


def is_whole(value: Any) -> bool:
    """Whether int64 can hold it, which is not so for NaN or anything that is not a number."""
    try:
        return bool(int(value) == value and -2**63 <= value < 2**63)
    except (TypeError, ValueError, OverflowError):
        return False


def load(path: str, label: str) -> NDArray[Any]:
    if not path.endswith(".npy"):
        raise ValueError(f"{label}: expected the path of a .npy file, found '{path}'")
    try:
        values: NDArray[Any] = np.load(path, allow_pickle=False)
        return values
    except (OSError, ValueError) as error:
        raise OSError(f"{label}: cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
