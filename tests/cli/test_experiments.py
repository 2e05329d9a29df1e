# SPDX-License-Identifier: Apache-2.0
"""The settings in experiments/: kedge knows every word of them, and the smallest experiment shows what it is for."""
import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tomllib
from conftest import ROOT, Kedge

EXPERIMENTS = ROOT / "experiments"
CONFIGS = sorted(EXPERIMENTS.glob("*.toml"))
SWEPT = ("anchors", "support", "shrinkage", "similarity")


def command_of(config: pathlib.Path) -> str:
    """The first line says how the file is run."""
    said = re.fullmatch(r"# kedge (stitch|sweep) --config experiments/(\w+\.toml)", config.read_text().splitlines()[0])
    assert said and said[2] == config.name, "the first line of the file is not its command"
    return said[1]


def test_there_is_one_for_each_table_and_figure() -> None:
    assert len(CONFIGS) == 13


@pytest.fixture(params=CONFIGS, ids=lambda config: config.stem)
def config(request: pytest.FixtureRequest) -> pathlib.Path:
    param: pathlib.Path = request.param
    return param


def test_every_key_is_an_option(kedge: Kedge, config: pathlib.Path) -> None:
    command, settings = command_of(config), tomllib.loads(config.read_text())
    known = re.findall(r"^\s+(?:-\w,)?--([a-z0-9-]+)", kedge.ok(command, "--help").stdout, re.MULTILINE)
    assert set(settings) <= set(known)
    assert {"space", "train", "test", "methods", "anchors", "out"} <= set(settings)
    for key, value in settings.items():
        if key in SWEPT:
            assert isinstance(value, list) == (command == "sweep"), key
    assert settings["out"] == f"out/{config.stem}", "experiments must not overwrite each other"


def test_kedge_reads_it(kedge: Kedge, config: pathlib.Path) -> None:
    """In an empty folder the first thing that is wrong is the first file, so every option before it was understood."""
    first = tomllib.loads(config.read_text())["space"][0].split("=", 1)[1]
    kedge.refused(3, command_of(config), "--config", config, says=first)


def test_the_readme_names_it(config: pathlib.Path) -> None:
    readme = (EXPERIMENTS / "README.md").read_text()
    assert f"kedge {command_of(config)} --config experiments/{config.name}" in readme


def test_shipped_rows_are_all_used() -> None:
    settings = tomllib.loads((EXPERIMENTS / "slm.toml").read_text())
    train, test = (tuple(map(int, settings[part].split(":"))) for part in ("train", "test"))
    assert train[1] == test[0] and settings["support"] == train[1] - train[0]
    for space in settings["space"]:
        assert len(np.load(ROOT / space.split("=", 1)[1])) == test[1]


def test_geometry_shows_that_only_wip_sees_through_the_deformation(kedge: Kedge) -> None:
    subprocess.run([sys.executable, EXPERIMENTS / "geometry" / "make_spaces.py"], cwd=kedge.folder, check=True)
    config = EXPERIMENTS / "geometry.toml"
    kedge.ok("stitch", "--config", config, "--seeds", 1, "--head-epochs", 3, "--no-report", "--quiet")
    records = json.loads((kedge.folder / "out/geometry/results.json").read_text())["records"]
    assert {record["method"] for record in records} == set(tomllib.loads(config.read_text())["methods"])
    cosines: dict[str, list[float]] = {}
    for record in records:
        if record["zero_shot"]:
            cosines.setdefault(record["method"], []).append(record["paired_cosine"])
    assert {len(values) for values in cosines.values()} == {6}, "two sources for each of three spaces"
    assert min(cosines["random-wip"]) > 0.999
    for method in ("random-cosine", "random-inner"):
        assert np.mean(cosines[method]) < 0.8
