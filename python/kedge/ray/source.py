# SPDX-License-Identifier: Apache-2.0
"""The rows of a dataset in pieces for tasks: row groups of Parquet files, or blocks of Ray's object store."""
from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import ray.data
from ray.data import Dataset

from .._typing import Path
from ..parts import files
from ..parts.columns import chosen, require_columns, require_names
from .report import Reference

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# Pieces of files and no block, or names of blocks and the blocks.
Task = tuple[Sequence[files.Piece] | Sequence[str], Sequence[Reference]]

BLOCK_BYTES = 256_000_000  # together, for one task
PARTIAL_SHARE = 4  # a task reads at least so many times what its partial takes
TASKS_FOR_EACH = 4  # worker, so that none waits long for the last one


class Pieces(files.Files):
    """Parquet files that tasks read themselves."""

    def tasks(self, partial_bytes: int, workers: int) -> Iterator[Task]:
        """Pieces for every task, and blocks, which are none. Where sums are large, a task has more to sum up, but every
        worker has several tasks."""
        row_bytes = 2 * self.columns.dim  # at least, as float16
        most = min(PARTIAL_SHARE * partial_bytes // row_bytes, self.rows // (TASKS_FOR_EACH * workers))
        together: list[files.Piece] = []
        rows = 0
        for piece in self.pieces:
            together.append(piece)
            rows += piece.rows
            if rows >= most:
                yield together, []
                together, rows = [], 0
        if together:
            yield together, []


class Blocks:
    """What a dataset makes, a few blocks at a time while it is made."""

    def __init__(self, dataset: Dataset, columns: Mapping[str, str], id_column: str) -> None:
        require_names(columns)
        schema = dataset.schema()
        if schema is None:
            raise ValueError("there are no rows to learn from: the dataset is empty")
        names = list(dict.fromkeys([id_column, *columns.values()]))
        require_columns(names, schema.names)
        self.dataset = dataset.select_columns(names)
        self.rows = dataset._meta_count() if hasattr(dataset, "_meta_count") else None
        plain = getattr(schema, "base_schema", schema)
        if not isinstance(plain, pa.Schema):  # of pandas, whose types show when rows become Arrow's
            plain = self.first_rows.schema
        self.columns = chosen(columns, id_column, plain, lambda: self.first_rows)

    @functools.cached_property
    def first_rows(self) -> pa.Table:
        """Of a dataset that may take long to make some."""
        few = self.dataset.limit(files.FIRST_ROWS)
        return next(iter(few.iter_batches(batch_format="pyarrow", batch_size=files.FIRST_ROWS)))

    def tasks(self, partial_bytes: int, workers: int) -> Iterator[Task]:
        """Names of blocks and the blocks, for every task."""
        enough = max(BLOCK_BYTES, PARTIAL_SHARE * partial_bytes)
        labels: list[str] = []
        refs: list[Reference] = []
        size = number = 0
        for bundle in self.dataset.iter_internal_ref_bundles():
            for ref, metadata in zip(bundle.block_refs, bundle.metadata):
                read_from = metadata.input_files or ()
                labels.append(f"block {number} ({', '.join(read_from)})" if len(read_from) == 1 else f"block {number}")
                refs.append(ref)
                size, number = size + (metadata.size_bytes or 0), number + 1
                if size >= enough:
                    yield labels, refs
                    labels, refs, size = [], [], 0
        if refs:
            yield labels, refs


def source_of(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str) -> Pieces | Blocks:
    return Pieces(dataset, columns, id_column) if is_path(dataset) else Blocks(dataset, columns, id_column)


def is_path(dataset: object) -> TypeIs[Path]:
    """Whether workers read files themselves. Raises for what is neither a path nor a dataset."""
    if not isinstance(dataset, (str, os.PathLike, ray.data.Dataset)):
        raise TypeError("expected a ray.data.Dataset or the path of a folder of Parquet files, found "
                        f"{type(dataset).__name__}")
    return not isinstance(dataset, ray.data.Dataset)
