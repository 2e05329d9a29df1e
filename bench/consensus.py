#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times `kedge fit --method consensus` and `kedge attach`, whole commands from files to bundle, against the same
mathematics in PyTorch (bench/consensus_peer.py, from the same files to maps), in turn, several rounds; then shows that
time per row and memory stay flat as rows grow.

Rows are random mixtures of common causes, written as float16, unless --files names others. Other work on the same cores
distorts the ratio.
Needs the `bench` preset built and build/torch-venv (make bench does both).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import record

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = ROOT / "build" / "torch-venv" / "bin" / "python"
PEER = ROOT / "bench" / "consensus_peer.py"

MAKE_ROWS = """
import sys, numpy as np
path, rows, dim, causes, seed = sys.argv[1], *map(int, sys.argv[2:])
out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, dim))
mix = np.random.default_rng(seed).standard_normal((causes, dim), dtype=np.float32)
mix = mix / np.arange(1, causes + 1)[:, None] ** 0.5
for first in range(0, rows, 20000):
    count = min(20000, rows - first)
    hidden = np.random.default_rng(first).standard_normal((count, causes), dtype=np.float32)
    noise = np.random.default_rng([seed, first]).standard_normal((count, dim), dtype=np.float32)
    out[first : first + count] = hidden @ mix + 0.5 * noise
"""


def make_rows(path: str, rows: int, dim: int, seed: int) -> None:
    subprocess.run([PYTHON, "-c", MAKE_ROWS, path, str(rows), str(dim), "250", str(seed)], check=True)


def run_kedge(kedge: str | pathlib.Path, files: list[str], rows: int, support: int,
              folder: str) -> tuple[float, float, float]:
    """Seconds of fit and of attach, and the larger of their peak memories in MB."""
    bundle = f"{folder}/x.kedge"
    sources = [word for i, file in enumerate(files[:-1]) for word in ("--space", f"s{i}={file}")]
    common = ["--rows", f"0:{rows}", "-q", "-o", bundle]
    commands = [[kedge, "fit", *sources, "--method", "consensus", "--anchors", "300", "--support",
                 str(support), *common],
                [kedge, "attach", bundle, "--space", f"new={files[-1]}", *common]]
    seconds, peaks = [], []
    for command in commands:
        start = time.perf_counter()
        done = subprocess.run(["/usr/bin/time", "-v", *command], stderr=subprocess.PIPE, text=True, check=True)
        seconds.append(time.perf_counter() - start)
        peaks.append(int(re.findall(r"Maximum resident set size \(kbytes\): (\d+)", done.stderr)[0]) * 1024 / 1e6)
    return seconds[0], seconds[1], max(peaks)


def against_peer(asked: argparse.Namespace, folder: str) -> None:
    files = asked.files
    if files:
        seen = f"{len(files) - 1} spaces, {files[-1].stem} attached"
    else:
        seen = f"{asked.dims[:-1]} values, one of {asked.dims[-1]} attached"
        files = [f"{folder}/{i}.npy" for i in range(len(asked.dims))]
        for i, dim in enumerate(asked.dims):
            make_rows(files[i], asked.rows, dim, i)
    ours, theirs = [], []
    for _ in range(asked.rounds):
        ours.append(run_kedge(asked.kedge, files, asked.rows, asked.support, folder))
        peer = [PYTHON, PEER, *files, "--rows", str(asked.rows), "--support", str(asked.support)]
        theirs.append(json.loads(subprocess.run(peer, stdout=subprocess.PIPE, check=True).stdout)["seconds"])
    record.ratios("consensus: fit and attach, files to bundle", "PyTorch", [fit + attach for fit, attach, _ in ours],
                  theirs)
    ratios = [(fit + attach) / peer for (fit, attach, _), peer in zip(ours, theirs)]
    print(f"consensus of {asked.rows} rows, {seen}, {asked.support} support rows, {os.cpu_count()} cores")
    print(f"  kedge, files to bundle, whole commands {statistics.median(f + a for f, a, _ in ours):.2f} s "
          f"(attach {statistics.median(a for _, a, _ in ours):.2f} s)")
    print(f"  PyTorch, files to maps                 {statistics.median(theirs):.2f} s")
    print(f"  ratio {statistics.median(ratios):.2f} (rounds {min(ratios):.2f} to {max(ratios):.2f})")


def growth(asked: argparse.Namespace, folder: str) -> None:
    print("\n384 + 768 values streamed from files, one of 384 attached:")
    print(f"{'rows':>10} {'fit':>9} {'attach':>9} {'fit, us/row':>12} {'peak memory':>12}")
    files = [f"{folder}/{name}.npy" for name in ("long-a", "long-b", "long-new")]
    for file, dim, seed in zip(files, (384, 768, 384), range(3)):
        make_rows(file, max(asked.growth), dim, seed)
    for rows in asked.growth:
        fit, attach, peak = run_kedge(asked.kedge, files, rows, min(5000, rows), folder)
        print(f"{rows:>10,} {fit:>7.2f} s {attach:>7.2f} s {fit / rows * 1e6:>12.1f} {peak:>9.0f} MB")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kedge", default=ROOT / "build" / "bench" / "cli" / "kedge")
    options.add_argument("--rows", type=int, default=6500)
    options.add_argument("--dims", type=int, nargs="+", default=[384, 320, 512, 320], help="the last is attached")
    options.add_argument("--files", type=pathlib.Path, nargs="*", help="of embeddings; the last is attached")
    options.add_argument("--support", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--growth", type=int, nargs="*", default=[10_000, 100_000, 1_000_000],
                         help="numbers of rows; none to leave it out")
    asked = options.parse_args()
    for needed in (pathlib.Path(asked.kedge), PYTHON):
        if not needed.exists():
            sys.exit(f"{needed} is not there; 'make bench' makes it")
    with tempfile.TemporaryDirectory(dir=os.environ.get("KEDGE_BENCH_DIR", ".")) as folder:
        against_peer(asked, folder)
        if asked.growth:
            growth(asked, folder)


if __name__ == "__main__":
    main()
