# SPDX-License-Identifier: Apache-2.0
"""Ids that several rows have, found among all rows. Their numbers go into files on this machine's disk, each number
into one of many, so that memory does not grow with rows."""
from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

from .columns import shown

SHOWN = 5  # repeated ids in a message
FILES = 256
BUFFER = 2**18  # bytes, of each
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd: numbers that follow one another go into different files


class Numbers:
    """Of ids, as docs/format.md says: what makes them drawn, and what has to be different."""

    def __init__(self, paths: Sequence[pathlib.Path], files: Sequence[IO[bytes]]) -> None:
        self.paths, self.files = paths, files

    def add(self, numbers: NDArray[np.int64]) -> None:
        place = (numbers.view(np.uint64) * SPREAD >> np.uint64(56)).astype(np.uint8)
        ordered = numbers[np.argsort(place, kind="stable")]
        ends = np.cumsum(np.bincount(place, minlength=FILES))
        for file, own in zip(self.files, np.split(ordered, ends[:-1])):
            file.write(own.tobytes())

    def repeated(self) -> tuple[int, list[int]]:
        """How many are there more than once, and the smallest of them."""
        count, some = 0, []
        for path, file in zip(self.paths, self.files):
            file.flush()
            numbers = np.fromfile(path, np.int64)
            numbers.sort()
            again = np.unique(numbers[1:][numbers[1:] == numbers[:-1]])
            count += len(again)
            some += again[:SHOWN].tolist()
        return count, sorted(some)[:SHOWN]


@contextlib.contextmanager
def collected() -> Iterator[Numbers]:
    with tempfile.TemporaryDirectory(prefix="kedge-ids-") as folder, contextlib.ExitStack() as opened:
        paths = [pathlib.Path(folder) / str(number) for number in range(FILES)]
        yield Numbers(paths, [opened.enter_context(path.open("wb", BUFFER)) for path in paths])


def refusal(count: int, some: Sequence[object], id_column: str) -> ValueError:
    names = ", ".join(shown(row_id) for row_id in some) + (", ..." if count > len(some) else "")
    there = "1 id is" if count == 1 else f"{count:,} ids are"
    return ValueError(f"{there} more than once in the column '{id_column}': {names}; give every row an id of its own, "
                      "or drop the repeated ones")
