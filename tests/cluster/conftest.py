# SPDX-License-Identifier: Apache-2.0
"""Rows for tests of both engines, and a Spark cluster for all tests that ask for one."""
import numpy as np
import pytest
from made_up import encoders, folder_of, table

ROWS = 3000


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory):
    from spark_cluster import Cluster, require

    require()
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def spark(spark_cluster):
    session = spark_cluster.session()
    yield session
    spark_cluster.end(session)


@pytest.fixture(scope="session")
def spaces():
    return encoders(ROWS)


@pytest.fixture(scope="session")
def two(spaces):
    return {name: spaces[name] for name in ("a", "b")}


@pytest.fixture(scope="session")
def folder(spaces, tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("rows") / "parquet", spaces, np.arange(ROWS), parts=5)


@pytest.fixture(scope="session")
def frame(spark, spaces):
    """Partitions of several sizes, and rows in another order than in files."""
    return spark.createDataFrame(table(spaces, np.arange(ROWS))).repartition(7, "id").cache()
