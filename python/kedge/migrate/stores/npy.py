# SPDX-License-Identifier: Apache-2.0
"""npy:docs.npy: rows of a .npy file; the number of a row is its id, and a row of NaN is one that is not there.

The new file has its full size from the start. Rows are replaced in place, so a process that is killed while it writes a
batch leaves some of that batch's rows as they were, and the batch is to be written again.
"""
from __future__ import annotations

import dataclasses
import io
import os
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from ..._address import path_of
from ..._errors import BadFile, Error
from ..._output_file import output_file
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Floats, Id, Mask, Moment, Places, Vectors
from .files import Mark, file_errors, switch_files, with_ending, write_all
from .require import require_free
from .scores import best_of

MARK = ".owner.json"


class NpyStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.path = pathlib.Path(path_of(address))
        self.mark = Mark(with_ending(self.path, MARK))

    def beside(self, ending: str) -> NpyStore:
        return NpyStore(f"npy:{self.path.with_name(self.path.stem + ending + self.path.suffix)}")

    def _open(self) -> np.memmap[Any, np.dtype[Any]]:
        try:
            rows = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise Missing(f"{self.path}: there is no such file") from None
        except (OSError, ValueError, EOFError) as error:
            raise BadFile(f"{self.path} cannot be read as .npy: {error}") from None
        if not isinstance(rows, np.memmap) or rows.ndim != 2 or rows.dtype.kind != "f":
            raise BadFile(f"{self.path} holds {getattr(rows, 'dtype', 'several arrays')} of shape "
                          f"{getattr(rows, 'shape', '')}; expected a matrix of floats, a row for each document")
        return rows

    def create(self, like: Store, width: int, owner: str) -> None:
        if require_free(self.path, self.path.exists(), self.mark.owner(), owner):
            return
        old = like.describe()
        kind = np.dtype(np.float16 if old.kind == "float16" else np.float32)
        with file_errors("write", self.path):
            self.mark.write({"owner": owner})
            with output_file(self.path) as partial, open(partial, "wb") as file:
                file.write(header(kind, old.rows, width))
                for first in range(0, old.rows, BATCH_ROWS):
                    np.full((min(BATCH_ROWS, old.rows - first), width), np.nan, kind).tofile(file)

    def facts(self) -> Contents:
        rows = self._open()
        return Contents(len(rows), rows.shape[1], "float16" if rows.dtype.itemsize == 2 else "float32",
                        owner=self.mark.owner())

    def describe(self) -> Contents:
        rows = self._open()
        there = sum(int(self._there(rows[first:first + BATCH_ROWS]).sum()) for first in range(0, len(rows), BATCH_ROWS))
        return dataclasses.replace(self.facts(), rows=there)

    def _there(self, rows: Floats) -> Mask:
        """A row of ours that is half NaN is one whose writing was cut short; in a user's file it is one to count."""
        suspects = np.isnan(rows[:, 0]) | np.isnan(rows[:, -1])
        there = ~suspects
        nan = np.isnan(rows[suspects])
        there[suspects] = ~(nan.any(axis=1) if self.mark.owner() else nan.all(axis=1))
        return there

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        rows = self._open()
        wanted = (np.array(sorted(set(ids)), np.int64) if ids is not None
                  else np.arange(0 if after is None else int(str(after)) + 1, len(rows)))
        wanted = wanted[(wanted >= 0) & (wanted < len(rows))]
        for first in range(0, len(wanted), size):
            batch = wanted[first:first + size]
            found = np.asarray(rows[batch] if ids is not None else rows[batch[0]:batch[-1] + 1])
            there = self._there(found)
            if there.any():
                yield Rows(batch[there].tolist(), np.asarray(found[there], np.float32) if vectors else None)

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        rows = self._open()
        numbers = np.asarray(ids, np.int64)
        if not len(numbers):
            return
        if numbers.min() < 0:
            raise Error(f"{self.path}: {numbers.min()} is not the number of a row")
        if vectors is None:
            numbers = numbers[numbers < len(rows)]
            vectors = np.full((len(numbers), rows.shape[1]), np.nan, np.float32)
        stored = np.asarray(vectors, rows.dtype)
        if stored.shape != (len(numbers), rows.shape[1]):
            raise Error(f"{self.path} holds vectors of {rows.shape[1]} values; found {stored.shape[-1]} for "
                        f"{len(numbers)} ids")
        with file_errors("write", self.path), open(self.path, "rb+") as file:
            self._write(file, rows, numbers, stored)

    def _write(self, file: BinaryIO, rows: np.memmap[Any, np.dtype[Any]], ids: Places, vectors: Floats) -> None:
        # Not through the memory map: on a full disk that would kill the process.
        step = rows.dtype.itemsize * rows.shape[1]
        if ids.max() >= len(rows):
            missing = np.full((int(ids.max()) + 1 - len(rows), rows.shape[1]), np.nan, rows.dtype)
            os.pwrite(file.fileno(), missing.tobytes(), rows.offset + len(rows) * step)
        runs = np.flatnonzero(np.diff(ids) != 1) + 1
        for first, last in zip([0, *runs], [*runs, len(ids)]):
            write_all(file.fileno(), vectors[first:last].tobytes(), rows.offset + int(ids[first]) * step)
        os.fsync(file.fileno())
        if ids.max() >= len(rows):
            longer = header(rows.dtype, int(ids.max()) + 1, rows.shape[1])
            if len(longer) != rows.offset:
                raise Error(f"{self.path} has no room in its header for more rows; save it again with numpy.save")
            os.pwrite(file.fileno(), longer, 0)
            os.fsync(file.fileno())

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        return best_of(self.read(), queries, k, self.facts().metric)

    def switch(self, incoming: NpyStore, outgoing: NpyStore) -> None:
        switch_files(self.path, incoming.path, outgoing.path, [MARK])

    def drop(self) -> None:
        with file_errors("remove", self.path):
            self.path.unlink(missing_ok=True)
            self.mark.path.unlink(missing_ok=True)


def header(kind: np.dtype[Any], rows: int, width: int) -> bytes:
    begin = io.BytesIO()
    np.lib.format.write_array_header_1_0(begin, {"descr": kind.str, "fortran_order": False, "shape": (rows, width)})
    return begin.getvalue()
