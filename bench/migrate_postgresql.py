#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a column of vectors in PostgreSQL and writes a new one beside it, as they are and translated, in one run.

Random unit rows are loaded into a server of its own, in a table made anew for each of the two, so that both find the
same. Translation is a ridge map from a sample of 1000 rows. Reader, translator and writer work at once, as in
`kedge-migrate apply`. Prints rows per second, their ratio, and the memory of this process at a quarter and at the end:
    python bench/migrate_postgresql.py --rows 100000
Two million rows of 384 values take about 20 GB of disk in --folder.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "migrate"))

from kedge import Translator  # noqa: E402
from kedge.migrate import maps, pipeline  # noqa: E402
from kedge.migrate.store import BATCH_ROWS, Rows, open_store  # noqa: E402
from postgres_server import server  # noqa: E402

SAMPLE = 1000
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def unit_rows(random: np.random.Generator, count: int, width: int) -> np.ndarray:
    rows = random.standard_normal((count, width), dtype=np.float32)
    unit: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def load(sql: psycopg.Connection[Any], count: int, width: int) -> None:
    """A table 'docs' of numbered rows, by binary COPY."""
    random = np.random.default_rng(0)
    sql.execute(f"DROP TABLE IF EXISTS docs; CREATE TABLE docs (id bigint PRIMARY KEY, embedding vector({width}))")
    record = np.dtype([("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("size", ">i4"), ("width", ">u2"),
                       ("unused", ">u2"), ("values", ">f4", (width,))])
    with sql.cursor().copy("COPY docs FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(HEADER)
        for first in range(0, count, BATCH_ROWS):
            rows = np.zeros(min(BATCH_ROWS, count - first), record)
            rows["fields"], rows["id_size"], rows["size"], rows["width"] = 2, 8, 4 + 4 * width, width
            rows["id"] = np.arange(first, first + len(rows))
            rows["values"] = unit_rows(random, len(rows), width)
            copy.write(rows.tobytes())
        copy.write(b"\xff\xff")
    sql.execute("VACUUM ANALYZE docs")
    sql.execute("CHECKPOINT")


def memory() -> dict[str, int]:
    """In MB: the most this process ever held, and what of it is its own now."""
    lines = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return {name: round(int(lines[name].split()[0]) / 1024) for name in ("VmHWM", "RssAnon")}


def ridge(width: int, new_width: int) -> Translator:
    """A translator; its rows are noisy rotations of one another, so that there is something to learn."""
    random = np.random.default_rng(1)
    old = unit_rows(random, SAMPLE, width)
    new = old @ random.standard_normal((width, new_width), dtype=np.float32) / width ** 0.5
    bundle, _, _ = maps.learn(old, new + 0.01 * random.standard_normal(new.shape, dtype=np.float32), "ridge")
    translator: Translator = bundle.translator("old", "new")
    return translator


def move(address: str, count: int, new_width: int, change: Callable[[Rows], Rows]) -> dict[str, Any]:
    """All rows from the old column to a new one; rows per second, and memory."""
    old = open_store(f"{address}&table=docs&column=embedding")
    new = old.beside("_new")
    new.create(old, new_width, "bench")
    done = 0
    found: dict[str, Any] = {}

    def write(rows: Rows) -> None:
        nonlocal done
        new.write(rows.ids, rows.vectors)
        done += len(rows)
        if done >= count // 4 and "at a quarter" not in found:
            found["at a quarter"] = memory()

    began = time.monotonic()
    pipeline.run(old.read(), change, write)
    found["rows per second"] = round(done / (time.monotonic() - began))
    found["at the end"] = memory()
    if done != count or new.describe().rows != count:
        raise SystemExit(f"{done} of {count} rows were written")
    new.close()
    old.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--new-width", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", help="where the server keeps its data; made anew")
    asked = parser.parse_args()
    translator = ridge(asked.width, asked.new_width)

    def as_it_is(rows: Rows) -> Rows:
        return Rows(rows.ids, np.resize(np.asarray(rows.vectors), (len(rows), asked.new_width)))

    def translated(rows: Rows) -> Rows:
        return Rows(rows.ids, translator.transform(rows.vectors))

    folder = pathlib.Path(tempfile.mkdtemp(dir=asked.folder))
    try:
        with server(folder / "data", max_wal_size="4GB", checkpoint_timeout="15min") as address:
            for _ in range(asked.rounds):
                found = {}
                for name, change in (("as it is", as_it_is), ("translated", translated)):
                    with psycopg.connect(address, autocommit=True) as sql:
                        load(sql, asked.rows, asked.width)
                    found[name] = move(address, asked.rows, asked.new_width, change)
                    print(json.dumps({name: found[name]}), flush=True)
                ratio = found["translated"]["rows per second"] / found["as it is"]["rows per second"]
                print(json.dumps({"rows": asked.rows, "widths": [asked.width, asked.new_width],
                                  "ratio": round(ratio, 3)}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
