# SPDX-License-Identifier: Apache-2.0
"""Spark runs again what a killed process was doing, and the results are the same."""
import os
import pathlib
import signal
import sys
import threading
import time

import kedge
import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROWS
from made_up import COLUMNS, by_id, difference, folder_of

pytestmark = pytest.mark.long

SUPPORT = 400
SECONDS = 1000


class Pause:
    """Gives the first batch of a partition, says that it did, and waits for leave to go on.

    A look at the first rows, before the work itself, goes by.
    """

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, batches):
        from pyspark import TaskContext

        looking = "looking" in (TaskContext.get().getLocalProperty("spark.job.description") or "")
        for batch in batches:
            yield batch
            if looking:
                continue
            pathlib.Path(self.folder, f"waiting-{os.getpid()}").touch()
            wait_for(lambda: os.path.exists(f"{self.folder}/go"))


def wait_for(condition):
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until, f"nothing happened for {SECONDS} s"
        time.sleep(0.05)


class Killer(threading.Thread):
    """Kills processes when a task waits in the middle of its rows, and lets the others go on."""

    def __init__(self, folder, choose):
        super().__init__(daemon=True)
        self.folder, self.choose, self.killed = folder, choose, []

    def run(self):
        wait_for(lambda: list(self.folder.glob("waiting-*")))
        for pid in self.choose():
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)
        (self.folder / "go").touch()


@pytest.fixture(params=["python workers", "an executor"])
def killer(request, spark_cluster, tmp_path):
    choose = {"python workers": spark_cluster.python_workers, "an executor": lambda: spark_cluster.executors()[:1]}
    thread = Killer(tmp_path, choose[request.param])
    thread.start()
    yield thread
    (tmp_path / "go").touch()
    thread.join()


@pytest.fixture
def paused(spark, frame, tmp_path):
    """Rows that come in small batches, so that every worker has seen some when it is killed."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    # The module of a test is not there on workers, so that its functions travel as they are.
    import pyspark.cloudpickle

    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield frame.mapInArrow(Pause(tmp_path), frame.schema)
    pyspark.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture(scope="module")
def expected(two):
    return kedge.fit(two, ids=np.arange(ROWS), support=SUPPORT)


def assert_mapped(made, expected, spaces):
    rows = expected["a"].transform(spaces["a"])
    np.testing.assert_array_equal(np.sort(made.column("id").to_numpy()), np.arange(ROWS))
    assert np.abs(by_id(made, "shared") - rows).max() < 1e-6 * np.abs(rows).max()


def test_fit_is_the_same(paused, killer, expected):
    import kedge.spark

    found = kedge.spark.fit(paused, COLUMNS, support=SUPPORT)
    assert killer.killed
    assert difference(found, expected) < 1e-5


def test_transform_is_the_same(paused, killer, expected, spaces):
    import kedge.spark

    made = kedge.spark.transform(expected, paused, space="a", column="emb_a", into="shared").toArrow()
    assert killer.killed
    assert_mapped(made, expected, spaces)


def test_transform_of_a_folder_is_the_same(spark, spark_cluster, expected, spaces, tmp_path):
    import kedge.spark

    folder = folder_of(tmp_path / "many", spaces, np.arange(ROWS), parts=60)
    killed = []

    def kill(step, done, total, detail):
        if not killed and done < total:
            for pid in spark_cluster.python_workers():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    output = kedge.spark.transform(expected, folder, space="a", column="emb_a", into="shared", output=tmp_path / "out",
                                   progress=kill)
    assert killed
    assert sorted(os.listdir(output)) == sorted(os.listdir(folder))
    assert_mapped(pq.read_table(output), expected, spaces)
