# SPDX-License-Identifier: Apache-2.0
"""Rows that cannot be used, on Ray: a sentence that names the file and the id, and no traceback of a worker."""
from __future__ import annotations

import pathlib
from typing import Any

import kedge
import kedge.ray
import numpy as np
import pyarrow as pa
import pytest
import ray
from bad_rows import BAD, broken, repeated_ids
from made_up import COLUMNS, difference, encoders, folder_of

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nodes")]

ROWS = 600


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return folder_of(tmp_path / "rows", encoders(ROWS), np.arange(ROWS), parts=3)


@pytest.mark.parametrize("kind", BAD)
def test_it_is_named(folder: pathlib.Path, kind: str) -> None:
    sentence = broken(folder, kind)
    with pytest.raises(ValueError, match=sentence) as caught:
        kedge.ray.fit(str(folder), COLUMNS, support=100)
    assert "\n" not in str(caught.value)


def test_rows_of_a_dataset_are_named_by_their_id(folder: pathlib.Path) -> None:
    broken(folder, "no_vector")
    with pytest.raises(ValueError, match="^the dataset: the row with id 207 has no vector") as caught:
        kedge.ray.fit(ray.data.read_parquet(str(folder)), COLUMNS, support=100)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [None, pa.string(), pa.dictionary(pa.int32(), pa.large_string())])
def test_repeated_ids_are_all_found(folder: pathlib.Path, kind: pa.DataType | None) -> None:
    repeated_ids(folder, kind)
    some = "5, 6, 7, 8, 9, ..." if kind is None else "(?:'row-(?:5|6|7|8|9|10|11)', ){5}..."
    sentence = f"^7 ids are more than once in the column 'id': {some}; give every row an id of its own"
    for rows in (str(folder), ray.data.read_parquet(str(folder))):
        with pytest.raises(ValueError, match=sentence):
            kedge.ray.fit(rows, COLUMNS, support=100, check_ids=True)


def test_ids_that_are_there_once_are_no_trouble(folder: pathlib.Path) -> None:
    told = []
    bundle = kedge.ray.fit(str(folder), COLUMNS, support=100, check_ids=True, progress=lambda *now: told.append(now))
    assert [now[1:3] for now in told if now[0] == "checking ids"][-1] == (ROWS, ROWS)
    assert difference(bundle, kedge.ray.fit(str(folder), COLUMNS, support=100)) < 1e-6


def test_a_vector_that_cannot_be_mapped(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    bundle = kedge.ray.fit(str(folder), COLUMNS, support=100)
    broken(folder, "not_a_number")
    with pytest.raises(ValueError, match="part-001.parquet: row 7 has a vector that holds NaN"):
        kedge.ray.transform(bundle, str(folder), space="a", column="emb_a", into="x", output=str(tmp_path / "out"))


@pytest.mark.parametrize("change, sentence", [
    ({"columns": {"a": "emb_x", "b": "emb_b"}}, "there is no column 'emb_x'; there are 'id', 'emb_a'"),
    ({"columns": {"a": "id"}}, "space 'a': expected a column of vectors"),
    ({"columns": {}}, "columns must map"),
    ({"id": "emb_c"}, "cannot name rows"),
    ({"support": 0}, "support must be a number of rows, 1 or more; found 0"),
    ({"method": "no"}, "unknown method 'no'"),
    ({"anchor": 5}, r"fit\(\) got an unexpected keyword argument 'anchor'; did you mean 'anchors'"),
    ({"support": 5000}, "asked for a support of 5000 rows, but there are 600"),
    ({"device": "cuda"}, "cluster has none"),
])
def test_wrong_arguments(folder: pathlib.Path, change: dict[str, Any], sentence: str) -> None:
    given = {"columns": COLUMNS, "support": 100, **change}
    with pytest.raises((ValueError, TypeError), match=sentence):
        kedge.ray.fit(str(folder), **given)


def test_a_dataset_without_rows(folder: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="there are no rows to learn from"):
        kedge.ray.fit(ray.data.read_parquet(str(folder)).filter(lambda row: False), COLUMNS, support=100)


def test_an_empty_folder(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        kedge.ray.fit(str(tmp_path / "nowhere"), COLUMNS)
    with pytest.raises(FileNotFoundError, match="no Parquet files"):
        kedge.ray.fit(str(tmp_path), COLUMNS)


def test_sums_that_an_object_store_cannot_hold(tmp_path: pathlib.Path) -> None:
    wide = {name: np.zeros((2, 4000), np.float32) for name in ("a", "b")}
    rows = folder_of(tmp_path / "wide", wide, np.arange(2), parts=1)
    with pytest.raises(ValueError, match=r"8 x 8000\^2 = 512 MB.*object store.*--object-store-memory="):
        kedge.ray.fit(str(rows), COLUMNS, support=100)
