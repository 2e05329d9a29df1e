# SPDX-License-Identifier: Apache-2.0
"""Reads Parquet files, one or a folder of them, a batch at a time, and writes them again with other vectors."""
from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ... import _arrow
from ..._errors import BadFile, Error, UsageError
from ..draw import keys
from ..store import Missing
from ..types import Floats, Id, Mask, Moment, Places, Vectors

GROUP_BYTES = 256 << 20  # of vectors in memory at a time


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise BadFile(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


@dataclasses.dataclass
class Part:
    """A row group and the number of its first row."""
    path: pathlib.Path
    group: int
    rows: int
    first: int
    nulls: bool  # whether some rows may have no vector


class Files:
    """What is in the files now: they are looked at once, when this is made."""

    def __init__(self, place: pathlib.Path, column: str, options: Mapping[str, str]) -> None:
        self.place = place
        self.paths = [place] if place.is_file() else sorted(
            path for path in place.rglob("*.parquet") if not path.name.startswith("."))
        if not place.exists():
            raise Missing(f"{place}: there is no such file or folder")
        if not self.paths:
            raise Missing(f"{place} holds no Parquet files")
        with reading(self.paths[0]):
            self.schema = pq.read_schema(self.paths[0])
            self.column = column or _arrow.choose(self.schema, str(place)) or ""
        self.id_column, self.text, self.changed = (options.get(name) for name in ("id", "text", "changed"))
        if self.id_column is None and "id" in self.schema.names:
            self.id_column = "id"
        self._require_columns()
        self.parts = list(self._look())
        self.rows = sum(part.rows for part in self.parts)
        self._places: tuple[npt.NDArray[np.uint64], Places] | None = None  # 64 bits of every id, sorted, and its part

    def _require_columns(self) -> None:
        for name in (self.column, self.id_column, self.text, self.changed):
            if name is not None and name not in self.schema.names:
                raise UsageError(f"{self.paths[0]} has no column '{name}'; it has {', '.join(self.schema.names)}")
        field = self.schema.field(self.column)
        if not _arrow.is_vectors(field.type) or not pa.types.is_floating(value_type(field.type)):
            raise BadFile(f"{self.paths[0]}: the column '{self.column}' is {field.type}; expected a list of floats in "
                          "every row")

    def _look(self) -> Iterator[Part]:
        first = 0
        for path in self.paths:
            with reading(path):
                file = pq.ParquetFile(path)
                schema, found = file.schema_arrow, file.metadata
            if self.column not in schema.names or (self.id_column and self.id_column not in schema.names):
                missing = self.id_column if self.column in schema.names else self.column
                raise BadFile(f"{path} has no column '{missing}', which {self.paths[0]} has")
            for group in range(found.num_row_groups):
                about = found.row_group(group)
                yield Part(path, group, about.num_rows, first, has_nulls(about, self.column))
                first += about.num_rows

    def width(self) -> int | None:
        """Of the first vector there is; None if there is none."""
        kind = self.schema.field(self.column).type
        size = getattr(getattr(kind, "storage_type", kind), "list_size", None)
        if size is not None:
            return int(size)
        for _, batch in self.batches([self.column]):
            found = pc.list_value_length(storage(batch.column(self.column))).drop_null()
            if len(found):
                return int(found[0].as_py())
        return None

    def kind(self) -> str:
        return "float16" if pa.types.is_float16(value_type(self.schema.field(self.column).type)) else "float32"

    def batches(self, columns: list[str], start: int = 0, size: int = 4096,
                parts: Iterable[Part] | None = None) -> Iterator[tuple[int, Any]]:
        """(number of the first row, record batch) from the row 'start' on; without columns, only the number of rows."""
        for part in self.parts if parts is None else parts:
            if part.first + part.rows <= start:
                continue
            with reading(part.path):
                file = pq.ParquetFile(part.path, pre_buffer=False)
                source = file.iter_batches(size, row_groups=[part.group], columns=columns)
            row = part.first
            while True:
                with reading(part.path):
                    batch = next(source, None)
                if batch is None:
                    break
                skip = max(start - row, 0)
                if skip < len(batch):
                    yield row + skip, batch.slice(skip)
                row += len(batch)

    def known_by(self) -> list[str]:
        """The column that ids() needs; without ids any will do, as it has as many rows."""
        return [self.id_column or self.schema.names[0]]

    def ids(self, first: int, batch: Any) -> list[Id]:
        if self.id_column is None:
            return list(range(first, first + len(batch)))
        column = batch.column(self.id_column)
        if column.null_count:
            raise BadFile(f"{self.place}: row {first + _arrow.first_null(column)} has no id")
        if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)
                or pa.types.is_large_string(column.type)):
            raise BadFile(f"{self.place}: the ids in the column '{self.id_column}' are {column.type}; expected whole "
                          "numbers or text")
        return list(column.to_pylist())

    def parts_with(self, ids: set[Id]) -> list[Part]:
        """The parts in which some of these ids are."""
        if not ids:
            return []
        if self.id_column is None:
            return [part for part in self.parts
                    if any(isinstance(key, int) and part.first <= key < part.first + part.rows for key in ids)]
        self.id_values(ids)  # says at once if they are of another kind
        known, parts = self._index()
        wanted = keys(list(ids))
        first, last = np.searchsorted(known, wanted, "left"), np.searchsorted(known, wanted, "right")
        found = np.unique(np.concatenate([parts[one:other] for one, other in zip(first, last)]))
        return [self.parts[int(number)] for number in found]

    def _index(self) -> tuple[npt.NDArray[np.uint64], Places]:
        """Reads all ids, the first time."""
        if self._places is None:
            found = [(number, keys(self.ids(first, batch))) for number, part in enumerate(self.parts)
                     for first, batch in self.batches(self.known_by(), parts=[part])]
            known = np.concatenate([np.empty(0, np.uint64), *(some for _, some in found)])
            parts = np.repeat(np.array([number for number, _ in found], np.int64), [len(some) for _, some in found])
            order = np.argsort(known)
            self._places = known[order], parts[order]
        return self._places

    def id_values(self, ids: Collection[Id]) -> Any:
        kind = self.schema.field(self.id_column).type
        try:
            return pa.array(list(ids), kind)
        except (pa.ArrowException, OverflowError, TypeError):
            raise Error(f"{self.place}: the ids in the column '{self.id_column}' are {kind}; found "
                        f"{next(iter(ids))!r}") from None

    def row_of(self, key: Id) -> int | None:
        """The number of the row with this id; None if there is none."""
        if self.id_column is None:
            return key if isinstance(key, int) and 0 <= key < self.rows else None
        value = self.id_values([key])[0]
        for first, batch in self.batches([self.id_column]):
            place = int(pc.index(batch.column(self.id_column), value).as_py())
            if place >= 0:
                return first + place
        return None

    def same_ids(self, other: Files, path: pathlib.Path) -> bool:
        """Whether this one file has the same rows as the other's file 'path'."""
        parts = [part for part in other.parts if part.path == path]
        if [part.rows for part in self.parts] != [part.rows for part in parts]:
            return sum(part.rows for part in self.parts) == sum(part.rows for part in parts) and self.id_column is None
        if self.id_column is None:
            return True
        ours, theirs = self.batches([self.id_column]), other.batches([self.id_column], parts=parts)
        return all(mine.column(0).equals(its.column(0)) for (_, mine), (_, its) in zip(ours, theirs))

    def vectors(self, first: int, count: int, width: int) -> tuple[Mask, Vectors]:
        """(which rows have a vector, matrix) of some rows."""
        there, rows, end = np.zeros(count, bool), np.zeros((count, width), np.float32), first + count
        for row, batch in self.batches([self.column], first):
            batch = batch.slice(0, max(end - row, 0))
            if not len(batch):
                break
            here = np.arange(row - first, row - first + len(batch))
            there[here], found = matrix(batch.column(self.column), f"{self.place}, from row {row}")
            if found is not None:
                rows[here[there[here]]] = found
        return there, rows

    def newest(self) -> Moment | None:
        if self.changed is None:
            return None
        found = [pc.max(batch.column(self.changed)) for _, batch in self.batches([self.changed])]
        values = [plain(value) for value in found if value.is_valid]
        return max(values) if values else None

    def since(self, batch: Any, value: Moment) -> Mask:
        """Which rows changed at or after this."""
        column = batch.column(self.changed)
        if pa.types.is_temporal(column.type):
            value = pa.scalar(value, pa.int64()).cast(whole(column.type)).cast(column.type)
        return np.asarray(pc.fill_null(pc.greater_equal(column, value), True))


