# SPDX-License-Identifier: Apache-2.0
"""A connection to a DuckDB file, its indexes, and sentences for what goes wrong."""
from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from ..._errors import BadFile, Error
from ..store import Missing
from .files import reason_for
from .sql_words import all_or_nothing, quoted

HNSW = re.compile(r"USING\s+HNSW\s*\(\s*\"?(.*?)\"?\s*\)", re.IGNORECASE)


@dataclasses.dataclass
class Index:
    """column and metric are those of an HNSW index, as the extension vss makes it; others have neither."""
    name: str
    sql: str
    column: str | None = None
    metric: str | None = None

    def create(self, table: str) -> str:
        """DuckDB forgets the metric in what it says of an HNSW index."""
        if self.column is None:
            return self.sql
        return (f"CREATE INDEX {quoted(self.name)} ON {quoted(table)} USING HNSW ({quoted(self.column)}) "
                f"WITH (metric = '{self.metric}')")


class Link:
    """Opens the file at the first question. DuckDB lets one process in, and that as often as it likes."""

    def __init__(self, address: str, path: str) -> None:
        self.address, self.path = address, path
        self._own: Any = None

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, pa.ArrowException) as error:
            said = str(error).strip().split("\n")[0]
            if "not a valid DuckDB database" in said:
                raise BadFile(f"{self.path} is not a DuckDB database") from None
            if "Could not set lock" in said:
                said = "another process has it open, and DuckDB lets in only one; end the other"
            elif "onflict" in said:
                said = "rows or columns were changed meanwhile by another connection; nothing is lost: run it again"
            raise Error(f"{self.address}: cannot {doing} it: {reason_for(said) or said}") from None

    def open(self) -> Any:
        if self._own is None:
            if not pathlib.Path(self.path).is_file():
                raise Missing(f"{self.address}: there is no file {self.path}")
            with self.errors("open"):
                self._own = duckdb.connect(self.path)
                found = self._own.execute("SELECT sql FROM duckdb_indexes() WHERE sql IS NOT NULL").fetchall()
                if any(HNSW.search(sql) for sql, in found):
                    # DuckDB changes no table with such an index before this; whoever made it in a file allowed both.
                    self._own.execute("LOAD vss; SET hnsw_enable_experimental_persistence = true")
        return self._own

    def rows(self, doing: str, command: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        link = self.open()
        with self.errors(doing):
            found: list[tuple[Any, ...]] = link.execute(command, list(values)).fetchall()
            return found

    def with_table(self, doing: str, command: str, columns: Mapping[str, Any]) -> None:
        """A command that reads these columns under the name kedge_batch."""
        link = self.open()
        with self.errors(doing):
            link.register("kedge_batch", pa.table(dict(columns)))
            try:
                link.execute(command)
            finally:
                link.unregister("kedge_batch")

    def batches(self, command: str, values: Sequence[Any], size: int, wanted: Any = None) -> Iterator[Any]:
        """Arrow batches as they come, all of one moment; 'wanted' is a table that the command calls kedge_wanted."""
        link = self.open()
        with self.errors("read"):
            cursor = link.cursor()
            if wanted is not None:
                cursor.register("kedge_wanted", wanted)
            reader = cursor.sql(command, params=list(values)).to_arrow_reader(size)
        try:
            while True:
                with self.errors("read"):
                    batch = next(reader, None)
                if batch is None:
                    return
                for first in range(0, len(batch), size):
                    yield batch.slice(first, size)
        finally:
            cursor.close()

    def transaction(self, doing: str) -> contextlib.AbstractContextManager[None]:
        return all_or_nothing(self.rows, doing, "BEGIN TRANSACTION")

    def indexes(self, table: str) -> list[Index]:
        found = [Index(name, sql) for name, sql in self.rows(
            "read", "SELECT index_name, sql FROM duckdb_indexes() WHERE table_name = ? AND schema_name = 'main' "
            "AND sql IS NOT NULL", [table])]
        if any(HNSW.search(index.sql) for index in found):
            metrics = dict(self.rows("read", "SELECT index_name, metric FROM pragma_hnsw_index_info()"))
            for index in found:
                if column := HNSW.search(index.sql):
                    index.column, index.metric = column[1], metrics[index.name]
        return found

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
