#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a migration of a FAISS Flat file against FAISS' own reading and writing of the same rows.

faiss: read_index, write_index and a sync to disk, all rows in memory. copy: the store class reads and writes without
translating. translate: the same through a ridge map, as `kedge-migrate apply` does it, reading, translating and writing
at the same time. Each runs in a process of its own, in turn, several rounds; the median counts. Memory is RssAnon, what
cannot be given back to the disk: its most in the first quarter of the rows and over all. With --cold the old file is
first forgotten by the system's cache, as one that nobody has just written would be.

    PYTHONPATH=python python bench/migrate_faiss.py --rows 100000
"""
import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np

OWNER = "bench"


class Memory:
    """The most RssAnon in MB since it was made, looked at every 20 ms."""

    def __init__(self) -> None:
        self.most = 0.0
        self.quarter: float | None = None
        self.stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.stop.wait(.02):
            with open("/proc/self/status") as lines:
                found = next(line for line in lines if line.startswith("RssAnon"))
            self.most = max(self.most, int(found.split()[1]) * 1024 / 1e6)


def make_rows(path: pathlib.Path | str, rows: int, width: int) -> None:
    """A Flat file of random rows of length 1, made a piece at a time."""
    import faiss
    from kedge.migrate.stores.faiss_flat import head

    with open(path, "wb") as file:
        file.write(head("Flat", width, faiss.METRIC_INNER_PRODUCT, rows))
        for first in range(0, rows, 50_000):
            vectors = np.random.default_rng(first).standard_normal((min(50_000, rows - first), width), dtype=np.float32)
            file.write(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        os.fsync(file.fileno())


def by_faiss(folder: str, width: int, memory: Memory) -> float:
    import faiss

    began = time.perf_counter()
    index = faiss.read_index(f"{folder}/docs.index")
    faiss.write_index(index, f"{folder}/copy.index")
    with open(f"{folder}/copy.index", "rb+") as file:
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    os.unlink(f"{folder}/copy.index")
    return seconds


def by_store(folder: str, width: int, memory: Memory, translate: bool) -> float:
    from kedge.migrate import pipeline
    from kedge.migrate.store import Rows, open_store

    old = open_store(f"faiss:{folder}/docs.index")
    translator = made_up_translator(old.describe().width, width) if translate else None
    began = time.perf_counter()
    new = old.beside("_new")
    rows = old.describe().rows
    new.create(old, width, OWNER)
    done = 0

    def change(batch: Rows) -> Rows:
        return batch if translator is None else Rows(batch.ids, translator.transform(batch.vectors, normalize=True))

    def write(batch: Rows) -> None:
        nonlocal done
        new.write(batch.ids, batch.vectors)
        done += len(batch)
        if memory.quarter is None and 4 * done >= rows:
            memory.quarter = memory.most

    pipeline.run(old.read(), change, write)
    new.finish()
    seconds = time.perf_counter() - began
    assert new.describe().rows == rows
    new.drop()
    return seconds


def made_up_translator(width: int, new_width: int) -> kedge.Translator:
    rows = np.random.default_rng(1).standard_normal((2000, width), dtype=np.float32)
    turned = rows @ np.random.default_rng(2).standard_normal((width, new_width), dtype=np.float32)
    return kedge.fit({"old": rows, "new": turned}, method="ridge").translator("old", "new")


WAYS: dict[str, Callable[[str, int, Memory], float]] = {
    "faiss": by_faiss,
    "copy": functools.partial(by_store, translate=False),
    "translate": functools.partial(by_store, translate=True),
}


def one(way: str, folder: str, width: int) -> None:
    memory = Memory()
    seconds = WAYS[way](folder, width, memory)
    print(json.dumps({"seconds": seconds, "quarter": memory.quarter, "most": memory.most}))


def forget(path: pathlib.Path | str) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def all_ways(asked: argparse.Namespace, folder: str) -> None:
    make_rows(pathlib.Path(folder, "docs.index"), asked.rows, asked.width)
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(asked.rounds):
        for way in WAYS:
            width = asked.new_width if way == "translate" else asked.width
            if asked.cold:
                forget(f"{folder}/docs.index")
            command = [sys.executable, __file__, "--one", way, "--folder", folder, "--new-width", str(width)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    base = statistics.median(run["seconds"] for run in found["faiss"])
    print(f"{asked.rows:,} rows of {asked.width} values, translated to {asked.new_width}")
    for way, runs in found.items():
        seconds = statistics.median(run["seconds"] for run in runs)
        quarter = max((run["quarter"] or 0) for run in runs)
        print(f"{way:10} {seconds:8.2f} s  {asked.rows / seconds:12,.0f} rows/s  {base / seconds:5.2f} of faiss  "
              f"RssAnon {quarter:6.0f} MB at a quarter, {max(run['most'] for run in runs):6.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--new-width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where to work; three times the rows must fit")
    parser.add_argument("--cold", action="store_true", help="read the old file from the disk, not from the cache")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one, asked.folder, asked.new_width)
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        all_ways(asked, folder)


if __name__ == "__main__":
    main()
