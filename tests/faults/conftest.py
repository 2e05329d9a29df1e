# SPDX-License-Identifier: Apache-2.0
"""Runs the command under faults: with limits, without privileges, stopped at a chosen moment."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

NOBODY = 65534
Content = bytes | tuple[int, int] | None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-moments", action="store_true", help="try 50 moments of each command, and every size")


@pytest.fixture
def all_moments(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--all-moments"))


class Kedge:
    """Runs the command in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.program = os.environ["KEDGE"]

    def start(self, *arguments: object, limits: Iterable[tuple[int, int]] = (), ignored: Iterable[signal.Signals] = (),
              closed: Iterable[int] = (), as_nobody: bool = False, **options: Any) -> subprocess.Popen[bytes]:
        """`limits` are pairs for setrlimit; `ignored` signals that the parent ignores, as nohup does; `closed` are
        streams."""

        def prepare() -> None:
            for sign in (signal.SIGXFSZ, signal.SIGPIPE):  # Python ignores them, which a child would inherit
                signal.signal(sign, signal.SIG_DFL)
            for sign in ignored:
                signal.signal(sign, signal.SIG_IGN)
            if as_nobody and os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            for what, most in limits:
                resource.setrlimit(what, (most, most))
            for stream in closed:
                os.close(stream)

        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([self.program, *map(str, arguments)], cwd=self.folder, preexec_fn=prepare, **options)

    def run(self, *arguments: object, timeout: float = 1200, **options: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, (out or b"").decode(),
                                           (err or b"").decode())

    def ok(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        done = self.run(*arguments, **options)
        assert done.returncode == 0, (arguments, done.returncode, done.stderr)
        return done

    def refused(self, code: int, *arguments: object, says: str | Iterable[str] = (),
                **options: Any) -> subprocess.CompletedProcess[str]:
        """Checks the exit code, the words of the sentence, and that the folder is as it was, byte for byte."""
        before = self.contents()
        done = self.run(*arguments, **options)
        assert done.returncode == code, (arguments, done.returncode, done.stderr)
        assert "kedge: " in done.stderr, (arguments, done.stderr)
        for word in [says] if isinstance(says, str) else says:
            assert word in done.stderr, (arguments, done.stderr)
        assert self.contents() == before
        return done

    def contents(self, folder: pathlib.Path | None = None) -> dict[str, Content]:
        """Name -> bytes of every file, None for folders; large files, which are inputs here, by size and time."""
        found: dict[str, Content] = {}
        for path in sorted((folder or self.folder).rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_dir():
                found[name] = None
            elif path.stat().st_size > 1 << 24:
                found[name] = (path.stat().st_size, path.stat().st_mtime_ns)
            else:
                found[name] = path.read_bytes()
        return found

    def stopped_after(self, *arguments: object, read: int = 1 << 21, **options: Any) -> subprocess.Popen[bytes]:
        """Starts the command and stops it once it has read so many bytes; the caller sends SIGCONT."""
        for _ in range(5):  # a machine that is busy may look too late
            process = self.start(*arguments, **options)
            while process.poll() is None and bytes_read(process.pid) < read:
                time.sleep(0.0005)
            process.send_signal(signal.SIGSTOP)
            while process.poll() is None and pathlib.Path(f"/proc/{process.pid}/stat").read_text().split()[2] != "T":
                time.sleep(0.001)
            if process.poll() is None:
                return process
            said = process.communicate()[1].decode()
        raise AssertionError("it was done each time before it could be stopped: " + said)


def bytes_read(pid: int) -> int:
    return int(dict(line.split(": ") for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines())["rchar"])


@pytest.fixture
def kedge() -> Iterator[Kedge]:
    """In a folder that others may look into, unlike pytest's own: some tests run as nobody."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kedge-faults-"))
    folder.chmod(0o755)
    yield Kedge(folder)
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody(kedge: Kedge) -> Callable[[], None]:
    """Gives the folder and all in it to a user without privileges, whom `as_nobody=True` then runs the command as."""

    def give() -> None:
        if os.getuid() != 0:
            return
        for path in [kedge.folder, *kedge.folder.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        try:
            kedge.ok("--version", as_nobody=True)
        except (PermissionError, subprocess.SubprocessError):
            pytest.skip("a user without privileges cannot run the command: its folder is closed to others")

    return give


def write_spaces(folder: pathlib.Path, rows: int, dims: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(rows, 4))
    for name, dim in dims.items():
        noise = 0.1 * rng.normal(size=(rows, dim))
        np.save(folder / f"{name}.npy", (latent @ rng.normal(size=(4, dim)) + noise + 3).astype(np.float32))
    np.save(folder / "labels.npy", (latent[:, 0] > 0).astype(np.int64))
    np.save(folder / "qrels.npy", np.array([(row, row, 1) for row in range(5)]))


@pytest.fixture
def small(kedge: Kedge) -> Kedge:
    """Three spaces of 200 parallel rows, labels, and a bundle of two of the spaces with ways back."""
    write_spaces(kedge.folder, 200, {"a": 8, "b": 5, "c": 6})
    kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "consensus", "--anchors", 8,
             "-o", "x.kedge")
    return kedge
