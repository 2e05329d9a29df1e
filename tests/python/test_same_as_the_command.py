# SPDX-License-Identifier: Apache-2.0
"""Python and the command are two doors to one house: same options, same defaults, same bits."""
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kedge
from kedge import _core

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLM = ROOT / "data" / "slm"
FILES = {"smollm2": SLM / "smollm2-135m.npy", "minilm": SLM / "minilm-l6.npy"}
UNSEEN = SLM / "use-multilingual.npy"


def command(*arguments, folder="."):
    done = subprocess.run([os.environ["KEDGE"], *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(options):
    """Keyword arguments as the command takes them."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]


CASES = {
    "consensus": dict(method="consensus", anchors=60, support=500),
    "param": dict(anchors=40, support=300, epochs=2, seed=7, lr=0.05),
    "ridge": dict(anchors=40, support=700, epochs=1, attach="ridge", ridge=0.1),
    "kmeans": dict(method="kmeans", similarity="cosine", anchors=20, support=200),
    "shrinkage": dict(method="random", anchors=20, support=100, shrinkage="oas", keep=1),
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_fit_and_attach_write_the_same_bytes(options, tmp_path):
    spaces = [word for name, file in FILES.items() for word in ("--space", f"{name}={file}")]
    command("fit", *spaces, "--rows", "0:2000", *flags(options), "-o", tmp_path / "command.kedge", "--quiet")
    command("attach", tmp_path / "command.kedge", "--space", f"use={UNSEEN}", "--rows", ":2500", "-o",
            tmp_path / "command.kedge", "--quiet")
    bundle = kedge.fit({name: np.load(file) for name, file in FILES.items()}, rows=slice(0, 2000), **options)
    bundle.attach("use", np.load(UNSEEN), rows=(0, 2500))
    bundle.save(tmp_path / "python.kedge")
    assert (tmp_path / "python.kedge").read_bytes() == (tmp_path / "command.kedge").read_bytes()


def test_files_and_arrays_of_any_kind_give_the_same_bundle(tmp_path):
    arrays = {name: np.load(file) for name, file in FILES.items()}
    kinds = {
        "paths": {name: str(file) for name, file in FILES.items()},
        "pathlib": FILES,
        "float32": {name: rows.astype(np.float32) for name, rows in arrays.items()},
        "float64": {name: rows.astype(np.float64) for name, rows in arrays.items()},
        "fortran": {name: np.asfortranarray(rows) for name, rows in arrays.items()},
        "strided": {name: np.repeat(np.repeat(rows, 2, 0), 3, 1)[::2, ::3] for name, rows in arrays.items()},
        "swapped": {name: rows.astype(">f4") for name, rows in arrays.items()},
    }
    options = dict(method="consensus", anchors=30, support=400, rows=slice(100, 1100))
    expected = kedge.fit(arrays, **options)
    for kind, spaces in kinds.items():
        bundle = kedge.fit(spaces, **options)
        for name in FILES:
            assert np.array_equal(bundle[name].weight, expected[name].weight), kind


def test_compare_gives_the_commands_numbers(tmp_path):
    a, b = (np.load(file)[:300, :200] for file in FILES.values())
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = json.loads(command("compare", tmp_path / "a.npy", tmp_path / "b.npy", "--recall-at", "1,3", "--neighbors", 5,
                              "--json"))
    found = kedge.compare(a, b, recall_at=[1, 3], neighbors=5)
    assert list(found) == list(said)
    assert found == pytest.approx(said, rel=1e-6)


def test_stitch_gives_the_commands_table(tmp_path):
    files = {**FILES, "use": UNSEEN}
    options = dict(anchors=20, support=200, head="linear")
    spaces = [word for name, file in files.items() for word in ("--space", f"{name}={file}")]
    labels = SLM / "labels_action.npy"
    methods = ["absolute", "random-cosine", "consensus"]
    command("stitch", *spaces, "--labels", labels, "--train", "0:600", "--test", "3000:3300", "--methods",
            ",".join(methods), "--seeds", 2, *flags(options), "--no-report", "-o", tmp_path / "command", "--quiet")
    table = kedge.stitch({name: np.load(file) for name, file in files.items()}, labels=np.load(labels), train=slice(600),
                         test=slice(3000, 3300), methods=methods, seeds=2, out=tmp_path / "python", report=False, **options)
    assert (tmp_path / "python/results.csv").read_bytes() == (tmp_path / "command/results.csv").read_bytes()
    said = pd.read_csv(tmp_path / "command" / "results.csv")
    assert list(table) == list(said)
    pd.testing.assert_frame_equal(table, said, check_dtype=False)


def options_of_the_command(name):
    """Name -> default of every option, as the command's help has them; None where it shows none."""
    found = {}
    for line in command(name, "--help").splitlines():
        if option := re.match(r"\s+(?:-\w,)?--([a-z0-9-]+)(?: (\S+))?", line):
            shown = re.search(r"=(?P<value>[^=\s]+)$", option[2] or "")
            found[option[1].replace("-", "_")] = shown and shown["value"]
    return found


# What only one of the two has a use for.
COMMAND_ONLY = {"help", "space", "out", "json", "quiet", "threads", "config", "history", "validate", "no_report"}
PYTHON_ONLY = {"self", "name", "X", "A", "B", "spaces", "progress", "out", "report"}
FUNCTIONS = {"fit": kedge.fit, "stitch": kedge.stitch, "sweep": kedge.sweep, "compare": kedge.compare,
             "attach": kedge.Bundle.attach}


def parameters_of(function):
    """Of a function with a signature, or of a compiled one, whose signature is the first line of its help."""
    try:
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}
    except ValueError:
        line = function.__doc__.splitlines()[0]
        return dict.fromkeys(re.findall(r"(\w+):", line))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_command_and_python_have_the_same_options(name):
    said = {option for option in options_of_the_command(name) if option not in COMMAND_ONLY}
    found = {option for option in parameters_of(FUNCTIONS[name]) if option not in PYTHON_ONLY}
    assert found == said


@pytest.mark.parametrize("name", ["fit", "stitch"])
def test_their_defaults_are_the_same(name):
    found = parameters_of(FUNCTIONS[name])
    checked = 0
    for option, said in options_of_the_command(name).items():
        if said is None or option in COMMAND_ONLY or option in ("methods", "checkpoint"):
            continue
        value = found[option]
        assert str(value) == said or float(value) == float(said), option
        checked += 1
    assert checked > 20


def test_the_documents_name_every_option():
    page = (ROOT / "docs" / "cli.md").read_text()
    for option in [*_core.fit_options(), *_core.head_options(), *_core.attach_options(), *_core.compare_options()]:
        assert f"--{option['name'].replace('_', '-')}" in page
    for option in _core.fit_options():
        assert f"\n{option['name']} : " in kedge.fit.__doc__
    for option in _core.head_options():
        assert f"\n{option['name']} : " in kedge.stitch.__doc__


def test_editors_are_told_the_same_options():
    made = subprocess.run([sys.executable, ROOT / "scripts" / "make-python-types"], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "python" / "kedge" / "_types.py").read_text(), "run 'make docs'"


def test_the_version_is_cmakes():
    said = re.search(r"project\(kedge VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert kedge.__version__ == said
    assert command("--version").split()[-1] == said
