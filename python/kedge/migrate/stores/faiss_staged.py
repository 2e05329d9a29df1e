# SPDX-License-Identifier: Apache-2.0
"""Rows that are written but not yet part of an index: docs_new.index.rows and docs_new.index.log beside it.

.rows has a gap as large as the head of a Flat index and then the rows as they came. .log has a record for each batch:
the ids, and where each row stands in .rows, or -1 for one that was removed. The last word on an id counts. A batch
counts once its record is whole, so a process that is killed leaves all of a batch or nothing.
"""
from __future__ import annotations

import os
import pathlib
import struct
import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..._output_file import sync
from ..types import Vectors
from .faiss_flat import Ids, Matrix
from .files import with_ending, write_durably

Entries: TypeAlias = npt.NDArray[np.void]  # of ENTRY

ROWS, LOG = ".rows", ".log"
RECORD = struct.Struct("<4sIQ")  # KDGR, checksum, entries
MAGIC = b"KDGR"
ENTRY = np.dtype([("id", "<i8"), ("slot", "<i8")])


class Staged:
    def __init__(self, index_path: pathlib.Path, width: int, gap: int) -> None:
        self.rows_path, self.log_path = with_ending(index_path, ROWS), with_ending(index_path, LOG)
        self.width, self.gap = width, gap
        self._stamp: tuple[int, int] | None = None
        self._parts: list[Entries] = []
        self._length, self._next = 0, 0

    def exists(self) -> bool:
        """Without rows the log is left over from an index that was finished."""
        return self.rows_path.exists()

    def begin(self) -> None:
        if self.exists():
            return
        self.log_path.unlink(missing_ok=True)
        self.log_path.touch()
        self.rows_path.touch()
        sync(self.rows_path.parent)

    def _catch_up(self) -> None:
        """Reads the log if it is not what this object left behind."""
        try:
            found = os.stat(self.log_path)
            stamp = (found.st_ino, found.st_size)
        except FileNotFoundError:
            stamp = None
        if stamp != self._stamp or stamp is None:
            self._parts, self._length = parse(self.log_path.read_bytes() if stamp else b"")
            self._next = max((int(part["slot"].max(initial=-1)) + 1 for part in self._parts), default=0)
            self._stamp = stamp

    def entries(self) -> Entries:
        self._catch_up()
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0] if self._parts else np.empty(0, ENTRY)

    def append(self, ids: Ids, vectors: Vectors | None) -> None:
        """Durable on return; if it fails, what was written is not counted and the next batch overwrites it."""
        self.begin()
        self._catch_up()
        added = np.empty(len(ids), ENTRY)
        added["id"] = ids
        added["slot"] = -1 if vectors is None else self._next + np.arange(len(ids))
        if vectors is not None:
            place = self.gap + 4 * self.width * self._next
            write_durably(self.rows_path, np.ascontiguousarray(vectors, "<f4").data, place)
        data = added.tobytes()
        write_durably(self.log_path, RECORD.pack(MAGIC, zlib.crc32(data), len(added)) + data, self._length, cut=True)
        self._parts.append(added)
        self._length += RECORD.size + len(data)
        self._next += 0 if vectors is None else len(ids)
        self._stamp = (os.stat(self.log_path).st_ino, self._length)

    def live(self) -> tuple[Ids, Ids, Ids]:
        """The ids that have a row, in the order they first came, and the slots of their rows; and all removed ids."""
        entries = self.entries()
        ids, slots = entries["id"], entries["slot"]
        sorted_ids = np.sort(ids)
        if not (sorted_ids[1:] == sorted_ids[:-1]).any():  # each came once
            kept, removed = slots >= 0, ids[slots < 0]
            return ids[kept], slots[kept], removed
        unique, first = np.unique(ids, return_index=True)
        last = len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]
        order = np.argsort(first, kind="stable")
        unique, final = unique[order], slots[last[order]]
        return unique[final >= 0], final[final >= 0], unique[final < 0]

    def matrix(self) -> Matrix:
        return Matrix(self.rows_path, self.gap, self.width)

    def remove(self) -> None:
        self.rows_path.unlink(missing_ok=True)
        self.log_path.unlink(missing_ok=True)


def parse(data: bytes) -> tuple[list[Entries], int]:
    """The entries of every whole record from the start, and how many bytes those are."""
    parts, at = [], 0
    while at + RECORD.size <= len(data):
        magic, check, count = RECORD.unpack_from(data, at)
        body = data[at + RECORD.size:at + RECORD.size + count * ENTRY.itemsize]
        if magic != MAGIC or len(body) != count * ENTRY.itemsize or zlib.crc32(body) != check:
            break
        parts.append(np.frombuffer(body, ENTRY))
        at += RECORD.size + len(body)
    return parts, at
