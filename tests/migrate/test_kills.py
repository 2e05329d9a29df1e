# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of apply, cutover and top-up: nothing is lost, nothing is there twice, the old vectors can
be read at every moment, and the end is that of a migration that nobody disturbed."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kedge.migrate import Migration, open_store
from kedge.migrate.embed import BATCH_TEXTS
from kedge.migrate.types import Id
from made_up import models, spaces
from require import number, require_near, vectors_of

pytestmark = pytest.mark.long

ROWS, REAL = 9000, 1200
Make = Callable[[str, pathlib.Path], str]  # from a name and a folder to the address of a store
KILLS = int(os.environ.get("KEDGE_KILLS", "6"))
STEPS = (["apply"], ["verify"], ["cutover", "--yes"], ["top-up", "--share", str((200 + REAL) / ROWS)], ["verify"])


@pytest.fixture(scope="module")
def vectors() -> tuple[np.ndarray, np.ndarray]:
    return spaces(ROWS)


@pytest.fixture(scope="module")
def postgresql(vectors: tuple[np.ndarray, np.ndarray]) -> Iterator[Make]:
    import psycopg
    from postgres_server import server

    with server() as address, psycopg.connect(address, autocommit=True) as connection:
        def make(name: str, folder: pathlib.Path) -> str:
            key = "tenant_id, id" if name.startswith("keyed") else "id"
            connection.execute(f"CREATE TABLE {name} (id bigint, body text, embedding vector({vectors[0].shape[1]}), "
                               f"tenant_id int DEFAULT 1, PRIMARY KEY ({key}))")
            with connection.cursor().copy(f"COPY {name} (id, body, embedding) FROM STDIN") as copy:
                for n, row in enumerate(vectors[0]):
                    copy.write_row((n, str(n), str(row.tolist())))
            return f"{address}&table={name}&column=embedding&text=body"
        yield make


@pytest.fixture(scope="module")
def lancedb(vectors: tuple[np.ndarray, np.ndarray]) -> Make:
    import lancedb as lance
    import pyarrow as pa

    def make(name: str, folder: pathlib.Path) -> str:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors[0].ravel()), vectors[0].shape[1])
        lance.connect(folder / "db").create_table(name, pa.table({
            "id": np.arange(ROWS), "body": [str(n) for n in range(ROWS)], "embedding": column}))
        return f"lancedb:{folder}/db#{name}.embedding?text=body"
    return make


def start(folder: pathlib.Path, step: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "kedge.migrate", *step, "-q"], cwd=folder, stderr=subprocess.PIPE,
                            text=True)


def prepare(folder: pathlib.Path, make: Make, name: str, vectors: tuple[np.ndarray, np.ndarray],
            into: str = "") -> None:
    """A migration that is ready to be applied."""
    folder.mkdir()
    models(folder, vectors[1])
    address = make(name, folder)
    (folder / "migrate.toml").write_text(f"store = '{address}'\nembed = 'models:new'\nsample = 200\nmap = 'ridge'\n"
                                         f"into = '{into}'\n")
    for step in (["sample"], ["fit"]):
        finish(start(folder, step))


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    assert process.returncode == 0, said


def old_is_there(folder: pathlib.Path, vectors: tuple[np.ndarray, np.ndarray]) -> None:
    """Every old vector can be read, wherever the journal says that they are."""
    found = np.full_like(vectors[0], np.nan)
    for address in places(folder):
        store = open_store(address)
        try:
            for batch in store.read():
                if vectors_of(batch).shape[1] == vectors[0].shape[1]:
                    found[np.array(batch.ids)] = batch.vectors
        except Exception:
            continue  # this place does not exist now
        finally:
            store.close()
    np.testing.assert_array_equal(found, vectors[0])


def places(folder: pathlib.Path) -> list[str]:
    with Migration(folder / "migrate.toml", alone=False) as migration:
        return [migration.place.address, migration.kept.address]


def rows_of(folder: pathlib.Path) -> tuple[np.ndarray, set[Any]]:
    with Migration(folder / "migrate.toml", alone=False) as migration:
        ids, rows = [], []
        for batch in migration.new.read():
            ids += batch.ids
            rows.append(vectors_of(batch))
        assert sorted(ids) == list(range(ROWS)), "nothing is lost, nothing is there twice"
        return np.concatenate(rows)[np.argsort(ids)], migration.journal.real()


