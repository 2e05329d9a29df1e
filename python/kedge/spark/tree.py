# SPDX-License-Identifier: Apache-2.0
"""Partials between workers: rows of a DataFrame, cut into chunks that Spark can hold, and merged as a tree.

Chunks keep the values of a row far below 2 GiB and let the JVM hold few of them at a time, however large a partial is.
"""
from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from .. import _core
from ..parts.partial import Partial
from . import session
from .source import table_of

CHUNK_BYTES = 16 << 20
SCHEMA = "task long, chunk int, chunks int, value binary"
ARROW = pa.schema([("task", pa.int64()), ("chunk", pa.int32()), ("chunks", pa.int32()), ("value", pa.binary())])


def chunks_of(partial: Partial, task: int) -> Iterator[pa.RecordBatch]:
    """Batches of one row each."""
    value = memoryview(pickle.dumps(partial, pickle.HIGHEST_PROTOCOL))
    chunks = math.ceil(len(value) / CHUNK_BYTES)
    for number in range(chunks):
        piece = value[number * CHUNK_BYTES:(number + 1) * CHUNK_BYTES]
        yield pa.record_batch([[task], [number], [chunks], pa.array([piece], pa.binary())], schema=ARROW)


def partials_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Partial]:
    """The partials of rows that are in the order of tasks and chunks, one at a time."""
    pieces = []
    for batch in batches:
        for row in range(batch.num_rows):
            pieces.append(batch.column("value")[row].as_buffer())
            if len(pieces) == batch.column("chunks")[row].as_py():
                value = b"".join(pieces)
                pieces = []
                yield pickle.loads(value)
    if pieces:
        raise RuntimeError(f"a partial is incomplete: found {len(pieces)} chunks of more")


def merged(partials: Iterable[Partial]) -> Partial | None:
    """Their sum; None of none."""
    total = None
    for partial in partials:
        total = partial if total is None else total.merge(partial)
    return total


class Merge:
    """The sum of the partials of one partition."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _core.set_threads(self.threads)
        total = merged(partials_of(batches))
        if total is not None:
            yield from chunks_of(total, session.partition())


def total_of(rows: DataFrame, tasks: int, threads: int) -> Partial | None:
    """The sum of the partials in a DataFrame of chunks: merged by groups, then those, and one comes to the driver."""
    groups = max(1, math.isqrt(tasks))
    for count in dict.fromkeys([groups, 1]):
        grouped = rows.repartition(count, rows.task % count).sortWithinPartitions("task", "chunk")
        rows = grouped.mapInArrow(Merge(threads), SCHEMA)
    return merged(partials_of(table_of(rows).to_batches()))
