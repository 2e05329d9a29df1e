#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long others wait while a PostgreSQL table is migrated, and how fast that is with an HNSW index on the old column.

A server of its own holds a table of random documents with an index. A second connection reads a document, writes it and
commits, over and over, while apply and then cutover run. Prints the rows per second of apply's pass, and for each step
the longest that the second connection waited to read and to write, beside its longest waits before, and how much of
that was for a lock: the rest is the processors' and the disk's, which a busy machine lets everybody wait for:
    python bench/migrate_live.py --rows 100000
    python bench/migrate_live.py --rows 100000 --into column
    python bench/migrate_live.py --rows 2000000 --width 64 --new-width 64 --hnsw "m = 4, ef_construction = 16"
The index of the old vectors takes longest to make: about a minute for 100,000 rows of 384 values on two cores.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import numpy as np
import psycopg

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "migrate"))

from kedge.migrate import Migration, apply, cutover, maps, sample, verify  # noqa: E402
from migrate_postgresql import load  # noqa: E402
from postgres_server import server  # noqa: E402

SAMPLE = 1000


class Other(threading.Thread):
    """Another session at work; what it waited longest for is kept by the name of the step."""

    def __init__(self, address: str, rows: int) -> None:
        super().__init__(daemon=True)
        self.address, self.rows, self.stop = address, rows, threading.Event()
        self.step, self.errors, self.done = "before", list[str](), dict[str, int]()
        self.longest: dict[str, dict[str, float]] = {"read": {}, "write": {}}

    def run(self) -> None:
        random = np.random.default_rng(2)
        with psycopg.connect(self.address) as session:
            self.locks = LockWaits(self.address, session.info.backend_pid, self)
            self.locks.start()
            while not self.stop.is_set():
                key, step = int(random.integers(self.rows)), self.step
                try:
                    with self.timed("read", step):
                        session.execute("SELECT body FROM docs WHERE id = %s", [key])
                    with self.timed("write", step):
                        session.execute("UPDATE docs SET body = %s WHERE id = %s", [str(time.monotonic()), key])
                        session.commit()
                except psycopg.Error as error:
                    self.errors.append(str(error))
                    session.rollback()
                self.done[step] = self.done.get(step, 0) + 1
                time.sleep(.005)

    @contextlib.contextmanager
    def timed(self, what: str, step: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            waits = self.longest[what]
            waits[step] = max(waits.get(step, 0), time.monotonic() - began)

    @contextlib.contextmanager
    def during(self, step: str) -> Iterator[None]:
        self.step = step
        yield
        self.step = "between"


class LockWaits(threading.Thread):
    """Looks every few milliseconds whether a session waits for a lock, and keeps the longest of each step."""

    def __init__(self, address: str, pid: int, other: Other) -> None:
        super().__init__(daemon=True)
        self.address, self.pid, self.other, self.longest = address, pid, other, dict[str, float]()

    def run(self) -> None:
        with psycopg.connect(self.address, autocommit=True) as session:
            while not self.other.stop.is_set():
                began = time.monotonic()
                while session.execute("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s",
                                      [self.pid]).fetchone() == (True,):
                    waited = time.monotonic() - began
                    self.longest[self.other.step] = max(self.longest.get(self.other.step, 0), waited)
                time.sleep(.002)


def learn(migration: Migration, new_width: int) -> None:
    """A map from a sample whose new vectors are noisy rotations of the old ones, given as if made by hand."""
    sample.sample(migration)
    ids, random = [key for key, _ in migration.journal.unembedded()], np.random.default_rng(1)
    old = {key: row for rows in migration.old.read(ids=ids) for key, row in zip(rows.ids, rows.matrix)}
    rows = np.stack([old[key] for key in ids])
    np.save("new.npy", rows @ random.standard_normal((rows.shape[1], new_width), dtype=np.float32)
            + .01 * random.standard_normal((len(rows), new_width), dtype=np.float32))
    sample.sample(migration, vectors="new.npy")
    maps.fit(migration)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--new-width", type=int, default=384)
    parser.add_argument("--into", default="", choices=["", "column"])
    parser.add_argument("--hnsw", default="m = 16, ef_construction = 64",
                        help="settings of the index; fewer links make millions of rows a matter of minutes")
    parser.add_argument("--folder", help="where the server keeps its data; made anew")
    asked = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=asked.folder))
    os.chdir(folder)
    try:
        with server(folder / "data", max_wal_size="4GB", checkpoint_timeout="15min",
                    maintenance_work_mem="1GB") as address:
            with psycopg.connect(address, autocommit=True) as sql:
                load(sql, asked.rows, asked.width)
                sql.execute("ALTER TABLE docs ADD body text DEFAULT 'a document'")
                began = time.monotonic()
                sql.execute(f"CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops) WITH ({asked.hnsw})")
                print(json.dumps({"index of the old vectors, s": round(time.monotonic() - began)}), flush=True)
            print(json.dumps(migrate(asked, address)), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def migrate(asked: argparse.Namespace, address: str) -> dict[str, object]:
    pathlib.Path("migrate.toml").write_text(
        f"store = '{address}&table=docs&column=embedding&text=body'\nmap = 'ridge'\n"
        f"sample = {SAMPLE}\ninto = '{asked.into}'\n")
    other = Other(address, asked.rows)
    with Migration() as migration:
        learn(migration, asked.new_width)
        other.start()
        time.sleep(3)
        with other.during("apply"):
            applied = apply.apply(migration)
        verified = verify.verify(migration)
        with other.during("cutover"):
            cut = cutover.cutover(migration)
    other.stop.set()
    other.join()
    return {"rows": asked.rows, "width": asked.width, "into": asked.into or "side table",
            "rows per second": round(applied["rows_per_second"]),
            "index of the new vectors, s": round(applied["index_seconds"]), "verified": verified["whole"],
            "caught up in apply and cutover": applied["changed"] + cut["changed"], "errors": len(other.errors),
            **{f"longest wait to {what}, ms": {step: round(1000 * seconds) for step, seconds in waits.items()}
               for what, waits in other.longest.items()},
            "of that for a lock": {step: round(1000 * seconds) for step, seconds in other.locks.longest.items()},
            "writes": other.done}


if __name__ == "__main__":
    main()