def whole(kind: Any) -> Any:
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def plain(scalar: Any) -> Moment:
    """A number or text; times as what they are counted in, which no zone or rounding changes."""
    value: Moment = (scalar.cast(whole(scalar.type)) if pa.types.is_temporal(scalar.type) else scalar).as_py()
    return value


def storage(column: Any) -> Any:
    return column.storage if hasattr(column, "storage") else column


def value_type(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind).value_type


def has_nulls(group: Any, name: str) -> bool:
    """False only if the file says that every row has a vector."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema.split(".")[0] == name:
            found = column.statistics
            return found is None or not found.has_null_count or found.null_count > 0
    return True


def matrix(column: Any, label: str) -> tuple[Mask, Vectors | None]:
    """(which rows have a vector, their vectors as float32)."""
    there = np.asarray(column.is_valid())
    if not there.any():
        return there, None
    try:
        rows = _arrow.rows(column.filter(pa.array(there)), label)
    except (ValueError, TypeError) as error:
        raise BadFile(str(error)) from None
    return there, np.asarray(rows, np.float32)


def vectors_like(kind: Any, width: int, there: Mask, rows: Floats) -> Any:
    """A column of the old one's type, but for the width; rows that are not there are null."""
    inner = value_type(kind)
    values = pa.array(np.asarray(rows, inner.to_pandas_dtype()).ravel())
    lists = pa.FixedSizeListArray.from_arrays(values, width, mask=pa.array(~there))
    if hasattr(kind, "storage_type"):
        return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(inner, [width]), lists)
    if pa.types.is_fixed_size_list(kind):
        return lists
    return lists.cast(pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner))


