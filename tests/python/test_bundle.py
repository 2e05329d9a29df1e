# SPDX-License-Identifier: Apache-2.0
"""Bundles and maps as Python sees them."""
import copy
import gc
import pathlib
import pickle
import warnings

import kedge
import numpy as np
import onnxruntime
import pytest
from conftest import Similarity, assert_near


def test_maps_are_affine_and_their_arrays_views(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    rr = bundle["vit"]
    assert rr.similarity == "wip" and rr.space == "vit"
    assert rr.weight.shape == (rr.n_anchors, rr.n_features_in) == (bundle.n_anchors, spaces["vit"].shape[1])
    assert not rr.weight.flags.writeable and np.shares_memory(rr.weight, bundle["vit"].weight)
    expected = spaces["vit"].astype(np.float64) @ rr.weight.T.astype(np.float64) + rr.bias
    assert_near(rr.transform(spaces["vit"]), expected)
    np.testing.assert_array_equal(rr(spaces["vit"]), rr.transform(spaces["vit"]))


def test_fewer_anchors_than_asked_for_are_said_once(spaces: dict[str, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match="share only") as warned:
        bundle = kedge.fit(spaces, anchors=200)
    assert [str(one.message) for one in warned] == [
        f"asked for 200 anchors, but the spaces share only {bundle.n_anchors} directions, so the bundle has "
        f"{bundle.n_anchors}"]
    assert warned[0].filename == __file__
    assert bundle.n_anchors < sum(x.shape[1] for x in spaces.values())
    assert bundle["vit"].transform(spaces["vit"]).std(axis=0).min() > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kedge.fit(spaces).n_anchors == bundle.n_anchors


def test_views_outlive_their_bundle(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(spaces, method="random", anchors=5)
    expected = bundle.mixture.copy()
    mixture = bundle.mixture
    del bundle
    gc.collect()
    _others = [np.full_like(expected, 7) for _ in range(1000)]  # which would take what was freed
    np.testing.assert_array_equal(mixture, expected)


def test_anchors_are_the_mixture_of_the_support(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(spaces, method="random", similarity="inner", anchors=5, support=30)
    anchors = bundle.mixture @ spaces["rex"][bundle.support_ids]
    assert_near(bundle["rex"].weight, anchors)
    assert bundle.targets is None and bundle.sources == ["vit", "rex", "clip"]


def test_history_has_a_value_for_every_epoch(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(spaces, method="param", anchors=8, support=50, epochs=3)
    assert list(bundle.history) == ["total", "symnce", "coverage", "orthogonality", "length"]
    assert all(len(values) == 3 for values in bundle.history.values())
    assert bundle.history["total"][2] < bundle.history["total"][0]
    assert kedge.fit(spaces, method="random", anchors=5).history == {}


def test_attach_keeps_the_anchors_and_says_how_well_it_fits(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit({"vit": spaces["vit"]}, method="consensus", anchors=4)
    before = bundle.mixture.copy()
    rr = bundle.attach("rex", spaces["rex"])
    assert rr.attached_by == "ridge" and rr.r2 is not None and 0.5 < rr.r2 <= 1
    assert rr.ridge is not None and rr.ridge > 0
    assert list(bundle.spaces) == ["vit", "rex"] and "rex" in bundle and "clip" not in bundle
    np.testing.assert_array_equal(bundle.mixture, before)
    support = bundle.attach("only support", spaces["rex"][bundle.support_ids], support_rows=True)
    assert kedge.compare(support.transform(spaces["rex"]), rr.transform(spaces["rex"]))["paired_cosine"] > 0.99
    with pytest.raises(ValueError, match="already has a space 'rex'.*replace=True"):
        bundle.attach("rex", spaces["rex"])
    bundle.attach("rex", spaces["rex"], replace=True, attach="mixture")
    assert bundle["rex"].attached_by == "mixture"


def test_translation_brings_rows_near_the_other_encoders(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    translated = bundle.translator("vit", "rex").transform(spaces["vit"])
    assert translated.shape == spaces["rex"].shape
    residual = ((translated - spaces["rex"]) ** 2).mean() / spaces["rex"].var()
    assert residual < 0.2


def test_a_saved_bundle_is_the_same_again(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                          tmp_path: pathlib.Path) -> None:
    bundle.save(tmp_path / "x.kedge")
    again = kedge.load(str(tmp_path / "x.kedge"))
    for other in (again, pickle.loads(pickle.dumps(bundle)), copy.deepcopy(bundle)):
        assert repr(other) == repr(bundle)
        np.testing.assert_array_equal(other["rex"].weight, bundle["rex"].weight)
    rr = pickle.loads(pickle.dumps(bundle["vit"]))
    np.testing.assert_array_equal(rr.transform(spaces["vit"]), bundle["vit"].transform(spaces["vit"]))


def test_files_are_streamed_to_the_same_rows(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                             tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", spaces["vit"])
    bundle["vit"].transform_file(tmp_path / "x.npy", tmp_path / "rr.npy", rows=slice(5, 100))
    assert_near(np.load(tmp_path / "rr.npy"), bundle["vit"].transform(spaces["vit"][5:100]))
    bundle.translator("vit", "rex").transform_file(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    assert_near(np.load(tmp_path / "y.npy"), bundle.translator("vit", "rex")(spaces["vit"]))
    np.testing.assert_array_equal(bundle["vit"].transform(tmp_path / "x.npy"), bundle["vit"].transform(spaces["vit"]))


def test_results_can_be_written_in_place(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    out = np.empty((len(spaces["vit"]), bundle.n_anchors), np.float32)
    assert np.shares_memory(bundle["vit"].transform(spaces["vit"], out=out), out)
    np.testing.assert_array_equal(out, bundle["vit"].transform(spaces["vit"]))
    with pytest.raises(ValueError, match="out: expected a writable"):
        bundle["vit"].transform(spaces["vit"], out=out[1:])


def test_an_empty_matrix_of_the_right_width_stays_empty(bundle: kedge.Bundle) -> None:
    assert bundle["vit"].transform(np.empty((0, bundle["vit"].n_features_in), np.float32)).shape == (0,
                                                                                                     bundle.n_anchors)


@pytest.mark.parametrize("similarity", ["wip", "cosine", "euclidean", "inner", "angular", "manhattan"])
def test_onnx_gives_the_same_values(similarity: Similarity, spaces: dict[str, np.ndarray],
                                    tmp_path: pathlib.Path) -> None:
    rr = kedge.fit(spaces, method="random", similarity=similarity, anchors=7)["vit"]
    rr.to_onnx(tmp_path / "map.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "map.onnx", providers=["CPUExecutionProvider"])
    found = session.run(["rr"], {"x": spaces["vit"]})[0]
    assert_near(found, rr.transform(spaces["vit"]))


def test_validate_holds_every_space_out(spaces: dict[str, np.ndarray]) -> None:
    table = kedge.validate(spaces, method="consensus", anchors=4)
    assert list(table.held_out) == ["vit", "rex", "clip"] and (table.mrr > 0.3).all()
