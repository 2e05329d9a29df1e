# SPDX-License-Identifier: Apache-2.0
"""Maps by kernel in Python: the same options as the command's, arrays, modules, models and copies of them."""
import copy
import json
import os
import pathlib
import pickle
import subprocess
from typing import Any

import kedge
import numpy as np
import onnxruntime
import pytest
from conftest import assert_near
from kedge.sklearn import RelativeTransformer
from safetensors.numpy import load_file


def formula(affine: Any, x: Any) -> np.ndarray:
    """What docs/format.md says, in float64."""
    kernel = affine.kernel
    f = x.astype(np.float64) - affine.mean
    if kernel["whitener"] is not None:
        f = f @ kernel["whitener"].astype(np.float64)
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    u = kernel["width"] * f @ kernel["rows"].T.astype(np.float64)
    curved = (np.expm1(u) - u) @ kernel["coefficients"]
    return np.asarray(f @ affine.weight.T.astype(np.float64) + affine.bias + curved)


def unexplained(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.square(found - true).sum() / np.square(true - 3).sum())


def test_the_arrays_are_the_formula(function: tuple[Any, np.ndarray]) -> None:
    affine, x = function
    assert_near(affine.transform(x), formula(affine, x))
    assert_near(affine(x[:1])[0], affine.transform(x)[0])


def test_a_map_says_how_it_was_made(shared: kedge.Bundle, pair: dict[str, np.ndarray]) -> None:
    rr_map = shared["b"]
    assert rr_map.attached_by == "kernel" and rr_map.ridge is None and "kernel" in repr(rr_map)
    assert rr_map.r2 is not None and 0.5 < rr_map.r2 < 1
    kernel = rr_map.kernel
    assert kernel is not None
    assert set(kernel) == {"width", "strength", "whitening", "whitener", "rows", "coefficients"}
    assert kernel["width"] > 0 and kernel["strength"] > 0 and kernel["whitening"] == 0.5
    assert kernel["whitener"].shape == (8, 8) and kernel["rows"].shape == (240, 8)
    assert kernel["coefficients"].shape == (240, shared.n_anchors)
    assert not kernel["rows"].flags.writeable
    np.testing.assert_allclose(np.linalg.norm(kernel["rows"], axis=1), 1, atol=1e-5)
    assert kedge.fit(pair, anchors=4)["b"].kernel is None


