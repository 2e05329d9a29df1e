# SPDX-License-Identifier: Apache-2.0
"""The one writer of files: whole or not at all, and nothing beside."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from kedge import _output_file
from kedge._output_file import output_file, write_file

KILLED = """
import os, signal, sys
from kedge._output_file import output_file
with output_file(sys.argv[1]) as partial, open(partial, "wb") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["nameless", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """One on a file system with files that have no name, and one without."""
    if request.param == "named":
        monkeypatch.setattr(_output_file, "open_nameless", lambda folder: None)
    return tmp_path


def test_a_file_replaces_another_and_keeps_its_mode_and_links(folder: pathlib.Path) -> None:
    old_mask = os.umask(0o027)
    try:
        write_file(folder / "new", "é\ud800")
    finally:
        os.umask(old_mask)
    assert (folder / "new").read_bytes() == "é?".encode() and (folder / "new").stat().st_mode & 0o777 == 0o640
    (folder / "new").chmod(0o604)
    (folder / "link").symlink_to("new")
    write_file(folder / "link", b"other")
    assert (folder / "link").is_symlink() and (folder / "new").read_bytes() == b"other"
    assert (folder / "new").stat().st_mode & 0o777 == 0o604 and sorted(os.listdir(folder)) == ["link", "new"]


def test_what_fails_leaves_the_old_file_and_nothing_else(folder: pathlib.Path) -> None:
    write_file(folder / "file", b"old")
    with pytest.raises(ZeroDivisionError), output_file(folder / "file") as partial:
        pathlib.Path(partial).write_bytes(b"half")
        raise ZeroDivisionError
    assert (folder / "file").read_bytes() == b"old" and os.listdir(folder) == ["file"]
    with pytest.raises(FileNotFoundError):
        write_file(folder / "none" / "file", b"new")


def test_a_killed_writer_leaves_nothing(tmp_path: pathlib.Path) -> None:
    if _output_file.open_nameless(str(tmp_path)) is None:
        pytest.skip("this file system has no files without a name")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "file")], check=False)
    assert killed.returncode == -signal.SIGKILL and not os.listdir(tmp_path)
