# SPDX-License-Identifier: Apache-2.0
"""The columns of Arrow batches that hold ids and vectors, and sentences about rows that cannot be used."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _arrow, _core
from .._arrays import named

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**63  # ids from here on are taken by their text, as negative ones are
LONGEST_SHOWN = 100  # letters of an id in a message


@dataclasses.dataclass(frozen=True)
class Columns:
    """Names of the columns, by space, and how many values the vectors of every space have."""

    spaces: dict[str, str]
    id_column: str
    dims: dict[str, int]

    @property
    def names(self) -> list[str]:
        return [self.id_column, *dict.fromkeys(self.spaces.values())]

    @property
    def dim(self) -> int:
        """Values of all spaces side by side."""
        return sum(self.dims.values())

    def read(self, batch: pa.RecordBatch, where: str, row: int) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """Number of every id, and the vectors of every space. Messages name the file or partition and this row."""
        numbers = id_numbers(batch.column(self.id_column), self.id_column, where, row)
        try:
            rows = {space: _arrow.rows(batch.column(column), space) for space, column in self.spaces.items()}
        except ValueError as error:
            self.explain(batch, where)
            raise ValueError(f"{where}, from row {row}: {error}") from None
        for space, matrix in rows.items():
            if matrix.shape[1] != self.dims[space]:
                self.explain(batch, where)
        return numbers, rows

    def texts(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The ids themselves, or None if they are whole numbers."""
        import pyarrow as pa

        ids = one_array(batch.column(self.id_column))
        kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
        return None if pa.types.is_integer(kind) else pa.concat_arrays([ids.cast(kind)])  # a copy: not the whole batch

    def explain(self, batch: pa.RecordBatch, where: str) -> None:
        """Raises a sentence about the first row of the batch that cannot be used, if there is one."""
        for space, column in self.spaces.items():
            values = batch.column(column)
            row, found = first_wrong(values, self.dims[space])
            if row is not None:
                row_id = shown(batch.column(self.id_column)[row].as_py())
                raise ValueError(f"{where}: the row with {self.id_column} {row_id} {found} in the column '{column}' "
                                 f"({space}); leave that row out for every space, or encode it again")


def chosen(columns: Mapping[str, str], id_column: str, schema: pa.Schema,
           first: Callable[[], pa.RecordBatch]) -> Columns:
    """The columns, of rows that have this schema. 'first' gives some rows, for vectors whose type has no length."""
    require_names(columns)
    require_columns((id_column, *columns.values()), schema.names)
    if not is_id(schema.field(id_column).type):
        raise ValueError(f"the column '{id_column}' cannot name rows: expected whole numbers or texts, found "
                         f"{schema.field(id_column).type}; choose another id")
    dims = {}
    for space, column in columns.items():
        kind = schema.field(column).type
        if not _arrow.is_vectors(kind):
            raise ValueError(f"space '{space}': expected a column of vectors, a list of numbers in every row, found "
                             f"the column '{column}' of {kind}")
        size = getattr(getattr(kind, "storage_type", kind), "list_size", None)
        dims[space] = first_length(first(), space, column) if size is None else size
    return Columns(dict(columns), id_column, dims)


def require_names(columns: object) -> None:
    names = [*columns.keys(), *columns.values()] if isinstance(columns, Mapping) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError("columns must map the names of spaces to those of columns, such as {'vit': 'emb_vit', 'rex': "
                        f"'emb_rex'}}; found {columns!r:.60}")


def require_columns(names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"there is no column '{name}'; there are {named(list(known), 8)}")
        if list(known).count(name) > 1:
            raise ValueError(f"there are several columns '{name}'; rename all but one of them")


def shown(row_id: object) -> str:
    """An id as messages name it; texts may be long."""
    text = repr(row_id)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def is_id(kind: pa.DataType) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_integer(kind) or is_text(kind)


