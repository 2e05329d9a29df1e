# SPDX-License-Identifier: Apache-2.0
"""Ids, vectors and values of a Lance table: from Arrow to numpy and back, and as SQL. DuckDB's store uses the part that
is Arrow's alone, so LanceDB itself is not imported here."""
from __future__ import annotations

import bisect
import datetime
import decimal
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..._errors import Error
from ..types import Id, Moment, Places, Vectors

if TYPE_CHECKING:
    from lancedb.table import Table

Ids: TypeAlias = list[str] | npt.NDArray[np.integer[Any]]

ROW = "_rowid"


def is_vector(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))


def is_id(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def vector_type(width: int, kind: str = "float32") -> Any:
    return pa.list_(pa.float16() if kind == "float16" else pa.float32(), width)


def vector_column(vectors: Vectors | None, rows: int, made_as: Any) -> Any:
    """The vectors as one Arrow column of this type, or that many nulls."""
    if vectors is None:
        return pa.nulls(rows, made_as)
    flat = np.ascontiguousarray(vectors, made_as.value_type.to_pandas_dtype()).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=made_as)


def vector_rows(column: Any, width: int) -> Vectors:
    """float32 rows of a column without nulls."""
    values = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, np.float32).reshape(len(column), width)


def named(column: str) -> str:
    """The name of a column as SQL."""
    return "`" + column.replace("`", "``") + "`"


def literal(value: Moment | Id) -> str:
    """A value as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def one_of(column: str, ids: Iterable[Id]) -> str:
    return f"{named(column)} IN ({', '.join(literal(key) for key in ids)})"


def at_or_above(field: Any, value: Moment) -> str:
    """The condition that a column's value is not below this one; moments come as the text that 'plain' made of them."""
    if pa.types.is_timestamp(field.type):
        return f"{named(field.name)} >= CAST({literal(value)} AS TIMESTAMP)"
    if pa.types.is_date(field.type):
        return f"{named(field.name)} >= CAST({literal(value)} AS DATE)"
    return f"{named(field.name)} >= {literal(value)}"


def plain(value: Any) -> Moment | None:
    """A value that can be kept as text or a number."""
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value


def sorted_rows(table: Table, column: str, conditions: Sequence[str], address: str) -> tuple[Ids, Places]:
    """All ids of a table in their order and the rows they are in; a Lance table has no order of its own that stays."""
    query = table.search().select([column]).with_row_id(True)
    if conditions:
        query = query.where(" AND ".join(conditions))
    found = query.to_arrow()
    ids, rows = found[column], found[ROW]
    if ids.null_count:
        raise Error(f"{address}: {ids.null_count} rows have no {column!r}; every row needs an id of its own")
    order = pc.sort_indices(ids)
    ids = ids.take(order)
    same = pc.equal(ids[1:], ids[:-1])
    if len(same) and pc.any(same).as_py():
        twice = ids[1:].filter(same)[0].as_py()
        raise Error(f"{address}: the id {twice!r} is in more than one row; name a column of unique ids with ?id=")
    return ids.to_numpy() if pa.types.is_integer(ids.type) else ids.to_pylist(), rows.take(order).to_numpy()


def behind(ids: Ids, after: Id | None) -> int:
    """Where the ids behind this one begin."""
    if after is None:
        return 0
    return bisect.bisect_right(ids, after) if isinstance(ids, list) else int(np.searchsorted(ids, after, "right"))


def places_of(ids: Ids, rows: Places, wanted: Sequence[Id]) -> Places:
    """The rows of those wanted ids that are among sorted ones, in the order in which they are wanted."""
    known = {key: n for n, key in enumerate(wanted)}  # each once
    if isinstance(ids, list):
        found = [bisect.bisect_left(ids, key) for key in known]
        return rows[[place for place, key in zip(found, known) if place < len(ids) and ids[place] == key]]
    limits = np.iinfo(ids.dtype)
    keys = np.array([key for key in known if isinstance(key, int) and limits.min <= key <= limits.max], ids.dtype)
    places = np.minimum(np.searchsorted(ids, keys), max(len(ids) - 1, 0))
    return rows[places[ids[places] == keys]] if len(ids) else rows[:0]


def take(table: Table, rows: Places, columns: list[str]) -> Any:
    """These rows of a table in this order; Lance gives them in its own."""
    if not len(rows):
        return table.search().select(columns).limit(1).to_arrow().slice(0, 0)
    found = table.take_row_ids(rows.tolist()).select(columns).with_row_id().to_arrow()
    got = found[ROW].to_numpy()
    order = np.argsort(got)
    return found.take(order[np.searchsorted(got, rows, sorter=order)])
