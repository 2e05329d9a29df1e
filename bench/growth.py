#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the time and memory of kedge's commands grow with rows, values, anchors, support rows and threads: one table.

    bench/growth.py                                  # everything, on the processor: about half an hour on two cores
    bench/growth.py --axes rows,dims --device cuda   # some axes, on a GPU

One size changes at a time, the others keep the base: 20,000 rows, 256 values, 300 anchors, 5,000 support rows, all
threads. `exponent` is p in seconds ~ size^p between the last two sizes that ran for at least a fifth of a second;
`arithmetic` is the largest p that the operations of the command allow. A command whose time or memory is at its end is
not tried at larger sizes; what stopped it is the last column.

Rows are random mixtures of common causes, in float16. Needs numpy, a built kedge and about 4 GB of disk in
KEDGE_BENCH_DIR or the current folder. Other work on the same cores distorts it.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Sequence

import numpy as np
from record import machine

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASE = {"rows": 20_000, "dims": 256, "anchors": 300, "support": 5000, "threads": 0}
SIZES = {"rows": (10_000, 100_000, 1_000_000, 10_000_000), "dims": (64, 256, 1024, 4096),
         "anchors": (50, 200, 600, 2000), "support": (500, 5000, 50_000), "threads": (1, 2)}
# Where the base would be in the way: so many rows fit on a disk only if they are short, and support rows are rows.
BESIDE = {"rows": {"dims": 64}, "support": {"rows": 50_000}, "anchors": {"dims": 1024}}
COMMANDS = ("fit", "attach", "transform", "compare", "stitch")
# Sums over rows are linear in rows and at most quadratic in values, a decomposition is cubic in values, and that of the
# targets, or of what is compared, in anchors; comparing looks at all pairs. What a ridge on the support costs is linear
# in its rows.
ARITHMETIC = {"rows": {"compare": 2, "stitch": 1}, "dims": {"fit": 3, "attach": 3, "stitch": 3, "compare": 0},
              "anchors": {"fit": 3, "attach": 3, "compare": 3, "stitch": 3},
              "support": {"transform": 0, "compare": 0}, "threads": {}}
SEEN = 0.2  # seconds under which starting the program hides how it grows

Run = collections.namedtuple("Run", "seconds peak_mb said")


def make_space(path: str, rows: int, dims: int, seed: int, block: int = 20_000) -> None:
    """Blocks of the same causes through a mixture of the space's own, each block of another size and shift."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, dims))
    causes = np.random.default_rng(0).standard_normal((min(block, rows), 200), dtype=np.float32)
    own = np.random.default_rng([seed, 1])
    mixed = causes @ (own.standard_normal((200, dims), dtype=np.float32) / np.arange(1, 201)[:, None] ** 0.5)
    mixed += 0.5 * own.standard_normal(mixed.shape, dtype=np.float32)
    for first in range(0, rows, block):
        count = min(block, rows - first)
        out[first:first + count] = mixed[:count] * (1 + 0.3 * math.sin(first))
    out.flush()


def peak_of(pid: int) -> float:
    """Of a process that runs, in MB. What the system adds up when it ends would begin with the memory of this one."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024 / 1e6
    except (OSError, StopIteration):
        return 0


def measured(command: Sequence[object], limit: float) -> Run:
    """Seconds and peak memory of a command; what it said if it failed or took too long."""
    with tempfile.TemporaryFile() as errors:
        start, peak, said = time.perf_counter(), 0.0, None
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            peak = max(peak, peak_of(process.pid))
            if time.perf_counter() - start > limit and said is None:
                process.kill()
                said = f"over {limit:g} s"
            time.sleep(0.002)
        seconds = time.perf_counter() - start
        errors.seek(0)
        if process.returncode and said is None:
            lines = errors.read().decode(errors="replace").strip().splitlines()
            said = lines[-1] if lines else f"exit {process.returncode}"
    return Run(seconds, peak, said)


