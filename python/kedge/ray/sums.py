# SPDX-License-Identifier: Apache-2.0
"""Tasks that sum up pieces of a dataset, merge their partials as a tree, and solve."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import ray
from ray.data import Dataset
from ray.data.block import BlockAccessor

from .. import _core
from .._progress import RowProgress, ShowProgress
from .._typing import Path
from ..parts import sizes
from ..parts.columns import Columns
from ..parts.files import Piece
from ..parts.partial import BATCH_ROWS, Partial, Support
from .report import Reference, plain, row_progress
from .source import source_of

Start = tuple[Columns, Support, int]  # and the seed
T = TypeVar("T")
MERGED_AT_ONCE = 8


@ray.remote(num_returns=2)
def summed_files(start: Start, pieces: Sequence[Piece]) -> tuple[Partial, int]:
    """The partial of pieces of files, and how many rows it has."""
    names = start[0].names
    return summed(start, ((batch, str(piece), piece.first_row) for piece in pieces
                          for batch in piece.batches(names, BATCH_ROWS)))


@ray.remote(num_returns=2)
def summed_blocks(start: Start, labels: Sequence[str], *blocks: Any) -> tuple[Partial, int]:
    """The same of some blocks of a dataset, which stay in the object store. They are Arrow's, or of pandas."""
    tables = (BlockAccessor.for_block(block).to_arrow() for block in blocks)
    return summed(start, ((table, label, 0) for table, label in zip(tables, labels)))


def summed(start: Start, batches: Iterable[tuple[Any, str, int]]) -> tuple[Partial, int]:
    _core.set_threads(1)
    columns, support, seed = start
    partial = Partial(columns, support, seed)
    for batch, where, first_row in batches:
        if batch.num_rows:  # a block without rows may have no columns
            partial.add(batch.select(columns.names), where, first_row)
    return partial, partial.rows


@ray.remote(num_returns=2)
def merged(partials: list[Reference]) -> tuple[Partial, int]:
    """The sum of some partials, with two at a time in this worker's memory; and 0, as no row is new."""
    _core.set_threads(1)
    total = ray.get(partials[0])
    for other in partials[1:]:
        total.merge(ray.get(other))
    return total, 0


@ray.remote
def solve_on_worker(solve: Callable[..., T], total: list[Reference], arguments: tuple[Any, ...]) -> T:
    _core.set_threads(len(os.sched_getaffinity(0)))  # workers of this node have nothing to do meanwhile
    return solve(ray.get(total[0]) if total else None, *arguments)


def total(dataset: Dataset | Path, columns: Mapping[str, str], id_column: str, support: Support, seed: int, step: str,
          progress: ShowProgress) -> list[Reference]:
    """A reference to the sum of all partials, in a list; an empty list if there are no rows."""
    source = source_of(dataset, columns, id_column)
    tree = Tree(source.columns, support, seed)
    report = row_progress(step, source.rows, progress)
    try:
        for pieces, blocks in source.tasks(tree.partial_bytes, tree.workers):
            tree.add(pieces, blocks, report)
        return tree.finish(report)
    except ray.exceptions.RayTaskError as error:
        raise plain(error) from None
    finally:
        report.close()


class Tree:
    """Tasks that run and partials that wait to be merged, as many as the object store has room for."""

    def __init__(self, columns: Columns, support: Support, seed: int) -> None:
        drawn = support if isinstance(support, int) else len(support)
        self.partial_bytes = size = sizes.partial_bytes(columns, drawn)
        store = smallest_store()
        sizes.require_room(columns, drawn, store // 4, "a quarter of a node's object store (two partials and the sum)",
                           f"give it {sizes.shown(4 * size)} with ray start --object-store-memory={4 * size}, or fit "
                           "fewer spaces together")
        self.start = ray.put((columns, support, seed))
        self.at_once = max(2, min(MERGED_AT_ONCE, store // 2 // size))
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.running: dict[Reference, Reference] = {}  # by the reference to wait for: the partial
        self.done: list[Reference] = []

    def add(self, pieces: Sequence[Piece] | Sequence[str], blocks: Sequence[Reference], report: RowProgress) -> None:
        while len(self.running) >= 2 * self.workers:
            self.collect(report)
        task: Any = summed_blocks if blocks else summed_files
        self.note(task.options(name="kedge: sum up rows").remote(self.start, pieces, *blocks))

    def note(self, task: Any) -> None:
        """Remembers a task by its two references, which Ray's types do not know."""
        partial, rows = task
        self.running[rows] = partial

    def collect(self, report: RowProgress) -> None:
        """Waits for a task, and merges partials if there are enough."""
        (rows,), _ = ray.wait(list(self.running), num_returns=1)
        if count := ray.get(rows):  # 0 if the task merged partials
            report.advance(count)
        self.done.append(self.running.pop(rows))
        if len(self.done) >= self.at_once:
            self.merge()

    def merge(self) -> None:
        self.note(merged.options(name="kedge: merge sums").remote(self.done))
        self.done = []

    def finish(self, report: RowProgress) -> list[Reference]:
        while self.running:
            self.collect(report)
            if not self.running and len(self.done) > 1:
                self.merge()
        return self.done


def smallest_store() -> int:
    """Bytes of object store of the node that has the least."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    workers = [node for node in alive if node.get("CPU")] or alive  # none yet, if a cluster grows when it has work
    return min(int(node.get("object_store_memory", 0)) for node in workers)


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
    try:
        task: Any = solve_on_worker
        result: T = ray.get(task.options(name="kedge: solve", num_gpus=gpus).remote(solve, total, arguments))
        return result
    except ray.exceptions.RayTaskError as error:
        raise plain(error) from None
