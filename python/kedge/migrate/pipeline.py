# SPDX-License-Identifier: Apache-2.0
"""Reads, changes and writes batches at the same time: the disk and the processors need not wait for each other."""
from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import kedge

Batch = TypeVar("Batch")
Changed = TypeVar("Changed")
Item = TypeVar("Item")
AHEAD = 2  # batches between two workers: memory does not grow with rows


class _Stopped(Exception):
    """Another worker has failed, and its error is the one to raise."""


def run(batches: Iterable[Batch], change: Callable[[Batch], Changed], write: Callable[[Changed], None],
        workers: int | None = None) -> None:
    """write(change(batch)) for every batch, in order. One thread reads, one writes, 'workers' change, each with one
    processor: all of them by default. The first error of any of them is raised."""
    with _one_thread_each() as processors, concurrent.futures.ThreadPoolExecutor(workers or processors) as pool:
        changed: queue.Queue[concurrent.futures.Future[Changed] | None] = queue.Queue(AHEAD)
        stop = threading.Event()
        failed: list[BaseException] = []

        def read_all() -> None:
            for batch in batches:
                _hand_over(changed, pool.submit(change, batch), stop)
            _hand_over(changed, None, stop)

        def write_all() -> None:
            for future in _items(changed, stop):
                write(future.result())

        def working(work: Callable[[], None]) -> None:
            try:
                work()
            except _Stopped:
                pass
            except BaseException as error:
                failed.append(error)
                stop.set()

        threads = [threading.Thread(target=working, args=(work,), daemon=True) for work in (read_all, write_all)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(.2)  # short, so that Ctrl-C is heard
        except BaseException:
            stop.set()
            for thread in threads:
                thread.join()
            raise
        if failed:
            raise failed[0]


def _hand_over(where: queue.Queue[Item], item: Item, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            where.put(item, timeout=.1)
            return
        except queue.Full:
            continue
    raise _Stopped


def _items(where: queue.Queue[Item | None], stop: threading.Event) -> Iterator[Item]:
    while True:
        try:
            item = where.get(timeout=.1)
        except queue.Empty:
            if stop.is_set():
                raise _Stopped from None
            continue
        if item is None:
            return
        yield item


@contextlib.contextmanager
def _one_thread_each() -> Iterator[int]:
    """Threads of BLAS that wait for each other would take the processor from those that read and write."""
    before = kedge.threads()
    kedge.set_threads(1)
    try:
        yield before
    finally:
        kedge.set_threads(before)
