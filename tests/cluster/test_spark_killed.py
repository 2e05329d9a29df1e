# SPDX-License-Identifier: Apache-2.0
"""Spark runs again what a killed process was doing, and the results are the same."""
from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import kedge
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROWS
from kedge import Bundle
from made_up import COLUMNS, Spaces, by_id, difference, folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from spark_cluster import Cluster

pytestmark = pytest.mark.long

SUPPORT = 400
SECONDS = 1000


class Pause:
    """Gives the first batch of a partition, says that it did, and waits for leave to go on.

    A look at the first rows, before the work itself, goes by.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = str(folder)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        looking = "looking" in (context.getLocalProperty("spark.job.description") or "")
        for batch in batches:
            yield batch
            if looking:
                continue
            pathlib.Path(self.folder, f"waiting-{os.getpid()}").touch()
            wait_for(lambda: os.path.exists(f"{self.folder}/go"))


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until, f"nothing happened for {SECONDS} s"
        time.sleep(0.05)


class Killer(threading.Thread):
    """Kills processes when a task waits in the middle of its rows, and lets the others go on."""

    def __init__(self, folder: pathlib.Path, choose: Callable[[], list[int]]) -> None:
        super().__init__(daemon=True)
        self.folder, self.choose = folder, choose
        self.killed: list[int] = []

    def run(self) -> None:
        wait_for(lambda: list(self.folder.glob("waiting-*")))
        for pid in self.choose():
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)
        (self.folder / "go").touch()


@pytest.fixture(params=["python workers", "an executor"])
def killer(request: pytest.FixtureRequest, spark_cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[Killer]:
    choose = {"python workers": spark_cluster.python_workers, "an executor": lambda: spark_cluster.executors()[:1]}
    thread = Killer(tmp_path, choose[request.param])
    thread.start()
    yield thread
    (tmp_path / "go").touch()
    thread.join()


@pytest.fixture
def paused(spark: SparkSession, frame: DataFrame, tmp_path: pathlib.Path) -> Iterator[DataFrame]:
    """Rows that come in small batches, so that every worker has seen some when it is killed."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    # The module of a test is not there on workers, so that its functions travel as they are.
    import pyspark.cloudpickle

    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield frame.mapInArrow(Pause(tmp_path), frame.schema)
    pyspark.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture(scope="module")
def expected(two: Spaces) -> Bundle:
    return kedge.fit(two, ids=np.arange(ROWS), support=SUPPORT)


def assert_mapped(mapped: pa.Table, expected: Bundle, spaces: Spaces) -> None:
    rows = expected["a"].transform(spaces["a"])
    np.testing.assert_array_equal(np.sort(mapped.column("id").to_numpy()), np.arange(ROWS))
    assert np.abs(by_id(mapped, "shared") - rows).max() < 1e-6 * np.abs(rows).max()


def test_fit_is_the_same(paused: DataFrame, killer: Killer, expected: Bundle) -> None:
    import kedge.spark

    found = kedge.spark.fit(paused, COLUMNS, support=SUPPORT)
    assert killer.killed
    assert difference(found, expected) < 1e-5


def test_transform_is_the_same(paused: DataFrame, killer: Killer, expected: Bundle, spaces: Spaces) -> None:
    import kedge.spark

    result = kedge.spark.transform(expected, paused, space="a", column="emb_a", into="shared")
    assert not isinstance(result, str)
    rows = kedge.spark.source.table_of(result)
    assert killer.killed
    assert_mapped(rows, expected, spaces)


def test_transform_of_a_folder_is_the_same(spark: SparkSession, spark_cluster: Cluster, expected: Bundle,
                                           spaces: Spaces, tmp_path: pathlib.Path) -> None:
    import kedge.spark

    folder = folder_of(tmp_path / "many", spaces, np.arange(ROWS), parts=60)
    killed: list[int] = []

    def kill(step: str, done: int, total: int, detail: str) -> None:
        if not killed and done < total:
            for pid in spark_cluster.python_workers():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    output = kedge.spark.transform(expected, folder, space="a", column="emb_a", into="shared", output=tmp_path / "out",
                                   progress=kill)
    assert killed and isinstance(output, str)
    assert sorted(os.listdir(output)) == ["_kedge.json", *sorted(os.listdir(folder))]
    assert_mapped(pq.read_table(output), expected, spaces)
