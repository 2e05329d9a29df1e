#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of how long a fit takes on a cluster, from costs measured here; checked here, then simulated beyond.

    experiments/cluster/scaling.py --check ray

time = start + work of a worker + tree + solve

  work    rows / workers x (read + add) and pieces / workers x (pickle, unpickle and merge a partial), of a core.
          A piece is PIECE_BYTES of a file, and every piece makes a partial. Rows and partials also cross the network.
          A worker waits for its own bytes, others work meanwhile; but all workers of a machine share its network, so
          work = max(core + bytes / bandwidth, workers of the machine x bytes / bandwidth)
  tree    the last ceil(log_8 workers) levels of merges, which keep fewer workers than all busy: 8 partials each
  solve   one core, 5000 support rows; measured up to D = 2432 and taken to grow with D^3 beyond

No machine is slow, storage is as fast as the network, and every partial crosses it. Costs are seconds of a processor,
so that other work on this machine changes them little. The check compares with seconds of the clock, which such work
changes much; beside them it shows how long the processor was busy for a worker. Needs kedge and pyarrow; the check
needs '.[ray]' and 2 free cores. D = 12,288 needs 6 GB of memory.
"""
import argparse
import collections
import dataclasses
import functools
import math
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import kedge
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kedge.parts.apply import transformation
from kedge.parts.columns import Columns
from kedge.parts.files import PIECE_BYTES, opened, pieces
from kedge.parts.folder import Writer
from kedge.parts.manifest import Part
from kedge.parts.partial import Partial

MERGED_AT_ONCE = 8
SUPPORT = 5000
ANCHORS = 300
DIMS = (640, 2432, 12288)
SOLVED_UP_TO = 2432
MEMORY_NEEDED = {12288: 6e9}

T = TypeVar("T")
Check = collections.namedtuple("Check", "workers rows predicted measured busy_predicted busy")


@dataclasses.dataclass
class Costs:
    """Seconds of one core for D values in all."""

    dim: int
    read: float  # per row
    add: float  # per row
    map: float  # per row: read the wider space, map it, write the results
    pickled: float  # per partial
    unpickled: float
    merged: float
    nbytes: int  # of a partial
    solve: float
    solve_measured: bool


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def made_table(rows: int, dim: int, first: int = 0) -> pa.Table:
    """Two spaces that share causes, 3 : 2, as float16 lists."""
    rng = np.random.default_rng(first)
    hidden = rng.standard_normal((rows, 128), np.float32)
    table = {"id": np.arange(first, first + rows)}
    for name, size in (("a", dim * 3 // 5), ("b", dim - dim * 3 // 5)):
        mix = np.random.default_rng(size).standard_normal((128, size), dtype=np.float32) / 11
        matrix = np.tanh(hidden @ mix) + 0.1 * rng.standard_normal((rows, size), np.float32)
        table[name] = pa.FixedSizeListArray.from_arrays(pa.array(matrix.astype(np.float16).ravel()), size)
    return pa.table(table)


def columns_of(dim: int) -> Columns:
    return Columns({"a": "a", "b": "b"}, "id", {"a": dim * 3 // 5, "b": dim - dim * 3 // 5})


def write(table: pa.Table, path: str) -> None:
    pq.write_table(table, path, use_dictionary=False, compression="none", row_group_size=25_000)


def measured(dim: int, folder: pathlib.Path) -> Costs:
    """The costs of one width, on files in the page cache."""
    rows = max(SUPPORT if dim <= SOLVED_UP_TO else 512, min(50_000, int(2e10 / dim**2)))
    path = str(folder / f"{dim}.parquet")
    write(made_table(rows, dim), path)
    columns = columns_of(dim)
    names = columns.names

    def read() -> list[Any]:
        file = opened(path)
        return [batch for group in range(file.num_row_groups)
                for batch in file.iter_batches(8192, row_groups=[group], columns=names, use_threads=False)]

    read()
    read_s, batches = cpu_seconds(read)
    partial = Partial(columns, SUPPORT, 0)

    def add() -> None:
        for batch in batches:
            partial.add(batch, path, 0)

    add_s, _ = cpu_seconds(add)
    pickled_s, blob = cpu_seconds(lambda: pickle.dumps(partial, 5))
    whole = 1 + 4 * dim * max(0, SUPPORT - rows) / len(blob)  # with support rows that so few rows could not give
    nbytes = int(whole * len(blob))
    unpickled_s, _ = cpu_seconds(functools.partial(pickle.loads, blob))
    del blob
    other = Partial(columns, SUPPORT, 0)
    other.add(made_table(100, dim, first=10**9).to_batches()[0], "other", 0)
    merged_s, _ = cpu_seconds(functools.partial(other.merge, partial))
    del other
    map_s, _ = cpu_seconds(lambda: mapped_file(path, folder / f"{dim}-mapped.parquet", columns.dims["a"]))
    solve_s = cpu_seconds(lambda: kedge.fit(moments=partial.moments))[0] if dim <= SOLVED_UP_TO else math.nan
    return Costs(dim, read_s / rows, add_s / rows, map_s / rows, whole * pickled_s, whole * unpickled_s, merged_s,
                 nbytes, solve_s, dim <= SOLVED_UP_TO)


def mapped_file(path: str, target: pathlib.Path, dim: int) -> None:
    weight = np.random.default_rng(0).standard_normal((ANCHORS, dim), np.float32)
    rr = kedge.RelativeMap("a", "wip", weight, np.zeros(ANCHORS, np.float32), np.zeros(dim, np.float32))
    bundle: Any = {"a": rr}  # all that mapping asks of a bundle
    (piece,) = pieces([path])
    writer = Writer(transformation(bundle, "a", "a", "shared", False), ["id"], "measured")
    writer(Part(piece, str(target), target.name))


def all_costs(dims: Sequence[int], folder: pathlib.Path) -> list[Costs]:
    found = []
    for dim in dims:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if MEMORY_NEEDED.get(dim, 0) > available:
            print(f"D = {dim} is left out: it needs {MEMORY_NEEDED[dim] / 1e9:.0f} GB of memory, and "
                  f"{available / 1e9:.1f} are free")
            continue
        found.append(measured(dim, folder))
    solved = [costs for costs in found if costs.solve_measured]
    for costs in found:
        if not costs.solve_measured and solved:
            costs.solve = solved[-1].solve * (costs.dim / solved[-1].dim) ** 3
    return found


def start_seconds() -> float:
    """What a new worker process needs before its first row: Python and the packages."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import kedge.parts.partial, pyarrow.parquet"], check=True)
    return time.perf_counter() - began


