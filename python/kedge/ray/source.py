# SPDX-License-Identifier: Apache-2.0
"""The rows of a dataset in shares for tasks: row groups of Parquet files, or batches of a dataset."""
from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data
from ray.data import Dataset

from .._typing import Path
from ..parts import files
from ..parts.columns import chosen, require_columns, require_names
from .report import Reference

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Batches = Iterable[tuple[Any, str, int]]  # each with its place, and the number of its first row there

TASK_BYTES = 256_000_000  # of a dataset, for one task
PARTIAL_SHARE = 4  # a task reads at least so many times what its partial takes
TASKS_AT_LEAST = 64  # if there are as many pieces: a cluster of a few nodes may be one of many when it has work


class Pieces(files.Files):
    """Parquet files that tasks read themselves."""

    def shares(self, partial_bytes: int) -> list[list[files.Piece]]:
        """Where sums are large, a task has more to sum up."""
        row_bytes = 2 * self.columns.dim  # at least, as float16
        most = min(PARTIAL_SHARE * partial_bytes // row_bytes, self.rows // TASKS_AT_LEAST)
        found: list[list[files.Piece]] = [[]]
        for piece in self.pieces:
            if found[-1] and sum(own.rows for own in found[-1]) >= most:
                found.append([])
            found[-1].append(piece)
        return found


def numbers(count: int) -> Dataset:
    """0 to count - 1, each in a block of its own, for a task of its own."""
    return ray.data.from_items(list(range(count)), override_num_blocks=count)


@functools.lru_cache(maxsize=4)
def held(reference: Reference) -> Any:
    """What was put into the object store once; workers keep what they read of it."""
    return ray.get(reference)


class Blocks:
    """What a dataset makes, summed up while it is made."""

    rows = None  # counting them might be a pass over all

    def __init__(self, dataset: Dataset, columns: Mapping[str, str], id_column: str) -> None:
        require_names(columns)
        schema = dataset.schema()
        if schema is None:
            raise ValueError("there are no rows to learn from: the dataset is empty")
        names = list(dict.fromkeys([id_column, *columns.values()]))
        require_columns(names, schema.names)
        self.dataset = dataset.select_columns(names)
        plain = getattr(schema, "base_schema", schema)
        if not isinstance(plain, pa.Schema):  # of pandas, whose types show when rows become Arrow's
            plain = self.first_rows.schema
        self.columns = chosen(columns, id_column, plain, lambda: self.first_rows)

    @functools.cached_property
    def first_rows(self) -> pa.Table:
        """Of a dataset that may take long to make some."""
        few = self.dataset.limit(files.FIRST_ROWS)
        return next(iter(few.iter_batches(batch_format="pyarrow", batch_size=files.FIRST_ROWS)))

    def in_tasks(self, work: Callable[..., Iterator[pa.Table]], partial_bytes: int, **resources: Any) -> Dataset:
        """What this makes of batches that are large beside a partial."""
        rows = max(TASK_BYTES, PARTIAL_SHARE * partial_bytes) // (4 * self.columns.dim)
        return self.dataset.map_batches(work, batch_size=max(1, rows), batch_format="pyarrow", **resources)


def source_of(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str) -> Pieces | Blocks:
    return Pieces(dataset, columns, id_column) if is_path(dataset) else Blocks(dataset, columns, id_column)


def is_path(dataset: object) -> TypeIs[Path]:
    """Whether workers read files themselves. Raises for what is neither a path nor a dataset."""
    if not isinstance(dataset, (str, os.PathLike, ray.data.Dataset)):
        raise TypeError("expected a ray.data.Dataset or the path of a folder of Parquet files, found "
                        f"{type(dataset).__name__}")
    return not isinstance(dataset, ray.data.Dataset)
