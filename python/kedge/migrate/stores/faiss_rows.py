# SPDX-License-Identifier: Apache-2.0
"""The rows of an index file and of what is staged over it as one sequence."""
from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._errors import Error
from ..types import Id, Places, Vectors
from .faiss_flat import Ids, Take
from .faiss_staged import Staged


class View:
    """ids in a fixed order, and take(places) for the rows at some places of it."""

    def __init__(self, ids: Ids, take: Take, straight: bool = False, keeping: Any = None) -> None:
        self.ids, self.take = ids, take
        self.keeping = keeping    # FAISS frees an index with its last Python reference, whatever still reads from it
        self.straight = straight  # whether the staged rows are all rows, in this order

    @staticmethod
    def over(base: View | None, staged: Staged, own_ids: bool) -> View:
        """The file's rows, with staged ones replaced, removed and appended. Without ids, row numbers give the order."""
        if not staged.exists():
            return base if base is not None else View(np.empty(0, np.int64), empty(staged.width))
        ids, slots, removed = staged.live()
        matrix = staged.matrix()
        if base is None:
            order = slice(None) if own_ids or not (np.diff(ids) < 0).any() else np.argsort(ids, kind="stable")
            ids, slots = ids[order], slots[order]
            return View(ids, lambda places: matrix.take(slots[places]), bool((slots == np.arange(len(slots))).all()))
        # Where a row is: its place in the file, or -1 minus its place among the staged.
        where = np.arange(len(base.ids))
        found, places = lookup(base.ids, ids)
        where[places] = -1 - slots[found]
        fresh = np.setdiff1d(np.arange(len(ids)), found)
        joined, where = np.concatenate([base.ids, ids[fresh]]), np.concatenate([where, -1 - slots[fresh]])
        kept = np.ones(len(joined), bool)
        kept[lookup(base.ids, removed)[1]] = False
        joined, where = joined[kept], where[kept]
        if not own_ids:
            order = np.argsort(joined, kind="stable")
            joined, where = joined[order], where[order]

        def take(places: Places) -> Vectors:
            chosen = where[places]
            rows = np.empty((len(places), staged.width), np.float32)
            old = chosen >= 0
            rows[old] = base.take(chosen[old])
            rows[~old] = matrix.take(-1 - chosen[~old])
            return rows
        return View(joined, take)

    def without(self, gaps: list[int] | None) -> View:
        """The same but for these ids, which stand for nothing."""
        if not gaps:
            return self
        kept = np.flatnonzero(~np.isin(self.ids, gaps))
        return View(self.ids[kept], lambda places: self.take(kept[places]), keeping=self)

    def with_gaps(self, width: int) -> tuple[View, list[int]]:
        """All numbers up to the last, with zeros for those that have no row, and the list of those."""
        ids = np.arange(int(self.ids[-1]) + 1 if len(self.ids) else 0)
        if len(ids) == len(self.ids):
            return self, []
        where = np.full(len(ids), -1)
        where[self.ids] = np.arange(len(self.ids))

        def take(places: Places) -> Vectors:
            rows = np.zeros((len(places), width), np.float32)
            there = where[places] >= 0
            rows[there] = self.take(where[places[there]])
            return rows
        return View(ids, take, keeping=self), np.flatnonzero(where < 0).tolist()

    def behind(self, key: Id, path: pathlib.Path) -> int:
        """The place after an id."""
        _, found = lookup(self.ids, np.array([key]))
        if not len(found):
            raise Error(f"{path}: the row {key}, after which reading was to go on, is no longer there; start again")
        return int(found[0]) + 1


def empty(width: int) -> Take:
    return lambda places: np.empty((len(places), width), np.float32)


def lookup(ids: Ids, wanted: npt.ArrayLike) -> tuple[Places, Places]:
    """Which of 'wanted' are in ids, as indices into 'wanted', and their places in ids."""
    wanted = np.asarray(wanted, np.int64)
    if len(ids) and ids[0] == 0 and ids[-1] == len(ids) - 1 and (np.diff(ids) == 1).all():
        found = np.flatnonzero((wanted >= 0) & (wanted < len(ids)))
        return found, wanted[found]
    order = np.argsort(ids, kind="stable")
    places = np.searchsorted(ids[order], wanted)
    found = np.flatnonzero(places < len(ids))
    found = found[ids[order[places[found]]] == wanted[found]]
    return found, order[places[found]]
