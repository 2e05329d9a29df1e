# SPDX-License-Identifier: Apache-2.0
"""What is wrong gets the right exception and a sentence, and never a crash."""
import os
import pathlib
import pickle
import re
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import pytest
import tomllib
from kedge import _extras

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = np.random.default_rng(0).normal(size=(50, 6))


def with_value(value: float, row: int = 17) -> np.ndarray:
    rows = GOOD.copy()
    rows[row, 2] = value
    return rows


FITS: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "NaN": ({"a": with_value(np.nan)}, {}, ValueError, "row 17.*NaN or infinite"),
    "infinity": ({"a": GOOD, "b": with_value(np.inf, 3)}, {}, ValueError, "space 'b'.*row 3"),
    "too large for float32": ({"a": with_value(1e300)}, {}, ValueError, "too large"),
    "other rows": ({"a": GOOD, "b": GOOD[:40]}, {}, ValueError, "50.*40"),
    "no rows": ({"a": GOOD[:0]}, {}, ValueError, "space 'a'"),
    "no values": ({"a": GOOD[:, :0]}, {}, ValueError, "space 'a'"),
    "no spaces": ({}, {}, ValueError, "space"),
    "one value": ({"a": np.float32(3)}, {}, ValueError, "space 'a'"),
    "a vector": ({"a": GOOD[0]}, {}, ValueError, "space 'a'"),
    "three dimensions": ({"a": GOOD[None]}, {}, ValueError, "space 'a'"),
    "objects": ({"a": np.full((50, 6), object())}, {}, ValueError, "space 'a'"),
    "words": ({"a": [["x", "y"]]}, {}, ValueError, "space 'a'"),
    "complex": ({"a": GOOD.astype(complex)}, {}, ValueError, "space 'a'"),
    "ragged": ({"a": [[1.0, 2.0], [3.0]]}, {}, ValueError, "space 'a'"),
    "constant": ({"a": np.ones((50, 3))}, {}, ValueError, "same"),
    "no file": ({"a": "missing.npy"}, {}, OSError, "missing.npy"),
    "wrong file": ({"a": "missing.xyz"}, {}, OSError, "npy"),
    "a list": ([GOOD], {}, TypeError, "map names to embeddings"),
    "a number as name": ({3: GOOD}, {}, TypeError, "name must be a str"),
    "a name no bundle can hold": ({"a=b": GOOD}, {}, ValueError, "a=b"),
    "too many anchors": ({"a": GOOD}, {"anchors": 51}, ValueError, "51 anchors"),
    "too much support": ({"a": GOOD}, {"support": 51}, ValueError, "51"),
    "negative anchors": ({"a": GOOD}, {"anchors": -1}, ValueError, "anchors is -1"),
    "anchors that are no number": ({"a": GOOD}, {"anchors": "many"}, TypeError, "anchors is 'many'"),
    "a huge number": ({"a": GOOD}, {"anchors": 2**70}, ValueError, "anchors"),
    "a float where a count is": ({"a": GOOD}, {"epochs": 1.5}, TypeError, "epochs is 1.5"),
    "truth where a count is": ({"a": GOOD}, {"epochs": True}, TypeError, "epochs is True"),
    "text where a number is": ({"a": GOOD}, {"lr": "fast"}, TypeError, "lr is 'fast'"),
    "unknown method": ({"a": GOOD}, {"method": "magic"}, ValueError, "unknown method 'magic'.*param"),
    "a method that is no text": ({"a": GOOD}, {"method": 3}, TypeError, "method is 3"),
    "unknown option": ({"a": GOOD}, {"ancors": 3}, TypeError, "did you mean 'anchors'"),
    "shrinkage out of range": ({"a": GOOD}, {"shrinkage": 1.5}, ValueError, "shrinkage is 1.5"),
    "repeated ids": ({"a": GOOD}, {"support_ids": [1, 1, 2], "anchors": 2}, ValueError, "1"),
    "ids out of range": ({"a": GOOD}, {"support_ids": [1, 50], "anchors": 2}, ValueError, "50"),
    "no ids": ({"a": GOOD}, {"support_ids": [], "anchors": 2}, ValueError, "support_ids"),
    "ids that are no numbers": ({"a": GOOD}, {"support_ids": [0.5], "anchors": 1}, ValueError, "support_ids"),
    "rows outside": ({"a": GOOD}, {"rows": slice(0, 60), "anchors": 2}, ValueError, "60"),
    "rows backwards": ({"a": GOOD}, {"rows": slice(9, 3), "anchors": 2}, ValueError, "rows"),
    "rows with steps": ({"a": GOOD}, {"rows": slice(0, 9, 2), "anchors": 2}, ValueError, "rows"),
    "no checkpoint to resume": ({"a": GOOD}, {"method": "param", "resume": True}, ValueError,
                                "name its file with checkpoint="),
    "nothing to resume": ({"a": GOOD}, {"method": "param", "resume": True, "checkpoint": "c.checkpoint"}, ValueError,
                          "nothing to resume: 'c.checkpoint' does not exist; leave out resume to start from scratch"),
    "what only param knows": ({"a": GOOD}, {"epochs": 20}, ValueError,
                              "epochs belongs to the method param, but the method is consensus; .+ leave out epochs"),
    "what only param resumes": ({"a": GOOD}, {"resume": True}, ValueError, "resume belongs to the method param"),
    "what only consensus knows": ({"a": GOOD}, {"method": "fps", "refine_epochs": 2}, ValueError,
                                  "refine_epochs belongs to the method consensus, but the method is fps"),
}


