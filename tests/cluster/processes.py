# SPDX-License-Identifier: Apache-2.0
"""Processes that a cluster of a test has started, so that no other one is killed."""
import contextlib
import os
import pathlib
from collections.abc import Iterable


def descendants(roots: Iterable[int]) -> list[tuple[int, int, str]]:
    """(process, parent, command line) of these processes, their children and all that those have started."""
    running = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it may have ended since
            status = pathlib.Path(f"/proc/{name}/stat").read_text()
            words = pathlib.Path(f"/proc/{name}/cmdline").read_text().replace("\0", " ")
            running[int(name)] = int(status.rpartition(")")[2].split()[1]), words
    ours = set(roots)
    while True:
        more = {pid for pid, (parent, _) in running.items() if parent in ours} - ours
        if not more:
            return [(pid, *running[pid]) for pid in ours if pid in running]
        ours |= more