class Lab:
    def __init__(self, asked: argparse.Namespace, folder: str) -> None:
        self.asked, self.folder = asked, folder
        self.on_disk: tuple[int, int] | None = None

    def spaces(self, point: dict[str, int]) -> list[str]:
        """The files of the point; those of the last one are gone, they may be large."""
        key = point["rows"], point["dims"]
        if self.on_disk != key:
            for name in ("a", "b", "c"):
                make_space(f"{self.folder}/{name}.npy", *key, ord(name))
            np.save(f"{self.folder}/labels.npy", np.random.default_rng(0).integers(0, 10, point["rows"]))
            self.on_disk = key
        return [word for name in ("a", "b") for word in ("--space", f"{name}={self.folder}/{name}.npy")]

    def command(self, name: str, point: dict[str, int]) -> list[object]:
        two, folder = self.spaces(point), self.folder
        common = ["--threads", point["threads"], "--quiet"]
        device = ["--device", self.asked.device]
        sizes = ["--anchors", point["anchors"], "--support", min(point["support"], point["rows"])]
        train = point["rows"] * 9 // 10
        return [self.asked.kedge, name, *{
            "fit": [*two, *sizes, *device, "-o", f"{folder}/x.kedge"],
            "attach": [f"{folder}/x.kedge", "--space", f"c={folder}/c.npy", *device, "-o", f"{folder}/y.kedge"],
            "transform": [f"{folder}/x.kedge", "--space", "a", "-i", f"{folder}/a.npy", *device, "-o",
                          f"{folder}/a.rr.npy"],
            "compare": [f"{folder}/a.rr.npy", f"{folder}/a.rr.npy", *device],
            "stitch": [*two, "--space", f"c={folder}/c.npy", "--labels", f"{folder}/labels.npy", "--train",
                       f"0:{train}",
                       "--test", f"{train}:{min(train + 1000, point['rows'])}", "--methods", "consensus", "--head",
                       "linear",
                       "--anchors", point["anchors"], "--support", min(point["support"], train), "--no-report",
                       "--fresh",
                       *device, "-o", f"{folder}/out"],
        }[name], *common]

    def axis(self, axis: str) -> dict[str, dict[int, Run]]:
        """For every command the runs by size, until one breaks."""
        runs: dict[str, dict[int, Run]] = {name: {} for name in COMMANDS}
        for size in self.asked.sizes.get(axis, SIZES[axis]):
            point = {**BASE, **BESIDE.get(axis, {}), axis: size}
            broken = set()
            for name in COMMANDS:
                stopped = any(run.said for run in runs[name].values())
                if stopped or (name in ("attach", "transform", "compare") and "fit" in broken) or (
                        name == "compare" and "transform" in broken):
                    broken.add(name)
                    continue
                runs[name][size] = measured(self.command(name, point), self.asked.limit)
                if runs[name][size].said:
                    broken.add(name)
                print(json.dumps({"axis": axis, "size": size, "command": name, **runs[name][size]._asdict()}),
                      flush=True)
        return runs


def exponent(runs: dict[int, Run]) -> float | None:
    """Of the time between the last two sizes, or None if starting the program is most of it."""
    seen = [(size, run.seconds) for size, run in runs.items() if run.said is None and run.seconds >= SEEN]
    if len(seen) < 2:
        return None
    (small, before), (large, after) = seen[-2:]
    return math.log(after / before) / math.log(large / small)


def table(axis: str, runs: dict[str, dict[int, Run]], out: list[str]) -> None:
    sizes = list(dict.fromkeys(size for some in runs.values() for size in some))
    out.append(f"\n**{axis}**\n")
    out.append("| | " + " | ".join(f"{size:,}" for size in sizes) + " | exponent | arithmetic | first to break |")
    out.append("|---|" + "---:|" * (len(sizes) + 2) + "---|")
    for name, some in runs.items():
        cells = [f"{some[size].seconds:.2f} s, {some[size].peak_mb:.0f} MB" if size in some and not some[size].said
                 else "–"
                 for size in sizes]
        grew, allowed = exponent(some), ARITHMETIC[axis].get(name, 1)
        stop = next((f"{size:,}: {run.said}" for size, run in some.items() if run.said), "")
        grown = "–" if grew is None or axis == "threads" else f"{grew:.2f}"
        out.append(f"| {name} | {' | '.join(cells)} | {grown} | {allowed if axis != 'threads' else '–'} | {stop} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kedge", type=pathlib.Path, default=ROOT / "build" / "bench" / "cli" / "kedge")
    parser.add_argument("--axes", default=",".join(SIZES), help="[%(default)s]")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--limit", type=float, default=120,
                        help="seconds after which a command is stopped [%(default)g]")
    parser.add_argument("--most", type=float, default=math.inf, help="largest size of any axis")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="file for the table; it is printed too")
    asked = parser.parse_args()
    asked.sizes = {axis: [size for size in sizes if size <= asked.most] for axis, sizes in SIZES.items()}
    unknown = set(asked.axes.split(",")) - set(SIZES)
    if unknown:
        parser.error(f"unknown axes {', '.join(sorted(unknown))}; there are {', '.join(SIZES)}")
    base = ", ".join(f"{value:,} {name}" for name, value in BASE.items() if name != "threads")
    out = [f"# How it grows, {asked.device}\n", f"Made by `bench/growth.py`: {machine()}. Base: {base}."]
    out += [f"{axis.capitalize()}: with {', '.join(f'{value:,} {name}' for name, value in beside.items())}."
            for axis, beside in BESIDE.items()]
    with tempfile.TemporaryDirectory(dir=os.environ.get("KEDGE_BENCH_DIR", ".")) as folder:
        for axis in asked.axes.split(","):
            table(axis, Lab(asked, folder).axis(axis), out)
    print("\n".join(out))
    if asked.out:
        asked.out.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
