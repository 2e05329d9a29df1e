# SPDX-License-Identifier: Apache-2.0
"""Sums over a dataset, and the task that solves."""
from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import ray
from ray.data import Dataset

from .. import _core
from .._progress import RowProgress, ShowProgress
from .._typing import Path
from ..parts import sizes
from ..parts.columns import Columns
from ..parts.files import Piece
from ..parts.partial import BATCH_ROWS, Partial, Support
from . import report
from .report import Reference
from .source import Batches, Pieces, source_of
from .tasks import task
from .tree import Sums, Tree

T = TypeVar("T")
MERGED_AT_ONCE = 8
BASE_BYTES = 300_000_000  # of a worker: Python with its packages, and a batch


def total(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str, support: Support, seed: int, step: str,
          progress: ShowProgress) -> Tree:
    """All rows, summed up and merged into a few partials."""
    with report.plain(), report.bars(progress):
        source = source_of(dataset, columns, id_column)
        drawn = support if isinstance(support, int) else len(support)
        size, store = sizes.partial_bytes(source.columns, drawn), require_room(source.columns, drawn)
        work, at_once = Sum(source.columns, support, seed), max(2, min(MERGED_AT_ONCE, store // 2 // size))
        merge = task(merged, "kedge: merge", BASE_BYTES + 3 * size, results=2)
        if isinstance(source, Pieces):
            shares, given = source.shares(size), ray.put(work)
            sum_up = task(of_share, "kedge: sum up", BASE_BYTES + 2 * size, results=2)
            with report.rows(step, source.rows, progress) as told:
                tree = Tree(len(shares), lambda share: sum_up.remote(given, shares[share]), merge.remote, size, at_once,
                            told)
                tree.grow()
            return tree
        with report.rows(step, None, progress if callable(progress) else False) as told:
            partials = source.in_tasks(functools.partial(of_batch, work=work), size, num_cpus=1,
                                       memory=BASE_BYTES + 2 * size)
            whole = sum_of(told_of(partials, told))
        tree = Tree(0, None, merge.remote, size, at_once, told)
        tree.ready = [Sums((), ray.put(table_of(whole)), ray.get_runtime_context().get_node_id())]
        return tree


def of_share(work: Sum, share: Sequence[Piece]) -> tuple[pa.Table, tuple[int, str]]:
    partial = work((rows, str(piece), piece.first_row) for piece in share
                   for rows in piece.batches(work.columns.names, BATCH_ROWS))
    return table_of(partial), (partial.rows, ray.get_runtime_context().get_node_id())


@report.refusing
def of_batch(batch: pa.Table, work: Sum) -> pa.Table:
    return table_of(work([(batch, "the dataset", 0)]))


def merged(*tables: pa.Table) -> tuple[pa.Table, tuple[int, str]]:
    """The sum of some partials, with two at a time in this worker's memory."""
    one_thread()
    partial = sum_of(tables)
    return table_of(partial), (partial.rows if partial else 0, ray.get_runtime_context().get_node_id())


def told_of(partials: Dataset, told: RowProgress) -> Iterator[pa.Table]:
    """The tables, as tasks that Ray Data schedules with those that make the dataset finish them."""
    tables: Iterable[pa.Table] = partials.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
    for table in tables:
        told.advance(sum(table.column("rows").to_pylist()))
        yield table


class Sum:
    """What a task makes of its rows."""

    def __init__(self, columns: Columns, support: Support, seed: int) -> None:
        self.columns, self.support, self.seed = columns, support, seed

    def __call__(self, batches: Batches) -> Partial:
        """Of batches, with the name of their place and the number of their first row there."""
        one_thread()
        partial = Partial(self.columns, self.support, self.seed)
        for batch, where, first_row in batches:
            if batch.num_rows:  # a block without rows may have no columns
                partial.add(batch.select(self.columns.names), where, first_row)
        return partial


def one_thread() -> None:
    """As tasks say that they take one processor."""
    _core.set_threads(1)
    pa.set_cpu_count(1)


def table_of(partial: Partial | None) -> pa.Table:
    """One row with the partial; none if that has none."""
    there = [partial] if partial and partial.rows else []
    values = pa.array([pickle.dumps(one, pickle.HIGHEST_PROTOCOL) for one in there], pa.large_binary())
    return pa.table({"rows": pa.array([one.rows for one in there], pa.int64()), "partial": values})


def sum_of(tables: Iterable[pa.Table]) -> Partial | None:
    values = (value.as_buffer() for table in tables if table.num_rows for value in table.column("partial"))
    partials = (pickle.loads(value) for value in values)
    first: Partial | None = next(partials, None)
    return first and functools.reduce(Partial.merge, partials, first)


@ray.remote
def solve_on_worker(solve: Callable[..., T], total: list[Reference], arguments: tuple[Any, ...]) -> T:
    _core.set_threads(int(ray.get_runtime_context().get_assigned_resources()["CPU"]))
    return solve(sum_of(ray.get(reference) for reference in total), *arguments)


def require_room(columns: Columns, drawn: int) -> int:
    """Bytes of object store of the node that has the least. Raises if a partial does not fit."""
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


def solved(solve: Callable[..., T], total: Tree, device: str | None, *arguments: Any) -> T:
    """What 'solve' makes of the sum, on one machine of the cluster, with a GPU if it is asked for."""
    gpus = 1 if device == "cuda" else 0
    cpus = 0

    def largest() -> int:
        return max((int(node.get("CPU", 0)) for node in workers() if not gpus or node.get("GPU")), default=0)

    def begin(sums: list[Reference]) -> Reference:
        nonlocal cpus
        cpus = max(1, largest())
        begun: Any = solve_on_worker
        begun = begun.options(name="kedge: solve", num_cpus=cpus, num_gpus=gpus, max_retries=0)
        return begun.remote(solve, sums, arguments)  # type: ignore[no-any-return]

    with report.plain():
        result: T = total.solved(begin, lambda: largest() >= cpus or not largest())
        return result
