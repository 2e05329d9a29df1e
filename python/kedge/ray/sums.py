# SPDX-License-Identifier: Apache-2.0
"""Sums over a dataset: Ray Data schedules the tasks, merges their partials as a tree, and follows a cluster that grows
or shrinks. Then one task solves."""
from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import ray
from ray.data import Dataset

from .. import _core
from .._progress import ShowProgress
from .._typing import Path
from ..parts import sizes
from ..parts.columns import Columns
from ..parts.partial import Partial, Support
from . import report
from .report import Reference
from .source import Batches, source_of

if TYPE_CHECKING:
    from ray.actor import ActorHandle

T = TypeVar("T")
MERGED_AT_ONCE = 8
LEVELS = 3  # of the tree; what is left then, the solving task merges
BASE_BYTES = 300_000_000  # of a worker: Python with its packages, and a batch


def total(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str, support: Support, seed: int, step: str,
          progress: ShowProgress) -> list[Reference]:
    """References to tables of partials, of all rows together; an empty list if there are no rows."""
    with report.plain(), report.bars(progress):
        source = source_of(dataset, columns, id_column)
        size = sizes.partial_bytes(source.columns, support if isinstance(support, int) else len(support))
        store = require_room(source.columns, support)
        with report.counted(step, source.rows, progress) as counter:
            work = Sum(source.columns, support, seed, counter)
            partials = source.partials(work, size, num_cpus=1, memory=BASE_BYTES + 2 * size)
            for level in range(LEVELS):
                partials = partials.map_batches(
                    merged, batch_format="pyarrow", batch_size=max(2, min(MERGED_AT_ONCE, store // 2 // size)),
                    num_cpus=1, memory=BASE_BYTES + 3 * size + level)  # Ray Data would join levels that are alike
            return list(partials.to_arrow_refs())


class Sum:
    """What a task makes of its rows: a table with their partial, which has no row if they have none."""

    def __init__(self, columns: Columns, support: Support, seed: int, counter: ActorHandle[Any] | None) -> None:
        self.columns, self.support, self.seed, self.counter = columns, support, seed, counter

    def __call__(self, batches: Batches) -> pa.Table:
        """Of batches, with the name of their place and the number of their first row there."""
        one_thread()
        partial = Partial(self.columns, self.support, self.seed)
        for batch, where, first_row in batches:
            if batch.num_rows:  # a block without rows may have no columns
                partial.add(batch.select(self.columns.names), where, first_row)
        report.count(self.counter, partial.rows)
        return table_of(partial if partial.rows else None)


def one_thread() -> None:
    """As tasks say that they take one processor."""
    _core.set_threads(1)
    pa.set_cpu_count(1)


def table_of(partial: Partial | None) -> pa.Table:
    values = [] if partial is None else [pickle.dumps(partial, pickle.HIGHEST_PROTOCOL)]
    return pa.table({"partial": pa.array(values, pa.large_binary())})


@report.refusing
def merged(partials: pa.Table) -> pa.Table:
    """The sum of some partials, with two at a time in this worker's memory."""
    one_thread()
    return table_of(sum_of([partials]))


def sum_of(tables: Iterable[pa.Table]) -> Partial | None:
    values = (value.as_buffer() for table in tables if table.num_rows for value in table.column("partial"))
    partials = (pickle.loads(value) for value in values)
    first: Partial | None = next(partials, None)
    return first and functools.reduce(Partial.merge, partials, first)


@ray.remote
def solve_on_worker(solve: Callable[..., T], total: list[Reference], arguments: tuple[Any, ...]) -> T:
    _core.set_threads(int(ray.get_runtime_context().get_assigned_resources()["CPU"]))
    return solve(sum_of(ray.get(reference) for reference in total), *arguments)


def require_room(columns: Columns, support: Support) -> int:
    """Bytes of object store of the node that has the least. Raises if a partial does not fit."""
    drawn = support if isinstance(support, int) else len(support)
    size, store = sizes.partial_bytes(columns, drawn), int(min(node["object_store_memory"] for node in workers()))
    sizes.require_room(columns, drawn, store // 4, "a quarter of a node's object store (two partials and the sum)",
                       f"give it {sizes.shown(4 * size)} with ray start --object-store-memory={4 * size}, or fit "
                       "fewer spaces together")
    memory = int(max(node["memory"] for node in workers()))
    if BASE_BYTES + 3 * size > memory:
        raise ValueError(f"{sizes.arithmetic(columns, drawn)}, and a task that merges them takes "
                         f"{sizes.shown(BASE_BYTES + 3 * size)}, but no node has more memory than "
                         f"{sizes.shown(memory)}; add a larger one, or fit fewer spaces together")
    return store


def workers() -> list[dict[str, float]]:
    """What nodes have that run tasks."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [node for node in alive if node.get("CPU")] or alive  # none yet, if a cluster grows when it has work


def start(device: str | None = None) -> None:
    """A cluster, which has a GPU if that is asked for."""
    if not ray.is_initialized():
        ray.init()
    if device == "cuda" and not ray.cluster_resources().get("GPU"):
        raise ValueError("device='cuda' needs a node with a GPU, and this Ray cluster has none; leave it out, or add a "
                         "node")


def solved(solve: Callable[..., T], total: list[Reference], device: str | None, *arguments: Any) -> T:
    """What 'solve' makes of the sum, on one machine of the cluster, with a GPU if it is asked for."""
    gpus = 1 if device == "cuda" else 0
    cpus = max(1, int(max(node.get("CPU", 1) for node in workers() if not gpus or node.get("GPU"))))
    with report.plain():
        task: Any = solve_on_worker
        result: T = ray.get(task.options(name="kedge: solve", num_cpus=cpus, num_gpus=gpus).remote(
            solve, total, arguments))
        return result
