# SPDX-License-Identifier: Apache-2.0
"""What ray_folder.py and spark_folder.py share: their words, the memory of workers, and the line at the end."""
from __future__ import annotations

import argparse
import os
import pathlib
import threading
import time
from collections.abc import Sequence
from typing import Any

RAY_WORKERS = ("ray::MapBatches", "ray::kedge")  # in the commands of their processes
SPARK_WORKERS = ("pyspark.daemon", "pyspark/daemon.py")
FIT_OPTIONS = {"support": int, "seed": int, "sample": int, "anchors": int, "method": str, "attach": str, "device": str}


def parser(doc: str | None) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("folder", help="of Parquet files, on storage that all workers see")
    found.add_argument("output", help="folder to write to: a folder for each space, with the id and the results")
    found.add_argument("--columns", nargs="+", required=True, type=space_and_column, metavar="SPACE=COLUMN")
    found.add_argument("--id", default="id", help="column that names rows [id]")
    found.add_argument("--into", default="shared", help="column for the results [shared]")
    found.add_argument("--normalize", action="store_true", help="give results length 1")
    found.add_argument("--bundle", help="use this one and do not fit")
    found.add_argument("--save", help="where to save the bundle that was fitted; it is not kept if left out")
    for name, kind in FIT_OPTIONS.items():
        found.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS, help="as for fit")
    found.add_argument("--check-ids", action="store_true", help="look for ids that several rows have among all rows")
    found.add_argument("--master", help="the cluster to use; processes of this machine if left out")
    found.add_argument("--workers", type=int, default=os.cpu_count(), help="how many, if the cluster is this machine")
    found.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    return found


def space_and_column(text: str) -> tuple[str, str]:
    space, sign, column = text.partition("=")
    if not (space and sign and column):
        raise argparse.ArgumentTypeError(f"expected SPACE=COLUMN, found '{text}'")
    return space, column


def fit_options(asked: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in FIT_OPTIONS if hasattr(asked, name)}


def work(asked: argparse.Namespace, engine: Any, name: str, words: Sequence[str]) -> None:
    """Fits if no bundle is given, maps every space, and says how long that took.

    The engine is kedge.ray or kedge.spark; its workers have one of the words in the commands of their processes.
    """
    import kedge
    from kedge.parts import folder

    outputs = {space: f"{asked.output.rstrip('/')}/{space}" for space, _ in asked.columns}
    for output in outputs.values():
        if not asked.bundle:  # with one, a second run of the same maps goes on where the first one ended
            folder.require_empty(output)  # before a long fit, not after it
    began = time.perf_counter()
    with Memory(*words) as memory:
        if asked.bundle:
            bundle = kedge.load(asked.bundle)
        else:
            bundle = engine.fit(asked.folder, dict(asked.columns), asked.id, check_ids=asked.check_ids,
                                progress=not asked.quiet, **fit_options(asked))
        if asked.save:
            bundle.save(asked.save)
        fitted = time.perf_counter()
        for space, column in asked.columns:
            engine.transform(bundle, asked.folder, space=space, column=column, into=asked.into,
                             output=outputs[space], keep=[asked.id], normalize=asked.normalize,
                             progress=not asked.quiet)
        mapped = time.perf_counter()
    summary(name, count_rows(asked.folder), fitted - began, mapped - fitted, asked.columns, memory)


def count_rows(folder: str) -> int:
    """From the ends of the files; no row is read."""
    from kedge.parts import files

    return sum(piece.rows for piece in files.pieces(files.parquet_files(folder)))


def summary(engine: Any, rows: int, fit_s: float, map_s: float, spaces: list[tuple[str, str]], memory: Memory) -> None:
    seconds = fit_s + map_s
    peak = f"{memory.peak / 1e6:,.0f} MB" if memory.peak else "not measured: no worker runs on this machine"
    names = " and ".join(space for space, _ in spaces)
    print(f"{engine}: {rows:,} rows of {names}, {seconds:.1f} s (fit {fit_s:.1f}, maps {map_s:.1f}), "
          f"{rows / seconds:,.0f} rows/s, peak memory of a worker {peak}")


class Memory:
    """Anonymous memory of the largest worker process of this machine, sampled while work goes on.

    Files that are mapped and Ray's object store count once for the machine, not for each process, so they are left out.
    """

    def __init__(self, *words: str, every: float = 0.25) -> None:
        self.words, self.every = words, every
        self.samples: list[tuple[float, int]] = []  # (time, bytes of the largest)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Memory:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()

    @property
    def peak(self) -> float:
        return max((size for _, size in self.samples), default=0)

    def between(self, first: float, end: float) -> float:
        """The largest of those times, as time.perf_counter() tells them."""
        return max((size for when, size in self.samples if first <= when <= end), default=0)

    def watch(self) -> None:
        while not self.stopping.wait(self.every):
            sizes = [anonymous(process) for process in pathlib.Path("/proc").glob("[0-9]*") if self.is_worker(process)]
            self.samples.append((time.perf_counter(), max(sizes, default=0)))

    def is_worker(self, process: pathlib.Path) -> bool:
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # ended since
            return False
        return any(word in command for word in self.words)


def anonymous(process: pathlib.Path) -> int:
    try:
        for line in (process / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    except OSError:  # ended since
        pass
    return 0
