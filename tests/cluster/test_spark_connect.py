# SPDX-License-Identifier: Apache-2.0
"""kedge.spark in a session of Spark Connect, whose server is the driver of a real cluster of two workers."""
from __future__ import annotations

import copy
import os
import pathlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import kedge
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROWS
from kedge import Bundle
from made_up import COLUMNS, Spaces, by_id, difference, folder_of, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from spark_cluster import Cluster

pytestmark = pytest.mark.long

SUPPORT = 400


@pytest.fixture(scope="module")
def spark(spark_cluster: Cluster) -> Iterator[SparkSession]:
    pytest.importorskip("grpc", reason="needs Spark Connect: pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(spark_cluster.connect_server()).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def module(spark: SparkSession) -> ModuleType:
    import kedge.spark

    return kedge.spark


@pytest.fixture(scope="module")
def frame(spark: SparkSession, spaces: Spaces) -> DataFrame:
    return spark.createDataFrame(table(spaces, np.arange(ROWS))).repartition(7, "id")


@pytest.fixture(scope="module")
def bundle(module: ModuleType, folder: pathlib.Path) -> Bundle:
    fitted: Bundle = module.fit(str(folder), COLUMNS, support=SUPPORT, check_ids=True)
    return fitted


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


def test_the_driver_has_no_java(spark: SparkSession) -> None:
    assert type(spark).__module__.startswith("pyspark.sql.connect") and "pyspark.sql.connect.client" in sys.modules
    with pytest.raises(Exception, match="JVM_ATTRIBUTE_NOT_SUPPORTED|not supported"):
        _ = spark.sparkContext


def test_fits_are_those_of_one_machine(module: ModuleType, bundle: Bundle, frame: DataFrame, two: Spaces) -> None:
    assert difference(bundle, kedge.fit(two, ids=np.arange(ROWS), support=SUPPORT)) < 1e-5
    assert difference(module.fit(frame, COLUMNS, support=SUPPORT, check_ids=True), bundle) < 1e-5


def test_an_encoder_is_attached(module: ModuleType, bundle: Bundle, frame: DataFrame, folder: pathlib.Path,
                                spaces: Spaces) -> None:
    expected = copy.copy(bundle)
    expected.attach("c", moments=kedge.Moments({"c": spaces["c"]}, ids=np.arange(ROWS), support=bundle.support_ids))
    for rows in (frame, str(folder)):
        assert difference(module.attach(bundle, rows, {"c": "emb_c"}), expected) < 1e-5


def test_maps_of_rows(module: ModuleType, bundle: Bundle, frame: DataFrame, spaces: Spaces) -> None:
    shared = module.transform(bundle, frame, space="a", column="emb_a", into="shared").toArrow()
    assert_near(by_id(shared, "shared"), bundle["a"].transform(spaces["a"]))
    as_b = module.translate(bundle, frame, source="a", target="b", column="emb_a", into="as_b").toArrow()
    assert_near(by_id(as_b, "as_b"), bundle.translator("a", "b").transform(spaces["a"]))


def test_maps_of_folders(module: ModuleType, bundle: Bundle, folder: pathlib.Path, spaces: Spaces,
                         tmp_path: pathlib.Path) -> None:
    output = module.transform(bundle, folder, space="b", column="emb_b", into="shared", output=tmp_path / "out",
                              keep=["id"])
    assert sorted(os.listdir(output)) == ["_kedge.json", *sorted(os.listdir(folder))]
    assert_near(by_id(pq.read_table(output), "shared"), bundle["b"].transform(spaces["b"]))


def test_an_unseen_encoder_is_estimated(module: ModuleType, frame: DataFrame) -> None:
    scores = module.validate(frame, {**COLUMNS, "c": "emb_c"}, sample=1000, support=300)
    assert list(scores["held_out"]) == ["a", "b", "c"] and (scores["recall@1"] > .5).all()


def test_partials_of_several_chunks(module: ModuleType, tmp_path: pathlib.Path) -> None:
    from kedge.spark import tree

    dim = 1600
    assert 8 * dim**2 > tree.CHUNK_BYTES
    wide = {"wide": np.random.default_rng(2).normal(size=(40, dim)).astype(np.float32)}
    folder = folder_of(tmp_path / "wide", wide, np.arange(40), parts=3)
    fitted = module.fit(folder, {"wide": "emb_wide"}, support=20, anchors=5)
    assert difference(fitted, kedge.fit(wide, ids=np.arange(40), support=20, anchors=5)) < 1e-4


def test_a_function_hears_of_percent_and_may_stop_the_work(module: ModuleType, folder: pathlib.Path) -> None:
    heard: list[tuple[Any, ...]] = []
    module.fit(folder, COLUMNS, support=100, progress=lambda *words: heard.append(words))
    assert {(step, total) for step, _, total, _ in heard} == {("summing up rows", 100)}
    done = [done for _, done, _, _ in heard]
    assert done == sorted(set(done)) and done[-1] == 100

    def stop(*words: object) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="^enough$"):
        module.fit(folder, COLUMNS, support=100, progress=stop)


@pytest.mark.parametrize("source", ["frame", "folder"])
def test_a_row_that_cannot_be_used_is_named(spark: SparkSession, module: ModuleType, spaces: Spaces,
                                            tmp_path: pathlib.Path, source: str) -> None:
    spoilt = {name: rows.copy() for name, rows in spaces.items()}
    spoilt["a"][1234, 5] = np.nan
    rows: Any = folder_of(tmp_path / "rows", spoilt, np.arange(ROWS), parts=3)
    if source == "frame":
        rows = spark.createDataFrame(pq.read_table(rows))
    with pytest.raises(ValueError, match="the row with id 1234 has a vector that holds NaN or infinity"):
        module.fit(rows, COLUMNS, support=SUPPORT)


def test_repeated_ids_are_found(spark: SparkSession, module: ModuleType, spaces: Spaces) -> None:
    rows = spark.createDataFrame(table(spaces, pa.array(np.arange(ROWS) // 2)))
    with pytest.raises(ValueError, match="1,500 ids are more than once"):
        module.fit(rows, COLUMNS, support=SUPPORT, check_ids=True)


def test_older_servers_are_refused(module: ModuleType, frame: DataFrame, folder: pathlib.Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    for rows in (frame, folder):
        with pytest.raises(RuntimeError, match="from Spark 4 on, and this is Spark 3.5.9"):
            module.fit(rows, COLUMNS, support=SUPPORT)


def test_a_bundle_larger_than_a_message_is_refused(module: ModuleType, bundle: Bundle, frame: DataFrame,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.spark import maps

    monkeypatch.setattr(maps, "CONNECT_BYTES", 1000)
    with pytest.raises(ValueError, match="and Spark Connect sends 1 kB at most"):
        module.transform(bundle, frame, space="a", column="emb_a", into="shared")
