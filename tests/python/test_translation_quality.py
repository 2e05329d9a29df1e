# SPDX-License-Identifier: Apache-2.0
"""Searches of documents that one real encoder has embedded with the queries of another, similar one. Few rows are known
of both, where a rotation is hardest to beat and whitening does most harm."""
import pathlib
from typing import Any

import kedge
import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "data/cranfield"
SUPPORT = 400
NOISE = .01  # of a mean nDCG over the draws
PAIRS = [("minilm-l6", "mpnet-base"), ("mpnet-base", "minilm-l6")]


def rows(encoder: str, kind: str) -> np.ndarray:
    return np.asarray(np.load(FOLDER / f"{encoder}-{kind}.npy"), dtype=np.float32)


def score(old: str, new: str, **options: Any) -> float:
    """Mean nDCG@10 over two draws."""
    judged = np.load(FOLDER / "qrels.npy").astype(np.int64)
    x, y, queries = rows(old, "docs"), rows(new, "docs"), rows(new, "queries")
    found = []
    for seed in (0, 1):
        support = np.sort(np.random.default_rng(seed).permutation(len(x))[:SUPPORT])
        bundle = kedge.fit({"old": x[support], "new": y[support]}, support=SUPPORT, **options)
        translated = bundle.translator("old", "new")(x)
        found.append(kedge.retrieve(queries, translated, judged, exclude=support)["ndcg@10"])
    return float(np.mean(found))


@pytest.mark.parametrize("old, new", PAIRS)
def test_a_kernel_finds_no_less_than_a_rotation(old: str, new: str) -> None:
    assert score(old, new, method="kernel") >= score(old, new, method="procrustes", similarity="inner")


@pytest.mark.parametrize("method", ["ridge", "procrustes"])
@pytest.mark.parametrize("old, new", PAIRS)
def test_whitening_is_left_where_it_does_harm(old: str, new: str, method: str) -> None:
    assert score(old, new, method=method) >= score(old, new, method=method, similarity="inner") - NOISE


def test_a_rotation_is_chosen_as_if_pairs_that_are_given_twice_were_given_once() -> None:
    slm = FOLDER.parent / "slm"
    once = {name: np.load(slm / f"{name}.npy")[:150].astype(np.float32) for name in ("smollm2-135m", "gemma3-270m")}
    twice = {name: np.repeat(own, 2, axis=0) for name, own in once.items()}
    found = [kedge.fit(spaces, method="procrustes", support=len(spaces["gemma3-270m"])).translator(*once)(
        once["smollm2-135m"]) for spaces in (once, twice)]  # in other directions rows say nothing
    assert np.linalg.norm(found[1] - found[0]) < .01 * np.linalg.norm(found[0] - found[0].mean(0))


def test_a_kernel_of_a_few_pairs_does_not_lengthen_rows() -> None:
    rng = np.random.default_rng(0)
    old, new = (rng.standard_normal((5, 40)).astype(np.float32) for _ in range(2))
    translated = kedge.fit({"old": old, "new": new}, method="kernel").translator("old", "new")(old)
    assert np.linalg.norm(translated - new.mean(0)) < 1.1 * np.linalg.norm(new - new.mean(0))
