# SPDX-License-Identifier: Apache-2.0
"""Fitting and attaching files whose rows are not in the same order, by pairs of row numbers."""
import numpy as np
import pytest
from conftest import Kedge

A = ["--space", "a=a.npy"]


@pytest.fixture
def shuffled(kedge: Kedge, spaces: list[str]) -> Kedge:
    """The rows of b.npy once more in another order, between others, and the pairs of a.npy and that file."""
    assert spaces[:2] == A
    rng = np.random.default_rng(1)
    places = rng.permutation(300)[:200]
    rows = rng.normal(size=(300, 5)).astype(np.float32)
    rows[places] = np.load(kedge.folder / "b.npy")
    np.save(kedge.folder / "mixed.npy", rows)
    np.save(kedge.folder / "pairs.npy", rng.permutation(np.column_stack([np.arange(200), places])))
    return kedge


@pytest.mark.parametrize("method", [["consensus"], ["param", "--epochs", 2], ["kmeans", "--similarity", "cosine"],
                                    ["ridge"], ["consensus", "--attach", "kernel"]])
def test_pairs_fit_as_rows_in_order(shuffled: Kedge, method: list[object]) -> None:
    how = ["--method", *method, "--support", 100]
    shuffled.ok("fit", *A, "--space", "b=b.npy", *how, "-o", "ordered.kedge")
    done = shuffled.ok("fit", *A, "--space", "b=mixed.npy", "--pairs", "pairs.npy", *how, "-o", "paired.kedge")
    assert "warning" not in done.stderr
    assert (shuffled.folder / "paired.kedge").read_bytes() == (shuffled.folder / "ordered.kedge").read_bytes()


def test_pairs_find_the_rows_of_a_space_to_attach(shuffled: Kedge) -> None:
    shuffled.ok("fit", *A, "--support", 100, "-o", "a.kedge")
    attach = ["attach", "a.kedge", "--space"]
    shuffled.ok(*attach, "b=b.npy", "-o", "ordered.kedge")
    done = shuffled.json(*attach, "b=mixed.npy", "--pairs", "pairs.npy", "-o", "paired.kedge")
    assert (done["support"], done["statistics_rows"]) == (100, 200)
    assert (shuffled.folder / "paired.kedge").read_bytes() == (shuffled.folder / "ordered.kedge").read_bytes()

    np.save(shuffled.folder / "some.npy", np.load(shuffled.folder / "pairs.npy")[:150])
    some = shuffled.ok(*attach, "b=mixed.npy", "--pairs", "some.npy", "-o", "some.kedge")
    assert " of the 100 support rows, and the map was made from those" in some.stderr and "warning" not in some.stderr
    shuffled.refused(2, *attach, "b=mixed.npy", "--pairs", "some.npy", "--attach", "mixture", "-o", "x.kedge",
                     says=["of the bundle's 100 support rows", "all are needed", "--attach ridge"])


@pytest.mark.parametrize("code, pairs, says", [
    (2, np.array([[0, 0], [1, 300]]), "pair 1 names row 300 of space 'b', but mixed.npy has rows 0:300"),
    (2, np.array([[0, 0], [200, 1]]), "pair 1 names row 200 of space 'a'"),
    (2, np.array([[-1, 0]]), "pair 0 names row -1"),
    (2, np.array([[3, 0], [4, 1], [3, 0]]), "pairs 0 and 2 are the same"),
    (2, np.array([[3, 0], [3, 1]]), "a row of the first column may be in one pair only"),
    (2, np.zeros((0, 2), int), "there are no pairs"),
    (3, np.zeros((5, 3), int), "integers in rows of 2 (a row number of each --space), found [5 x 3]"),
    (3, np.zeros((5, 2)), "found [5 x 2] of float64"), (3, np.arange(5), "found [5]")])
def test_pairs_that_cannot_be_are_refused(shuffled: Kedge, code: int, pairs: np.ndarray, says: str) -> None:
    np.save(shuffled.folder / "pairs.npy", pairs)
    shuffled.refused(code, "fit", *A, "--space", "b=mixed.npy", "--pairs", "pairs.npy", "-o", "x.kedge", says=says)


def test_options_that_do_not_go_with_pairs_are_refused(shuffled: Kedge) -> None:
    by_pairs = ["--space", "b=mixed.npy", "--pairs", "pairs.npy", "-o", "x.kedge"]
    fit = ["fit", *A, *by_pairs]
    shuffled.refused(2, *fit, "--rows", "0:50", says=["--pairs say which rows", "--rows"])
    shuffled.refused(2, *fit, "--support", 201, says=["support of 201 rows", "200"])
    shuffled.refused(2, *fit[:-1], "pairs.npy", says="is an input")
    shuffled.refused(3, "fit", *by_pairs, says="integers in rows of 1 (a row number of each --space), found [200 x 2]")
    shuffled.ok("fit", *A, "--support", 100, "-o", "a.kedge")
    attach = ["attach", "a.kedge", *by_pairs]
    shuffled.refused(2, *attach, "--rows", "0:50", says=["--pairs say which rows", "--rows"])
    shuffled.refused(2, *attach, "--support-rows", says=["--pairs say which rows", "--support-rows"])
    shuffled.refused(2, *attach[:-1], "pairs.npy", says="is an input")
    np.save(shuffled.folder / "ids.npy", np.arange(300))
    shuffled.refused(2, *attach, "--ids", "ids.npy", says=["--pairs say which rows", "--ids"])