@pytest.mark.parametrize("case", FITS)
def test_fit_refuses(case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spaces, options, kind, says = FITS[case]
    with pytest.raises(kind, match=says):
        kedge.fit(spaces, **({"anchors": 3} | options))


@pytest.mark.skipif(len(kedge.devices()) > 1, reason="this machine has a GPU")
def test_without_a_gpu_fit_says_so() -> None:
    with pytest.raises(OSError, match="device='cpu'"):
        kedge.fit({"a": GOOD}, device="cuda", anchors=2)


TRANSFORMS = {
    "NaN": (with_value(np.nan), "row 17"),
    "infinity in float32": (with_value(-np.inf, 49).astype(np.float32), "row 49"),
    "too large": (with_value(1e38, 4).astype(np.float32) * 3, "row 4 .*does not fit in float32"),
    "other width": (GOOD[:, :5], "6 values, got 5"),
    "a million columns": (np.zeros((1, 1_000_000), np.float32), "got 1000000"),
    "no columns": (GOOD[:, :0], "got 0"),
    "a vector": (GOOD[0], "X"),
    "objects": (np.full((50, 6), {}), "X"),
    "words": (np.array([["a"] * 6]), "X"),
}


@pytest.mark.parametrize("case", TRANSFORMS)
def test_transform_refuses(case: str) -> None:
    rr = kedge.fit({"a": GOOD}, method="random", anchors=3)["a"]
    rows, says = TRANSFORMS[case]
    with pytest.raises(ValueError, match=says):
        rr.transform(rows)
    assert np.isfinite(rr.transform(GOOD)).all()


def test_transform_refuses_what_no_matrix_could_be() -> None:
    rr = kedge.fit({"a": GOOD}, method="random", anchors=3)["a"]
    for nothing in (None, object(), kedge.fit):
        with pytest.raises(TypeError, match="X"):
            rr.transform(nothing)


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="AddressSanitizer ends the process where memory runs out")
def test_a_million_columns_are_too_many_to_whiten() -> None:
    with pytest.raises((MemoryError, ValueError), match="memory|values"):
        kedge.fit({"wide": np.random.default_rng(0).normal(size=(4, 1_000_000))}, method="random", anchors=2)


def test_bundles_refuse(bundle: kedge.Bundle, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="'z'.*vit, rex"):
        bundle["z"]
    with pytest.raises(ValueError, match="'z'"):
        bundle.translator("vit", "z")
    with pytest.raises(ValueError, match="50|rows"):
        bundle.attach("short", GOOD[:5])
    with pytest.raises(OSError, match="missing"):
        kedge.load(tmp_path / "missing.kedge")
    (tmp_path / "bad.kedge").write_bytes(b"\x10\0\0\0\0\0\0\0not a bundle at all")
    with pytest.raises(OSError, match="bad.kedge"):
        kedge.load(tmp_path / "bad.kedge")
    with pytest.raises(OSError, match="no such folder|No such file|cannot"):
        bundle.save(tmp_path / "no such folder" / "x.kedge")
    with pytest.raises(TypeError):
        bundle.save(None)


