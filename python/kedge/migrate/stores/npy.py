# SPDX-License-Identifier: Apache-2.0
"""npy:docs.npy: rows of a .npy file; the number of a row is its id, and a row of NaN is one that is not there.

The new file is as large as it will be from the start. A row is replaced where it stands, so a process that is killed
while it writes a batch leaves some of that batch's rows as they were, and the batch is to be written again.
"""
from __future__ import annotations

import io
import os
import pathlib

import numpy as np

from ..address import path_of
from ..atomic import appearing, with_ending
from ..errors import BadFile, Error
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from .files import Mark, file_errors, switch_files, write_all
from .require import require_free
from .scores import best_of

MARK = ".owner.json"


class NpyStore(Store):
    def __init__(self, address):
        super().__init__(address)
        self.path = pathlib.Path(path_of(address))
        self.mark = Mark(with_ending(self.path, MARK))

    def beside(self, ending):
        return NpyStore(f"npy:{self.path.with_name(self.path.stem + ending + self.path.suffix)}")

    def _open(self):
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

    def create(self, like, width, owner):
        if require_free(self.path, self.path.exists(), self.mark.owner(), owner):
            return
        like = like.describe()
        kind = np.dtype(np.float16 if like.kind == "float16" else np.float32)
        with file_errors("write", self.path):
            self.mark.write(owner)
            with appearing(self.path) as partial, open(partial, "wb") as file:
                file.write(header(kind, like.rows, width))
                for first in range(0, like.rows, BATCH_ROWS):
                    np.full((min(BATCH_ROWS, like.rows - first), width), np.nan, kind).tofile(file)

    def describe(self):
        rows = self._open()
        kind = "float16" if rows.dtype.itemsize == 2 else "float32"
        there = sum(int(self._there(rows[first:first + BATCH_ROWS]).sum()) for first in range(0, len(rows), BATCH_ROWS))
        return Contents(there, rows.shape[1], kind, owner=self.mark.owner())

    def _there(self, rows):
        """A row of ours that is half NaN is one whose writing was cut short; in a user's file it is one to count."""
        suspects = np.isnan(rows[:, 0]) | np.isnan(rows[:, -1])
        there = ~suspects
        nan = np.isnan(rows[suspects])
        there[suspects] = ~(nan.any(axis=1) if self.mark.owner() else nan.all(axis=1))
        return there

    def read(self, *, after=None, ids=None, changed=None, vectors=True, texts=False, size=BATCH_ROWS):
        rows = self._open()
        wanted = (np.array(sorted(set(ids)), np.int64) if ids is not None
                  else np.arange(0 if after is None else after + 1, len(rows)))
        wanted = wanted[(wanted >= 0) & (wanted < len(rows))]
        for first in range(0, len(wanted), size):
            batch = wanted[first:first + size]
            found = np.asarray(rows[batch] if ids is not None else rows[batch[0]:batch[-1] + 1])
            there = self._there(found)
            if there.any():
                yield Rows(batch[there].tolist(), np.asarray(found[there], np.float32) if vectors else None)

    def write(self, ids, vectors):
        rows = self._open()
        ids = np.asarray(ids, np.int64)
        if not len(ids):
            return
        if ids.min() < 0:
            raise Error(f"{self.path}: {ids.min()} is not the number of a row")
        if vectors is None:
            ids = ids[ids < len(rows)]
            vectors = np.full((len(ids), rows.shape[1]), np.nan)
        vectors = np.asarray(vectors, rows.dtype)
        if vectors.shape != (len(ids), rows.shape[1]):
            raise Error(f"{self.path} holds vectors of {rows.shape[1]} values; found {vectors.shape[-1]} for "
                        f"{len(ids)} ids")
        with file_errors("write", self.path), open(self.path, "rb+") as file:
            self._write(file, rows, ids, vectors)

    def _write(self, file, rows, ids, vectors):
        # Not through the map: on a full disk that ends the process without a word.
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

    def search(self, queries, k):
        return best_of(self.read(), queries, k, self.describe().metric)

    def switch(self, put, keep):
        switch_files(self.path, put.path, keep.path, [MARK])

    def drop(self):
        with file_errors("remove", self.path):
            self.path.unlink(missing_ok=True)
            self.mark.path.unlink(missing_ok=True)


def header(kind, rows, width):
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, {"descr": kind.str, "fortran_order": False, "shape": (rows, width)})
    return made.getvalue()
