# SPDX-License-Identifier: Apache-2.0
"""64 processes at once: on one bundle each gets its own result, and on one output path one of them stays whole."""
import io
import pathlib
from collections.abc import Iterator

import kedge
import numpy as np
import pytest
from conftest import DIM, finish, run, start
from tally import Tally

pytestmark = pytest.mark.long

PROCESSES = 64
SECTION = "Processes and threads at the same time"


@pytest.fixture(scope="module")
def inputs(folder: pathlib.Path, everything: bool) -> Iterator[list[pathlib.Path]]:
    """As many files as processes, all different."""
    rng = np.random.default_rng(3)
    paths = []
    for i in range(PROCESSES):
        paths.append(folder / f"x{i}.npy")
        np.save(paths[-1], rng.normal(size=(50_000 if everything else 2_000, DIM)).astype(np.float16))
    yield paths
    for path in paths:
        path.unlink()


def transform(bundle: pathlib.Path, rows: pathlib.Path, out: pathlib.Path) -> list[object]:
    return ["transform", bundle, "--space", "a", "-i", rows, "-o", out]


@pytest.fixture(scope="module")
def alone(folder: pathlib.Path, bundle: pathlib.Path, inputs: list[pathlib.Path]) -> list[bytes]:
    """The bytes each gets when nothing else runs."""
    found = []
    for rows in inputs:
        run(*transform(bundle, rows, folder / "alone.npy"))
        found.append((folder / "alone.npy").read_bytes())
    return found


def test_every_process_gets_the_bytes_it_gets_alone(bundle: pathlib.Path, folder: pathlib.Path,
                                                    inputs: list[pathlib.Path], alone: list[bytes],
                                                    tally: Tally) -> None:
    outs = [folder / f"rr{i}.npy" for i in range(PROCESSES)]
    running = [start(*transform(bundle, rows, out)) for rows, out in zip(inputs, outs)]
    for process in running:
        finish(process)
    for out, expected in zip(outs, alone):
        assert out.read_bytes() == expected
        out.unlink()
        tally(SECTION, f"{PROCESSES} processes transform with one bundle", "the bytes it gets alone")


def test_one_output_path_holds_one_whole_file(bundle: pathlib.Path, folder: pathlib.Path, inputs: list[pathlib.Path],
                                              alone: list[bytes], tally: Tally) -> None:
    (folder / "one").mkdir()
    out = folder / "one" / "rr.npy"
    out.write_bytes(alone[0])
    running = [start(*transform(bundle, rows, out)) for rows in inputs]
    looks = 0
    while any(process.poll() is None for process in running):
        seen = out.read_bytes()
        assert seen in alone, "a reader saw half a file"
        np.load(io.BytesIO(seen))
        looks += 1
    for process in running:
        finish(process)
    assert looks > 0 and out.read_bytes() in alone
    assert [path.name for path in out.parent.iterdir()] == ["rr.npy"]
    tally(SECTION, f"{PROCESSES} processes write to one path", "one whole file, nothing beside it", PROCESSES)
    tally(SECTION, "a reader of that path meanwhile", "a whole file each time", looks)


def test_one_bundle_path_holds_what_all_have_added(bundle: pathlib.Path, folder: pathlib.Path,
                                                   inputs: list[pathlib.Path], tally: Tally) -> None:
    """Attaching in place reads and replaces the same path; one waits for the other, so that nothing is lost."""
    (folder / "place").mkdir()
    shared = folder / "place" / "shared.kedge"
    shared.write_bytes(bundle.read_bytes())
    running = [start("attach", shared, "--space", f"new{i}={rows}", "-o", shared) for i, rows in enumerate(inputs)]
    for process in running:
        finish(process)
    assert set(kedge.load(shared).spaces) == {"a", "b", *(f"new{i}" for i in range(len(inputs)))}
    assert [path.name for path in shared.parent.iterdir()] == ["shared.kedge"]
    tally(SECTION, f"{PROCESSES} processes attach to one bundle in place",
          "a bundle with the spaces of all, nothing beside it", PROCESSES)
