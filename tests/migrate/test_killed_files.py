# SPDX-License-Identifier: Apache-2.0
"""Stores that are files, killed at any moment of writing, finishing and switching, end as if undisturbed."""
import json
import os
import pathlib
import random
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, contents, unit_rows
from kedge.migrate.store import open_store
from test_faiss import OWN_IDS, index_file
from test_parquet import TYPES, make_folder

pytestmark = pytest.mark.long

REAL = unit_rows(ROWS, NEW_WIDTH, 3)
TRANSLATED = unit_rows(ROWS, NEW_WIDTH, 2)


def make_npy(folder: pathlib.Path) -> tuple[str, list[Any]]:
    np.save(folder / "docs.npy", unit_rows(ROWS, OLD_WIDTH))
    return f"npy:{folder}/docs.npy", list(range(ROWS))


def make_faiss(words: str) -> Callable[[pathlib.Path], tuple[str, list[Any]]]:
    def make(folder: pathlib.Path) -> tuple[str, list[Any]]:
        index_file(folder / "docs.index", words, unit_rows(ROWS, OLD_WIDTH), OWN_IDS if "IDMap" in words else None)
        return f"faiss:{folder}/docs.index", OWN_IDS if "IDMap" in words else list(range(ROWS))
    return make


def make_parquet(folder: pathlib.Path) -> tuple[str, list[Any]]:
    ids = [f"doc-{n}" for n in range(ROWS)]
    make_folder(folder / "docs", ids, unit_rows(ROWS, OLD_WIDTH), TYPES["fixed"])
    return f"parquet:{folder}/docs#embedding", ids


def migrate(address: str, ids: list[Any], journal: pathlib.Path) -> None:
    """Writes all rows, replaces half of them, and switches, noting how far it is as kedge-migrate does."""
    old = open_store(address)
    new, kept = old.beside("_new"), old.beside("_old")
    place = {key: n for n, key in enumerate(ids)}
    state: dict[str, Any] = json.loads(journal.read_text()) if journal.exists() else {"step": "write", "after": None}

    def note(**more: Any) -> None:
        state.update(more)
        partial = journal.with_suffix(".partial")
        partial.write_text(json.dumps(state))
        os.replace(partial, journal)

    if state["step"] == "write":
        new.create(old, NEW_WIDTH, OWNER)
        for batch in old.read(after=state["after"], size=9):
            new.write(batch.ids, TRANSLATED[[place[key] for key in batch.ids]])
            note(after=batch.ids[-1])
        new.finish()
        note(step="replace", after=0)
    if state["step"] == "replace":
        for first in range(state["after"], ROWS, 20):
            new.write(ids[first:first + 10], REAL[first:first + 10])
            note(after=first + 20)
        new.finish()
        note(step="switch")
    old.switch(new, kept)


def run_until_killed(address: str, ids: list[Any], journal: pathlib.Path, seconds: float) -> bool:
    """Whether it came to its end before that."""
    child = os.fork()
    if child == 0:
        try:
            migrate(address, ids, journal)
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("make", [make_npy, make_faiss("Flat"), make_faiss("IDMap,Flat"), make_faiss("SQ8"),
                                  make_parquet], ids=["npy", "Flat", "IDMap", "SQ8", "parquet"])
def test_a_killed_migration_ends_as_if_undisturbed(make: Callable[[pathlib.Path], tuple[str, list[Any]]],
                                                   tmp_path: pathlib.Path) -> None:
    faiss.omp_set_num_threads(1)  # threads do not live on in a child
    chance, kills, attempt = random.Random(1), 0, 0
    while kills < 15:
        attempt, most = attempt + 1, 0.04
        assert attempt < 100, "it is never killed in time"
        folder = tmp_path / str(attempt)
        folder.mkdir()
        address, ids = make(folder)
        before = contents(open_store(address))
        while not run_until_killed(address, ids, folder / "journal", chance.uniform(0, most)):
            kills, most = kills + 1, most * 1.2  # a step that takes longer comes to its end at last
            assert most < 60, "it does not come to its end"
            found = contents(open_store(address))
            assert found.keys() == before.keys(), "the old place is there at every moment"
        old = open_store(address)
        expected = np.array([REAL[n] if n % 20 < 10 else TRANSLATED[n] for n in range(ROWS)])
        found, kept = contents(old), contents(old.beside("_old"))
        assert found.keys() == set(ids) and (np.array([found[key] for key in ids]) == expected).all()
        assert all((kept[key] == before[key]).all() for key in before) and len(kept) == ROWS
        left = [path.name for path in folder.iterdir() if "_new" in path.name or "partial" in path.name]
        # A kill may fall between the two moments at which a whole file gets its name, as docs/reliability.md says.
        assert all(name == "journal.partial" or re.fullmatch(r"\.kedge-\w+\.partial", name) for name in left), left
