# SPDX-License-Identifier: Apache-2.0
"""Tasks that sum up the rows of a DataFrame or of files: one partial each, however many batches it reads."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .. import _core
from .._progress import ShowProgress
from .._typing import Path
from ..parts import sizes
from ..parts.columns import Columns
from ..parts.partial import Partial, Support
from . import session, tree
from .source import FileReader, RowReader, source_of

if TYPE_CHECKING:
    from pyspark import Accumulator


class Sum:
    """Adds up what one task reads. Pickled for the workers."""

    def __init__(self, reader: RowReader | FileReader, columns: Columns, support: Support, seed: int, threads: int,
                 done: Accumulator[int] | None) -> None:
        self.reader, self.columns, self.support, self.seed = reader, columns, support, seed
        self.threads, self.done = threads, done

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _core.set_threads(self.threads)
        pa.set_cpu_count(self.threads)
        task = session.partition()
        partial = Partial(self.columns, self.support, self.seed)
        for batch, where, first_row in self.reader(batches, task):
            partial.add(batch, where, first_row)
        if self.done is not None:
            self.done.add(partial.rows)
        if partial.rows:
            yield from tree.chunks_of(partial, task)


def total(given: DataFrame | Path, columns: Mapping[str, str], id_column: str, support: Support, seed: int, name: str,
          progress: ShowProgress) -> Partial | None:
    """The sum of all partials, on the driver; None if there are no rows."""
    spark = session.session_of(given)
    jobs = session.jobs_of(spark, name, progress)
    with jobs.running("looking at the columns", counted=False):
        source = source_of(spark, given, columns, id_column)
        session.wait_for_workers(spark)
        tasks, threads = session.tasks_at_most(spark), session.task_cpus(spark)
    require_room(spark, source.columns, support if isinstance(support, int) else len(support))
    with jobs.running("summing up rows", source.rows) as done:
        work = Sum(source.reader(tasks), source.columns, support, seed, threads, done)
        return tree.total_of(source.frame(tasks).mapInArrow(work, tree.SCHEMA), tasks, threads)


def require_room(spark: SparkSession, columns: Columns, drawn: int) -> None:
    for room, what in session.result_room(spark):
        sizes.require_room(columns, drawn, room, what, advice(what, sizes.partial_bytes(columns, drawn)))


def advice(what: str, size: int) -> str:
    """What would make room for a partial of that size."""
    megabytes = -(-size // 2**20) + 1
    if what == "spark.driver.maxResultSize":
        return f"start the session with spark.driver.maxResultSize={megabytes}m and twice that of spark.driver.memory"
    if what == "half of the driver's memory":
        return f"start the session with spark.driver.memory={2 * megabytes}m"
    return "fit fewer spaces together, or a smaller support"
