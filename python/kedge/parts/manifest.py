# SPDX-License-Identifier: Apache-2.0
"""Which files of an output folder are finished, so that a second run of the same map goes on where the first one ended.

Every file names the map that made it in its own metadata. When all of them are there, _kedge.json lists them.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .._arrow import ReadError, reading
from . import files, storage
from .apply import Application
from .files import Found, Piece

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "_kedge.json"
KEY = b"kedge.map"
MAGIC = b"PAR1"  # begins and ends a Parquet file


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of the rows, the file that it becomes, and the name of that within the output folder."""

    piece: Piece
    target: str
    name: str


def name_of(application: Application, keep: Sequence[str], parts: Sequence[Part], sources: Sequence[Found]) -> str:
    """One name for the same map of the same rows. 'sources' says what is known of the files without reading them."""
    plan = [(part.name, part.piece.groups, part.piece.rows) for part in parts]
    told = json.dumps([application.spaces, application.column, application.into, bool(application.normalize), keep,
                       plan, sources])  # not a pickle, which says of equal texts whether they are one object
    return hashlib.sha256(application.bundle.__getstate__() + told.encode()).hexdigest()


def marked(schema: pa.Schema, name: str) -> pa.Schema:
    """With the name of the map, which files keep with their schema."""
    return schema.with_metadata({**(schema.metadata or {}), KEY: name})


def finished(output: str, parts: Sequence[Part], name: str) -> dict[str, int]:
    """The parts that are there and whole, with their bytes. Raises if there are Parquet files of anything else."""
    _, inner = storage.system_of(output)
    sizes = {info.path[len(inner):].lstrip("/"): info.size for info in storage.listed(output)}
    there = {path: size for path, size in sizes.items() if path.endswith(".parquet") and not files.is_hidden(path)}
    by_name = {part.name: part for part in parts}
    for path in sorted(there.keys() - by_name.keys()):
        raise other_files(output, path)
    with ThreadPoolExecutor(files.OPENED_AT_ONCE) as pool:
        whole = pool.map(lambda path: is_whole(output, by_name[path], there[path], name), there)
        return {path: there[path] for path, kept in zip(there, whole) if kept}


def is_whole(output: str, part: Part, size: int, name: str) -> bool:
    """By its size and its number of rows. Raises if it belongs to another map, or may do so."""
    try:
        metadata = files.opened(part.target).metadata
    except ReadError:
        first, last = ends(part.target)
        if not MAGIC.startswith(first):
            raise other_files(output, part.name) from None
        if last == MAGIC:  # so that storage has failed, or the file is spoilt within
            raise
        return False  # cut, by whoever copied it, or empty
    if (metadata.metadata or {}).get(KEY) != name.encode():
        raise other_files(output, part.name)
    return metadata.num_rows == part.piece.rows and size >= bytes_of(metadata)


def ends(path: str) -> tuple[bytes, bytes]:
    system, inner = storage.system_of(path)
    with reading(path), system.open_input_file(inner) as file:
        return file.read_at(len(MAGIC), 0), file.read_at(len(MAGIC), max(file.size() - len(MAGIC), 0))


def bytes_of(metadata: Any) -> int:
    """Of a file with this end, at least."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    data = max((int(column.dictionary_page_offset or column.data_page_offset) + int(column.total_compressed_size)
                for column in columns), default=0)
    return data + int(metadata.serialized_size) + 8


def other_files(output: str, name: str) -> FileExistsError:
    return FileExistsError(f"'{output}' already has Parquet files, such as {name}, that are not of this map of these "
                           "rows; name a new folder, or remove them first")


def remove(output: str) -> None:
    """Before files are written that it does not speak of."""
    from pyarrow import fs

    system, inner = storage.system_of(files.inside(output, NAME))

    def once() -> None:
        if system.get_file_info(inner).type == fs.FileType.File:  # HDFS does not say why it cannot delete
            system.delete_file(inner)

    storage.retried(output, once)


def write(output: str, name: str, parts: Sequence[Part], sizes: dict[str, int]) -> None:
    """Says that all parts are there."""
    listed = {part.name: {"rows": part.piece.rows, "bytes": sizes[part.name]} for part in parts}
    text = json.dumps({"map": name, "parts": listed}, indent=1).encode()

    def once() -> None:
        with storage.output_stream(files.inside(output, NAME)) as stream:
            stream.write(text)

    storage.retried(output, once)
