# SPDX-License-Identifier: Apache-2.0
"""Which row belongs to which, from Python; and experiments/match on made-up encoders."""
import pathlib
import subprocess
import sys
from typing import Any

import kedge
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, DIM = 200, 32


def views(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """What two encoders make of the same inputs, each of which is about one of a few topics."""
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(6, DIM))[rng.integers(6, size=30)] + .7 * rng.normal(size=(30, DIM))
    meaning = centres[rng.choice(30, rows, p=rng.dirichlet(np.full(30, 3.)))] + .6 * rng.normal(size=(rows, DIM))
    meaning *= np.linspace(1.5, .3, DIM)
    turn = np.linalg.qr(rng.normal(size=(DIM + 8, DIM)))[0]
    return (meaning.astype(np.float32),
            (meaning @ turn.T + .03 * rng.normal(size=(rows, DIM + 8)) + 1).astype(np.float32))


@pytest.fixture(scope="module")
def piles() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two piles of the same inputs, and where each row of the first stands in the second."""
    first, second = views(ROWS)
    order = np.random.default_rng(5).permutation(ROWS)
    return first, second[order], np.argsort(order)


Piles = tuple[np.ndarray, np.ndarray, np.ndarray]


def test_rows_are_found_without_a_known_pair(piles: Piles) -> None:
    first, second, places = piles
    found = kedge.match(first, second)
    assert found.verdict == "matched" and found.trusted and found.sentence.startswith("matched: ")
    assert found.pairs.dtype == np.int64 and found.pairs.shape[1] == 2 and len(found.pairs) > .9 * ROWS
    assert (places[found.pairs[:, 0]] == found.pairs[:, 1]).mean() > .95
    assert found.chances.dtype == np.float32 and (np.diff(found.chances) <= 0).all()
    assert found.agreement > .3 and found.mutual > .6 and found.runs >= 2 and found.kept_back is None
    assert "matched" in repr(found)
    weight, (first_mean, second_mean) = found.rotation
    assert weight.shape == (DIM + 8, DIM)
    turned = (first - first_mean) @ weight.T + second_mean
    assert (((turned[:, None] - second[None, :100]) ** 2).sum(2).argmin(0) == np.argsort(places)[:100]).mean() > .95
    bundle = kedge.fit({"first": first, "second": second}, pairs=found.pairs)
    assert not bundle["second"].row_check["suspicious"]  # type: ignore[index]


def test_arrays_and_files_give_the_same(piles: Piles, tmp_path: pathlib.Path) -> None:
    first, second, places = piles
    known = np.column_stack([np.arange(20), places[:20]])
    for name, rows in (("a", first), ("b", second), ("known", known)):
        np.save(tmp_path / f"{name}.npy", rows)
    found = kedge.match(first, second, known, seed=2)
    again = kedge.match(str(tmp_path / "a.npy"), tmp_path / "b.npy", tmp_path / "known.npy", seed=2)
    assert found.pairs.tobytes() == again.pairs.tobytes() and found.chances.tobytes() == again.chances.tobytes()
    assert found.kept_back is not None and found.kept_back["pairs"] == 6 and found.kept_back["found_after"] > .9


def test_what_is_not_to_be_trusted_warns(piles: Piles) -> None:
    noise = np.random.default_rng(6).normal(size=(ROWS, DIM)).astype(np.float32)
    with pytest.warns(UserWarning, match="not matched: "):
        found = kedge.match(piles[0], noise, runs=2)
    assert found.verdict == "not-matched" and not found.trusted and len(found.pairs) == 0
    with pytest.warns(UserWarning, match="not matched: "):
        assert len(kedge.match(piles[0], noise, runs=2, force=True).pairs) > 0


@pytest.mark.parametrize("options, says", [
    ({"pairs": [[0, ROWS]]}, f"pair 0 names row {ROWS}"), ({"pairs": [[1, 1], [1, 2]]}, "pairs 0 and 1"),
    ({"pairs": [[0.5, 1]]}, "float64"), ({"runs": 0}, "1 or more"), ({"seed": -1}, "seed")])
def test_what_cannot_be_is_refused(piles: Piles, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kedge.match(piles[0], piles[1], **options)


def test_rows_that_tell_nothing_are_refused(piles: Piles) -> None:
    for rows, says in ((np.ones_like(piles[1]), "same"), (np.full_like(piles[1], np.nan), "row 0"),
                       (piles[1][:20], "20 rows")):
        with pytest.raises(ValueError, match=says):
            kedge.match(piles[0], rows)


def test_the_experiment_prints_its_table_and_draws_its_curve(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "slm").mkdir()
    for name, rows in zip(("minilm-l6", "use-multilingual"), views(250)):
        np.save(tmp_path / "slm" / f"{name}.npy", rows.astype(np.float16))
    command: list[str | pathlib.Path] = [
        sys.executable, ROOT / "experiments" / "match" / "run.py", "--data", tmp_path, "--pairs", "0,5", "--draws", "1",
        "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "documents, minilm - mpnet: its files are not in" in done.stdout
    line, = (line for line in done.stdout.splitlines() if line.startswith("| sentences, minilm - use |"))
    size, every, none, five = line.split(" | ")[1:]
    assert size == "200" and float(every) > .95 and float(none) > .9 and float(five.split()[2]) > .9
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.csv", "table.md", "curve.svg"}
    assert "| two runs | 1 | 0 | 0 | 0 |" in done.stdout
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "draw 1" not in again and line in again, "what was measured is not measured again"
