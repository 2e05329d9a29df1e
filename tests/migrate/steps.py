# SPDX-License-Identifier: Apache-2.0
"""The steps of a small migration of a .npy file, run as the command runs them."""
import json
from typing import Any

import pytest
from kedge.migrate import __main__ as command


def run(*words: object) -> int:
    return command.main([str(word) for word in words])


def begin(*settings: object) -> None:
    assert run("plan", "-q", "--store", "npy:docs.npy", "--texts", "texts.txt", "--sample", 120, *settings) == 0


def until(last: str, *settings: object) -> None:
    """Runs the steps up to this one."""
    begin("--embed", "models:new", *settings)
    for step in ("sample", "fit", "check", "apply", "verify", "cutover"):
        assert run(step, "-q", *(["--yes"] if step == "cutover" else [])) == 0
        if step == last:
            return


def facts(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
