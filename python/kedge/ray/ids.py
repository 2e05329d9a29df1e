# SPDX-License-Identifier: Apache-2.0
"""The check that every id is there once: tasks make numbers of ids, and this machine compares them."""
from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data import Dataset

from .._progress import ShowProgress
from .._typing import Path
from ..parts import repeated
from ..parts.columns import id_numbers
from ..parts.files import Piece
from . import report
from .report import Reference
from .source import Blocks, Pieces, held, numbers, source_of

BATCH_ROWS = 1_000_000


def require_unique(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str, progress: ShowProgress) -> None:
    with report.plain(), report.bars(progress):
        source = source_of(dataset, columns, id_column)
        with (repeated.collected() as all_of_them,
              report.rows("checking ids", source.rows, callable(progress) and progress) as told):
            for table in ids_of(source, id_column, None):
                all_of_them.add(table.column("number").to_numpy())
                told.advance(table.num_rows)
            count, some = all_of_them.repeated()
        if count:
            names = dict.fromkeys(name for table in ids_of(source, id_column, some)
                                  for name in table.column("id").to_pylist())
            raise repeated.refusal(count, list(names), id_column)


def ids_of(source: Pieces | Blocks, id_column: str, wanted: Sequence[int] | None) -> Any:
    """Tables of the numbers of all ids; or of the ids that have one of these numbers."""
    if isinstance(source, Pieces):
        shares = source.shares(0)
        work = functools.partial(of_share, kept=[ray.put(shares)], id_column=id_column, wanted=wanted)
        made = numbers(len(shares)).map_batches(work, batch_size=1, batch_format="pyarrow", num_cpus=1)
    else:
        ids = source.dataset.select_columns([id_column])
        work = functools.partial(of_batch, id_column=id_column, wanted=wanted)
        made = ids.map_batches(work, batch_size=BATCH_ROWS, batch_format="pyarrow", num_cpus=1)
    return made.iter_batches(batch_size=None, batch_format="pyarrow")


@report.refusing
def of_share(batch: pa.Table, kept: Sequence[Reference], id_column: str, wanted: Sequence[int] | None) -> pa.Table:
    shares: list[list[Piece]] = held(kept[0])
    return pa.concat_tables([table_of(rows, str(piece), id_column, wanted)
                             for number in batch.column("item").to_pylist() for piece in shares[number]
                             for rows in piece.batches([id_column], BATCH_ROWS)])


@report.refusing
def of_batch(batch: pa.Table, id_column: str, wanted: Sequence[int] | None) -> pa.Table:
    return table_of(batch, "the dataset", id_column, wanted)


def table_of(rows: pa.RecordBatch, where: str, id_column: str, wanted: Sequence[int] | None) -> pa.Table:
    found = id_numbers(rows.column(id_column), id_column, where)
    if wanted is None:
        return pa.table({"number": found})
    return pa.table({"id": rows.column(id_column).take(pa.array(np.flatnonzero(np.isin(found, wanted)))).unique()})