def test_compare_refuses() -> None:
    for a, b, says in ((GOOD, GOOD[:40], "50"), (GOOD, GOOD[:, :3], "6"), (GOOD[:0], GOOD[:0], "A|empty|rows"),
                       (with_value(np.nan), GOOD, "row 17")):
        with pytest.raises(ValueError, match=says):
            kedge.compare(a, b)
    with pytest.raises(ValueError, match="recall_at"):
        kedge.compare(GOOD, GOOD, recall_at=[0])


def test_stitch_refuses() -> None:
    spaces = {"a": GOOD, "b": GOOD * 2}
    split: dict[str, Any] = {"train": slice(40), "test": slice(40, 50), "anchors": 3, "methods": ["random-wip"]}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"labels": [1, 2]}, "2 labels"), ({"labels": ["x"] * 50}, "labels"),
        ({"methods": ["magic"]}, "magic"), ({"test": slice(30, 50)}, "train|test"),
        ({"hold_out": ["z"]}, "'z'"), ({"report": True}, "out"), ({"keep_bundles": True}, "out"),
        ({"labels": np.arange(50) % 2, "head": "ridge"}, "ridge")]
    for options, says in wrong:
        with pytest.raises(ValueError, match=says):
            kedge.stitch(spaces, **(split | options))
    with pytest.raises(TypeError, match="train"):
        kedge.stitch(spaces, test=slice(3))  # type: ignore[call-arg]  # which is the point


WHOLE, NAME, BOOL = "expected a whole number", "expected a name, or a list of them", "expected True or False"
RUNS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "seed below 0": ({"seed": -1}, ValueError, f"seed is -1, {WHOLE} of 0 or more"),
    "seed too large": ({"seed": 2**64}, ValueError, f"seed is {2**64}, {WHOLE} from 0"),
    "seed that is a fraction": ({"seed": 1.5}, TypeError, f"seed is 1.5, {WHOLE}"),
    "seed that is text": ({"seed": "x"}, TypeError, f"seed is 'x', {WHOLE}"),
    "seed that is a truth": ({"seed": True}, TypeError, f"seed is True, {WHOLE}"),
    "last seed too large": ({"seed": 2**64 - 1, "seeds": 2}, ValueError, "the last seed"),
    "no seeds": ({"seeds": 0}, ValueError, f"seeds is 0, {WHOLE} from 1 to 10000"),
    "too many seeds": ({"seeds": 10001}, ValueError, f"seeds is 10001, {WHOLE} from 1 to 10000"),
    "an empty list of seeds": ({"seeds": []}, ValueError, "seeds is empty"),
    "a seed below 0 in a list": ({"seeds": [0, -1]}, ValueError, "seeds is -1"),
    "seeds that are text": ({"seeds": "12"}, TypeError, f"seeds is '12', {WHOLE}, or a list"),
    "samples below 0": ({"samples": -1}, ValueError, "samples is -1"),
    "samples that are nothing": ({"samples": None}, TypeError, f"samples is None, {WHOLE}"),
    "a method that is a number": ({"methods": 3}, TypeError, f"methods is 3, {NAME}"),
    "a method in a list that is a number": ({"methods": ["random", 3]}, TypeError, "methods holds 3, expected names"),
    "hold_out that is a number": ({"hold_out": 5}, TypeError, f"hold_out is 5, {NAME}"),
    "hold_out that is bytes": ({"hold_out": b"a"}, TypeError, f"hold_out is b'a', {NAME}"),
    "no train rows": ({"train": None}, TypeError, "train is None, expected rows as"),
    "no test rows": ({"test": None}, TypeError, "test is None, expected rows as"),
    "train that is a number": ({"train": 5}, ValueError, "train: expected rows as"),
    "fresh that is text": ({"fresh": "no"}, TypeError, f"fresh is 'no', {BOOL}"),
    "keep_bundles that is a number": ({"keep_bundles": 1}, TypeError, f"keep_bundles is 1, {BOOL}"),
    "report that is text": ({"report": "yes"}, TypeError, f"report is 'yes', {BOOL}"),
    "out that is bytes": ({"out": b"folder"}, TypeError, "out is b'folder', expected the path of a folder"),
    "out that is a number": ({"out": 3}, TypeError, "out is 3, expected the path of a folder"),
    "no support ids": ({"support_ids": []}, ValueError, "support_ids is empty; give row numbers, or leave it out"),
    "a shape that is text": ({"targets": GOOD, "target_shape": "2x3"}, TypeError, f"target_shape is '2x3', {WHOLE}"),
    "a shape of fractions": ({"targets": GOOD, "target_shape": (2.0, 3)}, TypeError, f"target_shape is 2.0, {WHOLE}"),
    "targets of other lengths": ({"targets": [[1.0], [1.0, 2.0]]}, ValueError, "targets: row 1 has length 2"),
    "targets that are masked": ({"targets": np.ma.masked_less(GOOD.reshape(50, 2, 3), 0)}, ValueError,
                                "targets: row 0 holds masked"),
    "targets that are a number": ({"targets": 5}, TypeError, "targets: expected a matrix"),
}
SWEEPS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no anchors": ({"anchors": 0}, ValueError, f"anchors is 0, {WHOLE} of 1 or more"),
    "anchors that are text": ({"anchors": "30"}, TypeError, f"anchors is '30', {WHOLE}, or a list of them"),
    "anchors that are a fraction": ({"anchors": [3, 2.5]}, TypeError, f"anchors is 2.5, {WHOLE}"),
    "anchors that are a truth": ({"anchors": [True]}, TypeError, f"anchors is True, {WHOLE}"),
    "support below 0": ({"support": -3}, ValueError, f"support is -3, {WHOLE} of 1 or more"),
    "support that is nothing": ({"support": [None]}, TypeError, f"support is None, {WHOLE}"),
    "shrinkage that is nothing": ({"shrinkage": [None]}, TypeError,
                                  "shrinkage is None, expected a number from 0 to 1"),
    "shrinkage that is bytes": ({"shrinkage": b"1"}, TypeError, "shrinkage is b'1', expected a number from 0 to 1"),
    "an unknown rule": ({"shrinkage": "magic"}, ValueError, "shrinkage is 'magic'"),
    "similarity that is a number": ({"similarity": 3}, TypeError, f"similarity is 3, {NAME}"),
    "an unknown similarity": ({"similarity": ["x"]}, ValueError, "unknown similarity 'x'"),
}
SPLIT: dict[str, Any] = {"train": slice(40), "test": slice(40, 50), "anchors": 3, "methods": ["random-wip"]}


