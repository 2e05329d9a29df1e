# SPDX-License-Identifier: Apache-2.0
"""Which row belongs to which: the pairs that kedge match finds, its verdicts, and what it refuses."""
import json
import signal
import subprocess

import numpy as np
import pytest
from conftest import Kedge

ROWS, DIM = 200, 32
BOTH = ["--space", "a=a.npy", "--space", "b=b.npy"]


def topics(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Rows as texts have them: about one topic each, and topics are related and of different sizes."""
    families = rng.normal(size=(6, DIM))
    centres = families[rng.integers(6, size=30)] + .7 * rng.normal(size=(30, DIM))
    sizes = rng.dirichlet(np.full(30, 3.))
    found: np.ndarray = centres[rng.choice(30, rows, p=sizes)] + .6 * rng.normal(size=(rows, DIM))
    return found * np.linspace(1.5, .3, DIM)


def view(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As another encoder has them: turned, moved, and a little off."""
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    found: np.ndarray = (rows @ turn + .03 * rng.normal(size=rows.shape) + rng.normal(size=DIM)).astype(np.float32)
    return found


@pytest.fixture(scope="module")
def piles(shared_kedge: Kedge) -> Kedge:
    """The same inputs in a.npy and, in another order, in b.npy and c.npy; true.npy has the row of each in all three.
    halves-*.npy have different inputs, and noise.npy has none."""
    rng, folder = np.random.default_rng(0), shared_kedge.folder
    rows = topics(rng, ROWS)
    orders = [np.arange(ROWS), rng.permutation(ROWS), rng.permutation(ROWS)]
    for name, order in zip("abc", orders):
        np.save(folder / f"{name}.npy", view(rows, rng)[order])
    np.save(folder / "true.npy", np.column_stack([np.argsort(order) for order in orders]))
    more = topics(rng, 600)
    np.save(folder / "halves-a.npy", view(more, rng)[:300])
    second = view(more, rng)
    np.save(folder / "halves-b.npy", second[300:])
    np.save(folder / "halves-true.npy", second[:300])
    np.save(folder / "noise.npy", rng.normal(size=(ROWS, DIM)).astype(np.float32))
    for count in (5, 30):
        known = np.load(folder / "true.npy")[rng.permutation(ROWS)[:count], :2]
        np.save(folder / f"known-{count}.npy", known)
    np.save(folder / "wrong.npy", np.column_stack([known[:, 0], np.roll(known[:, 1], 1)]))
    return shared_kedge


def share_right(kedge: Kedge, pairs: str = "pairs.npy") -> float:
    found, true = np.load(kedge.folder / pairs), np.load(kedge.folder / "true.npy")
    assert found.dtype == np.int64 and found.ndim == 2
    return float((true[found[:, 0], 1:found.shape[1]] == found[:, 1:]).all(1).mean())


def unit(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def found_first(rows: np.ndarray, among: np.ndarray) -> float:
    rows, among = unit(rows - among.mean(0)), unit(among - among.mean(0))
    return float(((rows @ among.T).argmax(1) == np.arange(len(rows))).mean())


def test_rows_are_found_without_a_known_pair(piles: Kedge) -> None:
    done = piles.ok("match", *BOTH, "-o", "pairs.npy", "--scores", "scores.npy")
    pairs, chances = np.load(piles.folder / "pairs.npy"), np.load(piles.folder / "scores.npy")
    assert len(pairs) > .9 * ROWS and share_right(piles) > .95
    assert chances.dtype == np.float32 and chances.shape == (len(pairs),)
    assert (np.diff(chances) <= 0).all() and chances.min() >= 0 and chances[0] > .9
    verdict, wrote = done.stderr.splitlines()[-2:]
    assert verdict.startswith("matched: ") and wrote.startswith(f"wrote pairs.npy: {len(pairs)} pairs")

    fitted = piles.ok("fit", *BOTH, "--pairs", "pairs.npy", "-o", "shared.kedge")
    assert "warning" not in fitted.stderr and "the same row is found first" in fitted.stderr


def test_the_same_seed_finds_the_same_pairs(piles: Kedge) -> None:
    for out in ("one.npy", "again.npy"):
        piles.ok("match", *BOTH, "--seed", 3, "-o", out)
    assert (piles.folder / "one.npy").read_bytes() == (piles.folder / "again.npy").read_bytes()


@pytest.mark.parametrize("count", [5, 30])
def test_known_pairs_help_and_judge(piles: Kedge, count: int) -> None:
    said = piles.json("match", *BOTH, "--pairs", f"known-{count}.npy", "-o", "known.npy")
    one, = said["matches"]
    assert said["verdict"] == one["verdict"] == "matched" and said["pairs"] == one["pairs"] > .9 * ROWS
    assert one["sentence"].startswith("matched: ") and 0 <= one["agreement"] <= 1 and one["mutual"] > .6
    assert share_right(piles, "known.npy") > .95
    if count == 5:
        assert "kept_back" not in one
    else:
        assert one["kept_back"]["pairs"] == 9 and one["kept_back"]["found_after"] > .9


def test_every_space_is_matched_with_the_first(piles: Kedge) -> None:
    said = piles.json("match", *BOTH, "--space", "c=c.npy", "-o", "three.npy")
    assert [(one["first"], one["second"]) for one in said["matches"]] == [("a", "b"), ("a", "c")]
    assert np.load(piles.folder / "three.npy").shape == (said["pairs"], 3)
    assert said["pairs"] > .85 * ROWS and share_right(piles, "three.npy") > .95
    fitted = piles.ok("fit", *BOTH, "--space", "c=c.npy", "--pairs", "three.npy", "-o", "shared.kedge")
    assert "warning" not in fitted.stderr


def test_a_bundle_is_fitted_on_the_pairs(piles: Kedge) -> None:
    piles.ok("match", *BOTH, "--pairs", "known-5.npy", "-o", "found.kedge")
    piles.ok("translate", "found.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "as-b.npy")
    places = np.load(piles.folder / "true.npy")[:, 1]
    assert found_first(np.load(piles.folder / "as-b.npy"), np.load(piles.folder / "b.npy")[places]) > .95


def test_different_inputs_give_a_rotation_and_no_pairs(piles: Kedge) -> None:
    halves = ["--space", "a=halves-a.npy", "--space", "b=halves-b.npy"]
    said = piles.json("match", *halves, "--disjoint", "-o", "rotation.kedge")
    assert (said["verdict"], said["pairs"]) == ("disjoint", 0)
    piles.ok("translate", "rotation.kedge", "--from", "a", "--to", "b", "-i", "halves-a.npy", "-o", "as-b.npy")
    assert found_first(np.load(piles.folder / "as-b.npy"), np.load(piles.folder / "halves-true.npy")) > .5
    piles.refused(2, "match", *halves, "--disjoint", "-o", "x.npy", says=["no pairs to write", "-o FILE.kedge"])


def test_what_cannot_be_told_has_an_exit_status_of_its_own(piles: Kedge) -> None:
    other = ["match", "--space", "a=a.npy", "--space", "n=noise.npy", "--runs", 2]
    piles.refused(4, *other, "-o", "x.npy", "--scores", "y.npy",
                  says=["kedge: not matched: ", "20 known pairs", "--force"])
    told = piles.run(*other, "--json", "-o", "x.kedge")
    assert told.returncode == 4 and json.loads(told.stdout)["verdict"] == "not-matched"
    assert "nothing was written" in told.stderr and not (piles.folder / "x.kedge").exists()
    forced = piles.run(*other, "--force", "-o", "forced.npy")
    assert forced.returncode == 4 and "wrote forced.npy" in forced.stderr and "not matched: " in forced.stderr
    assert np.load(piles.folder / "forced.npy").shape[1] == 2


def test_one_space_that_is_not_matched_is_named(piles: Kedge) -> None:
    piles.refused(4, "match", *BOTH, "--space", "n=noise.npy", "--runs", 2, "-o", "x.npy",
                  says=["a and b: matched", "a and n: not matched"])


def test_wrong_pairs_are_noticed(piles: Kedge) -> None:
    """Pairs that were kept back are not found."""
    done = piles.run("match", *BOTH, "--pairs", "wrong.npy", "-o", "x.npy")
    assert done.returncode == 4 and "kept back" in done.stderr
    assert not (piles.folder / "x.npy").exists()


def test_known_pairs_that_are_better_alone_are_all_there_is_to_use(piles: Kedge) -> None:
    """Most of either space is noise, in which neighbours mislead."""
    rng = np.random.default_rng(1)
    meaning = rng.normal(size=(300, 24))
    for name in ("noisy-a", "noisy-b"):
        rows = meaning @ rng.normal(size=(24, 40)) + 1.3 * 24 ** .5 * rng.normal(size=(300, 40))
        np.save(piles.folder / f"{name}.npy", rows.astype(np.float32))
    np.save(piles.folder / "many.npy", np.column_stack([np.arange(200)] * 2))
    noisy = ["match", "--space", "a=noisy-a.npy", "--space", "b=noisy-b.npy", "--pairs", "many.npy"]
    piles.refused(4, *noisy, "-o", "x.npy",
                  says=["made worse: of 60 known pairs kept back", "only the known pairs are used"])
    told = piles.run(*noisy, "--json")
    one, = json.loads(told.stdout)["matches"]
    assert told.returncode == 4 and one["verdict"] == "made-worse" and one["pairs"] == 200
    assert one["kept_back"]["mrr_after"] < one["kept_back"]["mrr_before"] - .03


@pytest.mark.parametrize("pairs, says", [
    ([[0, 0], [1, ROWS]], f"pair 1 names row {ROWS} of space 'b'"), ([[-1, 0]], "pair 0 names row -1 of space 'a'"),
    ([[3, 4], [3, 4]], "pairs 0 and 1"), ([[3, 4], [3, 5]], "both name row 3 of space 'a'"),
    ([[3, 4], [5, 4]], "both name row 4 of space 'b'")])
def test_pairs_that_cannot_be_are_refused(piles: Kedge, pairs: list[list[int]], says: str) -> None:
    np.save(piles.folder / "odd.npy", pairs)
    piles.refused(2, "match", *BOTH, "--pairs", "odd.npy", "-o", "x.npy", says=says)


def test_files_that_are_no_pairs_are_refused(piles: Kedge) -> None:
    for code, rows, says in ((3, np.zeros((5, 3), int), "integers in rows of 2"), (3, np.zeros((5, 2)), "float64")):
        np.save(piles.folder / "odd.npy", rows)
        piles.refused(code, "match", *BOTH, "--pairs", "odd.npy", "-o", "x.npy", says=says)


def test_rows_that_tell_nothing_are_refused(piles: Kedge) -> None:
    rows = np.load(piles.folder / "b.npy")
    holed = rows.copy()
    holed[7, 3] = np.nan
    for name, bad in (("same", np.ones_like(rows)), ("holed", holed), ("few", rows[:20]), ("fewer", rows[:10])):
        np.save(piles.folder / f"{name}.npy", bad)
    matched = ["match", "--space", "a=a.npy", "-o", "x.npy", "--space"]
    piles.refused(3, *matched, "b=same.npy", says=["same.npy", "same"])
    piles.refused(3, *matched, "b=holed.npy", says=["holed.npy", "row 7"])
    piles.refused(2, *matched, "b=few.npy", says=["'b' has 20 rows", "200 are needed, or 100 with 10 known pairs"])
    np.save(piles.folder / "odd.npy", [[0, 0]])
    piles.refused(2, *matched, "b=fewer.npy", "--pairs", "odd.npy", says="'b' has 10 rows")


def test_repeated_rows_do_no_harm(piles: Kedge) -> None:
    """Either of two equal rows may be the one that is found."""
    for name in "ab":
        rows = np.load(piles.folder / f"{name}.npy")
        np.save(piles.folder / f"twice-{name}.npy", np.concatenate([rows, rows[:30]]))
    twice = ["--space", "a=twice-a.npy", "--space", "b=twice-b.npy"]
    piles.json("match", *twice, "-o", "twice.npy")
    np.save(piles.folder / "twice.npy", np.load(piles.folder / "twice.npy") % ROWS)
    assert share_right(piles, "twice.npy") > .95


def test_spaces_and_outputs_that_cannot_be_are_refused(piles: Kedge) -> None:
    match = ["match", *BOTH]
    one = ["match", "--space", "a=a.npy"]
    piles.refused(2, *one, "-o", "x.npy", says="one was given")
    piles.refused(2, *one, "--space", "b=a.npy", "-o", "x.npy",
                  says=["'a' and 'b' are the same rows", "another encoder"])
    piles.refused(2, *one, "--space", "a=b.npy", "-o", "x.npy", says="two spaces are called 'a'")
    for out in ("a.npy", "b.npy", "known-5.npy"):
        piles.refused(2, *match, "--pairs", "known-5.npy", "-o", out, says="is an input")
        piles.refused(2, *match, "--pairs", "known-5.npy", "-o", "x.npy", "--scores", out, says="is an input")
    piles.refused(2, *match, "-o", "x.txt", says=["FILE.npy", "FILE.kedge", "x.txt"])
    piles.refused(2, *match, "--scores", "y.npy", says="give -o pairs.npy too")
    piles.refused(2, *match, "-o", "x.kedge", "--scores", "y.npy", says="a bundle holds no pairs")
    piles.refused(2, *match, "-o", "x.npy", "--scores", "x.npy", says="x.npy")
    piles.refused(2, *match, "--space", "c=c.npy", "-o", "x.kedge", says=["two spaces", "kedge fit --pairs"])
    piles.refused(1, *match, "-o", "nowhere/x.npy", says="nowhere")


@pytest.mark.long
def test_an_interrupted_match_leaves_nothing(piles: Kedge) -> None:
    rng = np.random.default_rng(1)
    for name in ("long-a", "long-b"):
        np.save(piles.folder / f"{name}.npy", rng.normal(size=(8000, 64)).astype(np.float32))
    before = piles.snapshot()
    process = subprocess.Popen([piles.program, "match", "--space", "a=long-a.npy", "--space", "b=long-b.npy", "--runs",
                                "100", "-o", "x.npy"], cwd=piles.folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # of progress
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=600)[1]
    assert process.returncode == 130 and "no file was changed" in message
    assert piles.snapshot() == before
