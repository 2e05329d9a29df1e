# SPDX-License-Identifier: Apache-2.0
"""A full disk costs the result and nothing else: a sentence that names the file, exit 1, every old file as it was."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest
from commands import DEMO, FILES, FOLDERS, PRINTED, RESULTS, words, write_old
from conftest import Kedge
from sanitized import WRITES_ITSELF
from tally import Tally

pytestmark = pytest.mark.long

PAGE = 4096
limits_sizes = pytest.mark.skipif(WRITES_ITSELF,
                                  reason="the thread sanitizer cannot start where files may have no size")


def sizes_below(largest: int, all_moments: bool) -> list[int]:
    """Of a disk on which the largest file has no place."""
    sizes = [0, largest - 1]
    if all_moments:
        sizes += [1, 64, largest // 4, largest // 2, largest * 3 // 4]
    return sorted({size for size in sizes if 0 <= size < largest})


def undisturbed(kedge: Kedge, command: str, names: list[str]) -> list[int]:
    """How large each file becomes that the command writes."""
    (kedge.folder / "trial").mkdir()
    kedge.ok(*words(command, "trial"))
    sizes = [(kedge.folder / "trial" / name).stat().st_size for name in names]
    shutil.rmtree(kedge.folder / "trial")
    (kedge.folder / "new.kedge").unlink(missing_ok=True)
    return sizes


@pytest.mark.parametrize("ignored", [(), (signal.SIGXFSZ,)], ids=["", "SIGXFSZ-ignored"])
# A history is smaller than its bundle, which is written first; only a disk that fills up in between meets it.
@limits_sizes
@pytest.mark.parametrize("case", [case for case in FILES if case != "fit with a history"])
def test_a_file_has_no_place(small: Kedge, tally: Tally, all_moments: bool, case: str,
                             ignored: tuple[signal.Signals, ...]) -> None:
    command, names = FILES[case]
    largest = max(undisturbed(small, command, names))
    write_old(small, small.folder, [*names, "new.kedge"])
    for size in sizes_below(largest, all_moments):
        done = small.refused(1, *words(command), limits=[(resource.RLIMIT_FSIZE, size)], ignored=ignored,
                             says=["cannot write", "File too large"])
        assert any(name in done.stderr for name in names), done.stderr
        tally("Disk full, by a limit on the size of files", case, "exit 1, names the file, old files intact")


@limits_sizes
@pytest.mark.parametrize("case", FOLDERS)
def test_results_have_no_place(small: Kedge, tally: Tally, all_moments: bool, case: str) -> None:
    command = words(FOLDERS[case])
    small.ok(*command, "--seeds", 1)
    largest = max(p.stat().st_size for p in (small.folder / "results").iterdir())
    for size in sizes_below(largest, all_moments):
        done = small.refused(1, *command, "--seeds", 3, limits=[(resource.RLIMIT_FSIZE, size)],
                             says=["cannot write", "File too large"])
        assert any(name in done.stderr for name in RESULTS), done.stderr
        tally("Disk full, by a limit on the size of files", case, "exit 1, names the file, old files intact")
    small.ok(*command, "--seeds", 3)


@limits_sizes
def test_the_demo_has_no_place(small: Kedge, tally: Tally) -> None:
    """Where a few measurements still fit, they are kept: all files of one save, and none of a later one."""
    (small.folder / "demo").mkdir()
    small.refused(1, *words(DEMO), limits=[(resource.RLIMIT_FSIZE, 0)], says=["cannot write", "File too large"])
    tally("Disk full, by a limit on the size of files", "demo", "exit 1, names the file, nothing left")
    done = small.run(*words(DEMO), limits=[(resource.RLIMIT_FSIZE, 20000)])
    assert done.returncode == 1 and "cannot write" in done.stderr and "File too large" in done.stderr, done.stderr
    assert set(os.listdir(small.folder / "demo")) == set(RESULTS)
    records = json.loads((small.folder / "demo" / "results.json").read_text())["records"]
    assert len((small.folder / "demo" / "results.csv").read_text().splitlines()) == 1 + len(records) > 1
    tally("Disk full, by a limit on the size of files", "demo", "exit 1, names the file, first measurements kept")


@pytest.fixture
def disk(small: Kedge) -> Iterator[pathlib.Path]:
    """A file system of its own of 4 MiB, as the folder `disk`."""
    folder = small.folder / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(disk: pathlib.Path, pages_free: int) -> None:
    (disk / "filler").unlink(missing_ok=True)
    left = os.statvfs(disk).f_bavail - pages_free
    (disk / "filler").write_bytes(b"\0" * (left * PAGE))
    assert os.statvfs(disk).f_bavail == pages_free


@pytest.mark.parametrize("case", FILES)
def test_a_disk_is_full(small: Kedge, disk: pathlib.Path, tally: Tally, all_moments: bool, case: str) -> None:
    command, names = FILES[case]
    sizes = undisturbed(small, command, names)
    pages = sum((size + PAGE - 1) // PAGE for size in sizes)
    write_old(small, disk, names)
    old = {name: (disk / name).read_bytes() for name in names}
    for free in range(pages) if all_moments else {0, pages - 1}:
        fill(disk, free)
        new_bundle = small.folder / "new.kedge"
        new_bundle.unlink(missing_ok=True)
        done = small.run(*words(command, "disk"))
        assert done.returncode == 1, (free, pages, done.stderr)
        assert "No space left on device" in done.stderr and "free some space" in done.stderr
        assert any(name in done.stderr for name in names), done.stderr
        assert sorted(os.listdir(disk)) == sorted([*names, "filler"])
        for name in names:
            assert (disk / name).read_bytes() == old[name]
        tally("Disk full, on a file system of 4 MiB", case, "exit 1, names the file, old files intact")
    (disk / "filler").unlink()
    small.ok(*words(command, "disk"))


@pytest.mark.parametrize("case", FOLDERS)
def test_results_meet_a_full_disk(small: Kedge, disk: pathlib.Path, tally: Tally, all_moments: bool, case: str) -> None:
    command = words(FOLDERS[case], "disk")
    small.ok(*command, "--seeds", 1)
    old = small.contents(disk / "results")
    pages = sum((len(text) + PAGE - 1) // PAGE for text in old.values() if text is not None)
    for free in range(pages) if all_moments else [0, pages - 1]:
        fill(disk, free)
        done = small.run(*command, "--seeds", 3)
        assert done.returncode == 1 and "No space left on device" in done.stderr, (free, done.stderr)
        assert any(name in done.stderr for name in RESULTS), done.stderr
        assert small.contents(disk / "results") == old
        tally("Disk full, on a file system of 4 MiB", case, "exit 1, names the file, old files intact")
    (disk / "filler").unlink()
    small.ok(*command, "--seeds", 3)


@pytest.mark.parametrize("case", PRINTED)
def test_stdout_is_full(small: Kedge, tally: Tally, case: str) -> None:
    with open("/dev/full", "wb") as full:
        done = small.run(*words(PRINTED[case]), stdout=full)
    assert done.returncode == 1, done.stderr
    assert "stdout" in done.stderr and "No space left on device" in done.stderr, done.stderr
    tally("Disk full, on stdout", case, "exit 1, names stdout")
