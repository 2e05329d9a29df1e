#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Maps rows with Ray onto storage that fails while workers and the driver are killed, and compares what is there in the
end with an undisturbed map, byte by byte.

    experiments/cluster/disturbed_map.py --rows 5000000

On loopback: a Ray cluster of two nodes with one core each, and a server of S3's protocol (moto) that takes the results
and answers ten writes with 503. Two workers are killed in the middle of their files, then the driver, and the same map
is run again. Needs '.[ray]', 'moto[server]', and for each row 1.4 kB of disk and half a kB of memory. Exits with 1 if
anything differs.
"""
from __future__ import annotations

import argparse
import logging
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import kedge
import kedge.ray
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from faulty_s3 import BUCKET, Storage, storage  # noqa: E402
from ray_cluster import cluster, kill_one  # noqa: E402

FILES, DIM, CAUSES = 100, 384, 128
WORKERS, ERRORS = 2, 10
MAP: dict[str, Any] = {"space": "a", "column": "emb_a", "into": "shared", "keep": ["id"]}
DRIVER = f"""
import sys, kedge.ray, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
kedge.ray.transform(sys.argv[2], sys.argv[3], output=sys.argv[4], **{MAP!r})
"""


def write_rows(folder: pathlib.Path, rows: int) -> kedge.Bundle:
    """Files of the same vectors in another order each, and a bundle that maps them."""
    folder.mkdir()
    rng, size = np.random.default_rng(0), rows // FILES
    hidden = rng.standard_normal((size, CAUSES), np.float32)
    a = np.tanh(hidden @ rng.standard_normal((CAUSES, DIM), np.float32) / 11).astype(np.float16)
    for number in range(FILES):
        turned = pa.FixedSizeListArray.from_arrays(pa.array(np.roll(a, 31 * number, axis=0).ravel()), DIM)
        table = pa.table({"id": np.arange(number * size, (number + 1) * size), "emb_a": turned})
        pq.write_table(table, folder / f"part-{number:03d}.parquet", use_dictionary=False, compression="none",
                       row_group_size=25_000)
    return kedge.fit({"a": a, "b": hidden}, support=min(5000, size), anchors=CAUSES)


def finished(server: Storage) -> int:
    return sum(name.endswith(".parquet") for name in server.names("out"))


def until_finished(server: Storage, driver: subprocess.Popen[bytes], files: int) -> None:
    while finished(server) < files:
        if driver.poll() is not None:
            sys.exit("the driver ended before it was killed; give more rows")
        time.sleep(0.1)


def disturbed(server: Storage, words: list[str]) -> None:
    """Ends with the driver killed: two workers have been too."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *words])
    try:
        for killed in range(WORKERS):
            until_finished(server, driver, 10 * (killed + 1))
            while not kill_one("kedge: map"):
                time.sleep(0.05)
            print(f"killed a worker with {finished(server)} of {FILES} files there", flush=True)
        until_finished(server, driver, FILES // 2)
    finally:
        driver.kill()
    assert driver.wait() == -signal.SIGKILL
    print(f"killed the driver with {finished(server)} files there", flush=True)


def different(server: Storage, folder: pathlib.Path) -> Iterator[str]:
    there, expected = server.names("out"), sorted(path.name for path in folder.iterdir())
    if there != expected:
        yield f"the names: {there} and not {expected}"
    for name in set(there) & set(expected):
        if name.endswith(".parquet"):
            with server.system.open_input_file(f"{BUCKET}/out/{name}") as file:
                if file.read() != (folder / name).read_bytes():
                    yield name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="in all files [5000000]")
    parser.add_argument("--folder", help="where to make the temporary one")
    asked = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which tells of every request
    with tempfile.TemporaryDirectory(dir=asked.folder) as name, cluster(nodes=WORKERS) as nodes, storage() as server:
        folder = pathlib.Path(name)
        write_rows(folder / "rows", asked.rows).save(folder / "a.kedge")
        words = [nodes.address, str(folder / "a.kedge"), str(folder / "rows")]
        with server.failing("PUT", "partial", ERRORS) as errors:
            began = time.perf_counter()
            disturbed(server, [*words, server.uri("out")])
            subprocess.run([sys.executable, "-c", DRIVER, *words, server.uri("out")], check=True)
            print(f"run again: all there after {time.perf_counter() - began:.0f} s; {errors.count} writes were "
                  "answered with 503", flush=True)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", DRIVER, *words, str(folder / "out")], check=True)
        print(f"undisturbed, to a local folder: {time.perf_counter() - began:.0f} s", flush=True)
        wrong = list(different(server, folder / "out"))
        total = sum(pq.read_metadata(path).num_rows for path in (folder / "out").glob("*.parquet"))
    print(f"{total:,} rows in {FILES} files: " + (f"DIFFERENT: {', '.join(wrong)}" if wrong else "the same bytes"))
    sys.exit(bool(wrong) or errors.count < ERRORS)


if __name__ == "__main__":
    main()
