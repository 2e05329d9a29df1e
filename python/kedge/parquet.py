# SPDX-License-Identifier: Apache-2.0
"""Rows of Parquet files through a map, a batch at a time; also the program kedge-parquet, which 'kedge transform' and
'kedge translate' run if a file is Parquet."""
from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _core, _inputs, _program
from ._address import is_parquet, split_column
from ._arrays import named
from ._core import RelativeMap, Translator
from ._errors import BadFile, Error, UsageError
from ._output_file import output_file
from ._progress import ProgressFunction
from ._typing import Path

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
COLUMN = "embedding"  # of rows that had no name before


class Rows:
    """The batches of a Parquet file between two rows, each with the matrix its vectors make."""

    def __init__(self, path: str, rows: Any) -> None:
        self.path, name = split_column(path)
        _arrow.library(self.path)
        import pyarrow.parquet

        with _arrow.reading(self.path):
            self.file = pyarrow.parquet.ParquetFile(self.path, pre_buffer=False)
        self.schema = self.file.schema_arrow
        if name is not None and name not in self.schema.names:
            raise ValueError(f"'{self.path}' has no column '{name}'; it has {named(self.schema.names, 8)}")
        chosen = _arrow.choose(self.schema, self.path) if name is None else name
        if chosen is None:
            raise ValueError(f"{self.path}: expected a column of vectors, found columns of single numbers; make it "
                             "one, a list in every row")
        self.name = chosen
        total = self.file.metadata.num_rows
        if _inputs.are_ids(rows):
            raise ValueError(f"rows of {self.path}: a Parquet file is read in order, so give a range such as (0, "
                             "50000)")
        first, end = _inputs.range_of(rows) or (0, _inputs.END)
        self.first, self.end = first, total if end == _inputs.END else end
        if self.first >= self.end or self.end > total:
            raise ValueError(f"asked for rows {self.first}:{self.end}, but {self.path} has rows 0:{total}")

    def __len__(self) -> int:
        return self.end - self.first

    def __iter__(self) -> Iterator[tuple[pa.RecordBatch, NDArray[Any]]]:
        row = 0
        # One group after the other: given all at once, those that are done would stay in memory.
        groups = range(self.file.num_row_groups)
        for batch in (batch for group in groups for batch in self.file.iter_batches(BATCH_ROWS, row_groups=[group])):
            skip, stop = max(self.first - row, 0), min(self.end - row, len(batch))
            if skip < stop:
                part = batch.slice(skip, stop - skip)
                matrix = _arrow.rows(part.column(self.name), f"{self.path}, from row {row + skip}")
                wrong = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
                if len(wrong):
                    raise OSError(f"cannot read '{self.path}': its row {row + skip + wrong[0]} holds a value that is "
                                  "NaN or infinite; remove that row, or encode it again")
                yield part, matrix
            row += len(batch)
            if row >= self.end:
                return


