# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray that begins without a processor, grows and shrinks while it works."""
from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import kedge
import kedge.ray
import numpy as np
import pyarrow as pa
import pytest
import ray
from made_up import COLUMNS, Spaces, by_id, difference, encoders, folder_of
from ray_cluster import add, cluster

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long

ROWS, PARTS = 10_000, 40
SECONDS = 300


@pytest.fixture
def head() -> Iterator[Cluster]:
    """Whose nodes are yet to come."""
    with cluster(nodes=0) as started:
        yield started


def until_known(processors: int) -> bool:
    """Whether that is what the cluster has; a node that leaves is missed a little later."""
    end = time.monotonic() + SECONDS
    while ray.cluster_resources().get("CPU", 0) != processors and time.monotonic() < end:
        time.sleep(0.1)
    return int(ray.cluster_resources().get("CPU", 0)) == processors


class Changes:
    """What happens to the cluster when the work reports that it has begun: a node is added; those that were there
    stay, or go."""

    def __init__(self, nodes: Cluster, stay: bool, after: float = 0) -> None:
        self.nodes, self.stay, self.after, self.most = nodes, stay, after, 0

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        if self.most or done <= self.after * total:
            return
        first = self.nodes.worker_nodes.copy()
        add(self.nodes)
        self.most = int(ray.cluster_resources()["CPU"])
        for node in () if self.stay else first:
            self.nodes.remove_node(node)


def test_nodes_come_and_go(head: Cluster, tmp_path: pathlib.Path) -> None:
    spaces: Spaces = encoders(ROWS)
    folder = folder_of(tmp_path / "rows", spaces, np.arange(ROWS), parts=PARTS)
    assert not ray.cluster_resources().get("CPU")
    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(kedge.ray.fit, str(folder), COLUMNS, support=300)
        with pytest.raises(TimeoutError):
            fit.result(2)
        add(head)
        first = fit.result(SECONDS)

    changes = Changes(head, stay=True)
    disturbed = kedge.ray.fit(str(folder), COLUMNS, support=300, progress=changes)
    assert changes.most == 2
    assert difference(disturbed, first) < 1e-6

    changes = Changes(head, stay=False)
    result = kedge.ray.transform(first, str(folder), space="a", column="emb_a", into="shared",
                                 output=str(tmp_path / "out"), progress=changes)
    assert changes.most == 3 and until_known(1)
    assert sorted(os.listdir(tmp_path / "out")) == ["_kedge.json", *sorted(os.listdir(folder))]
    found = pa.concat_tables([ray.get(ref) for ref in result.to_arrow_refs()])
    expected = first["a"].transform(spaces["a"])
    assert np.abs(by_id(found, "shared") - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Shares that tasks have been started for."""
    from kedge.ray import sums, tree

    shares: list[int] = []

    class Tree(tree.Tree):
        def __init__(self, count: int, sum_up: Callable[[int], Any], *others: Any) -> None:
            def noted(share: int) -> Any:
                shares.append(share)
                return sum_up(share)

            super().__init__(count, noted, *others)

    monkeypatch.setattr(sums, "Tree", Tree)
    return shares


def large_sums(path: pathlib.Path) -> pathlib.Path:
    """Rows whose partials are so large that Ray leaves them on the node that made them."""
    parts, rows = 20, 400
    spaces = {name: np.random.default_rng(5).normal(size=(parts * rows, 160)).astype(np.float32) for name in COLUMNS}
    return folder_of(path, spaces, np.arange(parts * rows), parts=parts)


@pytest.mark.parametrize("after", [0, 0.5, 0.9])
def test_sums_that_leave_with_their_node_are_made_again(head: Cluster, tmp_path: pathlib.Path, after: float,
                                                        begun: list[int]) -> None:
    folder = large_sums(tmp_path / "rows")
    add(head)
    first = kedge.ray.fit(str(folder), COLUMNS, support=4000)
    assert sorted(begun) == list(range(20))
    disturbed = kedge.ray.fit(str(folder), COLUMNS, support=4000, progress=Changes(head, stay=False, after=after))
    assert len(begun) > 2 * 20
    assert difference(disturbed, first) < 1e-6


def test_a_node_that_leaves_before_the_solve(head: Cluster, tmp_path: pathlib.Path, begun: list[int],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.ray import sums

    folder = large_sums(tmp_path / "rows")
    node = add(head, processors=2)  # so that none that is left can solve as it was asked
    first = kedge.ray.fit(str(folder), COLUMNS, support=4000)
    solve: Any = sums.solve_on_worker

    class Solve:
        """Whose node leaves as soon as it has been asked for."""

        def options(self, **options: Any) -> Any:
            self.task = solve.options(**options)
            return self

        def remote(self, *arguments: Any) -> Any:
            monkeypatch.setattr(sums, "solve_on_worker", solve)
            result = self.task.remote(*arguments)
            add(head)
            head.remove_node(node)
            return result

    monkeypatch.setattr(sums, "solve_on_worker", Solve())
    assert difference(kedge.ray.fit(str(folder), COLUMNS, support=4000), first) < 1e-6
    assert len(begun) > 2 * 20
