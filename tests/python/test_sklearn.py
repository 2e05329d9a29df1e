# SPDX-License-Identifier: Apache-2.0
"""RelativeTransformer as scikit-learn wants its transformers, and the swap of encoders under a fitted pipeline."""
import inspect
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
import joblib  # noqa: E402
import kedge  # noqa: E402
from conftest import assert_near  # noqa: E402
from kedge import RelativeTransformer, _core  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402

CHECKS = """
import sys, warnings
from sklearn.utils.estimator_checks import check_estimator
import kedge
for options in ({}, {"method": "param"}, {"similarity": "euclidean", "method": "fps"},
                {"similarity": "cosine", "method": "param"}):
    for result in check_estimator(kedge.RelativeTransformer(**options), on_fail=None, on_skip=None):
        print(result["status"], options, result["check_name"], result["exception"] or "")
"""


@pytest.mark.long
def test_scikit_learns_own_checks() -> None:
    # Without this variable, which must be set before scipy is imported, one of the checks would skip itself.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CHECKS], capture_output=True, text=True,
                          env={**os.environ, "SCIPY_ARRAY_API": "1"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 4 * 40
    assert [line for line in lines if not line.startswith("passed ")] == []


def test_defaults_are_those_of_fit() -> None:
    own = {name: parameter.default for name, parameter in inspect.signature(RelativeTransformer).parameters.items()
           if name not in ("bundle", "space")}
    table = {option["name"]: option["default"] for option in _core.fit_options()}
    assert len(own) >= 12
    assert own == {name: table[name] for name in own}


def test_learns_what_fit_learns(spaces: dict[str, np.ndarray]) -> None:
    learning: dict[str, Any] = {"method": "param", "anchors": 20, "epochs": 3, "seed": 4}
    transformer = RelativeTransformer(space="vit", **learning).fit(spaces["vit"])
    bundle = kedge.fit({"vit": spaces["vit"]}, **learning)
    np.testing.assert_array_equal(transformer.transform(spaces["vit"]), bundle["vit"].transform(spaces["vit"]))
    assert transformer.bundle_.sources == ["vit"] and transformer.n_features_in_ == 24


def test_every_option_reaches_fit(spaces: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    changed = {"method": "random", "similarity": "cosine", "anchors": 7, "support": 50, "support_select": "fps",
               "keep": 3, "seed": 5, "shrinkage": 0.5, "epsilon": 1e-3, "attach": "ridge", "ridge": 0.1, "epochs": 2,
               "batch": 32, "lr": 0.3, "effort": "best", "kernel_width": 3.3, "kernel_strength": 0.033,
               "kernel_whitening": 0.33}
    kernels = {name: {"attach": "kernel"} for name in ("kernel_width", "kernel_strength", "kernel_whitening")}
    beside: dict[str, dict[str, Any]] = {
        **kernels, "ridge": {"attach": "ridge"}, "support_select": {"support": 50}, "method": {"epochs": 95}}
    names = set(inspect.signature(RelativeTransformer).parameters) - {"bundle", "space"}
    assert {*changed, "power", "device"} == names
    X = spaces["vit"][:200] + rng.normal(size=(200, 24))
    for name, value in changed.items():
        base: dict[str, Any] = {"method": "param", "anchors": 12, "epochs": 1, **beside.get(name, {})}
        before = RelativeTransformer(**base).fit(X).bundle_["X"].weight
        after = RelativeTransformer(**(base | {name: value})).fit(X).bundle_["X"].weight
        assert before.shape != after.shape or not np.array_equal(before, after), name
    with pytest.raises(ValueError, match="epochs belongs to the method param, but the method is consensus"):
        RelativeTransformer(epochs=2, anchors=5).fit(X)
    # One space agrees with itself whatever the power, so that only a wrong one tells.
    with pytest.raises(ValueError, match="power is -1"):
        RelativeTransformer(method="consensus", power=-1.0, anchors=5).fit(X)
    with pytest.raises((ValueError, OSError), match="gpu|device"):
        RelativeTransformer(device="no such device").fit(X)


def test_makes_as_many_anchors_as_there_can_be(spaces: dict[str, np.ndarray]) -> None:
    X = spaces["vit"]
    assert RelativeTransformer(method="random").fit(X[:30]).transform(X).shape == (400, 30)
    assert RelativeTransformer(method="random", support=15).fit(X).transform(X).shape == (400, 15)
    assert RelativeTransformer(method="random", support=9000, anchors=8).fit(X).bundle_.support_ids.shape == (400,)
    transformer = RelativeTransformer().fit(X)
    assert transformer.bundle_.method == "consensus" and transformer.transform(X).shape == (400, 24)


def test_knows_the_usual_number_of_support_rows() -> None:
    X = np.random.default_rng(0).normal(size=(5100, 3)).astype(np.float32)
    assert len(kedge.fit({"X": X}, method="random", anchors=1).support_ids) == 5000
    assert len(RelativeTransformer(method="random", anchors=1).fit(X).bundle_.support_ids) == 5000


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_types(spaces: dict[str, np.ndarray], dtype: Any) -> None:
    X = (8 * spaces["vit"]).astype(dtype)
    transformer = RelativeTransformer(method="random", anchors=10).fit(X)
    assert transformer.transform(X).dtype == np.float32
    assert_near(transformer.transform(X), transformer.transform(X.astype(np.float64)))


def test_encoders_are_swapped_under_a_fitted_pipeline(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                                      labels: np.ndarray, tmp_path: pathlib.Path) -> None:
    bundle.save(tmp_path / "shared.kedge")
    for given in (bundle, tmp_path / "shared.kedge", str(tmp_path / "shared.kedge")):
        pipe = make_pipeline(RelativeTransformer(bundle=given, space="vit"), LogisticRegression(max_iter=500))
        pipe.fit(spaces["vit"][:300], labels[:300])
        own = pipe.score(spaces["vit"][300:], labels[300:])
        assert own > 0.8
        for other in ("rex", "clip"):
            pipe.set_params(relativetransformer__space=other)
            assert pipe.score(spaces[other][300:], labels[300:]) > own - 0.15  # a guess would get a quarter
            assert pipe.n_features_in_ == spaces[other].shape[1]


def test_a_bundle_needs_no_fit(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    transformer = RelativeTransformer(bundle=bundle, space="clip")
    np.testing.assert_array_equal(transformer.transform(spaces["clip"]), bundle["clip"].transform(spaces["clip"]))
    assert transformer.fit(spaces["clip"]) is transformer and not hasattr(transformer, "bundle_")
    assert transformer.n_features_in_ == 20
    with pytest.raises(ValueError, match="X has 16 features, .*expecting 20 features.*'clip'"):
        transformer.fit(spaces["rex"])
    with pytest.raises(ValueError, match="X has 16 features"):
        transformer.transform(spaces["rex"])


def test_a_changed_file_is_read_again(spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "shared.kedge"
    for anchors in (5, 6):
        kedge.fit({"vit": spaces["vit"]}, method="random", anchors=anchors).save(path)
        os.utime(path, ns=(anchors, anchors))
        assert RelativeTransformer(bundle=path, space="vit").transform(spaces["vit"]).shape[1] == anchors


@pytest.mark.parametrize("space", [None, "dino"])
def test_an_unknown_space_is_refused(bundle: kedge.Bundle, spaces: dict[str, np.ndarray], space: str | None) -> None:
    with pytest.raises(ValueError, match="expected one of the bundle's: vit, rex, clip; add another encoder"):
        RelativeTransformer(bundle=bundle, space=space).fit(spaces["vit"])


def test_is_not_fitted_without_either(spaces: dict[str, np.ndarray]) -> None:
    transformer = RelativeTransformer()
    with pytest.raises(NotFittedError):
        transformer.transform(spaces["vit"])
    assert not hasattr(transformer, "n_features_in_")


def test_is_copied_and_kept(bundle: kedge.Bundle, spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    learned = RelativeTransformer(method="random", anchors=8).fit(spaces["vit"])
    assert not hasattr(clone(learned), "bundle_")
    given = RelativeTransformer(bundle=bundle, space="vit")
    for transformer in (learned, given, clone(given)):
        expected = transformer.transform(spaces["vit"])
        joblib.dump(transformer, tmp_path / "made.joblib")
        for again in (pickle.loads(pickle.dumps(transformer)), joblib.load(tmp_path / "made.joblib")):
            np.testing.assert_array_equal(again.transform(spaces["vit"]), expected)


def test_names_of_columns(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    frame = pd.DataFrame(spaces["vit"], columns=[f"x{i}" for i in range(24)], index=range(100, 500))
    learned = RelativeTransformer(method="random", anchors=3).fit(frame)
    assert learned.get_feature_names_out().tolist() == [f"relativetransformer{i}" for i in range(3)]
    assert learned.feature_names_in_.tolist() == list(frame.columns)
    for transformer, columns in ((learned, 3), (RelativeTransformer(bundle=bundle, space="vit"), 10)):
        table = transformer.set_output(transform="pandas").transform(frame)
        assert table.shape == (400, columns) and table.index.equals(frame.index)
        assert table.columns[0] == "relativetransformer0"


def test_frames_of_another_encoder_do_not_warn(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                               recwarn: pytest.WarningsRecorder) -> None:
    transformer = RelativeTransformer(bundle=bundle, space="vit").fit(pd.DataFrame(spaces["vit"]).add_prefix("v"))
    transformer.set_params(space="rex").transform(pd.DataFrame(spaces["rex"]).add_prefix("r"))
    assert [str(warning.message) for warning in recwarn if "feature names" in str(warning.message)] == []


def test_a_search_over_anchors(spaces: dict[str, np.ndarray], labels: np.ndarray) -> None:
    pipe = make_pipeline(RelativeTransformer(method="fps"), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipe, {"relativetransformer__anchors": [2, 20]}, cv=3, n_jobs=2)
    search.fit(spaces["vit"], labels)
    assert search.best_params_ == {"relativetransformer__anchors": 20}
    assert search.best_score_ > search.cv_results_["mean_test_score"][0]


def test_others_are_let_in_later(spaces: dict[str, np.ndarray]) -> None:
    learned = RelativeTransformer(space="vit", method="random", anchors=20).fit(spaces["vit"])
    learned.bundle_.attach("rex", spaces["rex"], attach="ridge")
    other = RelativeTransformer(bundle=learned.bundle_, space="rex")
    score = kedge.compare(learned.transform(spaces["vit"]), other.transform(spaces["rex"]))
    assert score["mrr"] > 0.9


def test_a_path_that_leads_nowhere_is_refused_as_load_does(spaces: dict[str, np.ndarray],
                                                           tmp_path: pathlib.Path) -> None:
    places: list[Any] = [tmp_path / "missing.kedge", tmp_path, 5]
    for wrong in places:
        with pytest.raises((OSError, TypeError)) as expected:
            kedge.load(wrong)
        with pytest.raises(type(expected.value)) as found:
            RelativeTransformer(bundle=wrong, space="vit").fit(spaces["vit"])
        assert str(found.value) == str(expected.value)


def test_a_path_is_of_the_folder_one_is_in(spaces: dict[str, np.ndarray], tmp_path: pathlib.Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    for anchors in (5, 6):
        folder = tmp_path / str(anchors)
        folder.mkdir()
        kedge.fit({"vit": spaces["vit"]}, method="random", anchors=anchors).save(folder / "shared.kedge")
        os.utime(folder / "shared.kedge", ns=(1, 1))
        monkeypatch.chdir(folder)
        assert RelativeTransformer(bundle="shared.kedge", space="vit").transform(spaces["vit"]).shape[1] == anchors


@pytest.mark.parametrize("name", ["anchors", "support"])
@pytest.mark.parametrize("value", ["x", 2.5, [3], True])
def test_numbers_that_are_none_are_refused_as_fit_does(spaces: dict[str, np.ndarray], name: str, value: Any) -> None:
    with pytest.raises(TypeError) as expected:
        kedge.fit({"X": spaces["vit"]}, **{"anchors": 5, name: value})
    with pytest.raises(TypeError) as found:
        RelativeTransformer(**{"anchors": 5, name: value}).fit(spaces["vit"])
    assert str(found.value) == str(expected.value)


WITHOUT = """
import sys
sys.modules["sklearn"] = None  # as if it were not installed
import inspect, pydoc
import kedge
from kedge import *
assert fit is kedge.fit
assert "RelativeTransformer" not in [*kedge.__all__, *dir(kedge)]
assert not hasattr(kedge, "RelativeTransformer")
assert "fit" in dict(inspect.getmembers(kedge))
assert "RelativeTransformer" not in pydoc.render_doc(kedge)
try:
    kedge.RelativeTransformer
except AttributeError as error:
    print(error)
"""


def test_the_rest_works_without_scikit_learn() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "needs scikit-learn 1.6 or newer; " in done.stdout and "pip install 'scikit-learn>=1.6" in done.stdout
    assert "RelativeTransformer" in kedge.__all__ and "RelativeTransformer" in dir(kedge)
