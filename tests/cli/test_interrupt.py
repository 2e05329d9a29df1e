# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during long work leaves the folder as it was."""
import pathlib
import re
import signal
import subprocess
import time
from typing import Any

import numpy as np
import pytest
from conftest import Kedge


def has_begun(pid: int) -> bool:
    """Rows of the result have been written, to a file that has no name yet; all else a process writes is less."""
    written = re.search(r"^wchar: (\d+)$", pathlib.Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
    return written is not None and int(written[1]) > 1 << 26


def transform_interrupted(kedge: Kedge, sent: signal.Signals, **options: Any) -> subprocess.Popen[str]:
    command = [kedge.program, "transform", "x.kedge", "--space", "a", "-i", "long.npy", "-o", "rr.npy", "--threads",
               "1"]
    process = subprocess.Popen(command, cwd=kedge.folder, stderr=subprocess.PIPE, text=True, **options)
    while not has_begun(process.pid) and process.poll() is None:
        time.sleep(0.002)
    assert process.poll() is None, "it was done before it could be interrupted"
    process.send_signal(sent)
    return process


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_transform_leaves_nothing(kedge: Kedge, spaces: list[str], sent: signal.Signals) -> None:
    kedge.ok("fit", *spaces, "--anchors", 100, "--method", "random", "-o", "x.kedge")
    np.lib.format.open_memmap(kedge.folder / "long.npy", mode="w+", dtype=np.float16, shape=(4_000_000, 8))
    before = kedge.snapshot()
    process = transform_interrupted(kedge, sent)
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 130, message
    assert "interrupted" in message
    assert kedge.snapshot() == before


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_it_was_told_to_ignore_does_not_interrupt(kedge: Kedge, spaces: list[str], sent: signal.Signals) -> None:
    """As a shell tells what it runs in the background."""
    kedge.ok("fit", *spaces, "--anchors", 100, "--method", "random", "-o", "x.kedge")
    np.lib.format.open_memmap(kedge.folder / "long.npy", mode="w+", dtype=np.float16, shape=(1_000_000, 8))
    process = transform_interrupted(kedge, sent, preexec_fn=lambda: signal.signal(sent, signal.SIG_IGN))
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 0, message
    assert np.load(kedge.folder / "rr.npy", mmap_mode="r").shape == (1_000_000, 100)
    (kedge.folder / "rr.npy").unlink()


def test_a_terminal_gets_a_bar(kedge: Kedge, spaces: list[str]) -> None:
    """script(1) gives the command a terminal to write to."""
    kedge.ok("fit", *spaces, "--anchors", 100, "--method", "random", "-o", "x.kedge")
    np.lib.format.open_memmap(kedge.folder / "long.npy", mode="w+", dtype=np.float16, shape=(2_000_000, 8))
    line = f"{kedge.program} transform x.kedge --space a -i long.npy -o rr.npy --threads 1"
    seen = subprocess.run(["script", "-qec", line, "/dev/null"], cwd=kedge.folder, capture_output=True, text=True,
                          timeout=600)
    assert "transforming [" in seen.stdout and " % " in seen.stdout
    (kedge.folder / "rr.npy").unlink()
