# SPDX-License-Identifier: Apache-2.0
"""Maps applied to the blocks of a dataset, by tasks of Ray Data, or to files, by tasks that write them."""
from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import ray
import ray.data
from ray.data import Dataset

from .._progress import ShowProgress
from .._typing import Path
from ..parts import folder
from ..parts.apply import BATCH_ROWS, Application
from ..parts.manifest import Part
from . import report
from .report import Reference
from .source import held, is_path
from .sums import BASE_BYTES, one_thread, start
from .tasks import finished, task


def mapped(application: Application, dataset: Dataset | Path, output: Path | None, keep: Sequence[str] | None,
           progress: ShowProgress) -> Dataset:
    start()
    if is_path(dataset):
        given, output = folder.paths(dataset, output, "a dataset, as ray.data.read_parquet makes it")
        return of_folder(application, given, output, keep, progress)
    if output is not None or keep is not None:
        raise ValueError("output= and keep= are for folders; a dataset has select_columns and write_parquet")
    return of_dataset(application, dataset)


def of_dataset(application: Application, dataset: Dataset) -> Dataset:
    names = dataset.columns()
    if names is not None:
        application.require(names)
    work = functools.partial(applied, kept=[ray.put(application)])
    return dataset.map_batches(work, batch_format="pyarrow", batch_size=BATCH_ROWS, zero_copy_batch=True)


def applied(batch: pa.Table, kept: Sequence[Reference]) -> pa.Table:
    one_thread()
    result: pa.Table = held(kept[0])(batch, "a block")
    return result


def of_folder(application: Application, given: str, output: str, keep: Sequence[str] | None,
              progress: ShowProgress) -> Dataset:
    plan = folder.planned(application, given, output, keep)
    with plan.writing(), report.plain(), report.rows("mapping rows", plan.rows_left, progress) as told:
        for number in written(plan) if plan.left else ():
            told.advance(plan.left[number].piece.rows)
    return ray.data.read_parquet(output)


def written(plan: folder.Plan) -> Iterator[int]:
    """The number of every part that is finished, while others are being written."""
    work, kept = task(write_on_worker, "kedge: map", BASE_BYTES), [ray.put(plan.writer)]
    return finished(lambda number: work.remote(kept, plan.left[number]), len(plan.left))


def write_on_worker(kept: Sequence[Reference], part: Part) -> None:
    one_thread()
    held(kept[0])(part)