def test_every_choice_can_be_set_by_hand(pair: dict[str, np.ndarray], bent: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(pair, anchors=4, attach="kernel", kernel_width=3, kernel_strength=1e-4, kernel_whitening=0)
    for name in "ab":
        kernel = bundle[name].kernel
        assert kernel is not None
        assert (kernel["width"], kernel["strength"], kernel["whitening"], kernel["whitener"]) == (3, 1e-4, 0, None)
    bundle.attach("c", bent["c"], kernel_width=2.5)
    kernel = bundle["c"].kernel
    assert kernel is not None and kernel["width"] == 2.5
    bundle.attach("d", bent["c"], attach="ridge")
    assert bundle["d"].kernel is None


def test_auto_and_effort(pair: dict[str, np.ndarray], bent: dict[str, np.ndarray],
                         spaces: dict[str, np.ndarray]) -> None:
    assert kedge.fit(pair, anchors=4, attach="auto")["b"].attached_by == "kernel"
    assert kedge.fit({name: spaces[name] for name in ("vit", "rex")}, anchors=8,
                     attach="auto")["vit"].attached_by == "ridge"
    best = kedge.fit(pair, anchors=4, effort="best", support=200)
    both = kedge.fit(pair, anchors=4, attach="kernel", refine_epochs=30, support=200)
    np.testing.assert_array_equal(best["a"].transform(pair["a"]), both["a"].transform(pair["a"]))
    fast = kedge.fit(pair, anchors=4, effort="fast")
    fast.attach("c", bent["c"], effort="best")
    assert [fast[name].attached_by for name in "abc"] == ["ridge", "ridge", "kernel"]


@pytest.mark.parametrize("options, words", [
    ({"attach": "kernel", "ridge": 0.1}, "ridge was given"),
    ({"attach": "mixture", "kernel_width": 2}, "attached by mixture"),
    ({"attach": "kernel", "similarity": "cosine"}, "cosine"),
    ({"attach": "kernel", "kernel_width": 100}, "kernel_width is 100, expected a number from 0.001 to 64"),
    ({"attach": "kernel", "kernel_strength": 0}, "kernel_strength is 0"),
    ({"attach": "kernel", "kernel_whitening": "much"}, "kernel.whitening is 'much'"),
    ({"attach": "gauss"}, "kernel"),
    ({"effort": "huge"}, "best"),
])
def test_options_that_cannot_work(pair: dict[str, np.ndarray], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kedge.fit(pair, anchors=4, **options)


def test_translation_is_better_than_a_line_and_files_are_the_commands(adapter: kedge.Bundle,
                                                                      pair: dict[str, np.ndarray],
                                                                      bent: dict[str, np.ndarray],
                                                                      tmp_path: pathlib.Path) -> None:
    line = kedge.fit(pair, method="ridge")
    for source, target in ("ab", "ba"):
        rest, true = bent[source][240:], bent[target][240:]
        curve = adapter.translator(source, target)
        assert unexplained(curve(rest), true) < 0.9 * unexplained(line.translator(source, target)(rest), true)
        assert curve.kernel is not None and line.translator(source, target).kernel is None
        np.save(tmp_path / "x.npy", rest)
        curve.transform_file(tmp_path / "x.npy", tmp_path / "y.npy")
        assert_near(np.load(tmp_path / "y.npy"), curve(rest))
    adapter.save(tmp_path / "python.kedge")
    for name, x in pair.items():
        np.save(tmp_path / f"{name}.npy", x)
    subprocess.run([os.environ["KEDGE"], "fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "kernel",
                    "--quiet",
                    "-o", "command.kedge"], cwd=tmp_path, check=True)
    assert (tmp_path / "python.kedge").read_bytes() == (tmp_path / "command.kedge").read_bytes()
    again = kedge.load(tmp_path / "python.kedge")
    np.testing.assert_array_equal(again.translator("b", "a")(bent["b"]), adapter.translator("b", "a")(bent["b"]))


def test_moments_and_support_rows_are_enough(pair: dict[str, np.ndarray], bent: dict[str, np.ndarray]) -> None:
    moments = kedge.Moments(pair)
    ids = np.arange(0, 240, 2)
    bundle = kedge.fit({name: x[ids] for name, x in pair.items()}, moments=moments, support_rows=True,
                       support_ids=ids, anchors=4, attach="kernel")
    whole = kedge.fit(pair, support_ids=ids, anchors=4, attach="kernel")
    for name in "ab":
        assert_near(bundle[name].transform(bent[name]), whole[name].transform(bent[name]), 1e-4)


def test_copies_and_pickles(shared: kedge.Bundle, adapter: kedge.Bundle, bent: dict[str, np.ndarray]) -> None:
    x = bent["b"]
    for rr_map in (shared["b"], adapter["a"], adapter["b"]):
        rows = bent[rr_map.space]
        for other in (pickle.loads(pickle.dumps(rr_map)), copy.copy(rr_map), copy.deepcopy(rr_map)):
            np.testing.assert_array_equal(other.transform(rows), rr_map.transform(rows))
            assert other.attached_by == rr_map.attached_by and other.r2 == rr_map.r2 and repr(other) == repr(rr_map)
            assert (other.kernel is None) == (rr_map.kernel is None)
            if rr_map.kernel is not None and other.kernel is not None:
                assert json.dumps([other.kernel[key] for key in ("width", "strength", "whitening")]) == json.dumps(
                    [rr_map.kernel[key] for key in ("width", "strength", "whitening")])
    for bundle in (shared, adapter):
        other = pickle.loads(pickle.dumps(bundle))
        np.testing.assert_array_equal(other.translator("b", "a")(x), bundle.translator("b", "a")(x))


def test_an_onnx_model_computes_the_same(function: tuple[Any, np.ndarray], tmp_path: pathlib.Path) -> None:
    affine, x = function
    affine.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert_near(session.run(None, {"x": x})[0], affine.transform(x))


def test_a_file_keeps_every_array(shared: kedge.Bundle, tmp_path: pathlib.Path) -> None:
    shared.save(tmp_path / "x.kedge")
    arrays = load_file(tmp_path / "x.kedge")
    kernel, loaded = shared["b"].kernel, kedge.load(tmp_path / "x.kedge")["b"].kernel
    assert kernel is not None and loaded is not None
    for name in ("whitener", "rows", "coefficients"):
        np.testing.assert_array_equal(arrays[f"b.kernel_{name}"], kernel[name])
    np.testing.assert_array_equal(loaded["rows"], kernel["rows"])


def test_progress_is_told(pair: dict[str, np.ndarray]) -> None:
    seen = []
    kedge.fit(pair, anchors=4, attach="kernel", progress=lambda *report: seen.append(report))
    maps_made = [report for report in seen if "making the kernel map of" in str(report[0])]
    assert maps_made and any("of b" in str(report[0]) for report in maps_made)

    def stop(*report: object) -> None:
        if "kernel" in str(report[0]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kedge.fit(pair, anchors=4, attach="kernel", progress=stop)


def test_the_transformer_takes_it(pair: dict[str, np.ndarray], bent: dict[str, np.ndarray]) -> None:
    x = pair["b"]
    transformer = RelativeTransformer(anchors=4, method="random", attach="kernel", kernel_width=2.0).fit(x)
    learned = transformer.bundle_["X"]
    assert learned.attached_by == "kernel" and learned.kernel is not None and learned.kernel["width"] == 2
    assert transformer.transform(bent["b"]).shape == (300, 4)
    assert RelativeTransformer(anchors=4, effort="best").fit(x).bundle_["X"].attached_by == "kernel"
