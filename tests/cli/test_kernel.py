# SPDX-License-Identifier: Apache-2.0
"""Maps by kernel from the shell: made, chosen, refused, translated through, exported and measured."""
import dataclasses
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import Kedge
from safetensors import safe_open
from safetensors.numpy import load_file

ROWS = 300


@pytest.fixture
def bent(kedge: Kedge) -> list[str]:
    """Three encoders of 300 directions in three dimensions, with noise; b and c bend them."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(ROWS, 3))
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    for name, dim in (("a", 6), ("b", 8), ("c", 5)):
        rows = hidden @ rng.normal(size=(3, dim)) + 0.1 * rng.normal(size=(ROWS, dim))
        np.save(kedge.folder / f"{name}.npy", (3 + (rows if name == "a" else np.tanh(2 * rows))).astype(np.float32))
    return ["--space", "a=a.npy", "--space", "b=b.npy", "--rows", "0:240"]


def near(found: np.ndarray, wanted: np.ndarray, share: float = 1e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=share * np.abs(wanted).max())


def metadata(path: pathlib.Path) -> dict[str, str]:
    with safe_open(path, "numpy") as file:
        found: dict[str, str] = file.metadata()
    return found


def through(kedge: Kedge, *command: object) -> np.ndarray:
    kedge.ok(*command, "-o", "out.npy")
    found: np.ndarray = np.load(kedge.folder / "out.npy")
    (kedge.folder / "out.npy").unlink()
    return found


def error(kedge: Kedge, bundle: str, source: str, target: str) -> float:
    """Of unseen rows, as a share of what varies."""
    result = through(kedge, "translate", bundle, "--from", source, "--to", target, "-i", f"{source}.npy", "--rows",
                   "240:300")
    true = np.load(kedge.folder / f"{target}.npy")[240:]
    return float(np.square(result - true).sum() / np.square(true - 3).sum())


def formula(arrays: dict[str, np.ndarray], x: np.ndarray, prefix: str = "") -> np.ndarray:
    """What docs/format.md says a map with a kernel computes, in float64."""
    part = {name[len(prefix):]: value.astype(np.float64) for name, value in arrays.items() if name.startswith(prefix)}
    f = x.astype(np.float64) - part["mean"]
    if "kernel_whitener" in part:
        f = f @ part["kernel_whitener"]
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    u = part["kernel_width"] * f @ part["kernel_rows"].T
    return f @ part["weight"].T + part["bias"] + (np.expm1(u) - u) @ part["kernel_coefficients"]


@pytest.mark.parametrize("method", ["consensus", "param", "random"])
def test_maps_are_made_by_kernel(kedge: Kedge, bent: list[str], method: str) -> None:
    few = ["--epochs", 2] if method == "param" else []
    done = kedge.ok("fit", *bent, "--method", method, "--anchors", 4, *few, "--attach", "kernel", "-o", "x.kedge")
    for name in "ab":
        assert f"'{name}' fits the anchors with a mean R^2 of" in done.stderr
    assert "(kernel of width" in done.stderr
    said = kedge.json("attach", "x.kedge", "--space", "c=c.npy", "-o", "x.kedge")  # as the others
    assert said["attach"] == "kernel" and 0.5 < said["r2"] < 1
    shown = kedge.json("inspect", "x.kedge")
    assert len(said["r2_per_output"]) == shown["anchors"] and (shown["anchors"] == 4 or method == "consensus")
    assert shown["attach"] == "kernel" and [space["attach"] for space in shown["spaces"]] == ["kernel"] * 3
    assert shown["spaces"][2]["kernel_width"] == said["kernel_width"] > 0
    table = kedge.ok("inspect", "x.kedge").stdout
    chosen = "g {kernel_width:g}, l {kernel_strength:g}, w {kernel_whitening:g}".format(**said)
    assert chosen in table and "g is its width, l its strength, w the whitening" in table
    heading, *rows = [line for line in table.splitlines() if " kernel " in line or "regression" in line]
    assert len(rows) == 3 and {len(row) for row in rows} == {len(heading)}  # every column under its heading
    for name in "abc":
        kedge.ok("transform", "x.kedge", "--space", name, "-i", f"{name}.npy", "--rows", "240:300", "-o",
                 f"rr-{name}.npy")
    if method == "consensus":
        assert kedge.json("compare", "rr-a.npy", "rr-c.npy")["mrr"] > 0.7


def test_the_map_is_the_formula_of_the_format(kedge: Kedge, bent: list[str]) -> None:
    said = kedge.json("fit", *bent, "--anchors", 4, "--attach", "kernel", "-o", "x.kedge")["spaces"]
    arrays, x = load_file(kedge.folder / "x.kedge"), np.load(kedge.folder / "b.npy")
    how = json.loads(metadata(kedge.folder / "x.kedge")["attached"])["b"]
    assert how["by"] == "kernel" and how["kernel"]["width"] == said[1]["kernel_width"]
    arrays["b.kernel_width"] = np.array(how["kernel"]["width"])
    found = through(kedge, "transform", "x.kedge", "--space", "b", "-i", "b.npy")
    near(found, formula(arrays, x, "b."))


def test_auto_prints_and_keeps_both_errors(kedge: Kedge, bent: list[str]) -> None:
    done = kedge.ok("fit", *bent, "--anchors", 4, "--attach", "auto", "-o", "x.kedge")
    assert "unexplained by generalised cross-validation, kernel" in done.stderr
    kedge.ok("attach", "x.kedge", "--space", "c=c.npy", "-o", "x.kedge")
    shown = kedge.json("inspect", "x.kedge")
    assert shown["attach"] == "auto" and len(shown["spaces"]) == 3
    for space in shown["spaces"]:
        assert space["attach"] == ("kernel" if space["kernel_error"] < space["ridge_error"] else "ridge")
    said = kedge.json("fit", *bent, "--anchors", 4, "--attach", "auto", "-o", "y.kedge")["spaces"]
    for printed, space in zip(said, shown["spaces"]):
        assert printed["ridge_error"] == space["ridge_error"] and printed["kernel_error"] == space["kernel_error"]
    text = kedge.ok("inspect", "x.kedge").stdout
    for space in shown["spaces"]:
        assert f"'{space['name']}' is attached by {space['attach']}" in text
        assert f"kernel {100 * space['kernel_error']:.1f} %" in text


def test_auto_takes_a_line_where_a_line_is_all_there_is(kedge: Kedge, spaces: list[str]) -> None:
    """Rows whose lengths matter: a kernel sees directions only."""
    said = kedge.json("fit", *spaces, "--anchors", 4, "--attach", "auto", "-o", "x.kedge")["spaces"]
    assert [space["attach"] for space in said] == ["ridge", "ridge"]
    assert all(space["ridge_error"] < space["kernel_error"] for space in said)
    assert metadata(kedge.folder / "x.kedge")["format_version"] == "2"


def test_the_adapter_translates_both_ways(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--method", "kernel", "-o", "curve.kedge")
    kedge.ok("fit", *bent, "--method", "ridge", "-o", "line.kedge")
    for source, target in ("ab", "ba"):
        assert error(kedge, "curve.kedge", source, target) < 0.9 * error(kedge, "line.kedge", source, target)
    shown = kedge.json("inspect", "curve.kedge")
    assert shown["method"] == "kernel" and [space["attach"] for space in shown["spaces"]] == ["kernel", "direct"]
    kedge.ok("attach", "curve.kedge", "--space", "c=c.npy", "-o", "curve.kedge")
    for source, target in ("ca", "cb", "ac"):
        assert error(kedge, "curve.kedge", source, target) < 0.2, (source, target)
    arrays = load_file(kedge.folder / "curve.kedge")
    how = json.loads(metadata(kedge.folder / "curve.kedge")["attached"])["a"]["reverse"]
    assert how["space"] == "b"
    arrays["a.reverse_kernel_width"] = np.array(how["width"])
    found = through(kedge, "translate", "curve.kedge", "--from", "b", "--to", "a", "-i", "b.npy")
    near(found, formula(arrays, np.load(kedge.folder / "b.npy"), "a.reverse_"))
    kedge.refused(2, "fit", *bent[:2], "--method", "kernel", "-o", "x.kedge", says="one pair")


def test_a_space_replaced_in_an_adapter_translates_as_itself(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--method", "kernel", "-o", "x.kedge")
    kedge.ok("attach", "x.kedge", "--space", "b=c.npy", "--replace", "-o", "x.kedge")
    result = through(kedge, "translate", "x.kedge", "--from", "b", "--to", "a", "-i", "c.npy", "--rows", "240:300")
    true = np.load(kedge.folder / "a.npy")[240:]
    assert np.square(result - true).sum() < 0.2 * np.square(true - 3).sum()


def test_every_choice_can_be_set_by_hand(kedge: Kedge, bent: list[str]) -> None:
    by_hand = ["--kernel-width", "3", "--kernel-strength", "1e-4", "--kernel-whitening", "0.75"]
    said = kedge.json("fit", *bent, "--anchors", 4, "--attach", "kernel", *by_hand, "-o", "x.kedge")["spaces"]
    for space in said:
        assert (space["kernel_width"], space["kernel_strength"], space["kernel_whitening"]) == (3, 1e-4, 0.75)
    said = kedge.json("attach", "x.kedge", "--space", "c=c.npy", "--kernel-width", "2", "--kernel-whitening", "0", "-o",
                      "x.kedge")
    assert (said["kernel_width"], said["kernel_whitening"]) == (2, 0) and said["kernel_strength"] > 0
    assert "c.kernel_whitener" not in load_file(kedge.folder / "x.kedge")
    said = kedge.json("fit", *bent, "--method", "kernel", *by_hand, "-o", "y.kedge")["spaces"][0]
    assert (said["kernel_width"], said["kernel_strength"], said["kernel_whitening"]) == (3, 1e-4, 0.75)
    kedge.ok("fit", *bent, "--anchors", 4, "--attach", "kernel", "--kernel-width", "auto", "-o", "z.kedge")


@pytest.mark.parametrize("arguments, words", [
    (["--attach", "kernel", "--ridge", "0.1"], ["ridge was given", "attached by kernel"]),
    (["--attach", "mixture", "--kernel-width", "2"], ["of a kernel", "attached by mixture"]),
    (["--kernel-strength", "1e-3"], ["attached by ridge", "--attach kernel"]),
    (["--attach", "kernel", "--similarity", "cosine"], ["attached by kernel", "cosine"]),
    (["--attach", "auto", "--similarity", "euclidean"], ["attached by auto", "euclidean"]),
    (["--attach", "kernel", "--kernel-width", "100"], ["kernel-width is 100", "from 0.001 to 64"]),
    (["--attach", "kernel", "--kernel-width", "0"], ["kernel-width is 0"]),
    (["--attach", "kernel", "--kernel-width", "nan"], ["kernel-width"]),
    (["--attach", "kernel", "--kernel-width", "wide"], ["kernel-width is 'wide'", "auto"]),
    (["--attach", "auto", "--kernel-strength", "1e-13"], ["kernel-strength is 1e-13", "from 1e-09"]),
    (["--attach", "kernel", "--kernel-whitening", "2"], ["kernel-whitening is 2", "from 0 to 1"]),
    (["--attach", "gauss"], ["gauss", "kernel"]),
    (["--attach", "direct"], ["direct"]),
    (["--effort", "huge"], ["huge", "best"]),
    (["--method", "kernel", "--similarity", "cosine"], ["kernel works with the similarity wip"]),
    (["--method", "kernel", "--attach", "mixture"], ["no anchors to mix"]),
])
def test_options_that_cannot_work(kedge: Kedge, bent: list[str], arguments: list[str], words: str | list[str]) -> None:
    few = [] if "--method" in arguments else ["--anchors", 4]
    kedge.refused(2, "fit", *bent, *few, *arguments, "-o", "x.kedge", says=words)


def test_attach_refuses_what_fit_refuses(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--anchors", 4, "--method", "fps", "-o", "x.kedge")
    kedge.ok("fit", *bent, "--anchors", 4, "--method", "fps", "--similarity", "cosine", "-o", "cosine.kedge")
    for bundle, arguments, words in (
        ("x.kedge", ["--kernel-width", "2"], ["of a kernel", "attached by mixture"]),
        ("x.kedge", ["--attach", "kernel", "--ridge", "1"], "ridge was given"),
        ("x.kedge", ["--attach", "kernel", "--kernel-whitening", "-1"], "kernel-whitening is -1"),
        ("cosine.kedge", ["--attach", "kernel"], "no targets to regress"),
        ("cosine.kedge", ["--attach", "auto"], "no targets to regress"),
    ):
        kedge.refused(2, "attach", bundle, "--space", "c=c.npy", *arguments, "-o", "y.kedge", says=words)
    assert kedge.json("attach", "x.kedge", "--space", "c=c.npy", "--attach", "kernel", "-o",
                      "y.kedge")["attach"] == "kernel"


def test_the_best_effort_is_refinement_and_kernel(kedge: Kedge, bent: list[str]) -> None:
    said = kedge.ok("fit", *bent, "--anchors", 4, "--effort", "best", "-o", "best.kedge").stderr
    assert "there are no rows but the support to refine targets by" in said
    some = [*bent, "--support", 200]
    kedge.ok("fit", *some, "--anchors", 4, "--effort", "best", "-o", "best.kedge")
    kedge.ok("fit", *some, "--anchors", 4, "--attach", "kernel", "--refine-epochs", 30, "-o", "both.kedge")
    assert (kedge.folder / "best.kedge").read_bytes() == (kedge.folder / "both.kedge").read_bytes()
    kedge.ok("fit", *bent, "--anchors", 4, "--effort", "fast", "-o", "fast.kedge")
    kedge.ok("fit", *bent, "--anchors", 4, "-o", "plain.kedge")
    assert (kedge.folder / "fast.kedge").read_bytes() == (kedge.folder / "plain.kedge").read_bytes()
    said = kedge.json("attach", "fast.kedge", "--space", "c=c.npy", "--effort", "best", "-o", "more.kedge")
    assert said["attach"] == "kernel"
    assert kedge.json("attach", "best.kedge", "--space", "c=c.npy", "--attach", "ridge", "-o",
                      "more.kedge")["attach"] == "ridge"
    kedge.ok("fit", *bent, "--anchors", 4, "--similarity", "cosine", "--effort", "best", "-o", "cosine.kedge")
    assert kedge.json("attach", "cosine.kedge", "--space", "c=c.npy", "--effort", "best", "-o",
                      "more.kedge")["attach"] == "mixture"


def test_the_second_format_is_for_kernels_alone(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--anchors", 4, "-o", "x.kedge")
    assert metadata(kedge.folder / "x.kedge")["format_version"] == "1"
    kedge.ok("attach", "x.kedge", "--space", "c=c.npy", "--attach", "kernel", "-o", "x.kedge")
    assert metadata(kedge.folder / "x.kedge")["format_version"] == "2"
    kedge.ok("attach", "x.kedge", "--space", "c=c.npy", "--attach", "ridge", "--replace", "-o", "x.kedge")
    assert metadata(kedge.folder / "x.kedge")["format_version"] == "1"


@dataclasses.dataclass
class Function:
    """Of a bundle, as arguments of export and as what kedge itself makes of its rows."""

    kedge: Kedge
    which: list[str]
    rows: str
    wanted: np.ndarray


@pytest.fixture(params=["map", "map without a whitener", "translator", "translator back"])
def exported(request: pytest.FixtureRequest, kedge: Kedge, bent: list[str]) -> Function:
    if request.param.startswith("map"):
        kedge.ok("fit", *bent, "--anchors", 4, "--attach", "kernel", "--kernel-whitening",
                 "0" if "without" in request.param else "0.5", "-o", "x.kedge")
        command, which, rows = "transform", ["--space", "b"], "b.npy"
    else:
        kedge.ok("fit", *bent, "--method", "kernel", "-o", "x.kedge")
        source, target = "ba" if "back" in request.param else "ab"
        command, which, rows = "translate", ["--from", source, "--to", target], f"{source}.npy"
    return Function(kedge, which, rows, through(kedge, command, "x.kedge", *which, "-i", rows))


def test_an_onnx_model_computes_the_same(exported: Function) -> None:
    kedge = exported.kedge
    kedge.ok("export", "x.kedge", *exported.which, "-o", "m.onnx")
    onnx.checker.check_model(onnx.load(kedge.folder / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(kedge.folder / "m.onnx", providers=["CPUExecutionProvider"])
    x = np.load(kedge.folder / exported.rows)
    near(session.run(None, {"x": x})[0], exported.wanted)
    near(session.run(None, {"x": x[:1]})[0], exported.wanted[:1], 1e-4)
    assert session.run(None, {"x": x[:0]})[0].shape == (0, exported.wanted.shape[1])
    kedge.ok("export", "x.kedge", *exported.which, "--normalize", "-o", "unit.onnx")
    unit = onnxruntime.InferenceSession(kedge.folder / "unit.onnx", providers=["CPUExecutionProvider"])
    near(unit.run(None, {"x": x})[0], exported.wanted / np.linalg.norm(exported.wanted, axis=1, keepdims=True))


def test_arrays_hold_the_whole_formula(exported: Function) -> None:
    kedge = exported.kedge
    x = np.load(kedge.folder / exported.rows)
    kedge.ok("export", "x.kedge", *exported.which, "-o", "m.safetensors")
    arrays = load_file(kedge.folder / "m.safetensors")
    near(formula(arrays, x), exported.wanted)
    files = kedge.json("export", "x.kedge", *exported.which, "-o", "m.npy")["files"]
    assert sorted(files) == sorted(f"m.{name}.npy" for name in arrays)
    near(formula({file.split(".")[1]: np.load(kedge.folder / file) for file in files}, x), exported.wanted)
    kedge.ok("export", "x.kedge", *exported.which, "-o", "m.npy")  # over its own


def test_an_npy_that_is_no_part_of_the_map_stays(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--anchors", 4, "--attach", "kernel", "-o", "x.kedge")
    kedge.ok("export", "x.kedge", "--space", "a", "-o", "m.npy")
    np.save(kedge.folder / "m.kernel_rows.npy", np.zeros((7, 7), np.float32))
    kedge.refused(2, "export", "x.kedge", "--space", "a", "-o", "m.npy", says="m.kernel_rows.npy")


def test_a_row_at_the_mean_is_finite_everywhere(kedge: Kedge, bent: list[str]) -> None:
    kedge.ok("fit", *bent, "--anchors", 4, "--attach", "kernel", "-o", "x.kedge")
    mean = load_file(kedge.folder / "x.kedge")["b.mean"]
    np.save(kedge.folder / "mean.npy", np.stack([mean, mean]))
    found = through(kedge, "transform", "x.kedge", "--space", "b", "-i", "mean.npy")
    kedge.ok("export", "x.kedge", "--space", "b", "-o", "m.onnx")
    session = onnxruntime.InferenceSession(kedge.folder / "m.onnx", providers=["CPUExecutionProvider"])
    near(session.run(None, {"x": np.stack([mean, mean])})[0], found)
    near(found[0], load_file(kedge.folder / "x.kedge")["b.bias"])


def test_stitch_measures_maps_by_kernel(kedge: Kedge, bent: list[str]) -> None:
    labels = (np.load(kedge.folder / "a.npy")[:, 0] > 3).astype(np.int64)
    np.save(kedge.folder / "labels.npy", labels)
    spaces = sum((["--space", f"{name}={name}.npy"] for name in "abc"), [])
    methods = "consensus,consensus-kernel,param-kernel"
    kedge.ok("stitch", *spaces, "--train", "0:240", "--test", "240:300", "--labels", "labels.npy", "--methods", methods,
             "--anchors", 4, "--support", 120, "--epochs", 2, "--head-epochs", 20, "-o", "out")
    found = json.loads((kedge.folder / "out" / "results.json").read_text())["records"]
    assert {record["method"] for record in found} == {"consensus", "consensus-kernel", "param-multi-kernel"}

    def mrr(method: str) -> float:
        return float(np.mean([record["mrr"] for record in found if record["method"] == method and record["zero_shot"]]))

    assert mrr("consensus-kernel") >= mrr("consensus") > 0.3
    page = (kedge.folder / "out" / "report.html").read_text()
    assert "consensus-kernel" in page and "param-multi-kernel" in page
    kedge.refused(2, "stitch", *spaces, "--train", "0:240", "--test", "240:300", "--labels", "labels.npy", "--methods",
                  "consensus-kernle", "-o", "other", says="consensus-kernle")
