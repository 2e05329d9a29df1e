# SPDX-License-Identifier: Apache-2.0
"""What LanceDB tables go through: folders that may only be read, full disks, and processes that are killed."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from contract import OWNER, contents, order, unit_rows
from kedge.migrate.store import open_store
from limits import nearly_full, only_read, open_folder, small_disk
from require import require_errors
from test_lancedb import column, docs, make

__all__ = ["docs"]

pytestmark = pytest.mark.long


def test_a_folder_that_may_only_be_read() -> None:
    with open_folder() as folder:
        make(folder / "db", {"id": list(range(60)), "v": column(unit_rows(60, 8))})
        old = open_store(f"lancedb:{folder}/db#docs.v")
        new = old.beside("_new")
        new.create(old, 8, OWNER)
        with only_read(folder):
            assert len(contents(old)) == 60
            require_errors("cannot .* it: this user may not", lambda: new.write([1], unit_rows(1, 8)), new.drop,
                           lambda: old.write([1], None), lambda: old.switch(new, old.beside("_old")),
                           lambda: old.beside("_2").create(old, 8, OWNER))
        assert len(contents(old)) == 60 and contents(new) == {}


def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        make(disk / "db", {"id": list(range(500)), "v": column(unit_rows(500, 64))})
        old = open_store(f"lancedb:{disk}/db#docs.v")
        new, kept, vectors = old.beside("_new"), old.beside("_old"), unit_rows(500, 512)
        new.create(old, 512, OWNER)
        new.write(list(range(100)), vectors[:100])
        with nearly_full(disk, 100_000):
            require_errors("the disk is full; make room and run it again",
                           lambda: new.write(list(range(100, 500)), vectors[100:]), lambda: old.switch(new, kept))
            assert order(old) == list(range(500)) and order(new) == list(range(100))
        new.write(list(range(100, 500)), vectors[100:])
        old.switch(new, kept)
        np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)


# Importing takes longer than the work, so one process imports, and each line forks another that works until killed.
WORKERS = """
import itertools, os, sys
import numpy as np
from kedge.migrate.store import open_store
old = open_store(sys.argv[1])
new, kept = old.beside("_new"), old.beside("_old")

def write(start):
    for round in itertools.count(start):
        for first in range(0, 60, 20):
            new.write(list(range(first, first + 20)), np.full((20, 16), round, np.float32))

def switch():
    while True:
        old.switch(new, kept)
        old.switch(kept, new)

for line in sys.stdin:
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        write(int(line)) if line.strip() else switch()
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


@contextlib.contextmanager
def workers(address: str) -> Iterator[Callable[[str, float], None]]:
    """A function that starts a worker and kills it after some seconds."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", WORKERS, address], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines, answers = process.stdin, process.stdout
        assert lines and answers

        def work(line: str, wait: float) -> None:
            lines.write(line + "\n")
            lines.flush()
            child = int(answers.readline())
            time.sleep(wait)
            os.kill(child, signal.SIGKILL)
            assert answers.readline() == "gone\n"

        yield work
        lines.close()


def test_a_writer_that_is_killed_leaves_whole_batches(docs: pathlib.Path) -> None:
    old = open_store(f"lancedb:{docs}#docs.v")
    vectors = np.array(list(contents(old).values()))
    new, chance = old.beside("_new"), random.Random(5)
    new.create(old, 16, OWNER)
    rounds = []
    with workers(old.address) as work:
        for trial in range(10):
            work(str(1000 * trial), chance.uniform(0.02, 0.3))
            found = contents(open_store(new.address))
            for first in range(0, 60, 20):
                batch = [found.get(key) for key in range(first, first + 20)]
                assert all(row is None for row in batch) or np.ptp(np.array(batch)) == 0
            rounds.append(max([row[0] for row in found.values()], default=-1))
            np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)
    assert rounds == sorted(rounds) and rounds[-1] > 0, "some have written, though a slow machine may not let all"
    new_vectors = unit_rows(60, 16)
    new.write(list(range(60)), new_vectors)
    new.finish()
    np.testing.assert_array_equal(np.array(list(contents(new).values())), new_vectors)


def test_a_switch_that_is_killed_leaves_one_of_the_two_and_completes(docs: pathlib.Path) -> None:
    old = open_store(f"lancedb:{docs}#docs.v")
    vectors, new_vectors, chance = np.array(list(contents(old).values())), unit_rows(60, 16), random.Random(6)
    new, kept = old.beside("_new"), old.beside("_old")
    with workers(old.address) as work:
        for trial in range(10):
            if trial % 2 == 0:
                new.create(old, 16, OWNER)
                new.write(list(range(60)), new_vectors)
            work("", chance.uniform(0, 0.15))
            found = np.array(list(contents(old).values()))
            np.testing.assert_array_equal(found, vectors if found.shape[1] == 8 else new_vectors)
            old.switch(new, kept)
            np.testing.assert_array_equal(np.array(list(contents(old).values())), new_vectors)
            np.testing.assert_array_equal(np.array(list(contents(kept).values())), vectors)
            assert old.describe().owner == OWNER and kept.describe().owner is None
            old.switch(kept, new)
            if trial % 2:
                new.drop()
    np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)
