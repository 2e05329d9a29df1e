# SPDX-License-Identifier: Apache-2.0
"""A folder of Parquet files on shared storage, cut into pieces that workers read on their own."""
from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from .._address import is_uri
from .._arrow import reading
from .._typing import Path
from . import storage
from .columns import chosen

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 256_000_000  # of a file: what one task reads
FIRST_ROWS = 1000
OPENED_AT_ONCE = 16  # to count their rows: each takes a while on remote storage


@dataclasses.dataclass(frozen=True)
class Piece:
    """Some row groups of one file, one after the other."""

    path: str
    groups: tuple[int, ...]
    first_row: int
    rows: int

    def __str__(self) -> str:
        return self.path

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Arrow batches of these columns, a row group at a time: what is done does not stay in memory."""
        file = opened(self.path)
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            raise ValueError(f"{self.path} has no column '{missing[0]}', which other files have; it has "
                             f"{', '.join(file.schema_arrow.names)}")
        with reading(self.path):
            for group in self.groups:
                given, again = 0, storage.Again(self.path)
                while True:
                    try:
                        batches = file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False)
                        for batch in itertools.islice(batches, given, None):
                            yield batch
                            given += 1
                        break
                    except OSError as error:  # of storage: whoever takes the batches is not inside this block
                        again.after(error)
                        file = opened(self.path)


class Files:
    """The Parquet files of a folder, to learn from."""

    def __init__(self, path: Path, columns: Mapping[str, str], id_column: str) -> None:
        self.pieces = pieces(parquet_files(path))
        if not self.pieces:
            raise ValueError(f"there are no rows to learn from in '{path}'")
        self.columns = chosen(columns, id_column, opened(self.pieces[0].path).schema_arrow,
                              lambda: self.first_rows(list(dict.fromkeys(columns.values()))))
        self.rows = sum(piece.rows for piece in self.pieces)

    def first_rows(self, names: Sequence[str]) -> pa.RecordBatch:
        """A batch, to see how long vectors are; row groups may be empty."""
        return next(batch for batch in self.pieces[0].batches(names, FIRST_ROWS) if batch.num_rows)


def absolute(path: Path) -> str:
    """An absolute path or a URI, since workers do not run in the caller's folder."""
    path = os.fspath(path)
    return path if is_uri(path) else os.path.abspath(path)


def inside(folder: str, name: str) -> str:
    """The path of a file in the folder. In a URI some letters are escaped, and options may follow."""
    if not is_uri(folder):
        return f"{folder.rstrip('/')}/{name}"
    folder, mark, options = folder.partition("?")
    return f"{folder.rstrip('/')}/{quote(name)}{mark}{options}"


def opened(path: str) -> Any:
    import pyarrow.parquet

    system, inner = storage.system_of(path)
    with reading(path):
        return storage.retried(path, lambda: pyarrow.parquet.ParquetFile(system.open_input_file(inner),
                                                                         pre_buffer=False))


def parquet_files(folder: Path) -> list[str]:
    """The files of a folder by name, also of folders within it; a single file is itself."""
    return list(by_path(absolute(folder)))


class Found(NamedTuple):
    """What a folder says of a file: its name there, its bytes, and when it was written."""

    name: str
    size: int
    written: int | None


def by_path(folder: str) -> dict[str, Found]:
    """The same, and what the folder says of each."""
    from pyarrow import fs

    system, inner = storage.system_of(folder)
    info = storage.retried(folder, lambda: system.get_file_info(inner))
    if info.type == fs.FileType.File:
        return {folder: Found(os.path.basename(inner), info.size, info.mtime_ns)}
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no folder '{folder}'")
    there = [Found(info.path[len(inner):].lstrip("/"), info.size, info.mtime_ns) for info in storage.listed(folder)]
    shown = {inside(folder, found.name): found for found in sorted(there)
             if found.name.endswith(".parquet") and not is_hidden(found.name)}
    if not shown:
        raise FileNotFoundError(f"there are no Parquet files (*.parquet) in '{folder}'")
    return shown


def is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def pieces(files: Iterable[str]) -> list[Piece]:
    """Row groups of all files, together up to the size of a piece."""
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        return list(itertools.chain.from_iterable(pool.map(pieces_of, files)))


def pieces_of(path: str) -> list[Piece]:
    found = []
    metadata = opened(path).metadata
    groups: list[int] = []
    size = first = rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if groups and size + group.total_byte_size > PIECE_BYTES:
            found.append(Piece(path, tuple(groups), first, rows))
            groups, size, first, rows = [], 0, first + rows, 0
        groups.append(number)
        size, rows = size + group.total_byte_size, rows + group.num_rows
    if rows:
        found.append(Piece(path, tuple(groups), first, rows))
    return found
