# SPDX-License-Identifier: Apache-2.0
"""What a store may meet: folders that may only be read, disks that are full, and an end at any step."""
from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from contract import OWNER, contents, unit_rows
from kedge.migrate.store import Store

NOBODY = 65534


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """Root may write everywhere; the user nobody may not."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


@contextlib.contextmanager
def open_folder() -> Iterator[pathlib.Path]:
    """A folder that other users can get to, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@contextlib.contextmanager
def only_read(folder: pathlib.Path) -> Iterator[None]:
    """While this lasts, the folder may only be read, and not by root."""
    paths = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with another_user():
            yield
    finally:
        for path, mode in zip(paths, modes):
            path.chmod(mode)


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: str) -> Iterator[pathlib.Path]:
    """A disk of its own in the folder; only root can have one."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs a disk of its own to fill, and cannot mount one: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def nearly_full(folder: pathlib.Path, free: int) -> Iterator[None]:
    """While this lasts, so many bytes are free on the disk of the folder."""
    disk = os.statvfs(folder)
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * max(disk.f_bavail * disk.f_frsize - free, 0))
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def held_by_another_process(opening: str, path: pathlib.Path) -> Iterator[None]:
    """While this lasts, a process has run these lines, in which sys.argv[1] is the path."""
    code = f"import sys\n{opening}\nprint('open', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin and other.stdout and other.stdout.readline() == b"open\n"
        yield
        other.stdin.close()
        other.wait()


@contextlib.contextmanager
def cut_short(monkeypatch: pytest.MonkeyPatch, stop: int, *functions: tuple[ModuleType, str]) -> Iterator[list[object]]:
    """Lets so many calls of these (module, name) through, and ends what is done here at the next. Gives a list that is
    as long as the number of calls that were tried."""
    calls: list[object] = []

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **more: Any) -> Any:
            calls.append(step)
            if len(calls) > stop:
                raise KeyboardInterrupt
            return step(*words, **more)
        return run

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        for module, name in functions:
            patch.setattr(module, name, counted(getattr(module, name)))
        yield calls


def killed(work: Callable[[], object], stop: int, kind: type, name: str, *doing: str) -> bool:
    """Does the work in a process of its own, which is killed after so many calls of kind.name(self, WORD, ...) with one
    of these words. Whether it was; if not, it came to its end. Nothing may be open that a fork must not share."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        return status != 0
    step, calls = getattr(kind, name), 0

    def counted(self: Any, word: str, *words: Any) -> Any:
        nonlocal calls
        calls += word in doing
        if calls > stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, word, *words)

    try:
        setattr(kind, name, counted)
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def require_one_of_two_after_kills(old: Store, least: int, kind: type, *doing: str) -> None:
    """Fills a place beside a store of 200 rows of 8 values, and kills the switch of the two at every step."""
    new, kept = old.beside("_new"), old.beside("_old")
    new.create(old, 12, OWNER)
    new.write(list(range(200)), unit_rows(200, 12))
    for store in (old, new, kept):
        store.close()
    for steps in range(20):
        if not killed(lambda: old.switch(new, kept), steps, kind, "rows", *doing):
            break
        assert (old.describe().width, len(contents(old)), len(contents(new))) == (8, 200, 200)
        old.close()
        new.close()
    assert steps > least and old.describe().width == 12 and len(contents(kept)) == 200
    old.close()
    kept.close()
