# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What runs in the background of a shell ignores Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
SLM = ROOT / "data" / "slm"


class Kedge:
    """Runs the command in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.program = os.environ["KEDGE"]

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [self.program, *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=1800, **options)

    def ok(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done

    def json(self, *arguments: object) -> Any:
        return json.loads(self.ok(*arguments, "--json", "--quiet").stdout)

    def refused(self, code: int, *arguments: object, says: str | Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Checks the exit code, every word of the sentence, and that no file appeared or changed."""
        before = self.snapshot()
        done = self.run(*arguments)
        assert done.returncode == code, (done.returncode, done.stderr)
        for word in [says] if isinstance(says, str) else says:
            assert word in done.stderr, done.stderr
        assert done.stdout == ""
        assert self.snapshot() == before
        return done

    def snapshot(self) -> dict[str, tuple[int, int]]:
        return {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in self.folder.iterdir()}


@pytest.fixture
def kedge(tmp_path: pathlib.Path) -> Kedge:
    return Kedge(tmp_path)


@pytest.fixture(scope="module")
def shared_kedge(tmp_path_factory: pytest.TempPathFactory) -> Kedge:
    """One folder for all tests of a file, for what they only read."""
    return Kedge(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def spaces(tmp_path: pathlib.Path) -> list[str]:
    """Two correlated spaces of 200 parallel rows, a.npy (8 values) and b.npy (5)."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(200, 4))
    for name, dim in (("a", 8), ("b", 5)):
        noise = 0.1 * rng.normal(size=(200, dim))
        np.save(tmp_path / f"{name}.npy", (latent @ rng.normal(size=(4, dim)) + noise + 3).astype(np.float32))
    return ["--space", "a=a.npy", "--space", "b=b.npy"]


@pytest.fixture
def bundle(kedge: Kedge, spaces: list[str]) -> str:
    kedge.ok("fit", *spaces, "--anchors", 10, "--support", 60, "--method", "fps", "-o", "x.kedge")
    return "x.kedge"