def piece_count(costs: Costs, rows: int, workers: int, piece_bytes: float) -> int:
    return max(workers, math.ceil(rows * (2 * costs.dim + 8) / piece_bytes))


def busy_in_work(costs: Costs, rows: int, workers: int, piece_bytes: float) -> float:
    """Seconds of a core for every worker."""
    hand_over = costs.pickled + costs.unpickled + costs.merged
    return (rows * (costs.read + costs.add) + piece_count(costs, rows, workers, piece_bytes) * hand_over) / workers


def predicted(costs: Costs, rows: int, workers: int, start: float = 0.0, bandwidth: float = math.inf, cores: int = 1,
              piece_bytes: float = PIECE_BYTES) -> float:
    """Seconds of a fit. Bandwidth: bytes a second of a machine with so many workers ('cores')."""
    row_bytes = 2 * costs.dim + 8
    busy = busy_in_work(costs, rows, workers, piece_bytes)
    network = (rows * row_bytes + piece_count(costs, rows, workers, piece_bytes) * costs.nbytes) / workers / bandwidth
    levels = math.ceil(math.log(workers, MERGED_AT_ONCE) - 1e-9) if workers > 1 else 0
    taken_in = costs.nbytes / bandwidth + costs.unpickled + costs.merged
    at_level = min(MERGED_AT_ONCE, workers) * taken_in + costs.pickled
    return start + max(busy + network, min(cores, workers) * network) + levels * at_level + costs.solve


def print_costs(found: list[Costs]) -> None:
    print("\ncosts of one core\n\n| D | read, s per million rows | add, s per million rows "
          "| map one space, s per million rows | partial, MB | pickle, unpickle, merge, s | solve, s |\n"
          "|---|---|---|---|---|---|---|")
    for costs in found:
        print(f"| {costs.dim:,} | {1e6 * costs.read:,.1f} | {1e6 * costs.add:,.0f} "
              f"| {1e6 * costs.map:,.1f} | {costs.nbytes / 1e6:,.0f} "
              f"| {costs.pickled:.2f}, {costs.unpickled:.2f}, {costs.merged:.2f} "
              f"| {costs.solve:,.1f}{'' if costs.solve_measured else ' (by D^3)'} |")


