# SPDX-License-Identifier: Apache-2.0
"""Too little memory, and too few threads: every command is done with the right bytes, or ends with a message.

Below the address space that the dynamic loader needs for the libraries, no line of kedge has run yet; that limit is
found first, and all others start above it. The message is kedge's own and the exit code 1, unless a library ends the
process itself: OpenBLAS while it is loaded (by SIGINT) and libgomp (by exit), if a thread cannot be started, and
OpenBLAS (by exit) if a product finds no memory for its notes."""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from commands import STITCH, TWO, words
from conftest import NOBODY, Content, Kedge, write_spaces
from sanitized import SANITIZED
from tally import Tally

pytestmark = [pytest.mark.long,
              pytest.mark.skipif(SANITIZED, reason="a command with a sanitizer in it needs terabytes of addresses")]
MIB = 1 << 20
ENOUGH = 8192 * MIB
SECTION = "Limits on memory (RLIMIT_AS)"

# With files large enough that each needs memory of its own, beyond what it takes to begin.
COMMANDS = {
    "fit (consensus)": f"fit {TWO} --method consensus --anchors 60 -o {{out}}/new.kedge",
    "fit (PARAM)": f"fit {TWO} --method param --anchors 60 --support 2000 --epochs 1 -o {{out}}/new.kedge",
    "fit (k-means)": f"fit {TWO} --method kmeans --anchors 60 --support 4000 -o {{out}}/new.kedge",
    "attach": "attach x.kedge --space n=b.npy -o {out}/new.kedge",
    "transform": "transform x.kedge --space a -i a.npy -o {out}/rr.npy",
    "translate": "translate x.kedge --from a --to b -i a.npy -o {out}/rr.npy",
    "compare": "compare a.npy a.npy --rows 0:6000 --json",
    "retrieve": "retrieve --queries a.npy --documents a.npy --qrels qrels.npy --json",
    "inspect": "inspect x.kedge --json",
    "export": "export x.kedge --space a -o {out}/a.onnx",
    "stitch": f"stitch {STITCH} --methods random-cosine,consensus,param-multi --epochs 1 --anchors 40 "
              "-o {out}/results",
    "sweep": f"sweep {STITCH} --methods random-cosine,consensus --anchors 20,40 -o {{out}}/results",
    "devices": "devices",
}
Borders = Callable[[Kedge, int], tuple[dict[str, str], int, int]]
TIMED = {"results.json"}  # holds how long each run took
NO_THREAD = "pthread_create failed"  # in what OpenBLAS prints


@pytest.fixture
def spaces(kedge: Kedge) -> Kedge:
    write_spaces(kedge.folder, 12_000, {"a": 256, "b": 192, "c": 64})
    kedge.ok("fit", *TWO.split(), "--method", "consensus", "--anchors", 60, "-o", "x.kedge")
    return kedge


def smallest(works: Callable[[int], bool]) -> int:
    """The smallest limit, to a MiB, for which it works."""
    low, high = 1, ENOUGH // MIB
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle * MIB) else (middle, high)
    return high * MIB


