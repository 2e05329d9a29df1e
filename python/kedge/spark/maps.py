# SPDX-License-Identifier: Apache-2.0
"""Maps applied to the partitions of a DataFrame or to files, by tasks that Spark runs again if a worker dies."""
from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType

from .. import _core
from .._progress import ShowProgress
from .._typing import Path
from ..parts import folder, sizes
from ..parts.apply import BATCH_ROWS, Application
from ..parts.folder import Writer
from ..parts.manifest import Part
from . import session
from .source import numbered, numbers, require_arrays

if TYPE_CHECKING:
    from pyspark import Accumulator

T = TypeVar("T")
CONNECT_BYTES = 120_000_000  # of the 128 MiB of a message, which has a plan besides
_UNPICKLED: dict[str, Any] = {}  # in a worker, by name: what the job at work holds


class Kept(Generic[T]):
    """What all tasks of a job hold, pickled. Spark broadcasts functions with that much in them by itself, and with
    Connect each running task gets the bytes; a worker unpickles them once, not for every task."""

    def __init__(self, spark: SparkSession, value: T) -> None:
        self.data, self.name = pickle.dumps(value, pickle.HIGHEST_PROTOCOL), uuid.uuid4().hex
        if session.is_connect(spark) and len(self.data) > CONNECT_BYTES:
            raise ValueError(f"the bundle takes {sizes.shown(len(self.data))}, and Spark Connect sends "
                             f"{sizes.shown(CONNECT_BYTES)} at most; fit one with a smaller support, or run this in "
                             "Spark's driver, as spark-submit does")

    @property
    def value(self) -> T:
        if self.name not in _UNPICKLED:
            _UNPICKLED.clear()
            _UNPICKLED[self.name] = pickle.loads(self.data)
        value: T = _UNPICKLED[self.name]
        return value


def mapped(application: Application, given: DataFrame | Path, output: Path | None, keep: Sequence[str] | None,
           progress: ShowProgress) -> DataFrame | str:
    spark = session.session_of(given)
    if session.is_path(given):
        given, output = folder.paths(given, output, "a DataFrame, as spark.read.parquet makes it")
        return of_folder(spark, application, given, output, keep, progress)
    if output is not None or keep is not None:
        raise ValueError("output= and keep= are for folders; a DataFrame has select and write.parquet")
    return of_rows(spark, application, given)


def of_rows(spark: SparkSession, application: Application, df: DataFrame) -> DataFrame:
    application.require(df.columns)
    require_arrays(df, [application.column])
    result = StructField(application.into, ArrayType(FloatType()))
    fields = [field if field.name != application.into else result for field in df.schema.fields]
    fields += [result] if application.into not in df.columns else []
    work = MapRows(Kept(spark, application), df.columns, session.task_cpus(spark))
    return numbered(df).mapInArrow(work, StructType(fields))


class MapRows:
    """Batches with the results."""

    def __init__(self, application: Kept[Application], names: list[str], threads: int) -> None:
        self.application, self.names, self.threads = application, names, threads

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _core.set_threads(self.threads)
        application, where, row = self.application.value, f"partition {session.partition()}", 0
        for batch in batches:
            batch = batch.rename_columns(self.names)
            for first in range(0, batch.num_rows, BATCH_ROWS):  # however large Spark makes them
                part = batch.slice(first, BATCH_ROWS)
                yield with_lists(application(part, where, row), application.into)
                row += part.num_rows


def with_lists(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Spark has no lists of fixed size: the same values, with offsets."""
    place = batch.schema.get_field_index(name)
    fixed = batch.column(place)
    offsets = np.arange(len(fixed) + 1, dtype=np.int32) * np.int32(fixed.type.list_size)
    lists = pa.ListArray.from_arrays(pa.array(offsets), fixed.flatten())
    return batch.set_column(place, name, lists)


def of_folder(spark: SparkSession, application: Application, given: str, output: str, keep: Sequence[str] | None,
              progress: ShowProgress) -> str:
    plan = folder.planned(application, given, output, keep)
    jobs = session.jobs_of(spark, "kedge: map", progress)
    with plan.writing():
        if plan.left:
            with jobs.running("mapping rows", plan.rows_left) as done:
                work = MapFiles(Kept(spark, plan.writer), plan.left, session.task_cpus(spark), done)
                numbers(spark, len(plan.left)).mapInArrow(work, "number long").collect()
    return output


class MapFiles:
    """Writes the files of a task, whose numbers are the rows that it is given."""

    def __init__(self, writer: Kept[Writer], parts: list[Part], threads: int, done: Accumulator[int] | None) -> None:
        self.writer, self.parts, self.threads, self.done = writer, parts, threads, done

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _core.set_threads(self.threads)
        pa.set_cpu_count(self.threads)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = self.parts[number]
                self.writer.value(part)
                if self.done is not None:
                    self.done.add(part.piece.rows)
                yield pa.record_batch([[number]], ["number"])