def print_plan(found: list[Costs], start: float, asked: argparse.Namespace) -> None:
    """What someone who plans a fit and the map of its wider space asks first."""
    print(f"\n{asked.plan_workers} workers, {asked.cores} of them on a machine with 10 Gbit/s\n\n| D | rows | a fit "
          "reads | core hours | time | a map reads, writes | core hours |\n|---|---|---|---|---|---|---|")
    for costs in found:
        for rows in asked.plan:
            core_hours = (asked.plan_workers * busy_in_work(costs, rows, asked.plan_workers, PIECE_BYTES) + costs.solve)
            took = predicted(costs, rows, asked.plan_workers, start, 10e9 / 8, asked.cores)
            mapped = rows * (2 * (costs.dim * 3 // 5) + 8), rows * (4 * ANCHORS + 8)
            print_line(f"{costs.dim:,}", f"{rows:,}", size(rows * (2 * costs.dim + 8)), f"{core_hours / 3600:,.1f}",
                       clock(took), ", ".join(map(size, mapped)), f"{rows * costs.map / 3600:,.1f}")


def clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:,.1f} h" if seconds >= 7200 else f"{seconds / 60:.0f} min"


def size(nbytes: float) -> str:
    return f"{nbytes / 1e12:,.1f} TB" if nbytes >= 1e12 else f"{nbytes / 1e9:,.0f} GB"


def print_scaling(found: list[Costs], start: float, asked: argparse.Namespace) -> None:
    for costs in found:
        print(f"\nD = {costs.dim:,}: hours for {asked.rows / 1e9:g} billion rows (strong), and efficiency; in brackets "
              f"the efficiency with {asked.rows_per_worker:,} rows for every worker (weak). {asked.cores} cores to a "
              "machine.\n")
        print_line("workers", *(f"{gbit} Gbit/s" for gbit in asked.gbit))
        print("|---|" + "---|" * len(asked.gbit))
        for workers in asked.workers:
            print_line(f"{workers:,}", *(cell(costs, workers, gbit, start, asked) for gbit in asked.gbit))


def print_line(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |")


def cell(costs: Costs, workers: int, gbit: float, start: float, asked: argparse.Namespace) -> str:
    def seconds(rows: int, workers: int) -> float:
        return predicted(costs, rows, workers, start, gbit * 1e9 / 8, asked.cores)

    strong = seconds(asked.rows, workers)
    alone = seconds(asked.rows, 1)
    weak = seconds(asked.rows_per_worker, 1) / seconds(asked.rows_per_worker * workers, workers)
    return f"{clock(strong)}, {100 * alone / workers / strong:.0f} % ({100 * weak:.0f} %)"


def check(costs: Costs, folder: pathlib.Path, asked: argparse.Namespace) -> Iterator[Check]:
    """Fits of a folder with 1 and 2 workers of one core, after start-up."""
    import kedge.ray
    import ray

    parts = folder / "check"
    parts.mkdir()
    per_file = max(1, asked.check_rows // 8)
    for number in range(8):
        write(made_table(per_file, costs.dim, first=number * per_file), str(parts / f"{number}.parquet"))
    small = folder / "small"
    small.mkdir()
    for number in range(2):
        write(made_table(6000, costs.dim, first=number * 6000), str(small / f"{number}.parquet"))
    for workers in (1, 2):
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        try:
            kedge.ray.fit(small, {"a": "a", "b": "b"})  # starts the workers
            began, busy = time.perf_counter(), busy_seconds("ray::")
            kedge.ray.fit(parts, {"a": "a", "b": "b"})
            took, busy = time.perf_counter() - began, busy_seconds("ray::") - busy
        finally:
            ray.shutdown()
        rows, piece = 8 * per_file, per_file * (2 * costs.dim + 8)
        busy_predicted = busy_in_work(costs, rows, workers, piece) + costs.solve / workers
        yield Check(workers, rows, predicted(costs, rows, workers, piece_bytes=piece), took, busy_predicted,
                    busy / workers)


def busy_seconds(word: str) -> float:
    """Of the processor, for all processes whose command begins with this word."""
    ticks = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().decode(errors="replace").startswith(word):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:  # ended since
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def print_check(checks: Iterable[Check]) -> None:
    print("\n| workers | rows | predicted, s | measured, s | error, % | busy per worker: predicted, s | measured, s "
          "| error, % |\n|---|---|---|---|---|---|---|---|", flush=True)
    for line in checks:
        print(f"| {line.workers} | {line.rows:,} | {line.predicted:.2f} | {line.measured:.2f} "
              f"| {100 * (line.predicted / line.measured - 1):+.0f} | {line.busy_predicted:.2f} | {line.busy:.2f} "
              f"| {100 * (line.busy_predicted / line.busy - 1):+.0f} |", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS, help="values of all spaces together")
    parser.add_argument("--check", choices=("ray", "no"), default="ray", help="compare with fits of 1 and 2 workers")
    parser.add_argument("--check-rows", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--plan", type=int, nargs="+", default=[10**7, 10**8, 10**9], help="rows of the table of costs")
    parser.add_argument("--plan-workers", type=int, default=64)
    parser.add_argument("--rows-per-worker", type=int, default=10**6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 16, 64, 256, 1024])
    parser.add_argument("--gbit", type=int, nargs="+", default=[1, 10, 100], help="network of a machine")
    parser.add_argument("--cores", type=int, default=16, help="workers of one machine, which share its network")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    warnings.filterwarnings("ignore", message=".*do not match.*")  # rows here are made up, and few
    kedge.set_threads(1)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        start, found = start_seconds(), all_costs(asked.dims, folder)
        print(f"a worker starts in {start:.1f} s")
        print_costs(found)
        if asked.check == "ray":
            print_check(check(found[0], folder, asked))
    print_plan(found, start, asked)
    print_scaling(found, start, asked)


if __name__ == "__main__":
    main()