def rewrite(source: pathlib.Path, target: str, column: str, width: int,
            fill: Callable[[int, Any], tuple[Mask, Vectors]], first: int) -> None:
    """Copies a file with its row groups and everything else, but for the vectors: fill(first row, batch) gives them as
    (which rows have one, matrix). Groups that are too large to hold are split."""
    with reading(source):
        file = pq.ParquetFile(source, pre_buffer=False)
        schema, about = file.schema_arrow, file.metadata
    place = schema.names.index(column)
    kind = schema.field(place).type
    empty = vectors_like(kind, width, np.empty(0, bool), np.empty((0, width)))
    field = pa.field(column, empty.type, True, schema.field(place).metadata)
    new_schema = schema.set(place, field)
    words = about.row_group(0).column(0).compression.lower() if about.num_row_groups else "snappy"
    most = max(GROUP_BYTES // (4 * width), 1024)
    with pq.ParquetWriter(target, new_schema, compression="none" if words == "uncompressed" else words) as writer:
        for group in range(about.num_row_groups):
            for batch in gathered(file, source, group, most):
                there, rows = fill(first, batch)
                full = batch.set_column(place, field, vectors_like(kind, width, there, rows))
                writer.write_table(full.cast(new_schema), row_group_size=len(full))
                first += len(batch)


def gathered(file: Any, path: pathlib.Path, group: int, most: int) -> Iterator[Any]:
    """The rows of a group as one table, or as several of 'most' rows."""
    source = file.iter_batches(min(most, max(file.metadata.row_group(group).num_rows, 1)), row_groups=[group])
    while True:
        with reading(path):
            batch = next(source, None)
        if batch is None:
            return
        yield pa.Table.from_batches([batch])
