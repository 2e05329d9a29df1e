# SPDX-License-Identifier: Apache-2.0
"""Finite is not enough: what hard spaces give must also be right, if the right answer is known."""
from typing import Any

import kedge
import numpy as np
import pytest
import spaces as hard_spaces
from spaces import METHODS, SIMILARITIES, Method, Similarity
from tally import Tally

SECTION = "What is known beforehand"
every_way = pytest.mark.parametrize("method, similarity", [(m, s) for m in METHODS for s in SIMILARITIES])


def fit(spaces: dict[str, np.ndarray], method: Method, similarity: Similarity, **options: Any) -> kedge.Bundle:
    return kedge.fit(spaces, method=method, similarity=similarity, **hard_spaces.brief(method),
                     **{"anchors": 8, "support": 40, **options})


@every_way
def test_copies_of_a_space_get_equal_maps(method: Method, similarity: Similarity, tally: Tally) -> None:
    rows = hard_spaces.views()["vit"].astype(np.float32)
    bundle = fit({"a": rows, "b": rows, "c": rows}, method, similarity)
    bundle.attach("d", rows)
    expected = bundle["a"].transform(rows)
    # Consensus takes its statistics from all spaces side by side: on some processors, how a column's sums are rounded
    # depends on where it stands.
    rounding = 1e-6 * np.abs(expected).max() if method == "consensus" else 0
    for name in "bcd":
        np.testing.assert_allclose(bundle[name].transform(rows), expected, rtol=0, atol=rounding)
        scores = kedge.compare(expected, bundle[name].transform(rows))
        assert scores["mrr"] == 1 and scores["nmse"] <= (1e-12 if method == "consensus" else 0)
    tally(SECTION, "copies of a space", "MRR 1, equal bits, of consensus but for rounding")


@every_way
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8"])
def test_the_type_of_the_numbers_does_not_matter(method: Method, similarity: Similarity, dtype: str,
                                                 tally: Tally) -> None:
    exact = {name: rows.astype(np.float16) for name, rows in hard_spaces.views().items()}
    expected = fit(exact, method, similarity)
    found = fit({name: rows.astype(dtype) for name, rows in exact.items()}, method, similarity)
    for name, rows in exact.items():
        np.testing.assert_array_equal(found[name].weight, expected[name].weight)
        np.testing.assert_array_equal(found[name].transform(rows.astype(dtype)), expected[name].transform(rows))
    tally(SECTION, "the same values as float16, 32 and 64", "equal bits")


@pytest.mark.parametrize("scale", [1e-15, 1e-8, 1e8, 1e15])
@pytest.mark.parametrize("method", METHODS)
def test_wip_does_not_see_the_scale(method: Method, scale: float, tally: Tally) -> None:
    """Without the epsilon, which is the one number that has a scale."""
    rows = hard_spaces.views()
    expected = fit(rows, method, "wip", epsilon=0.0)
    found = fit({name: scale * own for name, own in rows.items()}, method, "wip", epsilon=0.0)
    for name, own in rows.items():
        rr = expected[name].transform(own)
        np.testing.assert_allclose(found[name].transform(scale * own), rr, atol=2e-4 * np.abs(rr).max())
    tally(SECTION, "wip of spaces 1e-15 to 1e15 times as large", "the same RR")


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("method", ["random", "fps", "kmeans"])
@pytest.mark.parametrize("size", [1e6, 1e15])
def test_one_row_far_outside_leaves_the_anchors_of_the_others(method: Method, similarity: Similarity, size: float,
                                                              tally: Tally) -> None:
    """Anchors are mixtures of support rows, whatever the mean of all rows has become. (Wip and euclidean measure from
    that mean.)"""
    rows = hard_spaces.views()["vit"]
    rows[5] = size
    support = np.setdiff1d(np.arange(hard_spaces.ROWS), [5])
    bundle = kedge.fit({"vit": rows}, method=method, similarity=similarity, anchors=8, support_ids=support)
    anchors = bundle.mixture.astype(np.float64) @ rows[support]
    if similarity == "cosine":
        anchors /= np.linalg.norm(anchors, axis=1, keepdims=True)
    np.testing.assert_allclose(bundle["vit"].weight, anchors, rtol=0, atol=1e-6 * np.abs(anchors).max())
    tally(SECTION, "one row of 1e6 or 1e15 outside the support", "the anchors of the other rows")


def test_every_row_as_an_anchor_finds_itself(tally: Tally) -> None:
    spaces = hard_spaces.views()
    distinct: list[Similarity] = ["cosine", "euclidean", "angular", "manhattan"]
    for similarity in distinct:
        bundle = fit(spaces, "random", similarity, anchors=hard_spaces.ROWS, support=hard_spaces.ROWS)
        rr = bundle["vit"].transform(spaces["vit"])
        chosen = bundle.support_ids[bundle.mixture.argmax(axis=1)]
        nearest = (rr.argmin if similarity in ("euclidean", "manhattan") else rr.argmax)(axis=1)
        np.testing.assert_array_equal(chosen[nearest], np.arange(hard_spaces.ROWS))
        tally(SECTION, "every row an anchor", "each row is nearest to its own")
