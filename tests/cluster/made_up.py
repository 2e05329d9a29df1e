# SPDX-License-Identifier: Apache-2.0
"""Embeddings of the same inputs by three made-up encoders, as arrays and as a folder of Parquet files."""
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kedge import Bundle

DIMS = {"a": 24, "b": 16, "c": 20}
Spaces = dict[str, np.ndarray]
COLUMNS = {"a": "emb_a", "b": "emb_b"}


def encoders(rows: int, seed: int = 0, dtype: type[np.floating[Any]] = np.float32) -> Spaces:
    """Vectors of three encoders that see the same ten hidden values."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 10))
    return {name: (np.tanh(hidden @ rng.normal(size=(10, dim))) + .05 * rng.normal(size=(rows, dim))).astype(dtype)
            for name, dim in DIMS.items()}


def vectors(matrix: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def table(spaces: Spaces, ids: Any) -> pa.Table:
    return pa.table({"id": ids, **{f"emb_{name}": vectors(rows) for name, rows in spaces.items()}})


def folder_of(path: pathlib.Path, spaces: Spaces, ids: Any, parts: int, row_group_size: int = 64) -> pathlib.Path:
    """The rows in so many files, in the order given."""
    path.mkdir()
    whole = table(spaces, ids)
    edges = np.linspace(0, len(whole), parts + 1).astype(int)
    for n in range(parts):
        pq.write_table(whole.slice(edges[n], edges[n + 1] - edges[n]), path / f"part-{n:03d}.parquet",
                       row_group_size=row_group_size)
    return path


def by_id(table: pa.Table, name: str) -> np.ndarray:
    """Vectors of a column in the order of ids."""
    ids = np.asarray(table.column("id").to_pylist())
    rows = np.array(table.column(name).to_pylist(), np.float32)
    return rows[np.argsort(ids, kind="stable")]


def difference(one: Bundle, other: Bundle) -> float:
    """Of two bundles: the largest difference of their maps, relative to the size of the values."""
    assert list(one.support_ids) == list(other.support_ids)
    worst = 0.0
    for space in one.spaces:
        a, b = one[space], other[space]
        for x, y in ((a.weight, b.weight), (a.bias, b.bias)):
            worst = max(worst, float(np.abs(np.asarray(x) - np.asarray(y)).max() / np.abs(np.asarray(y)).max()))
    return worst
