# SPDX-License-Identifier: Apache-2.0
"""Input files that cannot be read, and files that change while they are read."""
import os
import pathlib
import shutil
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from commands import STITCH, TWO, words
from conftest import Kedge
from tally import Tally

ROWS = 1_500_000

# Each reads a.npy, or the bundle x.kedge.
READERS = {
    "fit": f"fit {TWO} --method random --anchors 8 -o new.kedge",
    "attach": "attach x.kedge --space n=a.npy -o new.kedge",
    "transform": "transform x.kedge --space a -i a.npy -o rr.npy",
    "translate": "translate x.kedge --from a --to b -i a.npy -o rr.npy",
    "compare": "compare a.npy b.npy",
    "retrieve": "retrieve --queries a.npy --documents a.npy --qrels qrels.npy",
    "stitch": f"stitch {STITCH} --methods random-cosine --anchors 6 -o results",
    "sweep": f"sweep {STITCH} --methods random-cosine --anchors 4,6 -o results",
}
BUNDLE_READERS = {
    "attach": "attach x.kedge --space c=c.npy -o new.kedge",
    "transform": "transform x.kedge --space a -i a.npy -o rr.npy",
    "translate": "translate x.kedge --from a --to b -i a.npy -o rr.npy",
    "inspect": "inspect x.kedge",
    "export": "export x.kedge --space a -o a.onnx",
}
CASES = [(name, text, "a.npy") for name, text in READERS.items()]
CASES += [(f"{name}, its bundle", text, "x.kedge") for name, text in BUNDLE_READERS.items()]


@pytest.mark.parametrize("case,command,file", CASES, ids=[case[0] for case in CASES])
def test_an_input_that_is_missing_or_a_folder(small: Kedge, tally: Tally, case: str, command: str, file: str) -> None:
    path = small.folder / file
    path.unlink()
    small.refused(3, *words(command), says=[file, "No such file"])
    tally("Input files", case, "missing: exit 3, says which")
    path.mkdir()
    small.refused(3, *words(command), says=[file, "not a regular file"])
    tally("Input files", case, "a folder: exit 3, says which")


@pytest.mark.parametrize("case,command,file", CASES, ids=[case[0] for case in CASES])
def test_an_input_that_may_not_be_read(small: Kedge, as_nobody: Callable[[], None], tally: Tally, case: str,
                                       command: str, file: str) -> None:
    (small.folder / file).chmod(0)
    as_nobody()
    done = small.run(*words(command), as_nobody=True)
    assert done.returncode == 3, done.stderr
    assert file in done.stderr and "Permission denied" in done.stderr
    assert not any((small.folder / name).exists() for name in ("new.kedge", "rr.npy", "a.onnx"))
    tally("Input files", case, "not allowed: exit 3, says which")


# Each reads long.npy from its beginning to its end.
LONG = {
    "fit": "fit --space a=long.npy --method random --anchors 8 --threads 1 -o new.kedge",
    "attach": "attach x.kedge --space n=long.npy --threads 1 -o new.kedge",
    "transform": "transform x.kedge --space a -i long.npy --threads 1 -o new.npy",
    "translate": "translate x.kedge --from a --to b -i long.npy --threads 1 -o new.npy",
}


@pytest.fixture(scope="module")
def long_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    path = tmp_path_factory.mktemp("long") / "long.npy"
    rng = np.random.default_rng(3)
    block = rng.normal(size=(ROWS // 10, 8)).astype(np.float32)
    np.save(path, np.tile(block, (10, 1)))
    yield path
    path.unlink()


def result(kedge: Kedge) -> bytes | None:
    found = [kedge.folder / name for name in ("new.kedge", "new.npy") if (kedge.folder / name).exists()]
    return found[0].read_bytes() if found else None


def disturbed(kedge: Kedge, long_rows: pathlib.Path, command: str,
              disturb: Callable[[pathlib.Path], object]) -> tuple[int, str, bytes | None, bytes | None]:
    """The result undisturbed; then what the command says when `disturb` happens while it reads, and the result."""
    path = kedge.folder / "long.npy"
    shutil.copyfile(long_rows, path)
    kedge.ok(*words(command))
    whole = result(kedge)
    for name in ("new.kedge", "new.npy"):
        (kedge.folder / name).unlink(missing_ok=True)
    process = kedge.stopped_after(*words(command), read=4 << 20)
    disturb(path)
    process.send_signal(signal.SIGCONT)
    message = process.communicate(timeout=600)[1].decode()
    return process.returncode, message, result(kedge), whole


def test_the_last_row_is_not_read_when_the_command_is_stopped(small: Kedge, long_rows: pathlib.Path) -> None:
    """Else the tests below would show nothing."""
    assert long_rows.stat().st_size > 10 * (4 << 20)


@pytest.mark.parametrize("case", LONG)
def test_an_input_that_becomes_shorter(small: Kedge, long_rows: pathlib.Path, tally: Tally, case: str) -> None:
    half = long_rows.stat().st_size // 2
    code, message, found, _ = disturbed(small, long_rows, LONG[case], lambda path: os.truncate(path, half))
    assert code == 3, (code, message)
    assert "long.npy" in message and "got shorter while it was being read" in message
    assert found is None
    tally("Input files that change while they are read", case, "cut short: exit 3, says which, no result")


def grow(path: pathlib.Path) -> None:
    with path.open("ab") as file:
        file.write(b"\x7f" * 1_000_000)


def rename_over(path: pathlib.Path) -> None:
    other = path.with_name("other.npy")
    np.save(other, np.zeros((ROWS, 8), np.float32))
    other.rename(path)


@pytest.mark.parametrize("what,disturb", [("deleted", os.unlink), ("made longer", grow), ("replaced", rename_over)],
                         ids=["deleted", "longer", "replaced"])
@pytest.mark.parametrize("case", LONG)
def test_an_input_stays_what_it_was_when_opened(small: Kedge, long_rows: pathlib.Path, tally: Tally, case: str,
                                                what: str, disturb: Callable[[pathlib.Path], object]) -> None:
    code, message, found, whole = disturbed(small, long_rows, LONG[case], disturb)
    assert code == 0, (code, message)
    assert found == whole
    tally("Input files that change while they are read", case, f"{what}: the result of the file as it was opened")
