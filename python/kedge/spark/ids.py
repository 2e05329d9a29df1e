# SPDX-License-Identifier: Apache-2.0
"""The check that every id is there once, by Spark's own groups: they go to disk where memory ends."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from .._progress import ShowProgress
from .._typing import Path
from ..parts import repeated
from ..parts.columns import id_bytes
from . import session
from .source import FileReader, Rows, picked, source_of


def require_unique(given: DataFrame | Path, columns: Mapping[str, str], id_column: str, name: str,
                   progress: ShowProgress) -> None:
    spark = session.session_of(given)
    with session.jobs_of(spark, name, progress).running("checking ids", counted=False):
        source = source_of(spark, given, columns, id_column)
        if isinstance(source, Rows):
            ids = picked(source.df, [id_column])
        else:
            tasks = session.tasks_at_most(spark)
            ids = source.frame(tasks).mapInArrow(Ids(source.reader(tasks, [id_column])), "id binary")
        ids = ids.toDF("id").where("id is not null")  # rows without one are refused when they are summed up
        again = ids.groupBy("id").count().where("count > 1").select("id")
        some = [row.id for row in again.limit(repeated.SHOWN).collect()]
        count = again.count() if some else 0
    if count:
        raise repeated.refusal(count, [plain(row_id) for row_id in some], id_column)


def plain(row_id: object) -> object:
    if not isinstance(row_id, (bytes, bytearray)):
        return row_id
    text = bytes(row_id).decode(errors="replace")
    return int(text) if text.isdecimal() else text


class Ids:
    """Of files, as bytes."""

    def __init__(self, reader: FileReader) -> None:
        self.reader = reader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch, _, _ in self.reader(batches, session.partition()):
            yield pa.record_batch([id_bytes(batch.column(0))], ["id"])
