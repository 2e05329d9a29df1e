# SPDX-License-Identifier: Apache-2.0
"""docs/change-model.md and docs/stores.md, word for word: their blocks are run in order, and print what they show."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator

import kedge
import pytest

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Times, rates and differences of a rounding are other ones on every machine.
CHANGING = re.compile(r"about \d+ (?:s|min)|[\d,]+ rows/s|\d+ s for|largest difference [\d.e+-]+"
                      r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|[\d,]+ the same bit for bit")
TOLERANCE = .02


def blocks(guide: str) -> list[tuple[str, str]]:
    text = (ROOT / "docs" / f"{guide}.md").read_text()
    return re.findall(r"^```(python|sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_block(kind: str, text: str, folder: pathlib.Path, environment: dict[str, str]) -> str:
    if "pip install" in text:
        return ""
    words = [sys.executable, "-"] if kind == "python" else ["bash", "-e", "-"]
    done = subprocess.run(words, input=text, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, text + done.stdout + done.stderr
    return done.stdout


def require_same(shown: str, printed: str) -> None:
    shown, printed = (CHANGING.sub("~", text) for text in (shown, printed))
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split(), f"shown:\n{shown}\nprinted:\n{printed}"
    for expected, found in zip(NUMBER.findall(shown), NUMBER.findall(printed)):
        expected, found = (float(text.replace(",", "")) for text in (expected, found))
        assert found == pytest.approx(expected, abs=TOLERANCE), f"shown:\n{shown}\nprinted:\n{printed}"


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> Iterator[dict[str, str]]:
    """A database without a password, and the command on the path."""
    from postgres_server import server

    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/kedge-migrate"
    command.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kedge.migrate \"$@\"\n")
    command.chmod(0o755)
    package = str(pathlib.Path(kedge.__file__).resolve().parents[1])
    with server() as address:
        host = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["host"][0]
        yield {**os.environ, "PGHOST": host, "PGUSER": "postgres", "PYTHONPATH": package, "OMP_NUM_THREADS": "1",
               "PATH": f"{tmp_path / 'bin'}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}


@pytest.mark.parametrize(("guide", "outputs"), [("change-model", 9), ("stores", 2)])
def test_a_guide_prints_what_it_shows(guide: str, outputs: int, tmp_path: pathlib.Path,
                                      environment: dict[str, str]) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "data").symlink_to(ROOT / "data", target_is_directory=True)
    found = blocks(guide)
    printed, shows = "", 0
    for kind, text in found:
        if kind == "text":
            require_same(text, printed)
            printed, shows = "", shows + 1
        else:
            assert not printed.strip(), f"the guide does not show what this prints:\n{printed}"
            printed = run_block(kind, text, folder, environment)
    assert shows == outputs and not printed.strip()
