# SPDX-License-Identifier: Apache-2.0
"""Sums of partials as engines make them, without an engine."""
import functools
import pickle
from collections.abc import Sequence

import pyarrow as pa
from kedge.parts import columns
from kedge.parts.partial import Partial
from made_up import COLUMNS

SUPPORT = 150


def chosen(rows: pa.Table) -> columns.Columns:
    return columns.chosen(COLUMNS, "id", rows.schema, lambda: rows.slice(0, 100))


def summed(batches: Sequence[pa.Table], support: int = SUPPORT, seed: int = 0) -> Partial:
    """The sum of a partial for each batch, pickled on its way."""
    parts: list[Partial] = []
    for number, batch in enumerate(batches):
        part = Partial(chosen(batch), support, seed)
        part.add(batch, f"batch {number}")
        parts.append(pickle.loads(pickle.dumps(part)))
    return functools.reduce(Partial.merge, parts)