def vectors(matrix: NDArray[Any]) -> pa.FixedSizeListArray:
    """A column with one vector in every row."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """The batch with this column, in place of the one of that name or behind the others."""
    import pyarrow as pa

    columns = dict(zip(batch.schema.names, batch.columns))
    columns[name] = column
    fields = [batch.schema.field(n) if n != name else pa.field(n, column.type) for n in columns]
    return pa.record_batch(list(columns.values()), pa.schema(fields, batch.schema.metadata))


def write_parquet(batches: Iterable[pa.RecordBatch], path: str) -> None:
    import pyarrow.parquet

    writer = None
    try:
        for batch in batches:
            writer = writer or pyarrow.parquet.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def write_npy(matrices: Iterable[NDArray[Any]], rows: int, dim: int, path: str) -> None:
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)})
        for matrix in matrices:
            file.write(np.ascontiguousarray(matrix, "<f4").data)


def values_of(mapper: RelativeMap | Translator) -> int:
    """Values of a result."""
    return mapper.n_features_out if isinstance(mapper, Translator) else mapper.n_anchors


def from_parquet(mapper: RelativeMap | Translator, rows: Rows, output: str, normalize: bool, in_place: bool,
                 report: ProgressFunction | None) -> None:
    target, name = split_column(output)
    if name is not None and name != rows.name and name in rows.schema.names:
        raise ValueError(f"'{rows.path}' already has a column '{name}'; name another one for the results")

    def batches() -> Iterator[tuple[pa.RecordBatch, NDArray[Any]]]:
        done = 0
        for batch, matrix in rows:
            yield batch, mapper.transform(matrix, normalize=normalize)
            done += len(batch)
            if report is not None:
                report("transforming", done, len(rows), "")

    with output_file(target, in_place) as partial:
        if is_parquet(output):
            write_parquet((with_column(batch, name or rows.name, vectors(y)) for batch, y in batches()), partial)
        else:
            dim = values_of(mapper)
            write_npy((y for _, y in batches()), len(rows), dim, partial)


def to_parquet(mapper: RelativeMap | Translator, source: str, output: str, rows: Any, normalize: bool,
               report: ProgressFunction | None) -> None:
    """Through a .npy, which the library writes faster than Python could, and which is read in batches. It never
    replaces its input, which is of another kind."""
    import pyarrow as pa

    target, name = split_column(output)
    folder = os.path.dirname(os.path.realpath(target))
    with tempfile.TemporaryDirectory(prefix=".kedge-", suffix=".partial", dir=folder) as between:
        file = os.path.join(between, "rows.npy")
        mapper.transform_file(source, file, rows=rows, normalize=normalize, progress=report or False)
        matrix = np.load(file, mmap_mode="r")
        parts = (pa.record_batch([vectors(np.asarray(matrix[i:i + BATCH_ROWS]))], [name or COLUMN])
                 for i in range(0, len(matrix), BATCH_ROWS))
        with output_file(target, False) as partial:
            write_parquet(parts, partial)


def transform_file(mapper: RelativeMap | Translator, given: Path, result: Path, rows: Any, device: str,
                   normalize: bool, in_place: bool, report: ProgressFunction | None) -> None:
    """What RelativeMap.transform_file and Translator.transform_file do if a file is Parquet."""
    source, output = os.fsdecode(given), os.fsdecode(result)
    _arrow.library(source if is_parquet(source) else output)
    target = split_column(output)[0]
    if device != "cpu":
        raise ValueError("Parquet is read and mapped on the processor; leave out the device, or save the column as "
                         ".npy")
    if not target.endswith((".parquet", ".npy")):
        raise ValueError(f"cannot write '{output}': results are npy or Parquet files, so name it '{output}.parquet'")
    _core.require_other_file(target, source, in_place)
    if not os.path.isdir(os.path.dirname(os.path.realpath(target))):
        raise OSError(f"cannot write '{target}': No such file or directory; create the folder first")
    if is_parquet(source):
        from_parquet(mapper, Rows(source, rows), output, normalize, in_place, report)
    else:
        to_parquet(mapper, source, output, rows, normalize, report)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("kedge-parquet",
                                     description="kedge transform and kedge translate for Parquet files.")
    parser.add_argument("command", choices=["transform", "translate"])
    parser.add_argument("bundle")
    for name in ("--space", "--from", "--to", "--in", "--out", "--rows", "--device", "--precision"):
        parser.add_argument(name)
    parser.add_argument("--threads", type=int, default=0)
    for name in ("--normalize", "--in-place", "--json", "--quiet"):
        parser.add_argument(name, action="store_true")
    return parser


def run(given: dict[str, Any]) -> None:
    began = time.monotonic()
    if given["threads"]:
        _core.set_threads(given["threads"])
    bundle = _core.Bundle.load(given["bundle"])
    _core.require_other_file(split_column(given["out"])[0], given["bundle"])
    mapper: RelativeMap | Translator
    if given["command"] == "transform":
        mapper, names = bundle[given["space"]], {"space": given["space"]}
    else:
        mapper, names = bundle.translator(given["from"], given["to"]), {"from": given["from"], "to": given["to"]}
    mapper.transform_file(given["in"], given["out"], rows=given["rows"] or None, device=given["device"] or "cpu",
                          normalize=given["normalize"], in_place=given["in_place"], progress=not given["quiet"])
    seconds = time.monotonic() - began
    regressed = {"r2": mapper.r2} if isinstance(mapper, Translator) and mapper.r2 is not None else {}
    if given["json"]:
        print(json.dumps({"command": given["command"], **names, "out": given["out"], "seconds": seconds, **regressed}))
    if not given["quiet"]:
        if regressed:
            print(f"regressed on the kept rows of both, with a cross-validated R^2 of {regressed['r2']:.3f}",
                  file=sys.stderr)
        print(f"wrote {given['out']}, {seconds:.2f} s", file=sys.stderr)


def explained(work: Callable[[], None]) -> None:
    """Does the work; what kedge raises as Python's own kinds of error becomes a program's, in the command's words."""
    def said(error: Exception) -> str:
        return str(getattr(error, "in_words_of_the_command", error))

    try:
        work()
    except (ValueError, TypeError) as error:
        raise UsageError(said(error)) from error
    except OSError as error:
        raise (BadFile if "cannot read" in str(error) else Error)(said(error)) from error
    except ImportError as error:
        raise Error(said(error)) from error


def main(words: list[str] | None = None) -> int:
    """Exits like the command: 1 failed, 2 wrong usage, 3 bad file, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = vars(arguments().parse_args(words))
    return _program.run("kedge", lambda: explained(lambda: run(given)), path=given["bundle"],
                        interrupted="interrupted; no file was changed")[0]


if __name__ == "__main__":
    sys.exit(main())
