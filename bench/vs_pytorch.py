#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one PARAM step of kedge against the same step in PyTorch (bench/peer.py), on the processor.

Both run on the same random sizes and the same cores, in turn, several rounds; the medians of the rounds count. The
peak memory is that of the kedge process. For both, GFLOP/s counts the products that a step cannot do without. Other
work on the same cores distorts the ratio (it slows the two unequally), so its share of them is measured and shown.
Needs the `bench` preset built and build/torch-venv (make bench does both).
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import record

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEDGE = ROOT / "build" / "bench" / "bench" / "kedge_step_bench"
COMMAND = ROOT / "build" / "bench" / "cli" / "kedge"
PYTHON = ROOT / "build" / "torch-venv" / "bin" / "python"
PEER = ROOT / "bench" / "peer.py"
MEMORY_ALLOWANCE = 1.3
BYTES = 4  # of a float
QUIET = 0.05  # of the cores: as much as others may use before we warn


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}, expected 1 or more")
    return value


def parse() -> argparse.Namespace:
    usable = len(os.sched_getaffinity(0))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=positive, default=50000, help="parallel rows of each space (%(default)s)")
    options.add_argument("--dims", type=positive, nargs="+", default=[384, 1280, 768],
                         help="dimension of each space (%(default)s)")
    options.add_argument("--support", type=positive, default=5000, help="support rows (%(default)s)")
    options.add_argument("--anchors", type=positive, default=300, help="(%(default)s)")
    options.add_argument("--batch", type=positive, default=1024, help="rows per step (%(default)s)")
    options.add_argument("--steps", type=positive, default=8, help="steps per round (%(default)s)")
    options.add_argument("--rounds", type=positive, default=3, help="(%(default)s)")
    options.add_argument("--threads", type=positive, default=usable, help="cores and threads of both (%(default)s)")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sizes = options.parse_args()
    if max(sizes.support, sizes.batch) > sizes.rows:
        options.error(f"{sizes.rows} rows hold no support of {sizes.support} and batch of {sizes.batch}")
    if sizes.threads > usable:
        options.error(f"{sizes.threads} threads, but only {usable} cores may be used")
    for needed in (KEDGE, PYTHON):
        if not needed.exists():
            sys.exit(f"{needed} is not there; 'make bench' makes it")
    return sizes


def flops(sizes: argparse.Namespace) -> int:
    """Of one step's products: mixture x support and back, rows x anchors and back, anchors' Gram, pairs of spaces."""
    width, anchors = sum(sizes.dims), sizes.anchors
    pairs = len(list(itertools.combinations(sizes.dims, 2)))
    per_width = 4 * anchors * (sizes.support + sizes.batch + anchors)
    return int(per_width * width + 6 * sizes.batch**2 * anchors * pairs)