def is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    views = [getattr(types, name)(kind) for name in ("is_string_view", "is_binary_view") if hasattr(types, name)]
    return (types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
            or types.is_fixed_size_binary(kind) or any(views))


def first_length(batch: pa.RecordBatch, space: str, column: str) -> int:
    """Of the first vector that has values; those that have none are found, and named, when all are read."""
    if batch.num_rows == 0:
        raise ValueError("there are no rows to learn from")
    lengths = (len(value.as_py()) for value in batch.column(column) if value.is_valid)
    length = next((length for length in lengths if length), None)
    if length is None:
        raise ValueError(f"space '{space}': the column '{column}' has no vectors in its first rows, so that there is "
                         "no telling how long they are; leave out rows without vectors")
    return length


def id_numbers(column: pa.Array, name: str, where: str, row: int = 0) -> NDArray[np.int64]:
    """An int64 for every id, as docs/format.md says."""
    import pyarrow as pa

    column = one_array(column)
    if not is_id(column.type):
        raise ValueError(f"{where}: the column '{name}' cannot name rows: expected whole numbers or texts, as "
                         f"elsewhere, found {column.type}")
    if column.null_count:
        raise ValueError(f"{where}: row {row + _arrow.first_null(column)} has no {name} (it is null); every row needs "
                         "one")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return whole_numbers(column.to_numpy(zero_copy_only=False))
    return text_numbers(column)


def id_bytes(column: pa.Array) -> pa.Array:
    """The ids as texts, whatever kind they are of."""
    import pyarrow as pa

    column = one_array(column)
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    column = column if "binary" in str(column.type) else column.cast(pa.string())
    return column.cast(pa.binary())


def one_array(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def whole_numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    beyond = values < 0 if values.dtype.kind == "i" else values >= np.uint64(LARGEST)
    numbers = values.astype(np.int64)
    if beyond.any():
        import pyarrow as pa

        numbers = numbers.copy()
        numbers[beyond] = text_numbers(pa.array([str(value) for value in values[beyond]]))
    return numbers


def text_numbers(column: pa.Array) -> NDArray[np.int64]:
    import pyarrow as pa

    column = column.cast(pa.large_binary() if "binary" in str(column.type) else pa.large_string())
    _, offsets, data = column.buffers()
    first, end = column.offset, column.offset + len(column) + 1
    offsets = np.frombuffer(offsets, np.int64)[first:end] if offsets else np.zeros(1, np.int64)
    data = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _core.id_numbers(offsets, data)


def first_wrong(values: pa.Array, dim: int, whose: str = "others have") -> tuple[int | None, str]:
    """The first row that is null, of another length, or holds a null, NaN or infinity; and what is wrong with it. The
    row is None if there is none, or if the column does not hold lists of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = one_array(values)
    values = values.storage if hasattr(values, "storage") else values
    if not _arrow.is_vectors(values.type) or not _arrow.is_numbers(values.type.value_type):
        return None, ""
    empty = np.asarray(values.is_null())
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), -1))
    other = (lengths != dim) & ~empty
    usable = np.flatnonzero(~empty & ~other)
    holds_null, not_finite = np.zeros(len(values), bool), np.zeros(len(values), bool)
    if len(usable) and dim:
        flat = values.take(pa.array(usable)).flatten()
        holds_null[usable] = np.asarray(flat.is_null()).reshape(-1, dim).any(axis=1)
        numbers = pc.fill_null(flat.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        not_finite[usable] = ~np.isfinite(numbers.astype(np.float32)).reshape(-1, dim).all(axis=1)
    wrong = np.flatnonzero(empty | other | holds_null | not_finite)
    if not len(wrong):
        return None, ""
    row = int(wrong[0])
    if empty[row]:
        return row, "has no vector"
    if other[row]:
        return row, f"has a vector of {lengths[row]} values where {whose} {dim}"
    return row, "has a vector that holds a null" if holds_null[row] else "has a vector that holds NaN or infinity"
