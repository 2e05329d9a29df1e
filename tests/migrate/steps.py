# SPDX-License-Identifier: Apache-2.0
"""A small migration of a .npy file, run as the command runs it."""
import json
import sys

import numpy as np
import pytest
from made_up import ROWS, models, spaces

from kedge import migrate
from kedge.migrate import __main__ as command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    old, new = spaces()
    np.save(tmp_path / "docs.npy", old)
    (tmp_path / "texts.txt").write_text("".join(f"{n}\n" for n in range(ROWS)))
    models(tmp_path, new)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("models", None)
    return tmp_path


def run(*words):
    return command.main([words[0], *map(str, words[1:])])


def begin(*settings):
    assert run("plan", "-q", "--store", "npy:docs.npy", "--texts", "texts.txt", "--sample", 120, *settings) == 0


def until(last, *settings):
    """Runs the steps up to this one."""
    begin("--embed", "models:new", *settings)
    for step in ("sample", "fit", "check", "apply", "verify", "cutover"):
        assert run(step, "-q", *(["--yes"] if step == "cutover" else [])) == 0
        if step == last:
            return


@pytest.fixture
def migration(folder):
    opened = []

    def open_it():
        opened.append(migrate.Migration())
        return opened[-1]
    yield open_it
    for one in opened:
        one.close()


def facts(capsys):
    return json.loads(capsys.readouterr().out)
