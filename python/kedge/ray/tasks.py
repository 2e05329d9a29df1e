# SPDX-License-Identifier: Apache-2.0
"""Plain tasks of Ray, as many at a time as the cluster has room for, however it grows or shrinks."""
from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterator
from typing import Any

import ray

from . import report
from .report import Reference

SECONDS = 1.0  # between looks at which nodes there are
SECONDS_TO_END = 10.0
AHEAD = 64  # tasks that wait, beside one for each processor: an autoscaler sees them
TIMES = 10  # that the same task may end without a result


def task(function: Callable[..., Any], name: str, memory: int, results: int = 1) -> Any:
    """That says truly what it takes. Ray does not run it again by itself: it would do so without end where memory runs
    out, and would make again what the task takes, for which it may wait for ever."""
    remote: Any = ray.remote(function)
    return remote.options(name=name, num_cpus=1, memory=memory, num_returns=results, max_retries=0)


def finished(start: Callable[[int], Reference], count: int) -> Iterator[int]:
    """The number of every task that has ended, while others are at work."""
    todo, failures = collections.deque(range(count)), Failures()
    running: dict[Reference, int] = {}
    try:
        while todo or running:
            for _ in range(min(len(todo), room() - len(running))):
                number = todo.popleft()
                running[start(number)] = number
            for result in ended(running):
                number = running.pop(result)
                try:
                    ray.get(result)
                except ray.exceptions.RayError as error:
                    failures.note(number, "a task that maps rows", error)
                    todo.append(number)
                else:
                    yield number
    finally:
        cancel(running)


def room() -> int:
    return int(ray.cluster_resources().get("CPU", 0)) + AHEAD


def ended(running: Collection[Reference]) -> list[Reference]:
    """Tasks that have ended, if need be after a while."""
    there = list(running)
    ray.wait(there, timeout=SECONDS, fetch_local=False)
    done: list[Reference] = ray.wait(there, num_returns=len(there), timeout=0, fetch_local=False)[0]
    return done


def cancel(running: Collection[Reference]) -> None:
    """Ends tasks that nobody waits for any more."""
    for result in running:
        ray.cancel(result, force=True)
    if running:
        ray.wait(list(running), num_returns=len(running), timeout=SECONDS_TO_END, fetch_local=False)


class Failures:
    """How often each task has ended without a result."""

    def __init__(self) -> None:
        self.times: collections.Counter[int] = collections.Counter()

    def note(self, number: int, what: str, error: ray.exceptions.RayError) -> None:
        """Raises what went wrong, unless another attempt may do better."""
        cause = report.cause_of(error)
        if not isinstance(cause, ray.exceptions.RayError):
            raise cause from None
        self.times[number] += 1
        if self.times[number] == TIMES:
            reason = str(cause).partition("\n")[0]
            raise RuntimeError(f"{what} ended {TIMES} times without a result ({type(cause).__name__}: {reason}); see "
                               "Ray's logs, and give nodes more memory if it ran out") from None
