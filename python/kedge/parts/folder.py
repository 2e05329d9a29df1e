# SPDX-License-Identifier: Apache-2.0
"""A map applied to a folder of Parquet files, piece by piece, into another folder."""
from __future__ import annotations

import collections
import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .._arrays import named
from .._arrow import is_vectors
from .._output_file import output_file
from .._typing import Path
from . import files
from .apply import BATCH_ROWS, Application
from .files import Piece

if TYPE_CHECKING:
    import pyarrow as pa

Plan = list[tuple[Piece, str]]  # each with the file it becomes


def paths(folder: Path, output: Path | None, instead: str) -> tuple[str, str]:
    """Where to read and where to write, as workers understand it."""
    if output is None:
        raise ValueError(f"output= says which folder to write to, where the rows are files; or give {instead}")
    return files.absolute(folder), files.absolute(output)


def planned(application: Application, folder: str, output: str, keep: Sequence[str] | None) -> tuple[Plan, list[str]]:
    """Pairs of a piece and the file it becomes, and the columns to keep. Raises before any work if the output would not
    be the piece's alone."""
    found = files.by_path(folder)
    names = files.opened(next(iter(found))).schema_arrow.names
    kept = kept_columns(application, names, keep)
    require_outside(folder, output)
    require_empty(output)
    plan = []
    for path, group in itertools.groupby(files.pieces(found), lambda piece: piece.path):
        inner, own = found[path].removesuffix(".parquet"), list(group)
        ends = [f"-{number:04d}" for number in range(len(own))] if len(own) > 1 else [""]
        plan += [(piece, files.inside(output, f"{inner}{end}.parquet")) for piece, end in zip(own, ends)]
    require_rows(folder, plan)
    create(output)
    return plan, kept


def require_rows(folder: str, plan: Plan) -> None:
    if not plan:
        raise ValueError(f"there are no rows in '{folder}'")
    targets = collections.Counter(target for _, target in plan)
    target, times = targets.most_common(1)[0]
    if times > 1:
        one, other = [piece.path for piece, own in plan if own == target][:2]
        raise ValueError(f"parts of {one} and {other} would both be written to {target}; rename one of them")


def require_outside(folder: str, output: str) -> None:
    inner = output[len(folder):].lstrip("/")
    if output.startswith(folder.rstrip("/") + "/") and inner and not files.is_hidden(inner):
        raise ValueError(f"'{output}' is inside '{folder}', so that the results would be among the rows to read the "
                         "next time; name a folder elsewhere")


def create(output: str) -> None:
    system, inner = files.storage(output)
    try:
        system.create_dir(inner, recursive=True)
    except OSError as error:
        raise type(error)(f"cannot write to '{output}': {error}") from None


def kept_columns(application: Application, names: Sequence[str], keep: Sequence[str] | None) -> list[str]:
    """Columns that go along with the results."""
    if isinstance(keep, str):
        raise TypeError(f"keep= is a list of columns, such as ['{keep}']; found the text '{keep}'")
    keep = list(names) if keep is None else list(dict.fromkeys(keep))
    for name in keep:
        if name not in names:
            raise ValueError(f"there is no column '{name}' to keep; there are {named(names, 8)}")
    application.require(list(dict.fromkeys([application.column, *keep])) if application.column in names else names)
    return [name for name in keep if name != application.into]


def require_empty(output: str) -> None:
    try:
        there = files.parquet_files(output)
    except FileNotFoundError:
        return
    raise FileExistsError(f"'{output}' already has Parquet files, such as {there[0]}; name a new folder, or "
                          "remove them first")


def clear(output: str) -> None:
    """Removes what workers that died have left behind."""
    system, inner = files.storage(output)
    if not is_local(system):
        return
    for place, _, names in os.walk(inner):
        for name in names:
            if name.startswith(".kedge-") and name.endswith(".partial"):
                os.unlink(os.path.join(place, name))


def write_mapped(application: Application, piece: Piece, target: str, keep: Sequence[str]) -> int:
    """Writes the columns to keep and the results; the file appears when it is whole. Returns how many rows it has."""
    import pyarrow as pa
    import pyarrow.parquet

    read = list(dict.fromkeys([*keep, application.column]))
    writer, rows = None, 0
    with output_stream(target) as stream:
        for batch in piece.batches(read, BATCH_ROWS):
            result = application(batch, str(piece), piece.first_row + rows).select([*keep, application.into])
            writer = writer or pa.parquet.ParquetWriter(stream, result.schema, **encoding(result.schema))
            writer.write_batch(result)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    return rows


@contextlib.contextmanager
def output_stream(target: str) -> Iterator[Any]:
    """What is written here is a file when the block ends, and nothing if that fails."""
    system, inner = files.storage(target)
    system.create_dir(os.path.dirname(inner), recursive=True)
    if is_local(system):
        with output_file(inner, durable=False) as partial, system.open_output_stream(partial) as stream:
            yield stream
        return
    try:
        with system.open_output_stream(inner) as stream:
            yield stream
    except BaseException:
        with contextlib.suppress(OSError):  # such storage keeps what there is of a file when it is closed
            system.delete_file(inner)
        raise


def is_local(system: Any) -> bool:
    from pyarrow import fs

    return isinstance(system, fs.LocalFileSystem)


def encoding(schema: pa.Schema) -> dict[str, Any]:
    """Values of vectors hardly repeat: a dictionary of them costs three times the time to write, and makes files
    larger. Nor does anyone ask for their smallest."""
    others = [field.name for field in schema if not is_vectors(field.type)]
    return {"use_dictionary": others or False, "write_statistics": others or False}