def run(command: Sequence[object], env: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """What the command printed as JSON, and what it wrote to stderr."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout), done.stderr


def blas_kernels() -> dict[str, str]:
    """The variable by which the kedge command names OpenBLAS's kernels for this processor to itself."""
    devices = subprocess.run([COMMAND, "devices"], capture_output=True, text=True, check=True).stdout
    name = re.search(r"OpenBLAS for (\w+)", devices)
    return {"OPENBLAS_CORETYPE": name[1]} if name else {}


def time_kedge(sizes: argparse.Namespace) -> dict[str, Any]:
    step = [KEDGE, sizes.rows, sizes.support, sizes.anchors, sizes.batch, sizes.steps, *sizes.dims]
    found, report = run(["/usr/bin/time", "-v", *step], {**blas_kernels(), **os.environ})
    found["peak_bytes"] = 1024 * int(re.findall(r"Maximum resident set size \(kbytes\): (\d+)", report)[0])
    return found


def time_torch(sizes: argparse.Namespace) -> dict[str, Any]:
    names = ("rows", "support", "anchors", "batch", "steps", "threads")
    values = [word for name in names for word in (f"--{name}", getattr(sizes, name))]
    return run([PYTHON, PEER, *values, "--dims", *sizes.dims])[0]


def cpu_seconds(cores: list[int]) -> tuple[float, float]:
    """Seconds these cores have been busy with anything (or taken from this machine), and with our children."""
    lines = (line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines())
    fields = [list(map(int, words[1:9])) for words in lines if words[0] in {f"cpu{core}" for core in cores}]
    ticks = sum(sum(times) - times[3] - times[4] for times in fields)  # all but idle and waiting for the disk
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK"), used.ru_utime + used.ru_stime


def measure(sizes: argparse.Namespace) -> dict[str, Any]:
    """Everything the table shows, as one dictionary."""
    # The children inherit the cores, and kedge takes one thread per core.
    cores = sorted(os.sched_getaffinity(0))[:sizes.threads]
    os.sched_setaffinity(0, cores)
    start, (busy, ours) = time.monotonic(), cpu_seconds(cores)
    kedge, torch = [], []
    for _ in range(sizes.rounds):
        kedge.append(time_kedge(sizes))
        torch.append(time_torch(sizes))
    busy_after, ours_after = cpu_seconds(cores)
    others = (busy_after - busy - (ours_after - ours)) / (len(cores) * (time.monotonic() - start))
    threads = {found["threads"] for found in kedge + torch}
    if threads != {sizes.threads}:
        sys.exit(f"the two ran on {sorted(threads)} threads, expected {sizes.threads}: the times do not compare")

    outside = statistics.median(1 - found["products_ms"] / found["ms_per_step"] for found in kedge)
    kedge_ms, torch_ms = (statistics.median(found["ms_per_step"] for found in side) for side in (kedge, torch))
    floats = sizes.rows * sum(sizes.dims) + 5 * sizes.anchors * sizes.support
    return {
        "sizes": {name: getattr(sizes, name) for name in ("rows", "dims", "support", "anchors", "batch", "threads")},
        "steps_per_round": sizes.steps,
        "flops_per_step": flops(sizes),
        "kedge": {"ms_per_step": kedge_ms, "gflops": flops(sizes) / kedge_ms / 1e6, "share_outside_products": outside,
                  "rounds_ms": [found["ms_per_step"] for found in kedge]},
        "torch": {"ms_per_step": torch_ms, "gflops": flops(sizes) / torch_ms / 1e6, "version": torch[0]["torch"],
                  "rounds_ms": [found["ms_per_step"] for found in torch]},
        "ratio": kedge_ms / torch_ms,
        "rounds_ratio": [a["ms_per_step"] / b["ms_per_step"] for a, b in zip(kedge, torch)],
        "share_of_cores_used_by_others": max(0.0, others),
        "peak_bytes": max(found["peak_bytes"] for found in kedge),
        "peak_bytes_allowed": round(MEMORY_ALLOWANCE * BYTES * floats),
    }


def show(found: dict[str, Any]) -> None:
    sizes, kedge, torch = found["sizes"], found["kedge"], found["torch"]
    print(f"PARAM step, spaces {'+'.join(map(str, sizes['dims']))}, {sizes['rows']:,} rows, K {sizes['support']}, "
          f"m {sizes['anchors']}, n {sizes['batch']}, {sizes['threads']} threads")
    print(f"median of {len(kedge['rounds_ms'])} rounds of {found['steps_per_round']} steps, kedge and PyTorch in turn")
    print(f"{'':<24}{'ms/step':>9}{'GFLOP/s':>9}{'outside products':>18}")
    print(f"{'kedge':<24}{kedge['ms_per_step']:>9.1f}{kedge['gflops']:>9.1f}{kedge['share_outside_products']:>18.1%}")
    print(f"{'PyTorch ' + torch['version']:<24}{torch['ms_per_step']:>9.1f}{torch['gflops']:>9.1f}{'-':>18}")
    low, high = min(found["rounds_ratio"]), max(found["rounds_ratio"])
    print(f"ratio kedge/PyTorch {found['ratio']:.2f} (rounds {low:.2f} to {high:.2f})")
    peak, allowed = found["peak_bytes"], found["peak_bytes_allowed"]
    print(f"kedge peak resident memory {peak / 1e6:.0f} MB, of {allowed / 1e6:.0f} MB = "
          f"{MEMORY_ALLOWANCE} x (spaces + 5 mK floats)")
    others = found["share_of_cores_used_by_others"]
    if others > QUIET:
        print(f"do not trust these times: other work used {others:.0%} of the cores meanwhile")


def main() -> None:
    sizes = parse()
    found = measure(sizes)
    record.ratios(f"a step of PARAM, {sizes.support} support rows", f"PyTorch {found['torch']['version']}",
                  *([ms / 1000 for ms in found[side]["rounds_ms"]] for side in ("kedge", "torch")))
    if sizes.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
