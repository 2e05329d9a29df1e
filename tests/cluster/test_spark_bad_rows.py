# SPDX-License-Identifier: Apache-2.0
"""Rows and settings that cannot work, on Spark: one sentence that names the place and the id, and no traceback."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import kedge
import numpy as np
import pyarrow as pa
import pytest
from bad_rows import BAD, broken, repeated_ids
from kedge import Bundle
from made_up import COLUMNS, encoders, folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ROWS = 600
OPTIONS: dict[str, Any] = {"support": 100, "anchors": 5}


@pytest.fixture(scope="module", autouse=True)
def module(spark: SparkSession) -> ModuleType:
    import kedge.spark

    return kedge.spark


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return folder_of(tmp_path / "rows", encoders(ROWS), np.arange(ROWS), parts=3)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    spaces = encoders(ROWS)
    return kedge.fit({name: spaces[name] for name in COLUMNS}, ids=np.arange(ROWS), **OPTIONS)


@pytest.mark.parametrize("kind", BAD)
def test_it_is_named(module: ModuleType, folder: pathlib.Path, kind: str) -> None:
    sentence = broken(folder, kind)
    with pytest.raises(ValueError, match=sentence) as caught:
        module.fit(str(folder), COLUMNS, **OPTIONS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "the_id_of_another_file"])
def test_partitions_of_a_frame_are_numbered(spark: SparkSession, module: ModuleType, folder: pathlib.Path,
                                            kind: str) -> None:
    sentence = broken(folder, kind).replace("part-001.parquet", r"partition \d+").replace("row 7", r"row \d+")
    if kind == "all_of_another_width":  # Spark may read that file first, and take its vectors for the usual ones
        sentence = r"partition \d+.*has a vector of (5 values where others have 16|16 values where others have 5) "
    with pytest.raises(ValueError, match=sentence) as caught:
        module.fit(spark.read.parquet(str(folder)), COLUMNS, **OPTIONS)
    assert "\n" not in str(caught.value)


def test_the_same_id_in_two_partitions(spark: SparkSession, module: ModuleType, folder: pathlib.Path) -> None:
    broken(folder, "the_id_of_another_file")
    rows = spark.read.parquet(str(folder)).repartition(4, "emb_a")
    with pytest.raises(ValueError, match=r"of partition \d.* have the same id 3"):
        module.fit(rows, COLUMNS, **OPTIONS)


@pytest.mark.parametrize("kind", [None, pa.string()])
def test_repeated_ids_are_all_found(spark: SparkSession, module: ModuleType, folder: pathlib.Path,
                                    kind: pa.DataType | None) -> None:
    module.fit(str(folder), COLUMNS, check_ids=True, **OPTIONS)
    repeated_ids(folder, kind)
    one = r"\d+" if kind is None else r"'row-\d+'"
    sentence = f"^7 ids are more than once in the column 'id': (?:{one}, ){{5}}...; give every row an id of its own"
    for rows in (str(folder), spark.read.parquet(str(folder))):
        with pytest.raises(ValueError, match=sentence):
            module.fit(rows, COLUMNS, check_ids=True, **OPTIONS)


def test_support_rows_that_are_missing(spark: SparkSession, module: ModuleType, bundle: Bundle,
                                       folder: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=r"'c': \d+ of 100 support rows are missing, with the id \d+"):
        module.attach(bundle, spark.read.parquet(str(folder)).where("id < 300"), {"c": "emb_c"})


@pytest.mark.parametrize("change, sentence", [
    ({"columns": {"a": "emb_x", "b": "emb_b"}}, "there is no column 'emb_x'; there are 'id', 'emb_a'"),
    ({"columns": {"a": "id"}}, "space 'a': expected a column of vectors"),
    ({"columns": {}}, "columns must map"),
    ({"columns": ["emb_a"]}, "columns must map"),
    ({"id": "emb_c"}, "cannot name rows"),
    ({"support": 0}, "support must be a number of rows, 1 or more; found 0"),
    ({"method": "no"}, "unknown method 'no'"),
    ({"anchor": 5}, r"fit\(\) got an unexpected keyword argument 'anchor'; did you mean 'anchors'"),
    ({"support": 5000}, "asked for a support of 5000 rows, but there are 600"),
])
def test_wrong_arguments(spark: SparkSession, module: ModuleType, folder: pathlib.Path, change: dict[str, Any],
                         sentence: str) -> None:
    given = {"columns": COLUMNS, "support": 100, **change}
    for rows in (str(folder), spark.read.parquet(str(folder))):
        with pytest.raises((ValueError, TypeError), match=sentence):
            module.fit(rows, **given)


def test_what_is_no_frame(module: ModuleType) -> None:
    with pytest.raises(TypeError, match="expected a DataFrame or the path of a folder of Parquet files, found dict"):
        module.fit({}, COLUMNS)


def test_vectors_of_spark_ml_say_how_to_make_them_arrays(spark: SparkSession, module: ModuleType, folder: pathlib.Path,
                                                         bundle: Bundle) -> None:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql.functions import col

    rows = spark.read.parquet(str(folder)).withColumn("emb_a", array_to_vector(col("emb_a")))
    with pytest.raises(ValueError, match="VectorUDT; make it arrays with .*vector_to_array"):
        module.fit(rows, COLUMNS, **OPTIONS)
    with pytest.raises(ValueError, match="VectorUDT; make it arrays with .*vector_to_array"):
        module.transform(bundle, rows, space="a", column="emb_a", into="shared")


def test_streams_have_no_end(spark: SparkSession, module: ModuleType) -> None:
    with pytest.raises(ValueError, match="a streaming DataFrame has no end"):
        module.fit(spark.readStream.format("rate").load(), {"a": "value"}, "timestamp", **OPTIONS)


def test_no_rows(spark: SparkSession, module: ModuleType, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no rows"):
        module.fit(spark.read.parquet(str(folder)).where("id < 0"), COLUMNS, **OPTIONS)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        module.fit(str(tmp_path / "nowhere"), COLUMNS)


def test_a_folder_that_cannot_be_mapped(module: ModuleType, folder: pathlib.Path, bundle: Bundle,
                                        tmp_path: pathlib.Path) -> None:
    broken(folder, "not_a_number")
    with pytest.raises(ValueError, match="part-001.parquet: row 7 has a vector that holds NaN"):
        module.transform(bundle, folder, space="a", column="emb_a", into="shared", output=tmp_path / "out")
    assert not [name for name in os.listdir(tmp_path / "out") if "part-001" in name or name.endswith(".partial")]


def test_a_frame_that_cannot_be_mapped_says_so_when_it_is_used(spark: SparkSession, module: ModuleType,
                                                               folder: pathlib.Path, bundle: Bundle) -> None:
    from pyspark.errors import PythonException

    broken(folder, "not_a_number")
    rows = spark.read.parquet(str(folder)).where("id >= 200").orderBy("id").coalesce(1)
    result = module.transform(bundle, rows, space="a", column="emb_a", into="shared")
    with pytest.raises(PythonException, match="ValueError: partition 0: row 7 has a vector that holds NaN"):
        result.toArrow()


def test_words_that_do_not_fit(spark: SparkSession, module: ModuleType, folder: pathlib.Path, bundle: Bundle,
                               tmp_path: pathlib.Path) -> None:
    rows, words = spark.read.parquet(str(folder)), {"space": "a", "column": "emb_a", "into": "shared"}
    with pytest.raises(ValueError, match="there already is a column 'emb_b'"):
        module.transform(bundle, rows, **{**words, "into": "emb_b"})
    with pytest.raises(ValueError, match="output= says which folder to write to"):
        module.transform(bundle, folder, **words)
    with pytest.raises(ValueError, match="output= and keep= are for folders"):
        module.transform(bundle, rows, output=tmp_path / "out", **words)
    with pytest.raises(FileExistsError, match="already has Parquet files"):
        module.transform(bundle, folder, output=folder, **words)


def test_sums_that_the_driver_cannot_take(module: ModuleType, tmp_path: pathlib.Path) -> None:
    """A job may bring 1 GiB to the driver, if nothing else is said."""
    wide = folder_of(tmp_path / "wide", {"a": np.zeros((2, 12_288), np.float16)}, np.arange(2), parts=1)
    with pytest.raises(ValueError, match=r"8 x 12288\^2 = 1.2 GB.*spark.driver.maxResultSize holds 1.1 GB; start the "
                                         r"session with spark.driver.maxResultSize=\d+m"):
        module.fit(str(wide), {"a": "emb_a"})


def test_files_that_a_worker_cannot_write(module: ModuleType, folder: pathlib.Path, bundle: Bundle,
                                          tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.parts import storage

    monkeypatch.setattr(storage, "create_folder", lambda output: None)  # which would have said so before
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file") as caught:
        module.transform(bundle, folder, space="a", column="emb_a", into="shared", output=tmp_path / "file" / "out")
    assert "\n" not in str(caught.value)


def test_what_fails_before_is_shown_as_it_is(spark: SparkSession, module: ModuleType, folder: pathlib.Path) -> None:
    from pyspark.errors import PythonException

    def refuse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("not of kedge")
        yield

    rows = spark.read.parquet(str(folder))
    with pytest.raises(PythonException, match="in refuse"):
        module.fit(rows.mapInArrow(refuse, rows.schema), {"a": "emb_a"}, **OPTIONS)


def test_workers_without_kedge(module: ModuleType) -> None:
    from kedge.spark.session import plain

    error = plain(RuntimeError("Traceback (most recent call last):\nModuleNotFoundError: No module named 'kedge'\n"))
    assert isinstance(error, ImportError) and "pip install kedge" in str(error)


def test_storage_that_fails_on_a_worker(module: ModuleType) -> None:
    from kedge.parts.storage import LastingError
    from kedge.spark.session import plain

    error = plain(RuntimeError('  File "/kedge/parts/storage.py", line 40\n'
                               "kedge.parts.storage.LastingError: slow down (tried 6 times)\n"))
    assert type(error) is LastingError and str(error) == "slow down (tried 6 times)"
