# SPDX-License-Identifier: Apache-2.0
"""kedge inspect --like: which of some known models the rows of a file are of, on embeddings of real encoders."""
import pathlib

import numpy as np
import pytest
from conftest import SLM, Kedge

HALF = 1650  # of the rows: those before are known, those behind are looked at
WIDTH = 384


def rows_of(encoder: str) -> np.ndarray:
    """Cut to one width, and of length 1, as encoders that can be cut deliver them."""
    rows = np.load(SLM / f"{encoder}.npy")[:, :WIDTH].astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("known")
    for encoder in ("minilm-l6", "gemma3-270m", "smollm2-135m"):
        rows = rows_of(encoder)
        np.save(folder / f"{encoder}.npy", rows[:HALF])
        np.save(folder / f"new-{encoder}.npy", rows[HALF:])
    return folder


@pytest.fixture
def inspect(kedge: Kedge, files: pathlib.Path) -> Kedge:
    kedge.folder = files
    return kedge


KNOWN = ("--like", "minilm-l6.npy", "gemma=gemma3-270m.npy")


@pytest.mark.parametrize(("encoder", "name"), [("minilm-l6", "minilm-l6"), ("gemma3-270m", "gemma")])
def test_a_file_is_of_its_model(inspect: Kedge, encoder: str, name: str) -> None:
    found = inspect.json("inspect", f"new-{encoder}.npy", *KNOWN)
    assert found["looks"] == "like"
    assert {one["name"]: one["rows"] / found["rows"] > .98 for one in found["like"]} == {
        one["name"]: one["name"] == name for one in found["like"]}


def test_a_file_is_of_none(inspect: Kedge) -> None:
    found = inspect.json("inspect", "new-smollm2-135m.npy", *KNOWN)
    assert found["looks"] == "none" and found["none"] > .98 * found["rows"]


@pytest.mark.parametrize("share", [.01, .05, .2, .5])
@pytest.mark.parametrize("known", [True, False])
def test_planted_rows_are_found(inspect: Kedge, share: float, known: bool) -> None:
    mixed, others = np.load(inspect.folder / "new-minilm-l6.npy"), np.load(inspect.folder / "new-gemma3-270m.npy")
    planted = np.sort(np.random.default_rng(3).permutation(HALF)[:round(share * HALF)])
    mixed[planted] = others[planted]
    np.save(inspect.folder / "mixed.npy", mixed)
    found = inspect.json("inspect", "mixed.npy", *KNOWN[:2 + known])
    counted = found["like"][1]["rows"] if known else found["none"]
    assert .98 * len(planted) <= counted <= len(planted) + .005 * HALF
    assert set(planted[:3]) <= set(found["strange_rows"])
    assert found["looks"] == "mixed"


def test_moments_are_enough(inspect: Kedge) -> None:
    inspect.ok("moments", "--space", "a=minilm-l6.npy", "--space", "b=gemma3-270m.npy", "-o", "known.moments", "-q")
    found = inspect.ok("inspect", "new-minilm-l6.npy", "--like", "known.moments").stdout
    assert "new-minilm-l6.npy looks like a\n" in found


def test_lengths_are_told_but_do_not_count(inspect: Kedge) -> None:
    np.save(inspect.folder / "long.npy", 7 * np.load(inspect.folder / "new-minilm-l6.npy"))
    said = inspect.ok("inspect", "long.npy", *KNOWN).stdout
    assert "looks like minilm-l6\n" in said and "its rows have length 7, those of minilm-l6 1;" in said


def test_another_width_is_another_model(inspect: Kedge) -> None:
    said = inspect.ok("inspect", "new-minilm-l6.npy", "--like", SLM / "use-multilingual.npy").stdout
    assert "384 values" in said and "512" in said and "looks like a model that is not among them" in said


def test_a_few_rows_that_look_like_a_model_do_not_make_it_one(inspect: Kedge) -> None:
    for encoder in ("minilm-l6", "gemma3-270m"):
        np.save(inspect.folder / f"narrow-{encoder}.npy", np.load(inspect.folder / f"new-{encoder}.npy")[:, :32])
    found = inspect.json("inspect", "narrow-gemma3-270m.npy", "--like", "narrow-minilm-l6.npy")
    assert found["looks"] == "none"


def test_what_fills_all_directions_tells_nothing(inspect: Kedge) -> None:
    np.save(inspect.folder / "round.npy", np.random.default_rng(0).normal(size=(900, WIDTH)).astype(np.float32))
    found = inspect.json("inspect", "new-minilm-l6.npy", *KNOWN, "round.npy")
    assert found["looks"] == "like" and len(found["like"]) == 2
    assert "round fills all directions nearly alike, so nothing can be told by it" in found["notes"]
    assert inspect.json("inspect", "round.npy", "--like", "round.npy")["looks"] == "unsure"


def test_bad_input(inspect: Kedge) -> None:
    np.save(inspect.folder / "none.npy", np.zeros((0, WIDTH), np.float32))
    np.save(inspect.folder / "one.npy", np.ones((1, WIDTH), np.float32))
    inspect.refused(3, "inspect", "none.npy", *KNOWN, says="no rows")
    inspect.refused(3, "inspect", "new-minilm-l6.npy", "--like", "one.npy", says="one.npy")
    inspect.refused(3, "inspect", "new-minilm-l6.npy", "--like", "missing.npy", says="missing.npy")
    inspect.refused(3, "inspect", "new-minilm-l6.npy", says="this is an .npy file, not a bundle")
    inspect.refused(2, "inspect", "new-minilm-l6.npy", *KNOWN, "minilm-l6.npy", says="'minilm-l6' twice")
    inspect.refused(2, "inspect", "new-minilm-l6.npy", "--like", "a=", says="--like names no file")
