# SPDX-License-Identifier: Apache-2.0
"""Ways to spoil a row of a folder of Parquet files, and what must be said about it."""
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW = 7  # of the second file
Spoilt = tuple[pa.Table, str]  # the rows, and a pattern of what must be said


def broken(folder: pathlib.Path, kind: str) -> str:
    """Spoils the row, and gives a pattern of what names it."""
    path = folder / "part-001.parquet"
    rows = pq.read_table(path)
    key = rows.column("id")[ROW].as_py()
    rows, pattern = BAD[kind](rows, key)
    pq.write_table(rows, path)
    return pattern


def replaced(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, pa.chunked_array([values]))


def lists(rows: pa.Table, name: str) -> list[Any]:
    return list(rows.column(name).to_pylist())


def no_vector(rows: pa.Table, key: object) -> Spoilt:
    values = lists(rows, "emb_b")
    values[ROW] = None
    return (replaced(rows, "emb_b", pa.array(values, pa.list_(pa.float32(), 16))),
            rf"part-001.parquet.*id {key} has no vector")


def null_inside(rows: pa.Table, key: object) -> Spoilt:
    values = lists(rows, "emb_b")
    values[ROW][3] = None
    return (replaced(rows, "emb_b", pa.array(values, pa.list_(pa.float32(), 16))),
            rf"part-001.parquet.*id {key} .*holds a null")


def another_width(rows: pa.Table, key: object) -> Spoilt:
    values = lists(rows, "emb_b")
    values[ROW] = values[ROW][:5]
    return (replaced(rows, "emb_b", pa.array(values, pa.list_(pa.float32()))),
            rf"part-001.parquet.*id {key} has a vector of 5 values where others have 16")


def all_of_another_width(rows: pa.Table, key: object) -> Spoilt:
    values = [row[:5] for row in lists(rows, "emb_b")]
    return (replaced(rows, "emb_b", pa.array(values, pa.list_(pa.float32(), 5))),
            r"part-001.parquet.*has a vector of 5 values where others have 16")


def not_a_number(rows: pa.Table, key: object) -> Spoilt:
    values = lists(rows, "emb_a")
    values[ROW][0] = float("nan")
    return (replaced(rows, "emb_a", pa.array(values, pa.list_(pa.float32(), 24))),
            rf"part-001.parquet.*id {key} .*NaN or infinity")


def no_id(rows: pa.Table, key: object) -> Spoilt:
    ids = rows.column("id").to_pylist()
    ids[ROW] = None
    return replaced(rows, "id", pa.array(ids, pa.int64())), rf"part-001.parquet: row {ROW} has no id"


def the_id_of_another_file(rows: pa.Table, key: object) -> Spoilt:
    ids = np.array(rows.column("id").to_pylist())
    ids[ROW] = 3
    return (replaced(rows, "id", pa.array(ids)),
            r"part-00[01].parquet and one of .*part-00[01].parquet have the same id 3")


def the_id_of_the_same_file(rows: pa.Table, key: object) -> Spoilt:
    ids = np.array(rows.column("id").to_pylist())
    ids[ROW] = ids[ROW + 100]
    return replaced(rows, "id", pa.array(ids)), rf"two rows of .*part-001.parquet have the same id {ids[ROW]}"


BAD = {function.__name__: function for function in
       (no_vector, null_inside, another_width, all_of_another_width, not_a_number, no_id, the_id_of_another_file,
        the_id_of_the_same_file)}


def repeated_ids(folder: pathlib.Path, kind: pa.DataType | None = None) -> None:
    """Seven ids of the first file are those of rows of the third too; all ids become of this type."""
    for number in range(3):
        path = folder / f"part-{number:03d}.parquet"
        rows = pq.read_table(path)
        ids = np.array(rows.column("id").to_pylist())
        ids[5:12] -= 400 if number == 2 else 0
        values = pa.array([f"row-{value}" for value in ids] if kind is not None else ids, kind)
        pq.write_table(replaced(rows, "id", values), path)
