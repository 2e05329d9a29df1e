# SPDX-License-Identifier: Apache-2.0
"""Fitting and attaching arrays whose rows are not in the same order, by pairs of row numbers."""
import pathlib
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import ROWS

Spaces = dict[str, np.ndarray]


@pytest.fixture
def places() -> np.ndarray:
    """Where each row of vit stands in rex, once that is shuffled."""
    return np.random.default_rng(3).permutation(ROWS)


def put(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    moved = np.empty_like(rows)
    moved[places] = rows
    return moved


def test_pairs_fit_as_rows_in_order(spaces: Spaces, places: np.ndarray, tmp_path: pathlib.Path) -> None:
    expected = kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, anchors=10)
    pairs = np.column_stack([np.arange(ROWS), places])
    np.save(tmp_path / "pairs.npy", pairs)
    for given in (pairs, np.asfortranarray(pairs[::-1].astype(np.uint16)), pairs.tolist(), tmp_path / "pairs.npy"):
        found = kedge.fit({"vit": spaces["vit"], "rex": put(spaces["rex"], places)}, anchors=10, pairs=given)
        assert (found.support_ids == expected.support_ids).all()
        for name in ("vit", "rex"):
            assert found[name].transform(spaces[name]).tobytes() == expected[name].transform(spaces[name]).tobytes()


def test_pairs_find_the_rows_of_an_encoder_to_attach(spaces: Spaces, places: np.ndarray) -> None:
    clip = put(spaces["clip"], places)
    pairs = np.column_stack([np.arange(ROWS), places])
    bundle = kedge.fit({name: spaces[name] for name in ("vit", "rex")}, anchors=10, support=200)
    expected = bundle.attach("ordered", spaces["clip"]).transform(spaces["clip"])
    with pytest.warns(UserWarning, match="'ordered' and 'clip' hold the same rows"):
        found = bundle.attach("clip", clip, pairs=pairs)
    assert found.transform(spaces["clip"]).tobytes() == expected.tobytes()
    some = bundle.attach("some", clip, pairs=pairs[:300]).transform(spaces["clip"])
    assert np.corrcoef(some.ravel(), expected.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("pairs, says", [
    (np.zeros((4, 3), int), r"rows of 2 \(a row number of each space\), found \[4 x 3\]"), ([[0.5, 1]], "float64"),
    ([], "found none"), ([[0, 1], [2]], "different lengths"), ([[0, ROWS]], f"pair 0 names row {ROWS} of space 'rex'"),
    ([[1, 0], [1, 0]], "pairs 0 and 1 are the same")])
def test_pairs_that_cannot_be_are_refused(spaces: Spaces, pairs: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, pairs=pairs)


def test_arguments_that_do_not_go_with_pairs_are_refused(bundle: kedge.Bundle, spaces: Spaces) -> None:
    two = {"vit": spaces["vit"], "rex": spaces["rex"]}
    with pytest.raises(ValueError, match="pairs say which rows of it to take, so that rows"):
        kedge.fit(two, pairs=[[0, 1]], rows=slice(0, 9))
    with pytest.raises(ValueError, match="nothing to find by pairs"):
        kedge.fit(two, pairs=[[0, 1]], moments=kedge.Moments(two), support_rows=True, support_ids=[0])
    with pytest.raises(ValueError, match="pairs says something about the rows"):
        kedge.fit(moments=kedge.Moments(two), pairs=[[0, 1]])
    with pytest.raises(ValueError, match="pairs say which rows .* ids"):
        bundle.attach("late", spaces["clip"], pairs=[[0, 1]], ids=np.arange(ROWS))
    with pytest.raises(ValueError, match="support_rows=True"):
        bundle.attach("late", spaces["clip"], pairs=[[0, 1]], support_rows=True)
    with pytest.raises(ValueError, match="pairs say something about X"):
        bundle.attach("clip", pairs=[[0, 1]], moments=kedge.Moments({"clip": spaces["clip"]}), replace=True)
