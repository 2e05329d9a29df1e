# SPDX-License-Identifier: Apache-2.0
"""Many rows, many processes, many threads: the same bits, and no more memory, than for few of them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pytest

DIM, ANCHORS = 128, 32


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="20,000,000 rows, which takes 8 GB of disk and minutes")
    parser.addoption("--folder", help="where the files go while the tests last; a temporary folder unless given")


@pytest.fixture(scope="session")
def everything(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--all"))


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest, everything: bool) -> Iterator[pathlib.Path]:
    """Removed afterwards. Ends the run with 77, which counts as skipped, if there is no room for the files."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="kedge-load-", dir=request.config.getoption("--folder")))
    needed, free = 9 if everything else 1, shutil.disk_usage(scratch).free / 1e9
    if free < needed:
        scratch.rmdir()
        pytest.exit(f"{scratch.parent} has {free:.1f} GB free and {needed} GB are needed; give another --folder", 77)
    yield scratch
    shutil.rmtree(scratch)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [os.environ["KEDGE"], *map(str, arguments), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    said = process.communicate(timeout=1200)[1].decode()
    assert process.returncode == 0, said


def run(*arguments: object) -> None:
    finish(start(*arguments))


# A process is charged with the memory of the one that starts it, so a small one stands between it and the tests.
MEASURE = "import os, sys; status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)[1:]; " \
    "print(used.ru_maxrss); sys.exit(os.waitstatus_to_exitcode(status))"


def measured(*arguments: object) -> tuple[float, float]:
    """Seconds, and the peak of its memory in MB as the kernel counts it."""
    began = time.monotonic()
    command = [sys.executable, "-I", "-S", "-c", MEASURE, os.environ["KEDGE"], *map(str, arguments), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began, int(done.stdout) / 1000


@pytest.fixture(scope="session")
def bundle(folder: pathlib.Path) -> pathlib.Path:
    """Of two small spaces; every large one is its third."""
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(2000, 20))
    for name, dim in (("a", DIM), ("b", 48)):
        np.save(folder / f"{name}.npy", (meaning @ rng.normal(size=(20, dim))).astype(np.float32))
    path = folder / "shared.kedge"
    run("fit", "--space", f"a={folder / 'a.npy'}", "--space", f"b={folder / 'b.npy'}", "--method", "consensus",
        "--anchors", ANCHORS, "--support", 500, "-o", path)
    return path
