# SPDX-License-Identifier: Apache-2.0
"""Where rows come from: a DataFrame, or Parquet files that tasks read themselves."""
from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import UserDefinedType

from .._typing import Path
from ..parts import files
from ..parts.columns import chosen
from ..parts.files import Piece
from ..parts.partial import BATCH_ROWS
from . import session

if TYPE_CHECKING:
    import pyarrow as pa

    Batch = tuple[pa.RecordBatch, str, int]  # its file or partition, and the number of its first row there

FIRST_ROWS = 100  # to see how long vectors are


class Rows:
    """A DataFrame, whose partitions come together in tasks."""

    rows = None  # counting them would be a pass over all

    def __init__(self, df: DataFrame, columns: Mapping[str, str], id_column: str) -> None:
        if df.isStreaming:
            raise ValueError("a streaming DataFrame has no end, so that its rows cannot be summed up; give one of the "
                             "rows there are")
        names = list(columns.values()) if hasattr(columns, "values") else []
        require_arrays(df, names)
        self.df = df

        @functools.cache
        def first() -> pa.Table:
            return table_of(picked(df, list(dict.fromkeys(names))).limit(FIRST_ROWS))

        self.columns = chosen(columns, id_column, arrow_schema(df), first)

    def frame(self, tasks: int) -> DataFrame:
        return numbered(picked(self.df, self.columns.names).coalesce(tasks))

    def reader(self, tasks: int) -> RowReader:
        return RowReader(self.columns.names)


class RowReader:
    """Arrow batches, what to call the place they come from, and how many rows it has before the first one."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, batches: Iterator[pa.RecordBatch], task: int) -> Iterator[Batch]:
        for batch in batches:
            yield batch.rename_columns(self.names), f"partition {task}", 0


class Pieces(files.Files):
    """Parquet files that tasks read themselves."""

    def __init__(self, spark: SparkSession, path: Path, columns: Mapping[str, str], id_column: str) -> None:
        super().__init__(path, columns, id_column)
        self.spark = spark

    def frame(self, tasks: int) -> DataFrame:
        return numbers(self.spark, min(tasks, len(self.pieces)))

    def reader(self, tasks: int, names: list[str] | None = None) -> FileReader:
        return FileReader(shares(self.pieces, min(tasks, len(self.pieces))), names or self.columns.names)


class FileReader:
    """Reads the files of a task, whose number is the row that it is given."""

    def __init__(self, shares: Sequence[Sequence[Piece]], names: list[str]) -> None:
        self.shares, self.names = shares, names

    def __call__(self, batches: Iterator[pa.RecordBatch], task: int) -> Iterator[Batch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece in self.shares[number]:
                    for rows in piece.batches(self.names, BATCH_ROWS):
                        yield rows, str(piece), piece.first_row


def shares(pieces: Sequence[Piece], count: int) -> list[list[Piece]]:
    """Pieces for every task, one after the other, with about as many rows each."""
    found: list[list[Piece]] = [[] for _ in range(count)]
    total, row = sum(piece.rows for piece in pieces), 0
    for piece in pieces:
        found[(2 * row + piece.rows) * count // (2 * total)].append(piece)  # the task its middle falls into
        row += piece.rows
    return found


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """A DataFrame of 0 to count - 1, each in a partition of its own."""
    return spark.range(0, count, 1, count)


def source_of(spark: SparkSession, given: DataFrame | Path, columns: Mapping[str, str],
              id_column: str) -> Pieces | Rows:
    if session.is_path(given):
        return Pieces(spark, given, columns, id_column)
    return Rows(given, columns, id_column)


def numbered(df: DataFrame) -> DataFrame:
    """With numbers for names: mapInArrow does not find columns whose names hold dots."""
    return df.toDF(*[f"c{number}" for number in range(len(df.columns))])


def picked(df: DataFrame, names: list[str]) -> DataFrame:
    """These columns, whose names may hold dots."""
    return df.select(*[functions.col("`" + name.replace("`", "``") + "`") for name in names])


def table_of(df: DataFrame) -> pa.Table:
    """A few rows, on the driver."""
    if hasattr(df, "toArrow"):  # not in Spark 3.5
        return df.toArrow()
    import pyarrow as pa

    return pa.Table.from_pylist([row.asDict() for row in df.collect()], arrow_schema(df))


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The DataFrame's schema in Arrow's types; a column that Arrow has no type for becomes null."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in df.schema.fields:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType)))
        except Exception:  # pyspark raises several kinds
            fields.append(pa.field(field.name, pa.null()))
    return pa.schema(fields)


def require_arrays(df: DataFrame, names: list[str]) -> None:
    for field in df.schema.fields:
        if field.name in names and isinstance(field.dataType, UserDefinedType):
            raise ValueError(f"the column '{field.name}' is of {type(field.dataType).__name__}; make it arrays with "
                             f"df.withColumn('{field.name}', pyspark.ml.functions.vector_to_array('{field.name}', "
                             "'float32'))")
