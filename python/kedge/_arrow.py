# SPDX-License-Identifier: Apache-2.0
"""Columns of vectors in Arrow's memory, which polars and Hugging Face datasets share, and in Parquet files."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ._address import split_column
from ._arrays import array_rows, named, require_matrix
from ._extras import install

if TYPE_CHECKING:
    import pyarrow as pa


def is_arrow(given: Any, homes: set[str]) -> bool:
    return "pyarrow" in homes or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def library(label: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"{label}: Arrow and Parquet are read with pyarrow, which is not installed; "
                          f"{install('arrow')}") from None
    return pyarrow


class ReadError(OSError):
    """A file that cannot be read, however often one tries."""


@contextlib.contextmanager
def reading(path: str, label: str = "") -> Iterator[None]:
    """What goes wrong in pyarrow as an OSError that names the file."""
    import pyarrow

    try:
        yield
    except ReadError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise ReadError(f"{label}cannot read '{path}': {error}") from None


def rows(given: Any, label: str) -> NDArray[Any]:
    """The matrix a column of vectors holds, or the one column of vectors of a table, or its columns of numbers."""
    given = taken(given, label)
    return table_rows(given, label) if hasattr(given, "column_names") else column_rows(given, label)


def taken(given: Any, label: str) -> pa.Table | pa.ChunkedArray:
    """What it is in pyarrow's types: a table or a chunked column."""
    pa = library(label)
    if not isinstance(given, (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)):
        if not hasattr(given, "__arrow_c_array__") and not hasattr(given, "__arrow_c_stream__"):
            raise TypeError(f"{label}: expected a column or a table, found {type(given).__name__}")
        given = pa.chunked_array(given) if hasattr(given, "__arrow_c_stream__") else pa.array(given)
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Array):
        given = pa.chunked_array([given], given.type)
    if isinstance(given, pa.ChunkedArray) and pa.types.is_struct(given.type):
        return pa.Table.from_struct_array(given)
    return given


def is_vectors(kind: pa.DataType) -> bool:
    from pyarrow import types

    storage = getattr(kind, "storage_type", kind)  # of an extension such as fixed_shape_tensor
    return bool(types.is_fixed_size_list(storage) or types.is_list(storage) or types.is_large_list(storage))


