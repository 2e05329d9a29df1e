# SPDX-License-Identifier: Apache-2.0
"""Which ids have been seen, and where, so that one that is there twice can be named."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .columns import shown

if TYPE_CHECKING:
    import pyarrow as pa

    Part = tuple[str, NDArray[np.int64], pa.Array | None]

BYTES_KEPT = 16_000_000  # of ids; if there are more, only the ids of support rows are kept


class RepeatedId(ValueError):
    """Two rows have the same id."""

    def __init__(self, repeated: int | str | bytes, first: str, second: str) -> None:
        super().__init__(repeated, first, second)
        self.repeated, self.first, self.second = repeated, first, second

    def __str__(self) -> str:
        places = f"a row of {self.first} and one of {self.second}"
        places = f"two rows of {self.first}" if self.first == self.second else places
        return (f"{places} have the same id {shown(self.repeated)}; give every row an id of its own, or drop the "
                "repeated ones")


class Seen:
    """Ids by file or partition: all of them while they are few."""

    def __init__(self) -> None:
        self.parts: list[Part] = []  # (file or partition, numbers of ids, the ids themselves if they are texts)
        self.whole = True

    @property
    def nbytes(self) -> int:
        return sum(numbers.nbytes + (0 if texts is None else texts.nbytes) for _, numbers, texts in self.parts)

    def add(self, where: str, numbers: NDArray[np.int64], texts: pa.Array | None, drawn: NDArray[np.int64]) -> None:
        """'drawn' are the ids of the support rows, should only those be kept."""
        part = where, numbers, texts
        part = part if self.whole else among(part, drawn)
        if len(part[1]):  # most batches of a long file have none
            self.parts.append(part)
            self.shorten(drawn)

    def merge(self, other: Seen, drawn: NDArray[np.int64]) -> None:
        self.whole &= other.whole
        self.parts += other.parts
        self.shorten(drawn)

    def shorten(self, drawn: NDArray[np.int64]) -> None:
        if self.whole and self.nbytes <= BYTES_KEPT:
            return
        # Ids that were drawn and have been pushed out since are dropped when they are as many as the others.
        if self.whole or sum(len(numbers) for _, numbers, _ in self.parts) > 2 * len(drawn):
            self.parts = [part for part in (among(part, drawn) for part in self.parts) if len(part[1])]
        self.whole = False

    def require_unique(self) -> None:
        """Raises a sentence that names an id that two rows have, and where they are."""
        sizes = [len(numbers) for _, numbers, _ in self.parts]
        numbers = np.concatenate([numbers for _, numbers, _ in self.parts]) if self.parts else np.empty(0, np.int64)
        order = np.argsort(numbers, kind="stable")
        again = np.flatnonzero(np.diff(numbers[order]) == 0)
        if len(again):
            ends = np.cumsum(sizes)
            first, second = (self.at(ends, order[again[0] + n]) for n in (0, 1))
            raise RepeatedId(first[1], first[0], second[0])

    def at(self, ends: NDArray[np.int64], position: int) -> tuple[str, int | str | bytes]:
        part = int(np.searchsorted(ends, position, side="right"))
        where, numbers, texts = self.parts[part]
        row = int(position - (ends[part - 1] if part else 0))
        return where, int(numbers[row]) if texts is None else texts[row].as_py()


def among(part: Part, kept: NDArray[np.int64]) -> Part:
    import pyarrow as pa

    where, numbers, texts = part
    rows = np.flatnonzero(np.isin(numbers, kept))
    return where, numbers[rows], None if texts is None else texts.take(pa.array(rows))
