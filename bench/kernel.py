#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times `kedge attach --attach kernel`, the whole command from file to bundle, against the same choice in PyTorch
(bench/kernel_peer.py, without its reading), in turn, several rounds; then shows how long larger supports take.

Rows are random mixtures of common causes through a nonlinear function, written as float16. Other work on the same cores
distorts the ratio. Needs the `bench` preset built and build/torch-venv (make bench does both).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import record

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = ROOT / "build" / "torch-venv" / "bin" / "python"

MAKE_ROWS = """
import sys, numpy as np
path, rows, dim, seed = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng([seed, 1])
causes = np.random.default_rng(0).standard_normal((rows, 300), dtype=np.float32)
causes = causes / np.arange(1, 301, dtype=np.float32) ** 0.5
mixed = np.tanh(causes @ random.standard_normal((300, dim), dtype=np.float32))
np.save(path, (mixed + 0.2 * random.standard_normal((rows, dim), dtype=np.float32)).astype(np.float16))
"""
SPLIT = """
import sys, numpy as np
from safetensors.numpy import load_file
bundle, rows, support, targets = sys.argv[1:]
held = load_file(bundle)
np.save(support, np.load(rows)[held["support_ids"]])
np.save(targets, held["targets"])
"""


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


def attach(kedge: str | pathlib.Path, bundle: str, file: str, folder: str) -> tuple[float, Any]:
    start = time.perf_counter()
    done = subprocess.run([str(kedge), "attach", bundle, "--space", f"new={file}", "--attach", "kernel", "--json", "-o",
                           f"{folder}/attached.kedge"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start, json.loads(done.stdout)


def prepare(asked: argparse.Namespace, folder: str, support: int) -> tuple[str, str]:
    """A bundle of that support, and rows to attach."""
    files = []
    for seed in range(3):
        files.append(f"{folder}/{seed}.npy")
        run(PYTHON, "-c", MAKE_ROWS, files[-1], support, asked.dim, seed)
    bundle = f"{folder}/bundle.kedge"
    run(asked.kedge, "fit", "--space", f"a={files[0]}", "--space", f"b={files[1]}", "--anchors", asked.anchors,
        "--support",
        support, "-q", "-o", bundle)
    return bundle, files[2]


def against_peer(asked: argparse.Namespace, folder: str) -> None:
    bundle, file = prepare(asked, folder, asked.support)
    parts = [f"{folder}/support.npy", f"{folder}/targets.npy"]
    run(PYTHON, "-c", SPLIT, bundle, file, *parts)
    ours, theirs, ratios = [], [], []
    for _ in range(asked.rounds):
        seconds, said = attach(asked.kedge, bundle, file, folder)
        peer = subprocess.run([PYTHON, ROOT / "bench" / "kernel_peer.py", *parts], stdout=subprocess.PIPE, check=True)
        known = json.loads(peer.stdout)
        ours.append(seconds)
        theirs.append(known["seconds"])
        ratios.append(seconds / known["seconds"])
    record.ratios(f"attach by kernel, {asked.support} support rows", "PyTorch", ours, theirs)
    print(f"kernel map of {asked.support} support rows, {asked.dim} values to {asked.anchors}, {os.cpu_count()} cores")
    print(f"  kedge attach, the whole command  {statistics.median(ours):.1f} s (width {said['kernel_width']:g}, "
          f"strength {said['kernel_strength']:g}, whitening {said['kernel_whitening']:g}, mean R^2 {said['r2']:.3f})")
    print(f"  PyTorch, one whitening           {statistics.median(theirs):.1f} s "
          f"(leaves {known['error']:.3f} unexplained)")
    print(f"  ratio {statistics.median(ratios):.2f} (rounds {min(ratios):.2f} to {max(ratios):.2f})")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kedge", default=ROOT / "build" / "bench" / "cli" / "kedge")
    options.add_argument("--support", type=int, default=3000)
    options.add_argument("--dim", type=int, default=512)
    options.add_argument("--anchors", type=int, default=300)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--growth", type=int, nargs="*", default=[1000, 3000, 10_000],
                         help="numbers of support rows; none to leave it out")
    asked = options.parse_args()
    for needed in (pathlib.Path(asked.kedge), PYTHON):
        if not needed.exists():
            sys.exit(f"{needed} is not there; 'make bench' makes it")
    with tempfile.TemporaryDirectory(dir=os.environ.get("KEDGE_BENCH_DIR", ".")) as folder:
        if asked.rounds:
            against_peer(asked, folder)
        for support in asked.growth:
            bundle, file = prepare(asked, folder, support)
            print(f"  {support:>7,} support rows: {attach(asked.kedge, bundle, file, folder)[0]:.1f} s", flush=True)


if __name__ == "__main__":
    main()