@pytest.mark.parametrize("function", [kedge.stitch, kedge.sweep], ids=["stitch", "sweep"])
@pytest.mark.parametrize("case", RUNS)
def test_stitch_and_sweep_refuse(function: Callable[..., Any], case: str) -> None:
    options, kind, says = RUNS[case]
    with pytest.raises(kind, match=says):
        function({"a": GOOD, "b": GOOD * 2}, **(SPLIT | options))


@pytest.mark.parametrize("case", SWEEPS)
def test_sweep_refuses(case: str) -> None:
    options, kind, says = SWEEPS[case]
    with pytest.raises(kind, match=says):
        kedge.sweep({"a": GOOD, "b": GOOD * 2}, **(SPLIT | options))


@pytest.mark.long
def test_targets_that_are_tensors() -> None:
    torch = pytest.importorskip("torch")
    spaces, pictures = {"a": GOOD, "b": GOOD * 2}, torch.tensor(GOOD, dtype=torch.float32).reshape(50, 2, 3)
    options: dict[str, Any] = dict(**SPLIT, head="linear")
    for given, says in ((pictures.clone().requires_grad_(), "requires a gradient"),
                        (pictures.to("meta"), "device meta"),
                        (pictures.to_sparse(), "expected a dense tensor")):
        for targets in (given, given.select(1, 0)):
            with pytest.raises(ValueError, match=f"targets: .*{says}"):
                kedge.stitch(spaces, targets=targets, **options)
    rounded = pictures.bfloat16()
    shaped: dict[str, Any] = dict(target_shape=np.array([2, 3]), **options)
    expected = kedge.stitch(spaces, targets=rounded.float().reshape(50, 6).numpy(), **shaped)
    for targets in (rounded, rounded.float(), rounded.float().tolist()):
        assert kedge.stitch(spaces, targets=targets, **options).equals(expected)


