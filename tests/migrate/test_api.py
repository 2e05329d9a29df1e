# SPDX-License-Identifier: Apache-2.0
"""A migration in Python: what the command does, without the command."""
import inspect
import json
import pathlib
import stat
import subprocess
import sys

import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import __main__ as command
from kedge.migrate.stores.scores import unit
from made_up import ROWS, spaces
from require import require_near
from steps import begin, run


def test_every_step_is_a_method(folder: pathlib.Path) -> None:
    _, new = spaces()
    heard: list[tuple[str, int, int]] = []

    def listen(step: str, done: int, total: int, detail: str) -> None:
        heard.append((step.split()[-1], done, total))

    with migrate.Migration.begin(store="npy:docs.npy", texts="texts.txt", embed="models:new", sample=120) as one:
        found = {"plan": one.plan(progress=listen), "sample": one.sample(progress=listen), "fit": one.fit(),
                 "check": one.check(), "apply": one.apply(progress=listen), "verify": one.verify(rows=50),
                 "cutover": one.cutover(yes=True), "top_up": one.top_up(progress=listen)}
        assert found["plan"]["rows"] == ROWS and found["sample"]["embedded"] == 120
        assert found["verify"]["whole"] and found["top_up"]["share"] == 1
        require_near(np.load("docs.npy"), unit(new), 1e-6)
        assert one.status()["next"] == "finish"
        json.dumps(found)
        assert one.rollback(yes=True)["switched_back"]
        assert pathlib.Path(one.report()["file"]).exists()
    for step, total in (("plan", ROWS), ("sample", 120), ("apply", ROWS), ("top-up", ROWS - 120)):
        assert [(done, of) for name, done, of in heard if name == step][-1] == (total, total), step


def test_a_method_takes_what_its_command_takes() -> None:
    for name in command.COMMANDS:
        parameters = set(inspect.signature(getattr(migrate.Migration, name.replace("-", "_"))).parameters)
        words = [name, "--store", "x"] if name == "plan" else [name]
        options = set(vars(command.arguments(words)))
        assert parameters - {"self", "progress"} <= options, name
        if name != "plan":
            assert options - {"command", "config", "json", "quiet"} <= parameters, name


def test_without_a_listener_nothing_is_shown(folder: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    with migrate.Migration() as one:
        one.sample()
    assert capfd.readouterr() == ("", "")


def test_wrong_settings_are_sentences(folder: pathlib.Path) -> None:
    with pytest.raises(migrate.UsageError, match="no such setting.*colour"):
        migrate.Migration.begin(store="npy:docs.npy", colour="red")
    with pytest.raises(migrate.UsageError, match="address of its store"):
        migrate.Migration.begin(sample=20)
    begin()
    with pytest.raises(migrate.UsageError, match="there already"):
        migrate.Migration.begin(store="npy:docs.npy")


def test_a_plan_that_fails_leaves_nothing_in_the_way(folder: pathlib.Path) -> None:
    assert run("plan", "-q", "--store", "npy:absent.npy") != 0
    assert not list(folder.glob("migrate.*"))
    begin()
    (folder / "docs.npy").rename(folder / "away.npy")
    assert run("plan", "-q") != 0
    assert (folder / "migrate.toml").exists() and (folder / "migrate.journal").exists()


def test_a_config_is_for_its_owner_alone(folder: pathlib.Path) -> None:
    begin()
    assert stat.S_IMODE((folder / "migrate.toml").stat().st_mode) == 0o600


def test_a_reader_that_has_seen_enough_is_no_error(folder: pathlib.Path) -> None:
    begin()
    words = [sys.executable, "-m", "kedge.migrate", "status"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.close()  # before a word is written
    assert (process.wait(), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_store_of_another_package_is_found_by_its_entry_point(tmp_path: pathlib.Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("from kedge.migrate.stores.npy import NpyStore\n"
                                        "class Theirs(NpyStore):\n"
                                        "    pass\n")
    (tmp_path / "theirs-1.dist-info").mkdir()
    (tmp_path / "theirs-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (tmp_path / "theirs-1.dist-info/entry_points.txt").write_text("[kedge.stores]\ntheirs = theirs:Theirs\n"
                                                                  "lame = theirs_absent:Store\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(migrate.open_store("theirs:docs.npy")).__name__ == "Theirs"
    with pytest.raises(migrate.Error, match="lame:x: needs theirs_absent, which is not installed$"):
        migrate.open_store("lame:x")
    with pytest.raises(migrate.UsageError, match="npy:, .*theirs:"):
        migrate.open_store("unknown:x")
