# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray that begins without a processor, grows and shrinks while it works."""
from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import kedge
import kedge.ray
import numpy as np
import pyarrow as pa
import pytest
import ray
from made_up import COLUMNS, Spaces, by_id, difference, encoders, folder_of
from ray_cluster import STORE, cluster

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long

T = TypeVar("T")
ROWS, PARTS = 10_000, 40
SECONDS = 300


@pytest.fixture
def head() -> Iterator[Cluster]:
    """Whose nodes are yet to come."""
    with cluster(nodes=0) as started:
        yield started


def add(nodes: Cluster) -> object:
    return nodes.add_node(num_cpus=1, object_store_memory=STORE)


class Changes:
    """What this thread does to the cluster while another one works: only this one may start nodes."""

    def __init__(self, nodes: Cluster) -> None:
        self.nodes, self.heard, self.go_on = nodes, threading.Event(), threading.Event()
        self.most = 0

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        """The work has begun, and what it has not reported yet waits until the nodes have changed."""
        if done < total:
            self.heard.set()
            assert self.go_on.wait(SECONDS)

    def during(self, work: Callable[[Changes], T], stay: bool) -> T:
        """A node is added; those that were there stay, or go."""
        first = self.nodes.worker_nodes.copy()
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(work, self)
            try:
                assert self.heard.wait(SECONDS), "there was no progress before the end"
                add(self.nodes)
                self.most = int(ray.cluster_resources()["CPU"])
                for node in () if stay else first:
                    self.nodes.remove_node(node)
            finally:
                self.go_on.set()
            return result.result(SECONDS)


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

    changes = Changes(head)
    disturbed = changes.during(lambda told: kedge.ray.fit(str(folder), COLUMNS, support=300, progress=told), stay=True)
    assert changes.most == 2
    assert difference(disturbed, first) < 1e-6

    changes = Changes(head)
    result = changes.during(lambda told: kedge.ray.transform(
        first, str(folder), space="a", column="emb_a", into="shared", output=str(tmp_path / "out"), progress=told),
        stay=False)
    assert changes.most == 3 and ray.cluster_resources()["CPU"] == 1
    assert sorted(os.listdir(tmp_path / "out")) == ["_kedge.json", *sorted(os.listdir(folder))]
    found = pa.concat_tables([ray.get(ref) for ref in result.to_arrow_refs()])
    expected = first["a"].transform(spaces["a"])
    assert np.abs(by_id(found, "shared") - expected).max() < 1e-6 * np.abs(expected).max()