def limited(kedge: Kedge, limit: int, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return kedge.run(*arguments, limits=[(resource.RLIMIT_AS, limit)], timeout=600, **options)


@pytest.fixture(scope="module")
def borders() -> Borders:
    """The limits from which the loader can load and kedge can work, for all threads and for one."""
    found = {}

    def find(kedge: Kedge, threads: int) -> tuple[dict[str, str], int, int]:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
        if threads not in found:
            found[threads] = (
                smallest(lambda limit: limited(kedge, limit, "devices", env=environment).returncode != 127),
                smallest(lambda limit: limited(kedge, limit, "devices", env=environment).returncode == 0))
        return environment, *found[threads]

    return find


def untimed(contents: dict[str, Content]) -> dict[str, Content]:
    return {name: text for name, text in contents.items() if pathlib.Path(name).name not in TIMED}


def checked(done: subprocess.CompletedProcess[str], found: dict[str, Content], whole: dict[str, Content],
            limit: float) -> str:
    """Right bytes, or a sentence and no files but those of a whole save."""
    if done.returncode == 0:
        assert untimed(found) == whole, limit
        return "done, same bytes"
    assert not [name for name, text in untimed(found).items() if text is not None and name not in whole], found.keys()
    if done.returncode == -signal.SIGINT:
        assert NO_THREAD in done.stderr, (limit, done.stderr)
        return "a message of OpenBLAS, SIGINT"
    assert done.returncode == 1, (limit, done.returncode, done.stderr)
    if "libgomp: Thread creation failed" in done.stderr:
        return "exit 1, a message of libgomp"
    if "OpenBLAS: malloc failed" in done.stderr:
        return "exit 1, a message of OpenBLAS"
    assert "kedge: " in done.stderr, (limit, done.stderr)
    said = done.stderr[done.stderr.index("kedge: "):]
    assert "memory" in said or "threads" in said, (limit, done.stderr)
    return "exit 1, says that memory is short"


def outcome_of(kedge: Kedge, command: str, limit: int, environment: dict[str, str], whole: dict[str, Content]) -> str:
    out = kedge.folder / "out"
    out.mkdir()
    done = limited(kedge, limit, *words(command, "out"), env=environment)
    found = kedge.contents(out)
    shutil.rmtree(out)
    return checked(done, found, whole, limit // MIB)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", COMMANDS)
def test_every_limit_ends_in_a_result_or_a_sentence(spaces: Kedge, borders: Borders, tally: Tally, all_moments: bool,
                                                    case: str, threads: int) -> None:
    if threads > 1 and not all_moments and case not in ("fit (k-means)", "transform", "stitch"):
        pytest.skip("only with --all-moments, as in 'make test-faults'")
    command = COMMANDS[case]
    environment, loads, begins = borders(spaces, threads)
    (spaces.folder / "out").mkdir()
    spaces.ok(*words(command, "out"), env=environment)
    whole = untimed(spaces.contents(spaces.folder / "out"))
    shutil.rmtree(spaces.folder / "out")
    between = [loads + (begins - loads) * i // 4 for i in range(4)] if all_moments else [loads, begins - MIB]
    above = [0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512] if all_moments else [0, 4, 16, 64]
    for limit in [*between, *(begins + more * MIB for more in above)]:
        tally(SECTION, f"{case}, {threads} thread{'s' * (threads > 1)}",
              outcome_of(spaces, command, limit, environment, whole))
    assert outcome_of(spaces, command, ENOUGH, environment, whole) == "done, same bytes"


def test_the_sentence_says_what_is_needed(spaces: Kedge, borders: Borders, tally: Tally) -> None:
    environment, loads, begins = borders(spaces, 2)
    _, _, begins_alone = borders(spaces, 1)
    assert loads < begins_alone < begins
    # Room for a thread's stack and not for what it maps.
    done = limited(spaces, loads + 64 * MIB, "devices", env=environment)
    assert done.returncode == 1
    assert "MiB of address space" in done.stderr and "OPENBLAS_NUM_THREADS=1" in done.stderr, done.stderr
    tally(SECTION, f"the loader needs {loads // MIB} MiB, one thread {begins_alone // MIB}, two {begins // MIB}",
          "below: the loader's own words", 1)


def test_more_threads_than_there_is_memory_for(spaces: Kedge, borders: Borders, tally: Tally) -> None:
    environment, _, begins = borders(spaces, 2)
    command = words("transform x.kedge --space a -i a.npy -o rr.npy --threads 16")
    # While a thread begins, malloc may hold twice the 64 MiB of its arena, so what it takes to begin varies.
    done = limited(spaces, begins + 256 * MIB, *command, env=environment)
    assert done.returncode == 1 and "cannot start 16 threads" in done.stderr, done.stderr
    assert not (spaces.folder / "rr.npy").exists()
    tally(SECTION, "--threads 16", "exit 1, says that memory is short")


def owners_of_processes() -> set[int]:
    owners = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):  # one may end meanwhile
            owners.add(process.stat().st_uid)
    return owners


@pytest.mark.parametrize("case", ["fit (consensus)", "fit (k-means)", "compare", "transform", "stitch"])
def test_no_threads_are_to_be_had(spaces: Kedge, as_nobody: Callable[[], None], tally: Tally, case: str) -> None:
    """RLIMIT_NPROC counts all of a user's processes, so it says something of one that has no others."""
    if os.getuid() != 0:
        pytest.skip("only root can become a user that runs nothing else")
    if NOBODY in owners_of_processes():
        pytest.skip("the user 'nobody' runs other processes here")
    (spaces.folder / "out").mkdir()
    as_nobody()
    command = words(COMMANDS[case], "out")
    limits = [(resource.RLIMIT_NPROC, 1)]
    done = spaces.run(*command, as_nobody=True, limits=limits, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})
    assert done.returncode == -signal.SIGINT and NO_THREAD in done.stderr, (done.returncode, done.stderr)
    tally("Limits on processes (RLIMIT_NPROC)", case, "a message of OpenBLAS, SIGINT")
    done = spaces.run(*command, as_nobody=True, limits=limits, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    tally("Limits on processes (RLIMIT_NPROC)", f"{case}, one thread", "done")


def size_of(pid: int) -> int:
    """Of the address space."""
    found = re.search(r"VmSize:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def run_short_of_memory(kedge: Kedge, arguments: list[str], more: int,
                        environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Lets it have `more` bytes than it has when it has begun to read its files."""
    process = kedge.stopped_after(*arguments, read=1 << 20, env=environment)
    most = size_of(process.pid) + more
    resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
    process.send_signal(signal.SIGCONT)
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), err.decode())


LATE = ["fit (consensus)", "fit (PARAM)", "fit (k-means)", "attach", "transform", "translate", "compare", "stitch"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", LATE)
def test_memory_that_ends_in_the_midst_of_work(spaces: Kedge, tally: Tally, all_moments: bool, case: str,
                                               threads: int) -> None:
    if not all_moments:
        pytest.skip("only with --all-moments, as in 'make test-faults'")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    out = spaces.folder / "out"
    out.mkdir()
    spaces.ok(*words(COMMANDS[case], "out"), env=environment)
    whole = untimed(spaces.contents(out))
    refused = 0
    for more in [0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]:
        shutil.rmtree(out)
        out.mkdir()
        done = run_short_of_memory(spaces, words(COMMANDS[case], "out"), int(more * MIB), environment)
        outcome = checked(done, spaces.contents(out), whole, more)
        refused += done.returncode
        tally("Memory that ends in the midst of work", f"{case}, {threads} thread{'s' * (threads > 1)}", outcome)
    # Threads reserve addresses of their own, where small things find room.
    assert refused > 0 or threads > 1, "there was enough memory each time, so this showed nothing"
