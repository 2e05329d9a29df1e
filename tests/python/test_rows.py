# SPDX-License-Identifier: Apache-2.0
"""Which rows are taken, and whether they belong together, from Python."""
import pathlib
import warnings
from typing import Any

import kedge
import numpy as np
import pytest


@pytest.fixture
def encoders() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 12))
    return {name: np.tanh(inputs @ rng.normal(size=(12, dim)) / 3).astype(np.float32)
            for name, dim in (("a", 30), ("b", 40), ("c", 50))}


def check_of(bundle: kedge.Bundle, name: str) -> dict[str, Any]:
    check = bundle[name].row_check
    assert check is not None
    return check


def test_rows_that_do_not_match_are_a_warning(encoders: dict[str, np.ndarray]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle = kedge.fit(encoders)
    assert check_of(bundle, "a")["found_first"] > 0.5 and not check_of(bundle, "a")["suspicious"]
    with pytest.warns(UserWarning, match="the rows of 'b' do not match") as caught:
        kedge.fit({**encoders, "b": np.roll(encoders["b"], 1, axis=0)})
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="row n \\+ 3 of the others") as caught:
        bundle.attach("late", np.roll(encoders["b"], -3, axis=0))
    assert caught[0].filename == __file__
    assert check_of(bundle, "late")["shift"] == -3


def test_rows_that_do_not_match_in_part_are_a_warning(encoders: dict[str, np.ndarray]) -> None:
    late = encoders["b"].copy()
    late[200:] = np.roll(late[200:], 1, axis=0)
    with pytest.warns(UserWarning,
                      match="from about row .* the rows of 'b' do not match those of the others") as caught:
        bundle = kedge.fit({**encoders, "b": late})
    assert len(caught) == 1
    check = check_of(bundle, "b")
    assert check["suspicious"] and abs(check["block"][0] - 200) < 20 and check["block"][1] is None
    assert check["found_first_in_block"] < 0.2 and check["shift"] == 1


def test_of_two_nobody_is_accused(encoders: dict[str, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match="the rows of 'a' and 'b' do not match each other") as caught:
        kedge.fit({"a": encoders["a"], "b": np.roll(encoders["b"], 1, axis=0)})
    assert len(caught) == 1


def test_the_same_rows_under_two_names_are_a_warning(encoders: dict[str, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match="'a' and 'again' hold the same rows") as caught:
        bundle = kedge.fit({**encoders, "again": encoders["a"].astype(np.float64)})
    assert len(caught) == 1 and check_of(bundle, "again")["same_as"] == "a"
    with pytest.warns(UserWarning, match="'b' and 'once more' hold the same rows"):
        bundle.attach("once more", encoders["b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a space that replaces itself is not warned about
        bundle.attach("new", np.tanh(encoders["b"]))
        bundle.attach("new", np.tanh(encoders["b"]), replace=True)
    labels = (encoders["a"][:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match="'a' and 'again' hold the same rows"):
        kedge.stitch({"a": encoders["a"], "again": encoders["a"]}, train=(0, 300), test=(300, 400), labels=labels,
                     methods=["absolute"], head="linear")


def test_too_few_rows_to_check_are_a_warning(encoders: dict[str, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match="'a', 'b' and 'c' could not be checked: 40 support rows are too few"):
        bundle = kedge.fit(encoders, rows=(0, 40))
    with pytest.warns(UserWarning, match="'late' could not be checked: 40 support rows are too few"):
        bundle.attach("late", encoders["b"], rows=(0, 40))
    assert bundle["late"].row_check is None


def test_r2_is_called_what_it_is() -> None:
    said = kedge.RelativeMap.r2.__doc__ or ""
    assert "generalised cross-validation" in said and "held-out" not in said


def test_mixtures_have_an_r2(encoders: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(encoders, method="kmeans", anchors=20)
    r2 = bundle["a"].r2
    assert r2 is not None and -1 <= r2 < 1
    assert kedge.fit(encoders, method="kmeans", similarity="cosine", anchors=20)["a"].r2 is None


@pytest.mark.parametrize("rows", [np.arange(0, 400, 2), list(range(0, 400, 2)), np.arange(400) % 2 == 0,
                                  [i % 2 == 0 for i in range(400)], np.arange(0, 400, 2).astype(np.uint16)])
def test_rows_are_arrays_or_masks(encoders: dict[str, np.ndarray], rows: Any, tmp_path: pathlib.Path) -> None:
    chosen = kedge.fit(encoders, rows=rows, anchors=20)
    assert set(chosen.support_ids) == set(range(0, 400, 2))
    alone = kedge.fit({name: x[::2] for name, x in encoders.items()}, anchors=20)
    one, other = chosen["a"].transform(encoders["a"]), alone["a"].transform(encoders["a"])
    np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(one).max())
    scores = kedge.compare(one, other, rows=rows)
    assert scores["rows"] == 200
    np.save(tmp_path / "x.npy", encoders["a"])
    chosen["a"].transform_file(tmp_path / "x.npy", tmp_path / "y.npy", rows=rows)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), one[::2], atol=1e-5 * np.abs(one).max())


def test_heads_learn_from_chosen_rows(encoders: dict[str, np.ndarray]) -> None:
    labels = (encoders["a"][:, 0] > 0).astype(int)
    even = np.arange(400) % 2 == 0
    options: dict[str, Any] = {"labels": labels, "methods": ["absolute"], "head": "linear"}
    by_mask = kedge.stitch(encoders, train=even, test=np.flatnonzero(~even), **options)
    order = np.argsort(~even, kind="stable")
    by_range = kedge.stitch({name: x[order] for name, x in encoders.items()}, train=(0, 200), test=(200, 400),
                            **{**options, "labels": labels[order]})
    assert list(by_mask["accuracy"]) == list(by_range["accuracy"])


@pytest.mark.parametrize("rows, says", [
    (np.zeros(400, bool), "no rows are chosen"), (np.ones(399, bool), "mask of rows is for 399"),
    ([3, 3], "more than once"),
    ([-1], "row -1"), ([400], "row 400"), ([0.5], "whole numbers")])
def test_rows_that_cannot_be_are_refused(encoders: dict[str, np.ndarray], rows: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kedge.fit(encoders, rows=rows)


def test_anchors_default_to_what_there_is(encoders: dict[str, np.ndarray]) -> None:
    assert kedge.fit(encoders, method="random", support=25).n_anchors == 25
    assert kedge.fit(encoders).n_anchors <= 120


def test_wrong_pairs_are_told_of_and_left_out(encoders: dict[str, np.ndarray]) -> None:
    wrong = np.arange(0, 400, 3)
    bent = encoders["b"].copy()
    bent[wrong] = np.roll(bent[wrong], 1, axis=0)
    given = {"a": encoders["a"], "b": bent}
    with pytest.warns(UserWarning, match="look wrong, rows"):
        kedge.fit(given, method="ridge")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle = kedge.fit(given, method="ridge", robust=True)
        consensus = kedge.fit({"a": encoders["a"], "c": encoders["c"]}, anchors=10)
        consensus.attach("b", bent, robust=True)
    assert 240 < len(bundle.support_ids) < 300 and np.isin(bundle.support_ids, wrong).mean() < 0.1
    with pytest.warns(UserWarning, match="the rows of 'b' look wrong"):
        consensus.attach("b", bent, replace=True)
    with pytest.raises(ValueError, match="robust"):
        kedge.fit(given, method="random", robust=True)
