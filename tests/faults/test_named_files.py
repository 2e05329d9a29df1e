# SPDX-License-Identifier: Apache-2.0
"""Where the file system knows no files without a name, results have one beside their place until they are whole:
nothing is lost there either, and only a kill leaves it behind."""
import os
import pathlib
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from commands import FILES, FOLDERS, RESULTS, words, write_old
from conftest import Kedge, write_spaces
from tally import Tally

SECTION = "A file system where every file has a name"
NAMED = {**os.environ, "LD_PRELOAD": os.environ["NAMED_FILES_ONLY"]}


def partial(folder: pathlib.Path) -> list[pathlib.Path]:
    return list(folder.glob(".kedge-*.partial"))


@pytest.mark.parametrize("case", FILES)
def test_the_result_is_the_same(small: Kedge, tally: Tally, case: str) -> None:
    command, names = FILES[case]
    small.ok(*words(command))
    expected = {name: (small.folder / name).read_bytes() for name in names}
    before = set(small.contents())
    write_old(small, small.folder, names)
    small.ok(*words(command), env=NAMED)
    assert {name: (small.folder / name).read_bytes() for name in names} == expected
    assert set(small.contents()) == before
    tally(SECTION, case, "the same bytes, nothing beside them")


@pytest.mark.parametrize("case", FOLDERS)
def test_results_are_the_same(small: Kedge, tally: Tally, case: str) -> None:
    small.ok(*words(FOLDERS[case]))
    expected = {name: (small.folder / "results" / name).read_bytes() for name in RESULTS[1:]}
    small.ok(*words(FOLDERS[case], "other"), env=NAMED)
    assert {name: (small.folder / "other" / "results" / name).read_bytes() for name in RESULTS[1:]} == expected
    assert {path.name for path in (small.folder / "other" / "results").iterdir()} == set(RESULTS)
    tally(SECTION, case, "the same bytes, nothing beside them")


@pytest.mark.parametrize("case", ["transform", "attach", "export to npy"])
def test_a_full_disk_leaves_nothing(small: Kedge, tally: Tally, case: str) -> None:
    command, names = FILES[case]
    write_old(small, small.folder, names)
    small.refused(1, *words(command), env=NAMED, limits=[(resource.RLIMIT_FSIZE, 64)],
                  says=["cannot write", "File too large"])
    tally(SECTION, f"{case}, disk full", "exit 1, old files intact, nothing beside them")


@pytest.fixture
def begun(kedge: Kedge) -> tuple[Kedge, subprocess.Popen[bytes]]:
    """A long transform over an old file, at a moment when it has written a part."""
    write_spaces(kedge.folder, 500, {"a": 8, "b": 5})
    kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "random", "--anchors", 20, "-o", "x.kedge")
    np.save(kedge.folder / "long.npy", np.ones((2_000_000, 8), np.float16))
    (kedge.folder / "rr.npy").write_bytes(b"old")
    process = kedge.start(*words("transform x.kedge --space a -i long.npy -o rr.npy --threads 1 --quiet"), env=NAMED)
    while process.poll() is None and not any(path.stat().st_size > 1 << 20 for path in partial(kedge.folder)):
        time.sleep(0.001)
    assert process.poll() is None, "it was done before it could be stopped"
    return kedge, process


def test_an_interrupt_leaves_nothing(begun: tuple[Kedge, subprocess.Popen[bytes]], tally: Tally) -> None:
    kedge, process = begun
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 130
    assert (kedge.folder / "rr.npy").read_bytes() == b"old" and partial(kedge.folder) == []
    tally(SECTION, "transform, interrupted", "exit 130, old file intact, nothing beside it")


def test_a_kill_leaves_a_part_that_is_in_nobody_s_way(begun: tuple[Kedge, subprocess.Popen[bytes]],
                                                      tally: Tally) -> None:
    kedge, process = begun
    process.kill()
    process.communicate()
    assert (kedge.folder / "rr.npy").read_bytes() == b"old" and len(partial(kedge.folder)) == 1
    kedge.ok(*words("transform x.kedge --space a -i long.npy -o rr.npy --quiet"), env=NAMED)
    assert np.load(kedge.folder / "rr.npy", mmap_mode="r").shape == (2_000_000, 20) and len(partial(kedge.folder)) == 1
    tally(SECTION, "transform, killed", "old file intact, a .partial beside it, run again without hindrance")