def is_numbers(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def choose(schema: pa.Schema, label: str) -> str | None:
    """The only column of vectors; None if all columns are numbers, which together are a matrix."""
    vectors: list[str] = [field.name for field in schema if is_vectors(field.type)]
    if len(vectors) == 1:
        return vectors[0]
    if not vectors and len(schema) > 1 and all(is_numbers(field.type) for field in schema):
        return None
    if len(schema) == 1:
        return str(schema.names[0])  # and what is wrong with it will be said
    raise ValueError(f"{label}: expected one column of vectors, found {len(vectors)} among the columns "
                     f"{named(schema.names, 8)}; choose one")


def table_rows(table: pa.Table, label: str) -> NDArray[Any]:
    name = choose(table.schema, label)
    if name is not None:
        return column_rows(table.column(name), label)
    for column, values in zip(table.column_names, table.columns):
        if values.null_count:
            raise ValueError(f"{label}: row {first_null(values)} is null in the column '{column}'; {WITHOUT_NULLS}")
    return array_rows(np.column_stack([values.to_numpy() for values in table.columns]), label)


WITHOUT_NULLS = "leave that input out of every space, or encode it again"


def first_null(values: pa.ChunkedArray) -> int:
    return int(np.argmax(np.asarray(values.is_null())))


def column_rows(column: pa.ChunkedArray, label: str) -> NDArray[Any]:
    parts, row = [], 0
    for chunk in column.chunks:
        if len(chunk):
            parts.append(chunk_rows(chunk, row, label))
            row += len(chunk)
        if len(parts) > 1 and parts[-1].shape[1] != parts[0].shape[1]:
            uneven(row - len(chunk), parts[-1].shape[1], parts[0].shape[1], label)
    if not parts:
        return nothing(column.type, label)
    # Joined here and not by Arrow, whose lists cannot hold more than 2^31 values at a time.
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def nothing(kind: pa.DataType, label: str) -> NDArray[Any]:
    size = getattr(getattr(kind, "storage_type", kind), "list_size", None)
    if size is None:
        raise ValueError(f"{label}: the column has no rows")
    return np.empty((0, size), np.float32)


def uneven(row: int, length: int, expected: int, label: str) -> NoReturn:
    raise ValueError(f"{label}: row {row} has length {length}, but row 0 has length {expected}; all must have the "
                     "same length")


def chunk_rows(chunk: pa.Array, first_row: int, label: str) -> NDArray[Any]:
    """One array of lists; a view of its values if they are floats."""
    shape = getattr(chunk.type, "shape", None)
    if shape is not None:
        require_matrix((len(chunk), *shape), label)
    if hasattr(chunk, "storage"):
        chunk = chunk.storage
    if not is_vectors(chunk.type):
        raise ValueError(f"{label}: expected a column of vectors, a list of numbers in every row, found one of "
                         f"{chunk.type}")
    if chunk.null_count:
        raise ValueError(f"{label}: row {first_row + first_null(chunk)} is null; {WITHOUT_NULLS}")
    width, values = flat(chunk, first_row, label)
    if is_vectors(values.type):
        raise ValueError(f"{label}: expected a list of numbers in every row, found lists of lists; flatten them")
    if not is_numbers(values.type):
        raise ValueError(f"{label}: expected a list of numbers in every row, found lists of {values.type}")
    if values.null_count:
        raise ValueError(f"{label}: row {first_row + first_null(values) // width} holds a null; {WITHOUT_NULLS}")
    floats = "float" in str(values.type) or str(values.type) == "double"
    return array_rows(values.to_numpy(zero_copy_only=floats).reshape(len(chunk), width), label)


def flat(chunk: pa.Array, first_row: int, label: str) -> tuple[int, pa.Array]:
    """The length of the lists and the values of all, of this slice alone."""
    size = getattr(chunk.type, "list_size", None)
    if size is not None:
        return size, chunk.flatten()
    offsets = chunk.offsets.to_numpy()
    lengths = np.diff(offsets)
    wrong = np.flatnonzero(lengths != lengths[0])
    if len(wrong):
        uneven(first_row + int(wrong[0]), lengths[wrong[0]], lengths[0], label)
    return int(lengths[0]), chunk.values.slice(offsets[0], offsets[-1] - offsets[0])


def parquet_rows(path: str, label: str) -> NDArray[Any]:
    """A column of a file, as in rows.parquet#column; the only column of vectors if none is named."""
    library(label)
    import pyarrow.parquet

    file, column = split_column(path)
    if not os.path.exists(file):
        raise FileNotFoundError(f"{label}: cannot read '{file}': there is no such file")
    with reading(file, f"{label}: "):
        schema = pyarrow.parquet.read_schema(file, memory_map=True)
        if column is not None and column not in schema.names:
            raise ValueError(f"{label}: '{file}' has no column '{column}'; it has {named(schema.names, 8)}")
        column = choose(schema, f"{label}: {file}") if column is None else column
        table = pyarrow.parquet.read_table(file, columns=column and [column], memory_map=True)
    return rows(table, label)


def dataset_table(given: Any, label: str) -> pa.Table | pa.ChunkedArray:
    """The Arrow data of a Hugging Face dataset or of what ds['column'] gives, in the order of select and shuffle."""
    path: list[str] = []
    while type(given).__name__ == "Column":
        path.insert(0, given.column_name)
        given = given.source
    if type(given).__name__ != "Dataset":
        raise TypeError(f"{label}: expected a Dataset or one of its columns, found {type(given).__name__}; choose a "
                        "split, as in ds['train'], and load it without streaming")
    table = (given.select_columns(path[:1]) if path else given).with_format("arrow")[:]
    if not path:
        return table
    column = table.column(path[0])
    if path[1:]:
        import pyarrow.compute

        column = pyarrow.compute.struct_field(column, path[1:])
    return column


def dataset_rows(given: Any, label: str) -> NDArray[Any]:
    return rows(dataset_table(given, label), label)


def values(given: Any, label: str) -> NDArray[Any]:
    """One dimension of numbers or text."""
    dataset = type(given).__module__.partition(".")[0] == "datasets"
    column = taken(dataset_table(given, label) if dataset else given, label)
    if hasattr(column, "column_names"):
        if len(column.column_names) != 1:
            raise ValueError(f"{label}: expected one column, found {named(column.column_names, 8)}; choose one")
        column = column.column(0)
    if column.null_count:
        raise ValueError(f"{label}: expected whole numbers, found a null in row {first_null(column)}")
    numbers: NDArray[Any] = column.to_numpy()
    return numbers
