# SPDX-License-Identifier: Apache-2.0
"""Reads, changes and writes batches at the same time: a store waits for its disk while the processor translates."""
from __future__ import annotations

import queue
import threading

AHEAD = 2  # batches between two workers: memory does not grow with rows


class _Stopped(Exception):
    """Another worker has failed; its error is the one to tell."""


def run(batches, change, write):
    """write(change(batch)) for every batch, in order, by three threads. The first error of any of them is raised."""
    stop, failed = threading.Event(), []
    read, changed = queue.Queue(AHEAD), queue.Queue(AHEAD)

    def put(where, item):
        while not stop.is_set():
            try:
                return where.put(item, timeout=.1)
            except queue.Full:
                continue
        raise _Stopped

    def items(where):
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

    def working(work):
        def body():
            try:
                work()
            except _Stopped:
                pass
            except BaseException as error:
                failed.append(error)
                stop.set()
        return body

    def read_all():
        for batch in batches:
            put(read, batch)
        put(read, None)

    def write_all():
        for item in items(changed):
            write(item)

    def change_all():
        for batch in items(read):
            put(changed, change(batch))
        put(changed, None)

    workers = [threading.Thread(target=working(work), daemon=True) for work in (read_all, write_all)]
    for worker in workers:
        worker.start()
    try:
        working(change_all)()
        for worker in workers:
            while worker.is_alive():
                worker.join(.2)  # short, so that Ctrl-C is heard
    except BaseException:
        stop.set()
        for worker in workers:
            worker.join()
        raise
    if failed:
        raise failed[0]
