# SPDX-License-Identifier: Apache-2.0
"""A map applied to a folder of Parquet files, piece by piece, into another folder."""
from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .._arrays import named
from .._arrow import is_vectors
from .._typing import Path
from . import files, manifest, storage
from .apply import BATCH_ROWS, Application
from .manifest import Part

if TYPE_CHECKING:
    import pyarrow as pa


@dataclasses.dataclass
class Writer:
    """What tasks do with each part. Pickled to travel to workers."""

    application: Application
    keep: list[str]
    name: str  # of the map, which is the same if it is run again

    def __call__(self, part: Part) -> None:
        """Writes the columns to keep and the results; the file appears when it is whole."""
        storage.retried(part.target, lambda: self.write(part))

    def write(self, part: Part) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        piece, read = part.piece, list(dict.fromkeys([*self.keep, self.application.column]))
        writer, rows = None, 0
        with storage.output_stream(part.target) as stream:
            for batch in piece.batches(read, BATCH_ROWS):
                result = self.application(batch, str(piece), piece.first_row + rows)
                result = result.select([*self.keep, self.application.into])
                if writer is None:
                    schema = manifest.marked(result.schema, self.name)
                    writer = pa.parquet.ParquetWriter(stream, schema, **encoding(schema))
                writer.write_batch(result)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
            if rows != piece.rows:
                raise ValueError(f"{piece} has changed while it was read: {rows} rows where it had {piece.rows}; "
                                 "run it again")


@dataclasses.dataclass
class Plan:
    """What is to be written into a folder, and what is there already."""

    output: str
    writer: Writer
    parts: list[Part]
    left: list[Part]  # that are to be written

    @property
    def rows_left(self) -> int:
        return sum(part.piece.rows for part in self.left)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A block that writes what is left. Then says in the folder that all is there, and removes what workers that
        died have left behind."""
        try:
            yield
            self.finish()
        finally:
            with contextlib.suppress(OSError):  # whose words would take the place of why a map failed
                storage.clear(self.output)

    def finish(self) -> None:
        """Looks again, for another map may have been writing to the folder."""
        there = manifest.finished(self.output, self.parts, self.writer.name)
        if missing := sorted(part.name for part in self.parts if part.name not in there):
            raise OSError(f"'{self.output}' has lost {missing[0]} while others were written; run it again")
        manifest.write(self.output, self.writer.name, self.parts, there)


def paths(folder: Path, output: Path | None, instead: str) -> tuple[str, str]:
    """Where to read and where to write, as workers understand it."""
    if output is None:
        raise ValueError(f"output= says which folder to write to, where the rows are files; or give {instead}")
    return files.absolute(folder), files.absolute(output)


def planned(application: Application, folder: str, output: str, keep: Sequence[str] | None) -> Plan:
    """The pieces, the file that each becomes, and the columns to keep. Raises before any work if the output would not
    be the map's alone."""
    found = files.by_path(folder)
    names = files.opened(next(iter(found))).schema_arrow.names
    kept = kept_columns(application, names, keep)
    require_outside(folder, output)
    parts = []
    for path, group in itertools.groupby(files.pieces(found), lambda piece: piece.path):
        inner, own = found[path].name.removesuffix(".parquet"), list(group)
        ends = [f"-{number:04d}" for number in range(len(own))] if len(own) > 1 else [""]
        results = [f"{inner}{end}.parquet" for end in ends]
        parts += [Part(piece, files.inside(output, result), result) for piece, result in zip(own, results)]
    require_rows(folder, parts)
    name = manifest.name_of(application, kept, parts, sorted(found.values()))
    storage.create_folder(output)
    there = manifest.finished(output, parts, name)
    left = [part for part in parts if part.name not in there]
    if left:
        manifest.remove(output)
    return Plan(output, Writer(application, kept, name), parts, left)


def require_rows(folder: str, parts: Sequence[Part]) -> None:
    if not parts:
        raise ValueError(f"there are no rows in '{folder}'")
    target, times = collections.Counter(part.target for part in parts).most_common(1)[0]
    if times > 1:
        one, other = [part.piece.path for part in parts if part.target == target][:2]
        raise ValueError(f"parts of {one} and {other} would both be written to {target}; rename one of them")


def require_outside(folder: str, output: str) -> None:
    inner = output[len(folder):].lstrip("/")
    if output.startswith(folder.rstrip("/") + "/") and inner and not files.is_hidden(inner):
        raise ValueError(f"'{output}' is inside '{folder}', so that the results would be among the rows to read the "
                         "next time; name a folder elsewhere")


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


def encoding(schema: pa.Schema) -> dict[str, Any]:
    """Values of vectors hardly repeat: a dictionary of them costs three times the time to write, and makes files
    larger. Nor does anyone ask for their smallest."""
    others = [field.name for field in schema if not is_vectors(field.type)]
    return {"use_dictionary": others or False, "write_statistics": others or False}