def test_a_sweep_leaves_out_points_that_cannot_be() -> None:
    spaces = {"a": GOOD, "b": GOOD * 2}
    with pytest.warns(UserWarning, match="20 anchors need at least as many support rows, so they are skipped"):
        table = kedge.sweep(spaces, **{**SPLIT, "anchors": [3, 20, 45]}, support=[10, 40])
    assert {*zip(table.anchors, table.support)} == {(3, 10), (3, 40), (20, 40)}
    with pytest.raises(ValueError, match="45 anchors"):
        kedge.sweep(spaces, **{**SPLIT, "anchors": 45})


def refuses_state(good: Any, state: Any, how: str) -> None:
    kind: Any = type(good)
    bad = kind.__new__(kind)
    with pytest.raises((ValueError, OSError)):
        bad.__setstate__(state)
        pytest.fail(f"a state was taken that is wrong: {how}")


def test_pickled_bundles_that_were_tampered_with_are_refused(bundle: kedge.Bundle) -> None:
    state: Any = bundle.__getstate__()
    for how, wrong in {"nothing": b"", "cut short": state[:-5], "cut in half": state[:len(state) // 2],
                       "too long": state + b"more", "another length": b"\xff" * 8 + state[8:],
                       "no text": state[:8] + b"\xff" * 40 + state[48:], "words": b"not a bundle at all"}.items():
        refuses_state(bundle, wrong, how)
    whole = pickle.dumps(bundle)
    start = whole.index(state[:64])
    with pytest.raises((ValueError, OSError)):
        pickle.loads(whole[:start] + b"\xff" * 64 + whole[start + 64:])


def test_pickled_maps_that_were_tampered_with_are_refused(bundle: kedge.Bundle) -> None:
    rr = bundle["vit"]
    state: Any = rr.__getstate__()
    places = [place for place, part in enumerate(state) if isinstance(part, np.ndarray)]
    assert len(places) >= 2
    for place in places:
        for how, part in {"fewer": state[place][:-1], "none": state[place][:0],
                          "NaN": np.full_like(state[place], np.nan)}.items():
            refuses_state(rr, (*state[:place], part, *state[place + 1:]), f"{how} of part {place}")
    refuses_state(rr, (state[0], "magic", *state[2:]), "an unknown similarity")


@pytest.mark.parametrize("rows", [1, 3, 5000])
def test_a_result_that_leaves_float32_in_one_column_only(rows: int) -> None:
    """The anchors are the two rows: one value of the result is 1 while the other does not fit."""
    anchors = np.array([[1, 0], [0, 1e18]], np.float32)
    rr_map = kedge.fit({"a": anchors}, method="random", similarity="inner", anchors=2, support=2)["a"]
    x = np.ones((rows, 2), np.float32)
    assert np.isfinite(rr_map.transform(x)).all()
    x[-1, 1] = 1e21
    with pytest.raises(ValueError, match=f"row {rows - 1} of X is too large for the map of 'a'"):
        rr_map.transform(x)
    with pytest.raises(ValueError, match="too large for the map"):
        rr_map.transform(x, normalize=True)


def test_a_ridge_that_would_not_be_used() -> None:
    bundle = kedge.fit({"a": GOOD, "b": GOOD[:, :4]}, method="random", anchors=3)
    words = "ridge was given, but spaces are attached by mixture; give attach='ridge'"
    given: list[dict[str, Any]] = [{}, {"attach": "mixture"}]
    for more in given:
        with pytest.raises(ValueError, match=words):
            bundle.attach("c", GOOD, ridge=0.5, **more)
    assert "c" not in bundle.spaces
    bundle.attach("c", GOOD, attach="ridge", ridge=0.5)


def test_what_messages_install_is_what_pyproject_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, packages in project["optional-dependencies"].items():
        assert _extras.PACKAGES[extra] == [package for package in packages if ";" not in package]
    assert _extras.install("encode", "timm.models").endswith("pip install 'timm>=1.0.15,<2'")
    assert _extras.install("migrate", "faiss").endswith("pip install 'faiss-cpu>=1.12,<2'")
    assert _extras.install("arrow").endswith("pip install 'pyarrow>=15'")


def test_no_message_counts_on_an_index_that_has_kedge() -> None:
    for file in [*(ROOT / "python").rglob("*.py"), *(ROOT / "cli").glob("*"), *(ROOT / "docs").glob("*.md")]:
        assert not re.search(r"install\s+\S*kedge\[", file.read_text()), file
