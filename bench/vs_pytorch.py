#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one PARAM step of kedge against the same step in PyTorch (bench/peer.py, float32), on the processor.

Both run on the same random sizes and the same cores, in turn, several rounds; the medians of the rounds count. The
peak memory is that of the kedge process. For both, GFLOP/s counts the products that a step cannot do without. Other work
on the same cores distorts the ratio (it slows the two unequally), so its share of them is measured and shown.
Needs the `bench` preset built and build/torch-venv (make bench does both), or other ones by --program and --python.
"""
import argparse
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import record

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEDGE = ROOT / "build" / "bench" / "bench" / "kedge_step_bench"
PYTHON = ROOT / "build" / "torch-venv" / "bin" / "python"
PEER = ROOT / "bench" / "peer.py"
MEMORY_ALLOWANCE = 1.3
BYTES = 4  # of a float
TINY = (64, 32, 4, 16, 1, 8)  # sizes at which to ask whether a processor has a precision
QUIET = 0.05  # of the cores: as much as others may use before we warn


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}, expected 1 or more")
    return value


def parse():
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
    options.add_argument("--precision", nargs="+", choices=["fp32", "bf16"],
                         help="kedge's (fp32, and bf16 where the processor has it)")
    options.add_argument("--program", type=pathlib.Path, default=KEDGE, help="(%(default)s)")
    options.add_argument("--python", type=pathlib.Path, default=PYTHON, help="one that has PyTorch (%(default)s)")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    sizes = options.parse_args()
    if max(sizes.support, sizes.batch) > sizes.rows:
        options.error(f"{sizes.rows} rows hold no support of {sizes.support} and batch of {sizes.batch}")
    if sizes.threads > usable:
        options.error(f"{sizes.threads} threads, but only {usable} cores may be used")
    for needed in (sizes.program, sizes.python):
        if not needed.exists():
            sys.exit(f"{needed} is not there; 'make bench' makes it")
    sizes.precision = sizes.precision or ["fp32", "bf16"][:2 if has_bf16(sizes.program) else 1]
    return sizes


def has_bf16(program):
    return subprocess.run([program, "bf16", *map(str, TINY)], capture_output=True, check=False).returncode == 0


def flops(sizes):
    """Of one step's products: mixture x support and back, rows x anchors and back, anchors' Gram, pairs of spaces."""
    width, anchors = sum(sizes.dims), sizes.anchors
    pairs = len(list(itertools.combinations(sizes.dims, 2)))
    per_width = 4 * anchors * (sizes.support + sizes.batch + anchors)
    return per_width * width + 6 * sizes.batch**2 * anchors * pairs


def run(command):
    """What the command printed as JSON, and its peak resident memory beside it."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as child:
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[0]} failed")
    return {**json.loads(said), "peak_bytes": 1024 * used.ru_maxrss}


def time_kedge(sizes, precision):
    return run([sizes.program, precision, sizes.rows, sizes.support, sizes.anchors, sizes.batch, sizes.steps, *sizes.dims])


def time_torch(sizes):
    names = ("rows", "support", "anchors", "batch", "steps", "threads")
    values = [word for name in names for word in (f"--{name}", getattr(sizes, name))]
    return run([sizes.python, PEER, *values, "--dims", *sizes.dims])


def cpu_seconds(cores):
    """Seconds these cores have been busy with anything (or taken from this machine), and with our children."""
    lines = (line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines())
    fields = [list(map(int, words[1:9])) for words in lines if words[0] in {f"cpu{core}" for core in cores}]
    ticks = sum(sum(times) - times[3] - times[4] for times in fields)  # all but idle and waiting for the disk
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK"), used.ru_utime + used.ru_stime


