#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fit and transform of one dataset by the command, by kedge.ray and by kedge.spark, with as many cores each.

    bench/cluster.py --rows 5000000

Makes rows of 384 + 256 values in float16, once as .npy and once as 40 Parquet files. The command fits and transforms
both spaces of the .npy files with --cores threads; Ray and Spark do the same with the Parquet files and as many workers
of one core, after a small fit that starts them. Prints rows/s of each, the ratio to the command, the difference of the
bundles (of the largest weight), and the anonymous memory of the largest worker a quarter of the way and at the end.

Rows are written to a temporary folder (--folder says where; KEDGE_BENCH_DIR also does), which is removed at the end:
2.6 kB a row, and 1 kB more while results are there. Other work on the same cores distorts the ratio. Needs
'.[ray]' and '.[spark]', Java, and the command built ('make test' does).
"""
import argparse
import collections
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import kedge
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "experiments" / "cluster"))
from folders import RAY_WORKERS, SPARK_WORKERS, Memory  # noqa: E402

COLUMNS = {"vit": "emb_vit", "rex": "emb_rex"}
DIMS = {"vit": 384, "rex": 256}
CAUSES = 128

# Times of the clock: when it began, when the fit was done, when everything was.
Times = collections.namedtuple("Times", "began fitted ended")
Run = collections.namedtuple("Run", "name times memory bundle")


def made_rows(rows: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """Two spaces of the same hidden causes."""
    rng = np.random.default_rng([1, seed])
    hidden = rng.standard_normal((rows, CAUSES), np.float32)
    for space, dim in DIMS.items():
        mix = np.random.default_rng(dim).standard_normal((CAUSES, dim), np.float32) / 11
        noise = 0.1 * rng.standard_normal((rows, dim), np.float32)
        yield space, (np.tanh(hidden @ mix) + noise).astype(np.float16)


def write_dataset(folder: pathlib.Path, rows: int, files: int) -> None:
    """vit.npy, rex.npy and ids.npy, and the same rows in folder/parquet."""
    shapes = {**{space: ("<f2", (rows, dim)) for space, dim in DIMS.items()}, "ids": ("<i8", (rows,))}
    (folder / "parquet").mkdir()
    edges = np.linspace(0, rows, files + 1).astype(int)
    with contextlib.ExitStack() as opened:
        outputs = {name: opened.enter_context(open(folder / f"{name}.npy", "wb")) for name in shapes}
        for name, (kind, shape) in shapes.items():
            np.lib.format.write_array_header_1_0(outputs[name], {"descr": kind, "fortran_order": False, "shape": shape})
        for number, (first, end) in enumerate(zip(edges, edges[1:])):
            table = {"id": np.arange(first, end)}
            table["id"].tofile(outputs["ids"])
            for space, matrix in made_rows(end - first, number):
                matrix.tofile(outputs[space])
                table[COLUMNS[space]] = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), DIMS[space])
            pq.write_table(pa.table(table), folder / "parquet" / f"part-{number:03d}.parquet", use_dictionary=False,
                           compression="none", row_group_size=25_000)


def run_command(asked: argparse.Namespace, folder: pathlib.Path, out: pathlib.Path) -> Run:
    bundle = out / "shared.kedge"
    spaces = [word for space in DIMS for word in ("--space", f"{space}={folder / space}.npy")]

    def command(*words: object) -> None:
        subprocess.run([asked.kedge, *map(str, words), "--threads", str(asked.cores), "--quiet"], check=True)

    with Memory(str(asked.kedge)) as memory:
        began = time.perf_counter()
        command("fit", *spaces, "--ids", folder / "ids.npy", "--support", asked.support, "-o", bundle)
        fitted = time.perf_counter()
        for space in DIMS:
            command("transform", bundle, "--space", space, "-i", folder / f"{space}.npy", "-o", out / f"{space}.npy")
        ended = time.perf_counter()
    return Run("kedge", Times(began, fitted, ended), memory, kedge.load(bundle))


def run_engine(name: str, engine: Any, words: Sequence[str], asked: argparse.Namespace, folder: pathlib.Path,
               out: pathlib.Path) -> Run:
    """The small fit first: workers start, and read what they need of the packages."""
    small = folder / "small"
    engine.fit(str(small), COLUMNS, support=min(1000, asked.support))
    with Memory(*words) as memory:
        began = time.perf_counter()
        bundle = engine.fit(str(folder / "parquet"), COLUMNS, support=asked.support)
        fitted = time.perf_counter()
        for space, column in COLUMNS.items():
            engine.transform(bundle, str(folder / "parquet"), space=space, column=column, into="shared",
                             output=str(out / space), keep=["id"])
        ended = time.perf_counter()
    return Run(name, Times(began, fitted, ended), memory, bundle)


def run_ray(asked: argparse.Namespace, folder: pathlib.Path, out: pathlib.Path) -> Run:
    import kedge.ray
    import ray

    ray.init(num_cpus=asked.cores, include_dashboard=False, log_to_driver=False)
    try:
        return run_engine("kedge.ray", kedge.ray, RAY_WORKERS, asked, folder, out)
    finally:
        ray.shutdown()


def run_spark(asked: argparse.Namespace, folder: pathlib.Path, out: pathlib.Path) -> Run:
    import kedge.spark
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    builder = SparkSession.builder.master(f"local[{asked.cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.local.dir", str(out))
    spark = builder.config("spark.driver.memory", "2g").config("spark.log.level", "ERROR").getOrCreate()
    try:
        return run_engine("kedge.spark", kedge.spark, SPARK_WORKERS, asked, folder, out)
    finally:
        spark.stop()


def difference(bundle: kedge.Bundle, other: kedge.Bundle) -> float:
    """The largest of the weights of all spaces, as a share of the largest weight."""
    return float(max(np.abs(bundle[space].weight - other[space].weight).max() / np.abs(other[space].weight).max()
                     for space in DIMS))


def memory_of(run: Run, first: float, last: float) -> str:
    """MB a quarter of the way from one time to the other, and at the end."""
    length = last - first
    early = run.memory.between(first + 0.15 * length, first + 0.35 * length)
    return f"{early / 1e6:,.0f} / {run.memory.between(last - 0.2 * length, last) / 1e6:,.0f}"


def print_run(run: Run, rows: int, reference: Run) -> None:
    began, fitted, ended = run.times
    rate = rows / (ended - began)
    ratio = (reference.times.ended - reference.times.began) / (ended - began)
    print(f"| {run.name} | {fitted - began:.1f} | {ended - fitted:.1f} | {rate:,.0f} | {ratio:.2f} "
          f"| {memory_of(run, began, fitted)} | {memory_of(run, fitted, ended)} "
          f"| {difference(run.bundle, reference.bundle):.0e} |", flush=True)


def measure(asked: argparse.Namespace, folder: pathlib.Path) -> None:
    write_dataset(folder, asked.rows, asked.files)
    (folder / "small").mkdir()
    write_small(folder, asked.cores)
    dims = " + ".join(map(str, DIMS.values()))
    print(f"{asked.rows:,} rows of {dims} values in {asked.files} files, {asked.cores} cores\n")
    print("| | fit, s | maps, s | rows/s | of the command's | worker in fit, MB: a quarter / end | in maps, MB "
          "| bundle differs by |\n|---|---|---|---|---|---|---|---|", flush=True)
    reference = None
    for name, work in (("kedge", run_command), ("ray", run_ray), ("spark", run_spark)):
        if name == "kedge" or name in asked.engines:
            out = folder / f"out-{name}"
            out.mkdir()
            run = work(asked, folder, out)
            reference = reference or run
            print_run(run, asked.rows, reference)
            shutil.rmtree(out)


def write_small(folder: pathlib.Path, files: int) -> None:
    """Rows for the fit that starts the workers: one file for each."""
    source = pq.read_table(folder / "parquet" / "part-000.parquet").slice(0, 1000)
    for number in range(2 * files):
        table = source.set_column(0, "id", pa.array(np.arange(1000 * number, 1000 * number + len(source))))
        pq.write_table(table, folder / "small" / f"{number}.parquet", use_dictionary=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--support", type=int, default=5000)
    parser.add_argument("--engines", nargs="*", choices=("ray", "spark"), default=["ray", "spark"])
    parser.add_argument("--kedge", type=pathlib.Path, default=ROOT / "build" / "dev" / "cli" / "kedge")
    parser.add_argument("--folder", default=os.environ.get("KEDGE_BENCH_DIR"), help="where to make the temporary one")
    asked = parser.parse_args()
    if not asked.kedge.exists():
        sys.exit(f"{asked.kedge} is not there; 'make test' builds it")
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        measure(asked, pathlib.Path(name))


if __name__ == "__main__":
    main()
