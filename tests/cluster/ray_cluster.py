# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of a head without processors and two nodes with one each, on loopback, while a test needs it."""
from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from processes import descendants

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

NODES = 2
STORE = 200_000_000  # bytes of object store of every node


@contextlib.contextmanager
def cluster(store: int = STORE, nodes: int = NODES) -> Iterator[Cluster]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    import ray
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": store,
                                                         "include_dashboard": False})
    try:
        for _ in range(nodes):
            started.add_node(num_cpus=1, object_store_memory=store)
        ray.init(address=started.address, logging_level=logging.ERROR, log_to_driver=False)
        yield started
    finally:
        ray.shutdown()
        started.shutdown()


def kill_one(task: str) -> bool:
    """Ends a worker that runs this function for Ray Data, at once. Says whether there was one."""
    found = [pid for pid, _, words in descendants([os.getpid()]) if words.startswith("ray::") and f"({task})" in words]
    for pid in found[:1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False
