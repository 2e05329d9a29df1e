# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of a head without processors and two nodes with one each, on loopback, while a test needs it."""
from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from processes import descendants

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

NODES = 2
STORE = 200_000_000  # bytes of object store of every node
SECONDS = 300  # until a node has started


@contextlib.contextmanager
def cluster(store: int = STORE, nodes: int = NODES) -> Iterator[Cluster]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    # Ray Data counts its use in a thread that outlives ray.shutdown(); if it asks then, Ray ends this process, whose
    # tests are not over.
    os.environ["RAY_DATA_USAGE_DISABLED"] = "1"
    import ray
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": store,
                                                         "include_dashboard": False})
    try:
        for _ in range(nodes):
            add(started, store=store)
        ray.init(address=started.address, logging_level=logging.ERROR, log_to_driver=False)
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


def add(nodes: Cluster, processors: int = 1, store: int = STORE) -> Any:
    """A node, once it is there: add_node itself waits no longer than 30 s."""
    node = nodes.add_node(wait=False, num_cpus=processors, object_store_memory=store)
    nodes.wait_for_nodes(SECONDS)
    return node


def at_work(task: str) -> list[int]:
    """Workers that run this function, or a task of this name."""
    return [pid for pid, _, words in descendants([os.getpid()]) if words.startswith("ray::") and task in words]


def kill_one(task: str) -> bool:
    """Ends a worker in the middle of this task. Says whether there was one."""
    for pid in at_work(task):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # or the task may have ended before the worker does
            caught = pid in at_work(task)
            os.kill(pid, signal.SIGKILL if caught else signal.SIGCONT)
            if caught:
                return True
    return False
