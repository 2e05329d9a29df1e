# SPDX-License-Identifier: Apache-2.0
"""Tasks that sum up shares of the rows, and the tree that merges what they make. Sums stay on the nodes that made them;
those that a node takes with it when it leaves are made again.

Ray would make them again by itself, but not reliably for what tasks of a dataset have made: then a fit waits for ever.
"""
from __future__ import annotations

import collections
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray

from .._progress import RowProgress
from .report import Reference
from .tasks import SECONDS, Failures, cancel, ended, room

Started = tuple[Reference, Reference]  # the partial, and, once it is made, its rows and the node that has it
SumUp = Callable[[int], Started]
Merge = Callable[..., Started]


class Sums(NamedTuple):
    shares: tuple[int, ...]
    partial: Reference
    node: str


class Task(NamedTuple):
    shares: tuple[int, ...]
    inputs: list[Sums]  # that it merges; none if it sums up a share
    partial: Reference


class Tree:
    """Keeps as many tasks at work as the cluster has room for, however that grows or shrinks. A partial takes 'size'
    bytes; 'at_once' of them are merged. 'sum_up' may be None if there are no shares."""

    def __init__(self, shares: int, sum_up: SumUp | None, merge: Merge, size: int, at_once: int,
                 told: RowProgress) -> None:
        self.sum_up, self.merge, self.size, self.at_once, self.told = sum_up, merge, size, at_once, told
        self.todo = collections.deque(range(shares))
        self.ready: list[Sums] = []
        self.running: dict[Reference, Task] = {}  # by what says that they have ended
        self.counted: set[int] = set()  # shares whose rows have been told of
        self.failures = Failures()  # by the first share of a task
        self.looked = time.monotonic()

    def solved(self, start: Callable[[list[Reference]], Reference], possible: Callable[[], bool]) -> Any:
        """What a task makes of all sums, which it is given in a few partials. It is started again if no node is left on
        which it is possible."""
        while True:
            self.grow()
            inputs, self.ready = self.ready, []
            result = start([sums.partial for sums in inputs])
            try:
                while possible() or self.is_done(result):
                    if self.is_done(result, SECONDS):
                        return ray.get(result)
            except ray.exceptions.RayError as error:
                self.failures.note(-1, "the solve", error)
                time.sleep(SECONDS)  # until a node that has left is known to have done so
            except BaseException:
                cancel([result])
                raise
            cancel([result])
            self.give_back(inputs, nodes())

    def grow(self) -> None:
        """Until everything is in a few partials."""
        try:
            while self.todo or self.running or len(self.ready) >= self.at_once:
                self.start()
                for made in ended(self.running):
                    self.take(made, self.running.pop(made))
                if time.monotonic() - self.looked > SECONDS:
                    self.look()
        finally:
            cancel(self.running)
            self.running.clear()

    def start(self) -> None:
        while len(self.ready) >= self.at_once:
            self.merge_some()
        held = len(self.ready) + sum(len(task.inputs) or 1 for task in self.running.values())
        stores = int(ray.cluster_resources().get("object_store_memory", 0)) // 2 // self.size
        for _ in range(min(len(self.todo), max(2, min(room(), stores)) - held)):
            share = self.todo.popleft()
            partial, made = self.sum_up(share)  # type: ignore[misc]  # which is there where shares are
            self.running[made] = Task((share,), [], partial)
        if self.todo and not self.running and len(self.ready) > 1:  # there is no room for more
            self.merge_some()

    def merge_some(self) -> None:
        inputs, self.ready = self.ready[:self.at_once], self.ready[self.at_once:]
        partial, made = self.merge(*[sums.partial for sums in inputs])
        self.running[made] = Task(tuple(share for sums in inputs for share in sums.shares), inputs, partial)

    @staticmethod
    def is_done(result: Reference, seconds: float = 0) -> bool:
        return bool(ray.wait([result], timeout=seconds, fetch_local=False)[0])

    def take(self, made: Reference, task: Task) -> None:
        try:
            rows, node = ray.get(made)
        except ray.exceptions.RayError as error:
            self.failures.note(task.shares[0], "a task that sums up rows", error)
            self.give_back(task.inputs, nodes()) if task.inputs else self.todo.extend(task.shares)
            return
        self.ready.append(Sums(task.shares, task.partial, node))
        if not self.counted.issuperset(task.shares):  # or they were told when this was summed up before
            self.counted.update(task.shares)
            self.told.advance(rows)

    def look(self) -> None:
        """Gives up what waits for sums that have left with their node."""
        self.looked, alive = time.monotonic(), nodes()
        for made, task in list(self.running.items()):
            if any(sums.node not in alive for sums in task.inputs):
                cancel([made])
                del self.running[made]
                self.give_back(task.inputs, alive)
        ready, self.ready = self.ready, []
        self.give_back(ready, alive)

    def give_back(self, inputs: Sequence[Sums], alive: set[str]) -> None:
        """Sums that are there are to be merged, others to be made again."""
        for sums in inputs:
            if sums.node in alive:
                self.ready.append(sums)
            else:
                self.todo.extend(sums.shares)


def nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}
