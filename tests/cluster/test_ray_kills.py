# SPDX-License-Identifier: Apache-2.0
"""Workers of Ray that are killed in the middle of their work, which is done again; and work that its caller stops."""
from __future__ import annotations

import os
import pathlib
import time

import kedge
import kedge.ray
import numpy as np
import pyarrow as pa
import pytest
import ray
from made_up import COLUMNS, Spaces, by_id, difference, encoders, folder_of
from ray_cluster import at_work, kill_one

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nodes")]

ROWS, PARTS = 30_000, 120  # so many that there are tasks to come when a worker has ended
SECONDS = 60


@pytest.fixture(scope="module")
def spaces() -> Spaces:
    return encoders(ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spaces: Spaces) -> pathlib.Path:
    return folder_of(tmp_path_factory.mktemp("rows") / "parquet", spaces, np.arange(ROWS), parts=PARTS)


class Killer:
    """Kills a worker when it hears of progress, until it has killed 'count'."""

    def __init__(self, task: str, count: int = 2) -> None:
        self.task, self.left = task, count

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        end = time.monotonic() + SECONDS
        while self.left and time.monotonic() < end:
            if kill_one(self.task):
                self.left -= 1
                return


def test_while_rows_are_summed_up(folder: pathlib.Path) -> None:
    killer = Killer("kedge: sum up")
    disturbed = kedge.ray.fit(str(folder), COLUMNS, support=300, progress=killer)
    assert killer.left == 0
    assert difference(disturbed, kedge.ray.fit(str(folder), COLUMNS, support=300)) < 1e-6


def test_while_rows_are_mapped(folder: pathlib.Path, spaces: Spaces, tmp_path: pathlib.Path) -> None:
    bundle = kedge.ray.fit(str(folder), COLUMNS, support=300)
    killer = Killer("kedge: map")
    result = kedge.ray.transform(bundle, str(folder), space="a", column="emb_a", into="shared",
                               output=str(tmp_path / "out"), progress=killer)
    assert killer.left == 0
    found = pa.concat_tables([ray.get(ref) for ref in result.to_arrow_refs()])
    expected = bundle["a"].transform(spaces["a"])
    assert np.abs(by_id(found, "shared") - expected).max() < 1e-6 * np.abs(expected).max()
    assert not list((tmp_path / "out").glob(".*")), "a worker that was killed left something behind"


def test_a_function_may_stop_the_work(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def stop(step: str, done: int, total: int, detail: str) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="^enough$"):
        kedge.ray.fit(str(folder), COLUMNS, support=300, progress=stop)
    bundle = kedge.ray.fit(str(folder), COLUMNS, support=300)
    with pytest.raises(InterruptedError, match="^enough$"):
        kedge.ray.transform(bundle, str(folder), space="a", column="emb_a", into="shared", output=str(tmp_path / "out"),
                            progress=stop)
    end = time.monotonic() + SECONDS
    while at_work("kedge: map") and time.monotonic() < end:  # Ray ends them in its own time
        time.sleep(0.1)
    assert not at_work("kedge: map"), "a task goes on that nobody waits for"
    written = sorted(os.listdir(tmp_path / "out"))
    assert 0 < len(written) < PARTS and not any(name.startswith(".") for name in written)


def test_a_task_that_always_dies_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.ray import tasks

    def dies(number: int) -> None:
        os._exit(1)

    monkeypatch.setattr(tasks, "TIMES", 3)
    work = tasks.task(dies, "dies", 1)
    with pytest.raises(RuntimeError, match="ended 3 times without a result .WorkerCrashedError: .*; see Ray's logs"):
        list(tasks.finished(work.remote, 2))
