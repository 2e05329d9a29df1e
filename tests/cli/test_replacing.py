# SPDX-License-Identifier: Apache-2.0
"""No result replaces an input unless it was asked for, and bundles and exports replace only their own kind."""
import os

import numpy as np
import pytest
from conftest import Kedge

COMMANDS = {"transform": ["transform", "x.kedge", "--space", "a"],
            "translate": ["translate", "x.kedge", "--from", "a", "--to", "b"]}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["a.npy", "./a.npy", "hard.npy", "soft.npy"])
def test_rows_are_not_replaced_unasked(kedge: Kedge, bundle: str, command: str, name: str) -> None:
    os.link(kedge.folder / "a.npy", kedge.folder / "hard.npy")
    (kedge.folder / "soft.npy").symlink_to("a.npy")
    kedge.refused(2, *COMMANDS[command], "-i", "a.npy", "-o", name, says=[f"'{name}' is an input", "--in-place"])


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_are_replaced_where_that_is_asked_for(kedge: Kedge, bundle: str, command: str) -> None:
    kedge.ok(*COMMANDS[command], "-i", "a.npy", "-o", "apart.npy")
    kedge.ok(*COMMANDS[command], "-i", "a.npy", "-o", "a.npy", "--in-place")
    assert (kedge.folder / "a.npy").read_bytes() == (kedge.folder / "apart.npy").read_bytes()
    kedge.refused(2, *COMMANDS[command], "-i", "apart.npy", "-o", "x.kedge", "--in-place", says="'x.kedge' is an input")


def test_a_bundle_replaces_bundles_only(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    fit = ["fit", *spaces, "--anchors", 5, "--method", "random", "-o"]
    kedge.ok(*fit, bundle)
    (kedge.folder / "empty").touch()
    kedge.ok(*fit, "empty")
    (kedge.folder / "notes.toml").write_text("anchors = 5\n")
    kedge.refused(2, *fit, "notes.toml",
                  says=["'notes.toml' is there already and is not a bundle", "name another file"])
    kedge.refused(2, "attach", bundle, "--space", "c=a.npy", "-o", "b.npy", says="not a bundle")


@pytest.mark.parametrize("name", ["m.onnx", "m.safetensors", "m.npy"])
def test_an_export_replaces_its_own_kind_only(kedge: Kedge, bundle: str, name: str) -> None:
    export = ["export", bundle, "--space", "a", "-o", name]
    first = kedge.json(*export)["files"]
    kedge.ok(*export)
    for file in first:
        np.save(kedge.folder / "rows.npy", np.ones((7, 3), np.float32))
        os.replace(kedge.folder / "rows.npy", kedge.folder / file)
    kedge.refused(2, *export, says=["is there already", "name another file"])
