# SPDX-License-Identifier: Apache-2.0
"""Rows for tests of both engines, and a Spark or Ray cluster for tests that ask for one."""
from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from kedge import Bundle
from kedge.parts import solve
from made_up import Spaces, encoders, folder_of, table
from partials import SUPPORT, summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from ray.cluster_utils import Cluster as RayCluster
    from spark_cluster import Cluster

ROWS = 3000


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from spark_cluster import Cluster, require

    require()
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def spark(spark_cluster: Cluster) -> Iterator[SparkSession]:
    session = spark_cluster.session()
    yield session
    spark_cluster.end(session)


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayCluster]:
    from ray_cluster import cluster

    with cluster() as started:
        yield started


@pytest.fixture(scope="session")
def spaces() -> Spaces:
    return encoders(ROWS)


@pytest.fixture(scope="session")
def rows(spaces: Spaces) -> pa.Table:
    return table(spaces, np.arange(ROWS) * 7)


@pytest.fixture(scope="session")
def bundle(rows: pa.Table) -> Bundle:
    return solve.fitted(summed([rows]), SUPPORT, 0, {})


@pytest.fixture(scope="session")
def two(spaces: Spaces) -> Spaces:
    return {name: spaces[name] for name in ("a", "b")}


@pytest.fixture(scope="session")
def folder(spaces: Spaces, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return folder_of(tmp_path_factory.mktemp("rows") / "parquet", spaces, np.arange(ROWS), parts=5)


@pytest.fixture(scope="session")
def frame(spark: SparkSession, spaces: Spaces) -> DataFrame:
    """Partitions of several sizes, and rows in another order than in files."""
    rows = table(spaces, np.arange(ROWS))
    if hasattr(type(spark.range(1)), "toArrow"):
        made = spark.createDataFrame(rows)
    else:  # of Spark 3.5, which takes no table of Arrow
        fields = ", ".join(["id long", *(f"{name} array<float>" for name in rows.column_names[1:])])
        made = spark.createDataFrame(rows.to_pylist(), fields)
    return made.repartition(7, "id").cache()
