# SPDX-License-Identifier: Apache-2.0
"""How far tasks are, and what went wrong in them."""
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ray
import ray.data

from .._progress import RowProgress, ShowProgress

if TYPE_CHECKING:
    import pyarrow as pa

Reference = ray.ObjectRef[Any]
SECONDS = 0.2  # between looks at what is done


@contextlib.contextmanager
def bars(progress: ShowProgress) -> Iterator[None]:
    """Ray Data's own, for datasets that are made in this block."""
    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars
    context.enable_progress_bars = progress is True
    try:
        yield
    finally:
        context.enable_progress_bars = before


def to_function(step: str, rows: int | None, progress: ShowProgress) -> RowProgress:
    """Only for the caller's function; for anyone else there are bars."""
    return RowProgress(step, rows, progress if callable(progress) else False, lambda step, total: None)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Counter:
    """Rows of finished tasks. One that is run again counts once."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.stopped = False

    def add(self, task: str, rows: int) -> bool:
        """Says whether the others should go on."""
        self.rows[task] = rows
        return not self.stopped

    def total(self) -> int:
        return sum(self.rows.values())

    def stop(self) -> None:
        self.stopped = True


def count(counter: Any, rows: int) -> None:
    """On a worker."""
    if counter is not None and not ray.get(counter.add.remote(ray.get_runtime_context().get_task_id(), rows)):
        raise InterruptedError("the caller has stopped this work")


@contextlib.contextmanager
def counted(step: str, rows: int | None, progress: ShowProgress) -> Iterator[Any]:
    """Gives the tasks of this block what to count with, or None if nobody wants to hear of it."""
    if not callable(progress):
        yield None
        return
    counter = Counter.remote()  # type: ignore[attr-defined]  # of ray.remote
    watch = Watch(counter, to_function(step, rows, progress))
    try:
        yield counter
    except Exception:
        if watch.failed is None:
            raise
    finally:
        watch.end()
        ray.kill(counter)
    if watch.failed is not None:
        raise watch.failed


class Watch:
    """Tells the caller's function how far the tasks are, from a thread, and stops them if it raises something."""

    def __init__(self, counter: Any, report: RowProgress) -> None:
        self.counter, self.report = counter, report
        self.failed: Exception | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.over.wait(SECONDS) and self.failed is None:
            self.look()

    def look(self) -> None:
        try:
            done = ray.get(self.counter.total.remote())
            if done > self.report.done:
                self.report.advance(done - self.report.done)
        except Exception as error:  # of the caller's function, which the caller is to see
            self.failed = error
            self.counter.stop.remote()

    def end(self) -> None:
        self.over.set()
        self.thread.join()
        if self.failed is None:
            self.look()


class Refused(Exception):
    """Carries what went wrong in a task: Ray Data adds words to those of an exception, but leaves its attributes."""

    def __init__(self, words: str, original: Exception | None = None) -> None:
        super().__init__(words)
        self.original = original


def refusing(work: Callable[..., pa.Table]) -> Callable[..., Iterator[pa.Table]]:
    """For map_batches, which hands on the exceptions of generators and wraps those of functions."""
    @functools.wraps(work)
    def batches(*arguments: Any, **options: Any) -> Iterator[pa.Table]:
        try:
            yield work(*arguments, **options)
        except Exception as error:
            raise Refused(str(error), error) from None

    return batches


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Raises what went wrong in a task without the way it took."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise cause_of(error) from None


def cause_of(error: BaseException) -> BaseException:
    while isinstance(error, ray.exceptions.RayTaskError) and getattr(error, "cause", None) is not None:
        error = error.cause
    return (error.original or error) if isinstance(error, Refused) else error
