# SPDX-License-Identifier: Apache-2.0
"""npy:docs.npy: rows of a .npy file; the number of a row is its id, and a row of NaN is one that is not there yet."""
from __future__ import annotations

import json
import os
import pathlib

import numpy as np

from ..errors import BadFile, Error
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from .scores import best_of


class NpyStore(Store):
    def __init__(self, address):
        super().__init__(address)
        self.path = pathlib.Path(address.split(":", 1)[1])
        self.owner_path = self.path.with_name(self.path.name + ".owner.json")

    def beside(self, ending):
        return NpyStore(f"npy:{self.path.with_name(self.path.stem + ending + self.path.suffix)}")

    def _open(self, mode="r"):
        try:
            rows = np.load(self.path, mmap_mode=mode, allow_pickle=False)
        except FileNotFoundError:
            raise Missing(f"{self.path}: there is no such file") from None
        except (OSError, ValueError) as error:
            raise BadFile(f"{self.path} cannot be read as .npy: {error}") from None
        if rows.ndim != 2 or rows.dtype.kind != "f":
            raise BadFile(f"{self.path} holds {rows.dtype} of shape {rows.shape}; expected a matrix of floats, a row for "
                          "each document")
        return rows

    def _owner(self):
        try:
            return json.loads(self.owner_path.read_text())["owner"]
        except (OSError, ValueError, KeyError):
            return None

    def create(self, like, width, owner):
        if self.path.exists():
            if self._owner() != owner:
                raise Error(f"{self.path} exists and is not this migration's; move it away, or choose another place with "
                            "'into'")
            return
        rows = like.describe().rows
        self.owner_path.write_text(json.dumps({"owner": owner}))
        partial = self.path.with_name(self.path.name + ".partial")
        made = np.lib.format.open_memmap(partial, "w+", np.float32, (rows, width))
        for first in range(0, rows, BATCH_ROWS):
            made[first:first + BATCH_ROWS] = np.nan
        made.flush()
        os.replace(partial, self.path)

    def describe(self):
        rows = self._open()
        kind = "float16" if rows.dtype.itemsize == 2 else "float32"
        return Contents(len(rows), rows.shape[1], kind, owner=self._owner(),
                        atomic="two files change names one after the other; for an instant there is none of that name")

    def read(self, *, after=None, ids=None, changed=None, vectors=True, texts=False, size=BATCH_ROWS):
        rows = self._open()
        wanted = (np.array(sorted(set(ids)), np.int64) if ids is not None
                  else np.arange(0 if after is None else after + 1, len(rows)))
        wanted = wanted[(wanted >= 0) & (wanted < len(rows))]
        for first in range(0, len(wanted), size):
            batch = wanted[first:first + size]
            found = np.asarray(rows[batch], np.float32)
            there = ~np.isnan(found).all(axis=1)
            yield Rows(batch[there].tolist(), found[there] if vectors else None)

    def write(self, ids, vectors):
        rows = self._open("r+")
        rows[np.asarray(ids, np.int64)] = np.nan if vectors is None else vectors
        rows.flush()

    def search(self, queries, k):
        return best_of(self.read(), queries, k, self.describe().metric)

    def switch(self, put, keep):
        for source, target in ((self, keep), (put, self)):
            if source.path.exists() and not target.path.exists():
                os.rename(source.path, target.path)
                if source.owner_path.exists():
                    os.rename(source.owner_path, target.owner_path)

    def drop(self):
        self.path.unlink(missing_ok=True)
        self.owner_path.unlink(missing_ok=True)