def side_of(sizes, side, torch):
    rounds, peer = ([found["ms_per_step"] for found in each] for each in (side, torch))
    middle = statistics.median(rounds)
    return {
        "ms_per_step": middle, "gflops": flops(sizes) / middle / 1e6, "rounds_ms": rounds,
        "share_outside_products": statistics.median(1 - found.get("products_ms", 0) / found["ms_per_step"] for found in side),
        "instructions": side[0].get("instructions", "-"), "peak_bytes": max(found["peak_bytes"] for found in side),
        "ratio": middle / statistics.median(peer), "rounds_ratio": [a / b for a, b in zip(rounds, peer)],
    }


def measure(sizes):
    """Everything the table shows, as one dictionary."""
    # The children inherit the cores, and kedge takes one thread per core.
    cores = sorted(os.sched_getaffinity(0))[:sizes.threads]
    os.sched_setaffinity(0, cores)
    start, (busy, ours) = time.monotonic(), cpu_seconds(cores)
    kedge, torch = {precision: [] for precision in sizes.precision}, []
    for _ in range(sizes.rounds):
        for precision, side in kedge.items():
            side.append(time_kedge(sizes, precision))
        torch.append(time_torch(sizes))
    busy_after, ours_after = cpu_seconds(cores)
    others = (busy_after - busy - (ours_after - ours)) / (len(cores) * (time.monotonic() - start))
    threads = {found["threads"] for found in sum(kedge.values(), torch)}
    if threads != {sizes.threads}:
        sys.exit(f"they ran on {sorted(threads)} threads, expected {sizes.threads}: the times do not compare")

    floats = sizes.rows * sum(sizes.dims) + 5 * sizes.anchors * sizes.support
    return {
        "sizes": {name: getattr(sizes, name) for name in ("rows", "dims", "support", "anchors", "batch", "threads")},
        "steps_per_round": sizes.steps,
        "flops_per_step": flops(sizes),
        "kedge": {precision: side_of(sizes, side, torch) for precision, side in kedge.items()},
        "torch": {**side_of(sizes, torch, torch), "version": torch[0]["torch"]},
        "share_of_cores_used_by_others": max(0.0, others),
        "peak_bytes_allowed": round(MEMORY_ALLOWANCE * BYTES * floats),
    }


def show(found):
    sizes, torch = found["sizes"], found["torch"]
    print(f"PARAM step, spaces {'+'.join(map(str, sizes['dims']))}, {sizes['rows']:,} rows, K {sizes['support']}, "
          f"m {sizes['anchors']}, n {sizes['batch']}, {sizes['threads']} threads")
    print(f"median of {len(torch['rounds_ms'])} rounds of {found['steps_per_round']} steps, kedge and PyTorch in turn")
    print(f"{'':<24}{'ms/step':>9}{'GFLOP/s':>9}{'outside products':>18}{'to PyTorch':>12}{'rounds':>16}{'peak MB':>9}")
    for precision, side in found["kedge"].items():
        low, high = min(side["rounds_ratio"]), max(side["rounds_ratio"])
        name = f"kedge {precision}, {side['instructions']}"
        print(f"{name:<24}{side['ms_per_step']:>9.1f}{side['gflops']:>9.1f}{side['share_outside_products']:>18.1%}"
              f"{side['ratio']:>12.2f}{f'{low:.2f} to {high:.2f}':>16}{side['peak_bytes'] / 1e6:>9.0f}")
    print(f"{'PyTorch ' + torch['version']:<24}{torch['ms_per_step']:>9.1f}{torch['gflops']:>9.1f}")
    print(f"memory allowed {found['peak_bytes_allowed'] / 1e6:.0f} MB = {MEMORY_ALLOWANCE} x (spaces + 5 mK floats)")
    others = found["share_of_cores_used_by_others"]
    if others > QUIET:
        print(f"do not trust these times: other work used {others:.0%} of the cores meanwhile")


def main():
    sizes = parse()
    found = measure(sizes)
    for precision, side in found["kedge"].items():
        work = f"a step of PARAM, {sizes.support} support rows" + ("" if precision == "fp32" else f", {precision}")
        record.ratios(work, f"PyTorch {found['torch']['version']}",
                      *([ms / 1000 for ms in each["rounds_ms"]] for each in (side, found["torch"])))
    if sizes.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main()
