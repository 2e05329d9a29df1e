# SPDX-License-Identifier: Apache-2.0
"""Slips on the command line: what was probably meant is named."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import numpy as np
import pytest
from conftest import Kedge


@pytest.mark.parametrize("words, meant", [
    (["transfrom"], "'transform'"), (["fti"], "'fit'"), (["--versoin"], "'--version'"), (["--hlep"], "'--help'"),
    (["fit", "--sapce", "a=b"], "'--space'"), (["inspect", "x.kedge", "--jsno"], "'--json'"),
    (["fit", "--space", "a=a.npy", "-o", "x", "--method", "consenus"], "'consensus'")])
def test_the_nearest_name_is_offered(kedge: Kedge, words: list[str], meant: str) -> None:
    kedge.refused(2, *words, says=[f"did you mean {meant}?", "--help' to see what it accepts"])


def test_nothing_is_offered_where_nothing_is_near(kedge: Kedge) -> None:
    assert "did you mean" not in kedge.refused(2, "sail", says="there is no command 'sail'").stderr


def test_a_space_and_an_entry_of_a_config_file_too(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    kedge.ok("fit", "--space", "resnet=a.npy", "--space", "clip=b.npy", "--anchors", 5, "-o", "y.kedge")
    kedge.refused(2, "transform", "y.kedge", "--space", "rsenet", "-i", "a.npy", "-o", "rr.npy",
                  says=["has no space 'rsenet'", "did you mean 'resnet'?"])
    (kedge.folder / "c.toml").write_text("anchros = 3\n")
    kedge.refused(2, "fit", *spaces, "-o", "z.kedge", "--config", "c.toml", says="did you mean '--anchors'?")


def test_rows_in_reversed_order(kedge: Kedge, bundle: str) -> None:
    kedge.refused(2, "transform", bundle, "--space", "a", "-i", "a.npy", "-o", "rr.npy", "--rows", "150:0",
                  says=["'150:0'", "reversed", "write 0:150"])


def test_a_space_without_a_file(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", "--space", "a", "-o", "x.kedge", says=["NAME=FILE", "a=embeddings.npy"])


def columns_of(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


@pytest.mark.parametrize("columns", [80, 40, 12])
@pytest.mark.parametrize("name", ["a", "数据编码器" * 6])
def test_progress_is_no_wider_than_the_terminal(kedge: Kedge, columns: int, name: str) -> None:
    rng = np.random.default_rng(0)
    np.save(kedge.folder / "a.npy", rng.normal(size=(3000, 32)).astype(np.float32))
    np.save(kedge.folder / "b.npy", rng.normal(size=(3000, 32)).astype(np.float32))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    process = subprocess.Popen([kedge.program, "fit", "--space", f"{name}=a.npy", "--space", "b=b.npy", "--method",
                                "param",
                                "--anchors", "60", "--epochs", "40", "--batch", "500", "-o", "x.kedge"],
                               cwd=kedge.folder, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, said.decode()
    drawn = re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", said.decode())
    assert drawn and any("%" in line for line in drawn)
    assert max(map(columns_of, drawn)) < columns, drawn
