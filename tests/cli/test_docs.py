# SPDX-License-Identifier: Apache-2.0
"""The documents say what the code does."""
import os
import pathlib
import re
import subprocess

import pytest
from conftest import ROOT, Kedge
from sanitized import SANITIZED


def test_cli_docs_are_the_commands_own_help(kedge: Kedge) -> None:
    completed = subprocess.run([ROOT / "scripts" / "make-cli-docs", kedge.program], capture_output=True, text=True,
                          check=True)
    assert completed.stdout == (ROOT / "docs" / "cli.md").read_text(), "run 'make docs'"


def test_the_readme_example_runs_and_prints_what_it_says(kedge: Kedge) -> None:
    readme = (ROOT / "README.md").read_text()
    commands, = re.findall(r"```sh\n(kedge fit.*?)```", readme, re.S)[:1]
    printed, = re.findall(r"prints\n```\n(.*?)```", readme, re.S)[:1]
    (kedge.folder / "data").symlink_to(ROOT / "data")
    script = f'kedge() {{ "{kedge.program}" "$@"; }}\nset -e\n{commands}'
    done = subprocess.run(["bash", "-c", script], cwd=kedge.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Numbers may differ in the last digits from machine to machine; names and order may not.
    for line, wanted in zip(done.stdout.strip().splitlines(), printed.strip().splitlines(), strict=True):
        assert line.split()[0] == wanted.split()[0]
        value, expected = float(line.split()[1]), float(wanted.split()[1])
        assert abs(value - expected) <= 0.02 * max(1, abs(expected)), (line, wanted)


@pytest.mark.skipif(SANITIZED, reason="a plain Python cannot import a module with a sanitizer in it")
def test_the_environment_of_the_readme_imports_what_make_built(tmp_path: pathlib.Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([ROOT / ".venv" / "bin" / "python", "-c", "import kedge; kedge.fit; print(kedge.__file__)"],
                          cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{ROOT}/build/")


def test_every_folder_of_the_source_is_in_the_tour() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text()
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        assert f"src/{folder}" in tour, folder
