# SPDX-License-Identifier: Apache-2.0
"""Maps applied to the blocks of a dataset or to files, by tasks that Ray runs again if a worker dies."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import ray
import ray.data
from ray.data import Dataset

from .. import _core
from .._progress import RowProgress, ShowProgress
from .._typing import Path
from ..parts import folder
from ..parts.apply import BATCH_ROWS, Application
from ..parts.files import Piece
from .report import Reference, plain, row_progress
from .source import is_path
from .sums import start

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS = 60  # for tasks to end that nobody waits for any more


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
    """The map is put into the object store once; workers keep what they read of it."""
    names = dataset.columns()
    if names is not None:
        application.require(names)
    work = functools.partial(applied, kept=[ray.put(application)])
    return dataset.map_batches(work, batch_format="pyarrow", batch_size=BATCH_ROWS, zero_copy_batch=True)


def applied(batch: pa.Table, kept: Sequence[Reference]) -> pa.Table:
    _core.set_threads(1)
    return held(kept[0])(batch, "a block")


@functools.lru_cache(maxsize=4)
def held(reference: Reference) -> Application:
    application: Application = ray.get(reference)
    return application


def of_folder(application: Application, given: str, output: str, keep: Sequence[str] | None,
              progress: ShowProgress) -> Dataset:
    plan, keep = folder.planned(application, given, output, keep)
    report = row_progress("mapping rows", sum(piece.rows for piece, _ in plan), progress)
    reference = [ray.put(application)]
    running_at_most = max(2, int(2 * ray.cluster_resources().get("CPU", 1)))
    running: list[Reference] = []
    try:
        for piece, target in plan:
            if len(running) >= running_at_most:
                running = finished(running, report)
            running.append(write_on_worker.options(name="kedge: map rows").remote(reference, piece, target, keep))
        while running:
            running = finished(running, report)
    except ray.exceptions.RayTaskError as error:
        raise plain(error) from None
    finally:
        report.close()
        if running:  # something went wrong; what goes on writes a file each, and ray.cancel may end the driver
            ray.wait(running, num_returns=len(running), timeout=SECONDS)
        folder.clear(output)
    return ray.data.read_parquet(output)


def finished(running: list[Reference], report: RowProgress) -> list[Reference]:
    """Waits for one, and gives those that still run."""
    done, rest = ray.wait(running, num_returns=1)
    report.advance(ray.get(done[0]))
    return rest


@ray.remote
def write_on_worker(kept: Sequence[Reference], piece: Piece, target: str, keep: Sequence[str]) -> int:
    _core.set_threads(1)
    return folder.write_mapped(held(kept[0]), piece, target, keep)
