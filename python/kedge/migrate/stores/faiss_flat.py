# SPDX-License-Identifier: Apache-2.0
"""FAISS files with rows of plain floats, Flat and IDMap around it, read and written without loading them.

A Flat file is a head and the rows. An IDMap is a head, a Flat file, and the ids. Heads are made by FAISS; only the
numbers of rows in them are filled in here.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import struct
from collections.abc import Callable
from typing import TypeAlias

import faiss
import numpy as np
import numpy.typing as npt

from ..._errors import BadFile
from ..types import Places, Vectors

Ids: TypeAlias = npt.NDArray[np.int64]
Take: TypeAlias = Callable[[Places], Vectors]  # the rows at some places

FLAT = {b"IxFI", b"IxF2", b"IxFl"}
MAPS = {b"IxMp": "IDMap", b"IxM2": "IDMap2"}
COMMON = struct.Struct("<4siqqqBi")  # what it is, width, rows, twice nothing, whether trained, metric
COUNT = struct.Struct("<Q")
ROWS_AT = 8                          # where the number of rows stands in COMMON
FLAT_HEAD = COMMON.size + COUNT.size
MOST_WIDTH = 1 << 20


@dataclasses.dataclass
class Layout:
    words: str
    width: int
    rows: int
    metric: int
    matrix_at: int
    ids_at: int | None


def layout(path: pathlib.Path) -> Layout | None:
    """Where things are in a Flat or IDMap,Flat file, checked against its size; None if it is neither."""
    with open(path, "rb") as file:
        start = file.read(COMMON.size + FLAT_HEAD)
        size = os.fstat(file.fileno()).st_size
    at, words = 0, "Flat"
    if start[:4] in MAPS:
        at, words = COMMON.size, f"{MAPS[start[:4]]},Flat"
    if start[at:at + 4] not in FLAT:
        return None
    if len(start) < at + FLAT_HEAD:
        raise BadFile(f"{path} is cut short: it ends within its head; copy it again")
    _, width, rows, _, _, _, metric = COMMON.unpack_from(start, at)
    values, = COUNT.unpack_from(start, at + COMMON.size)
    if not 0 < width <= MOST_WIDTH or rows < 0 or values != rows * width or metric not in (0, 1):
        raise BadFile(f"{path} is damaged, or uses a metric other than L2 and inner product: its head says {rows} rows "
                      f"of {width} values, {values} in all, and the metric {metric}")
    matrix_at = at + FLAT_HEAD
    ids_at = matrix_at + 4 * values + COUNT.size
    expected = ids_at + 8 * rows if at else matrix_at + 4 * values
    if size < expected:
        raise BadFile(f"{path} is cut short: {rows} rows of {width} values need {expected} bytes, it has {size}; copy "
                      "it again")
    if at:
        with open(path, "rb") as file:
            count, = COUNT.unpack(os.pread(file.fileno(), COUNT.size, ids_at - COUNT.size))
        if count != rows or COMMON.unpack_from(start)[1:3] != (width, rows):
            raise BadFile(f"{path} is damaged: it holds {rows} rows and {count} ids")
    return Layout(words, width, rows, metric, matrix_at, ids_at if at else None)


def head(words: str, width: int, metric: int, rows: int) -> bytes:
    """The bytes before the rows."""
    begin = bytearray(faiss.serialize_index(faiss.index_factory(width, words, metric)).tobytes())
    at = COMMON.size if words != "Flat" else 0
    del begin[at + FLAT_HEAD:]
    for place in {0, at}:
        struct.pack_into("<q", begin, place + ROWS_AT, rows)
    COUNT.pack_into(begin, at + COMMON.size, rows * width)
    return bytes(begin)


def head_size(words: str) -> int:
    return FLAT_HEAD + (COMMON.size if words != "Flat" else 0)


def tail(words: str, ids: Ids) -> bytes:
    """The bytes behind the rows."""
    return b"" if words == "Flat" else COUNT.pack(len(ids)) + np.ascontiguousarray(ids, "<i8").tobytes()


class Matrix:
    """float32 rows in a file from some byte on, read a few at a time so that memory does not grow with the file."""

    def __init__(self, path: pathlib.Path, at: int, width: int) -> None:
        self.file = os.open(path, os.O_RDONLY)
        self.path, self.at, self.width = path, at, width

    def take(self, places: Places) -> Vectors:
        rows = np.empty((len(places), self.width), "<f4")
        runs = np.flatnonzero(np.diff(places) != 1) + 1
        for first, last in zip([0, *runs], [*runs, len(places)]):
            self._fill(rows[first:last], int(places[first]) if len(places) else 0)
        return rows

    def _fill(self, rows: Vectors, place: int) -> None:
        room = rows.data.cast("B") if rows.size else memoryview(b"")
        at = self.at + 4 * self.width * place
        while len(room):
            done = os.preadv(self.file, [room], at)
            if not done:
                raise BadFile(f"{self.path} is cut short: row {place} is missing; copy it again")
            room, at = room[done:], at + done

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)


def stored_ids(path: pathlib.Path, found: Layout) -> Ids:
    if found.ids_at is None:
        return np.arange(found.rows)
    with open(path, "rb") as file:
        file.seek(found.ids_at)
        return np.fromfile(file, "<i8", found.rows)