@pytest.mark.parametrize("kind", ["postgresql", "lancedb"])
def test_the_end_is_that_of_a_migration_that_nobody_disturbed(kind: str, tmp_path: pathlib.Path,
                                                              vectors: tuple[np.ndarray, np.ndarray],
                                                              request: pytest.FixtureRequest) -> None:
    make = request.getfixturevalue(kind)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    prepare(undisturbed, make, "calm", vectors)
    seconds = {}
    for n, step in enumerate(STEPS):
        began = time.monotonic()
        finish(start(undisturbed, step))
        seconds[n] = time.monotonic() - began
    expected, real = rows_of(undisturbed)
    prepare(killed, make, "stormy", vectors)
    chance, ended = random.Random(0), []
    for n, step in enumerate(STEPS):
        for _ in range(0 if step == ["verify"] else KILLS // 3 + 1):
            process = start(killed, step)
            time.sleep(chance.uniform(.3, 1) * seconds[n])
            process.kill()
            process.communicate()
            ended.append(process.returncode)
            old_is_there(killed, vectors)
        finish(start(killed, step))
    assert -signal.SIGKILL in ended, "each was done before it could be killed"
    found, also_real = rows_of(killed)
    assert len(real) == len(also_real) == 200 + REAL
    # Both tables have the same documents, so the samples and the maps are the same.
    assert real == also_real
    np.testing.assert_array_equal(found, expected)
    asked = len((killed / "asked.txt").read_text().split())
    assert asked <= 200 + REAL + BATCH_TEXTS * (KILLS // 3 + 1), "at most one batch is embedded again for each kill"


class Writer(threading.Thread):
    """Another session that gives documents other vectors and keys, adds some and removes some, until it may not any
    more."""

    def __init__(self, address: str, table: str, vectors: np.ndarray) -> None:
        super().__init__()
        self.address, self.table, self.vectors, self.stop, self.writes = address, table, vectors, threading.Event(), 0

    def run(self) -> None:
        import psycopg

        chance = np.random.default_rng(5)
        with psycopg.connect(self.address, autocommit=True) as session:
            while not self.stop.wait(.005):
                key, other = (int(one) for one in chance.integers(ROWS, size=2))
                vector = str(self.vectors[other].tolist())
                try:
                    if self.writes % 10 == 0:
                        session.execute(f"DELETE FROM {self.table} WHERE id = %s", [key])
                    elif self.writes % 10 == 1:
                        session.execute(f"INSERT INTO {self.table} (id, body, embedding) VALUES (%s, '0', %s)",
                                        [ROWS + self.writes, vector])
                    elif self.writes % 10 == 2:
                        session.execute(f"UPDATE {self.table} SET tenant_id = tenant_id + 1 WHERE id = %s", [key])
                    else:
                        session.execute(f"UPDATE {self.table} SET embedding = %s WHERE id = %s", [vector, key])
                except psycopg.errors.DataException:  # the column has vectors of another width now
                    return
                self.writes += 1


@pytest.mark.parametrize(("name", "into"), [("live", ""), ("live_column", "column"), ("keyed", "")])
def test_nothing_is_lost_or_stale_with_a_writer_at_work(name: str, into: str, tmp_path: pathlib.Path, postgresql: Make,
                                                        vectors: tuple[np.ndarray, np.ndarray]) -> None:
    folder = tmp_path / "killed"
    prepare(folder, postgresql, name, vectors, into)
    config = folder / "migrate.toml"
    with Migration(config, alone=False) as migration:
        writer = Writer(migration.place.address.split("&table=")[0], name, vectors[0])
    writer.start()
    try:
        chance = random.Random(1)
        for step in (["apply"], ["verify"], ["cutover"]):
            for _ in range(0 if step == ["verify"] else KILLS // 3):
                process = start(folder, step)
                time.sleep(chance.uniform(.3, 1.5))
                process.kill()
                process.communicate()
            finish(start(folder, step))
    finally:
        writer.stop.set()
        writer.join()
    finish(start(folder, ["cutover"]))  # again: in a side table it catches up with the last writes
    assert writer.writes > 100
    with Migration(config, alone=False) as migration:
        old, new = ({key: row for batch in store.read() for key, row in zip(batch.ids, vectors_of(batch))}
                    for store in (migration.old, migration.new))
        assert set(old) == set(new) and any(number_in(key) >= ROWS for key in old)
        real = migration.journal.real()
        translated = [key for key in old if key not in real]
        expected = migration.translate(migration.translator(), np.stack([old[key] for key in translated]))
        require_near(np.stack([new[key] for key in translated]), expected)
        for key in real:
            require_near(new[key], vectors[1][number_in(key)])


def number_in(key: Id) -> int:
    return number(key[-1] if isinstance(key, tuple) else key)
