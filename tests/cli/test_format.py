# SPDX-License-Identifier: Apache-2.0
"""The promise of the format: what version 1 wrote, every later version reads, and makes the same of it."""
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, Kedge
from tally import Tally

V1 = ROOT / "tests" / "data" / "v1"
SPACES = {"vit.base": "a.npy", "org/b": "b.npy", "c": "c.npy"}
BUNDLES = sorted(path.stem for path in V1.glob("*.kedge"))
KINDS = {"param", "param-ridge", "consensus", "kmeans-cosine", "fps-euclidean", "random-inner", "cca", "procrustes"}
SECTION = "Bundles of format 1"


def require_same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_all_kinds_are_there_and_as_they_were() -> None:
    assert set(BUNDLES) >= KINDS
    listed = [line.split() for line in (V1 / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in listed}
    files = {path.name for path in V1.iterdir()} - {"README.md", "SHA256SUMS"}
    assert files == set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((V1 / name).read_bytes()).hexdigest() == digest, f"{name} was written again"


@pytest.mark.parametrize("name", BUNDLES)
def test_transform_gives_what_it_gave(kedge: Kedge, tally: Tally, name: str) -> None:
    found = []
    for space, rows in SPACES.items():
        kedge.ok("transform", V1 / f"{name}.kedge", "--space", space, "-i", V1 / rows, "-o", "rr.npy")
        found.append(np.load(kedge.folder / "rr.npy"))
    require_same(np.concatenate(found), np.load(V1 / f"{name}.rr.npy"))
    tally(SECTION, name, "transform gives what it gave")


@pytest.mark.parametrize("name", [name for name in BUNDLES if (V1 / f"{name}.translated.npy").exists()])
def test_translate_gives_what_it_gave(kedge: Kedge, tally: Tally, name: str) -> None:
    found = []
    for space, rows in SPACES.items():
        kedge.ok("translate", V1 / f"{name}.kedge", "--from", space, "--to", "vit.base", "-i", V1 / rows, "-o", "x.npy")
        found.append(np.load(kedge.folder / "x.npy"))
    require_same(np.concatenate(found), np.load(V1 / f"{name}.translated.npy"))
    tally(SECTION, name, "translate gives what it gave")


@pytest.mark.parametrize("name", BUNDLES)
def test_old_bundles_can_be_looked_at_and_extended(kedge: Kedge, tally: Tally, name: str) -> None:
    shown = kedge.json("inspect", V1 / f"{name}.kedge")
    assert [space["name"]
            for space in shown["spaces"]] == list(SPACES) and shown["anchors"] == 4 and shown["support"] == 20
    kedge.ok("attach", V1 / f"{name}.kedge", "--space", f"d={V1 / 'c.npy'}", "-o", "more.kedge")
    kedge.ok("transform", "more.kedge", "--space", "d", "-i", V1 / "c.npy", "-o", "rr.npy")
    expected = np.load(V1 / f"{name}.rr.npy")[-32:]  # of c, which was attached from the same rows
    np.testing.assert_allclose(np.load(kedge.folder / "rr.npy"), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    tally(SECTION, name, "attach makes the map it made")


def test_old_results_are_gone_on_with(kedge: Kedge, tally: Tally) -> None:
    (kedge.folder / "out").mkdir()
    shutil.copy(V1 / "results.json", kedge.folder / "out")
    spaces = [word for space, rows in SPACES.items() for word in ("--space", f"{space}={V1 / rows}")]
    old = json.loads((V1 / "results.json").read_text())
    assert len(old["records"]) > 0
    # Without a report nothing is missing; with one the figures are, for which every method is fitted again.
    for report, runs_again in (["--no-report"], False), ([], True):
        done = kedge.ok("stitch", *spaces, *STITCH, *report, "--json", "-o", "out")
        assert json.loads(done.stdout)["records"] == len(old["records"])
        kept = json.loads((kedge.folder / "out" / "results.json").read_text())
        known = [{key: record[key] for key in before} for record, before in zip(kept["records"], old["records"])]
        assert known == old["records"] and kept["runs"] == old["runs"]
        assert ("consensus on" in done.stderr) == runs_again
    drawn = json.loads((kedge.folder / "out" / "figures.json").read_text())
    assert {panel["method"] for panel in drawn["relative"]} == {"random-cosine", "consensus"}
    tally(SECTION, "results.json", "stitch goes on with it")


def test_stitch_measures_what_it_measured(kedge: Kedge) -> None:
    """To what float32 sums on another processor may differ by; ranks, which jump, are left to the tests of metrics."""
    spaces = [word for space, rows in SPACES.items() for word in ("--space", f"{space}={V1 / rows}")]
    kedge.ok("stitch", *spaces, *STITCH, "--no-report", "-o", "out")
    found = json.loads((kedge.folder / "out" / "results.json").read_text())["records"]
    expected = json.loads((V1 / "results.json").read_text())["records"]
    named = ("method", "encoder", "trained_on", "seed", "anchors", "support", "shrinkage", "zero_shot")
    assert [[r[key] for key in named] for r in found] == [[r[key] for key in named] for r in expected]
    for ours, theirs in zip(found, expected):
        # The file's consensus has a column of zeros, for an anchor that its sources do not share: spreads over all
        # values know it, and cosines do not.
        spreads = () if ours["method"] == "consensus" else ("rr_std", "nmse")
        for key in (*spreads, "paired_cosine", "linear_cka"):
            assert ours[key] == (theirs[key] if theirs[key] is None else pytest.approx(theirs[key], rel=1e-5)), (key,
                                                                                                                 theirs)


STITCH = ("--train", "0:24", "--test", "24:32", "--methods", "random-cosine,consensus", "--anchors", 4, "--support", 20,
          "--head-epochs", 9)


def test_the_script_writes_over_nothing(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "v1"
    shutil.copytree(V1, folder)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    subprocess.run([sys.executable, ROOT / "scripts" / "make-v1-data", "/bin/false", folder], check=True,
                   capture_output=True)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before
