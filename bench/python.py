#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs on top of the library: transform against RelativeMap::apply, fit against the command.

Both sides take turns in one run, because machines are shared and noisy. Needs the presets `bench` and `dev` built
('make bench' does the first, 'make test' the second) and 5 GB of memory.
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
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS, DIM, ANCHORS = 2_000_000, 256, 300  # as in transform_bench.cpp
GFLOP = 2 * ROWS * DIM * ANCHORS / 1e9


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "build/dev/python",
                        help="folder that holds kedge")
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/bench/bench/kedge_bench")
    parser.add_argument("--kedge", type=pathlib.Path, default=ROOT / "build/dev/cli/kedge")
    return parser.parse_args()


def library_rate(bench: pathlib.Path) -> float:
    """GFLOP/s of RelativeMap::apply, in a process of its own."""
    done = subprocess.run([bench, "--benchmark_filter=apply_in_memory", "--benchmark_format=json"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return float(json.loads(done.stdout)["benchmarks"][0]["GFLOP/s"])


def python_rate(package: pathlib.Path) -> float:
    """The same for RelativeMap.transform with `out`, in a process of its own too."""
    code = f"""
import time, numpy as np, kedge
rng = np.random.default_rng(1)
uniform = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)
bias, mean = np.zeros({ANCHORS}, np.float32), np.zeros({DIM}, np.float32)
rr = kedge.RelativeMap("bench", "wip", uniform({ANCHORS}, {DIM}), bias, mean)
x = (np.arange({ROWS * DIM}, dtype=np.int64) % 1000 / 1000).astype(np.float32).reshape({ROWS}, {DIM})
out = np.zeros(({ROWS}, {ANCHORS}), np.float32)
rr.transform(x[:10000], out=out[:10000])
calls, start = 0, time.perf_counter()
while time.perf_counter() - start < 5:
    rr.transform(x, out=out)
    calls += 1
print(calls / (time.perf_counter() - start))
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(package)}, check=True,
                          stdout=subprocess.PIPE, text=True)
    return float(done.stdout) * GFLOP


def fits(arguments: argparse.Namespace) -> tuple[float, float]:
    """Seconds of the command, which opens and saves files besides, and of kedge.fit with opening and saving."""
    sys.path.insert(0, str(arguments.package))
    import kedge

    spaces = {name: str(ROOT / "data" / "slm" / f"{name}.npy") for name in ("smollm2-135m", "minilm-l6")}
    given = [word for name, file in spaces.items() for word in ("--space", f"{name}={file}")]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([arguments.kedge, "fit", *given, "--method", "param", "--epochs", "20", "--json",
                               "--quiet", "-o", f"{folder}/a"], stdout=subprocess.PIPE, check=True)
        command = json.loads(done.stdout)["seconds"]
        start = time.perf_counter()
        kedge.fit(spaces, method="param", epochs=20).save(f"{folder}/b")
        return command, time.perf_counter() - start


def show(what: str, unit: str, library: Sequence[float], python: Sequence[float], ratios: Sequence[float]) -> None:
    print(f"{what:<34} {statistics.median(library):>8.2f} {statistics.median(python):>8.2f} {unit:<8} ratio "
          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def main() -> None:
    arguments = options()
    library, python = [], []
    for _ in range(arguments.rounds):
        library.append(library_rate(arguments.bench))
        python.append(python_rate(arguments.package))
    print(f"{'':<34} {'C++':>8} {'Python':>8}")
    show(f"transform {ROWS:,} x {DIM} -> {ANCHORS}", "GFLOP/s", library, python,
         [p / c for p, c in zip(python, library)])
    command, fit = zip(*(fits(arguments) for _ in range(arguments.rounds)))
    show("PARAM fit of data/slm, 20 epochs", "s", command, fit, [p / c for p, c in zip(fit, command)])


if __name__ == "__main__":
    main()
