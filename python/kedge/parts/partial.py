# SPDX-License-Identifier: Apache-2.0
"""What one worker knows of its rows; the partials of all workers add up to what a fit needs."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .columns import Columns
from .seen import Seen

if TYPE_CHECKING:
    import pyarrow as pa

Support = int | NDArray[np.int64]  # how many rows to draw, or their ids

BATCH_ROWS = 4096


class Partial:
    """Moments with support rows, and which ids they come from. Pickled to travel between workers."""

    def __init__(self, columns: Columns, support: Support, seed: int) -> None:
        self.columns, self.support, self.seed = columns, support, seed
        self.moments = _core.Moments(support=support, seed=seed)
        self.seen = Seen()
        self.read: dict[str, int] = {}  # rows so far, by file or partition

    @property
    def rows(self) -> int:
        return self.moments.rows

    def add(self, batch: pa.RecordBatch, where: str, first_row: int = 0) -> None:
        """Adds an Arrow batch, some rows at a time, so that memory does not grow with it. 'where' is its file or
        partition, whose first batch begins at 'first_row'."""
        for first in range(0, batch.num_rows, BATCH_ROWS):
            self.add_rows(batch.slice(first, BATCH_ROWS), where, self.read.setdefault(where, first_row))

    def add_rows(self, batch: pa.RecordBatch, where: str, row: int) -> None:
        numbers, spaces = self.columns.read(batch, where, row)
        texts = self.columns.texts(batch)
        try:
            self.moments.add(spaces, ids=numbers)
        except ValueError as error:
            self.columns.explain(batch, where)
            self.seen.parts.append((where, numbers, texts))
            self.seen.require_unique()
            raise ValueError(f"{where}, from row {row}: {error}") from None
        self.seen.add(where, numbers, texts, self.moments.support_ids)
        self.read[where] += len(numbers)

    def merge(self, other: Partial) -> Partial:
        """Adds what another worker knows, and returns the sum."""
        try:
            self.moments.merge(other.moments)
        except ValueError:
            self.seen.parts += other.seen.parts
            self.seen.require_unique()
            raise
        self.seen.merge(other.seen, self.moments.support_ids)
        return self
