# SPDX-License-Identifier: Apache-2.0
"""Python and the command are two doors to one house: same options, same defaults, same bits."""
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import kedge
import numpy as np
import pandas as pd
import pytest
from kedge import _core

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLM = ROOT / "data" / "slm"
FILES = {"smollm2": SLM / "smollm2-135m.npy", "minilm": SLM / "minilm-l6.npy"}
UNSEEN = SLM / "use-multilingual.npy"


def command(*arguments: object, folder: str | pathlib.Path = ".") -> str:
    done = subprocess.run([os.environ["KEDGE"], *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(options: dict[str, Any]) -> list[Any]:
    """Keyword arguments as the command takes them."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]


CASES = {
    "consensus": {"method": "consensus", "anchors": 60, "support": 500},
    "nothing said": {"anchors": 60, "support": 500},
    "param": {"method": "param", "anchors": 40, "support": 300, "epochs": 2, "seed": 7, "lr": 0.05},
    "ridge": {"method": "param", "anchors": 40, "support": 700, "epochs": 1, "attach": "ridge", "ridge": 0.1},
    "kmeans": {"method": "kmeans", "similarity": "cosine", "anchors": 20, "support": 200},
    "shrinkage": {"method": "random", "anchors": 20, "support": 100, "shrinkage": "oas", "keep": 1},
}


@pytest.mark.long
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_fit_and_attach_write_the_same_bytes(options: dict[str, Any], tmp_path: pathlib.Path) -> None:
    spaces = [word for name, file in FILES.items() for word in ("--space", f"{name}={file}")]
    command("fit", *spaces, "--rows", "0:2000", *flags(options), "-o", tmp_path / "command.kedge", "--quiet")
    command("attach", tmp_path / "command.kedge", "--space", f"use={UNSEEN}", "--rows", ":2500", "-o",
            tmp_path / "command.kedge", "--quiet")
    bundle = kedge.fit({name: np.load(file) for name, file in FILES.items()}, rows=slice(0, 2000), **options)
    assert bundle.method == options.get("method", "consensus")
    bundle.attach("use", np.load(UNSEEN), rows=(0, 2500))
    bundle.save(tmp_path / "python.kedge")
    assert (tmp_path / "python.kedge").read_bytes() == (tmp_path / "command.kedge").read_bytes()


def test_files_and_arrays_of_any_kind_give_the_same_bundle(tmp_path: pathlib.Path) -> None:
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
    options: dict[str, Any] = {"method": "consensus", "anchors": 30, "support": 400, "rows": slice(100, 1100)}
    expected = kedge.fit(arrays, **options)
    for kind, spaces in kinds.items():
        bundle = kedge.fit(spaces, **options)
        for name in FILES:
            assert np.array_equal(bundle[name].weight, expected[name].weight), kind


@pytest.mark.parametrize("kind", ["?", "u1", "i1", "<i2", ">u2", "<i4", ">u4", "<i8", "<u8"])
def test_integers_are_taken_alike(kind: str, tmp_path: pathlib.Path) -> None:
    """However wide: 64 bits hold numbers that neither float has."""
    wide = np.random.default_rng(0).integers(-2**63, 2**63, (60, 5))
    rows = {name: whole > 0 if kind == "?" else whole.astype(kind) for name,
            whole in (("a", wide >> 3), ("b", -wide >> 1))}
    for name in rows:
        np.save(tmp_path / f"{name}.npy", rows[name])
    command("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "random", "--anchors", 4, "--support", 20,
            "-o", "command.kedge", "--quiet", folder=tmp_path)
    command("transform", "command.kedge", "--space", "a", "-i", "a.npy", "-o", "rr.npy", "--quiet", folder=tmp_path)
    bundle = kedge.fit(rows, method="random", anchors=4, support=20)
    bundle.save(tmp_path / "python.kedge")
    assert (tmp_path / "python.kedge").read_bytes() == (tmp_path / "command.kedge").read_bytes()
    assert np.array_equal(bundle["a"].transform(rows["a"]), np.load(tmp_path / "rr.npy"))


def test_compare_gives_the_commands_numbers(tmp_path: pathlib.Path) -> None:
    a, b = (np.load(file)[:300, :200] for file in FILES.values())
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    said = json.loads(command("compare", tmp_path / "a.npy", tmp_path / "b.npy", "--recall-at", "1,3", "--neighbors", 5,
                              "--json"))
    found = kedge.compare(a, b, recall_at=[1, 3], neighbors=5)
    assert list(found) == list(said)
    assert found == pytest.approx(said, rel=1e-6)


@pytest.mark.long
def test_stitch_gives_the_commands_table(tmp_path: pathlib.Path) -> None:
    files = {**FILES, "use": UNSEEN}
    options: dict[str, Any] = {"anchors": 20, "support": 200, "head": "linear"}
    spaces = [word for name, file in files.items() for word in ("--space", f"{name}={file}")]
    labels = SLM / "labels_action.npy"
    methods = ["absolute", "random-cosine", "consensus"]
    command("stitch", *spaces, "--labels", labels, "--train", "0:600", "--test", "3000:3300", "--methods",
            ",".join(methods), "--seeds", 2, *flags(options), "--no-report", "-o", tmp_path / "command", "--quiet")
    table = kedge.stitch({name: np.load(file) for name, file in files.items()}, labels=np.load(labels),
                         train=slice(600), test=slice(3000, 3300), methods=methods, seeds=2, out=tmp_path / "python",
                         report=False, **options)
    assert (tmp_path / "python/results.csv").read_bytes() == (tmp_path / "command/results.csv").read_bytes()
    said = pd.read_csv(tmp_path / "command" / "results.csv")
    assert list(table) == list(said)
    pd.testing.assert_frame_equal(table, said, check_dtype=False)


def options_in(text: str) -> dict[str, Any]:
    """Name -> default of every option in a command's help; None if it shows none."""
    found = {}
    for line in text.splitlines():
        # A type may have a range, as in N:UINT in [1 - 10000]=1.
        if option := re.match(r"\s+(?:-\w,)?--([a-z0-9-]+)(?: (\S+(?: in \[[^\]]*\]\S*)?))?", line):
            shown = re.search(r"=(?P<value>[^=\s]+)$", option[2] or "")
            found[option[1].replace("-", "_")] = shown and shown["value"]
    return found


def options_of_the_command(name: str) -> dict[str, Any]:
    return options_in(command(name, "--help"))


def is_said(value: Any, said: str) -> bool:
    """Whether a default is the one that the command shows; what it shows none of is not set, or a flag."""
    if said is None:
        return value in (None, False, (), inspect.Parameter.empty)
    if isinstance(value, (list, tuple)):
        words = said.strip("[]").split(",")
        return len(words) == len(value) and all(map(is_said, value, words))
    try:
        return float(value) == float(said)
    except ValueError:
        return str(value) == said


# What only one of the two has a use for.
COMMAND_ONLY = {"help", "space", "out", "json", "quiet", "threads", "config", "history", "validate", "no_report",
                "rows_file", "train_file", "test_file", "scores", "at_least"}
PYTHON_ONLY = {"self", "name", "X", "A", "B", "spaces", "progress", "out", "report", "first", "second", "each"}
FUNCTIONS: dict[str, Any] = {"fit": kedge.fit, "stitch": kedge.stitch, "sweep": kedge.sweep, "compare": kedge.compare,
             "match": kedge.match, "retrieve": kedge.retrieve, "attach": kedge.Bundle.attach}


def parameters_of(function: Any) -> dict[str, Any]:
    """Name -> default, of a function with a signature, or of a compiled one, which nanobind has noted it of."""
    if not hasattr(function, "__nb_signature__"):
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}
    (text, _, defaults), = function.__nb_signature__
    found = dict.fromkeys(re.findall(r"(\w+): ", text), inspect.Parameter.empty)
    found.update((name, defaults[int(place)]) for name, place in re.findall(r"(\w+): [^=,]+ = \\(\d+)", text))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_command_and_python_have_the_same_options(name: str) -> None:
    said = {option for option in options_of_the_command(name) if option not in COMMAND_ONLY}
    found = {option for option in parameters_of(FUNCTIONS[name]) if option not in PYTHON_ONLY}
    assert found == said


@pytest.mark.parametrize("name, least", [("fit", 25), ("stitch", 30), ("sweep", 30), ("attach", 2), ("compare", 3),
                                         ("retrieve", 3), ("match", 2)])
def test_their_defaults_are_the_same(name: str, least: int) -> None:
    found = parameters_of(FUNCTIONS[name])
    fit = {option["name"]: option["default"] for option in _core.fit_options()}
    shown = 0
    for option, said in options_of_the_command(name).items():
        if option in COMMAND_ONLY:
            continue
        value = found[option]
        if name == "sweep" and value == () and said is not None:
            value = [fit[option]]  # an axis that is not swept keeps the value of fit
        assert is_said(value, said), f"{option} is {value!r}, and the command says {said}"
        shown += said is not None
    assert shown >= least


@pytest.mark.parametrize("name, table", [("attach", _core.attach_options()), ("match", _core.match_options()),
                                         ("compare", _core.compare_options()),
                                         ("retrieve", _core.retrieve_options())])
def test_compiled_signatures_have_the_tables_defaults(name: str, table: list[dict[str, Any]]) -> None:
    found = parameters_of(FUNCTIONS[name])
    assert {option["name"]: found[option["name"]] for option in table} == {
        option["name"]: option["default"] for option in table}


# What a command leaves out of a table, since it has lists in their place or no use for it.
LEFT_OUT = {"method", "similarity", "keep", "seed", "attach", "checkpoint", "checkpoint_every", "resume", "keep_rows"}
TABLES = {"fit": (_core.fit_options(), ()), "attach": (_core.attach_options(), ()),
          "match": (_core.match_options(), ()),
          "compare": (_core.compare_options(), ()), "retrieve": (_core.retrieve_options(), ()),
          "stitch": ([*_core.fit_options(), *_core.head_options()], LEFT_OUT)}


@pytest.mark.parametrize("name", TABLES)
def test_the_documents_have_every_option_with_its_default(name: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    shown, = (options_in(block) for block in re.findall(r"^```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
              if f"Usage: kedge {name} " in block)
    table, left_out = TABLES[name]
    for option in table:
        if option["name"] not in left_out:
            said = shown[option["name"]]
            assert is_said(option["default"], said), (option["name"], option["default"], said)


def test_help_names_every_option() -> None:
    for option in _core.fit_options():
        assert f"\n{option['name']} : " in (kedge.fit.__doc__ or "")
    for option in _core.head_options():
        assert f"\n{option['name']} : " in (kedge.stitch.__doc__ or "")


@pytest.mark.parametrize("what, file", [("options", "_types.py"), ("module", "_core.pyi")])
def test_type_checkers_know_the_same(what: str, file: str) -> None:
    script = ROOT / "scripts" / "make-python-types"
    written = subprocess.run([sys.executable, script, what], capture_output=True, text=True, check=True)
    assert written.stdout == (ROOT / "python" / "kedge" / file).read_text(), "run 'make docs'"


def test_the_version_is_cmakes() -> None:
    said = re.search(r"project\(kedge VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert said is not None and kedge.__version__ == said[1]
    assert command("--version").split()[-1] == said[1]
