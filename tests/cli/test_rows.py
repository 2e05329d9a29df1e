# SPDX-License-Identifier: Apache-2.0
"""Which rows are taken, and whether they belong together."""
import json

import numpy as np
import pytest
from conftest import SLM, Kedge

NAMES = {"gemma": "gemma3-270m", "mini": "minilm-l6", "smol": "smollm2-135m", "use": "use-multilingual"}


def slm(name: str) -> np.ndarray:
    rows: np.ndarray = np.load(SLM / f"{NAMES[name]}.npy")
    return rows.astype(np.float32)


def options_of(**files: object) -> list[str]:
    return [word for name, file in files.items() for word in ("--space", f"{name}={file}")]


@pytest.fixture
def real(kedge: Kedge) -> Kedge:
    """All encoders of the data that ships with kedge, and one of them off by a row."""
    for name in NAMES:
        np.save(kedge.folder / f"{name}.npy", slm(name))
    np.save(kedge.folder / "off.npy", np.roll(slm("mini"), 1, axis=0))
    return kedge


@pytest.mark.parametrize("method", [["consensus"], ["param", "--epochs", 2], ["random", "--similarity", "cosine"]])
def test_a_source_that_is_off_by_one_row_is_noticed(real: Kedge, method: list[object]) -> None:
    rows = ["--rows", "0:2700", "--method", *method]
    right = real.ok("fit", *options_of(gemma="gemma.npy", mini="mini.npy", use="use.npy"), *rows, "-o", "right.kedge")
    assert "the same row is found first among 500: gemma " in right.stderr
    assert "(chance 0.2 %)" in right.stderr
    assert "warning" not in right.stderr
    wrong = real.ok("fit", *options_of(gemma="gemma.npy", mini="off.npy", use="use.npy"), *rows, "-o", "wrong.kedge")
    assert wrong.stderr.count("warning: the rows of 'mini' do not match those of the others") == 1
    assert "row n of 'mini' belonged to row n - 1 of the others" in wrong.stderr
    assert wrong.stderr.count("warning") == 1

    shown = {space["name"]: space for space in json.loads(real.ok("inspect", "wrong.kedge", "--json").stdout)["spaces"]}
    assert shown["mini"]["row_check"]["suspicious"] and shown["mini"]["row_check"]["shift"] == 1
    assert not shown["use"]["row_check"]["suspicious"]
    assert "warning: the rows of 'mini'" in real.ok("inspect", "wrong.kedge").stdout


def test_of_two_nobody_is_accused_and_no_r2_looks_well(real: Kedge) -> None:
    wrong = real.ok("fit", *options_of(gemma="gemma.npy", mini="off.npy"), "--rows", "0:2700", "-o", "x.kedge")
    first, *rest = [line for line in wrong.stderr.splitlines() if "R^2" in line or "row" in line]
    assert first.startswith("warning: the rows of 'gemma' and 'mini' do not match each other")
    assert "row n of 'mini' belonged to row n - 1 of 'gemma', so one of the files seems to be off by 1" in first
    assert "warning" not in "".join(rest) and "R^2" not in wrong.stderr
    shown = real.ok("inspect", "x.kedge").stdout
    assert shown.index("warning: the rows of 'gemma' and 'mini'") < shown.index("added by")
    assert [line.split()[6] for line in shown.splitlines() if line.split()[:1] in (["gemma"], ["mini"])] == ["-", "-"]
    right = real.ok("fit", *options_of(gemma="gemma.npy", mini="mini.npy"), "--rows", "0:2700", "-o", "x.kedge")
    for name in ("gemma", "mini"):
        assert any(line.startswith(f"'{name}' fits the anchors with a mean R^2 of")
                   and "by generalised cross-validation (ridge" in line for line in right.stderr.splitlines())
    assert "held-out" not in right.stderr
    assert "generalised cross-validation" in real.ok("inspect", "x.kedge").stdout


@pytest.mark.parametrize("others", [["gemma"], ["gemma", "use"]])
@pytest.mark.parametrize("begin, shift", [(1500, 1), (2400, -2)])
def test_rows_that_are_off_from_the_middle_on_are_noticed(real: Kedge, others: list[str], begin: int,
                                                          shift: int) -> None:
    rows = np.load(real.folder / "mini.npy")
    rows[begin:] = np.roll(rows[begin:], shift, axis=0)
    np.save(real.folder / "late.npy", rows)
    files = {name: f"{name}.npy" for name in others}
    done = real.ok("fit", *options_of(**files, late="late.npy"), "-o", "x.kedge")
    warning, = [line for line in done.stderr.splitlines() if line.startswith("warning")]
    named = ("the rows of 'late' do not match those of the others" if len(others) == 2
             else "'gemma' and 'late' do not match each other")
    assert warning.startswith("warning: from about row ") and named in warning
    assert f"belonged to row n {'-' if shift > 0 else '+'} {abs(shift)} of" in warning
    check = real.json("inspect", "x.kedge")["spaces"][-1]["row_check"]
    assert abs(check["block"]["begin"] - begin) < 100 and check["block"]["end"] is None and check["shift"] == shift
    assert "R^2" not in done.stderr


def test_one_file_under_two_names_is_noticed(real: Kedge) -> None:
    done = real.ok("fit", *options_of(a="mini.npy", b="mini.npy", use="use.npy"), "-o", "x.kedge")
    assert done.stderr.count("warning") == 1
    assert "warning: 'a' and 'b' hold the same rows" in done.stderr
    assert "was one file given under two names?" in done.stderr
    assert "warning: 'a' and 'b' hold the same rows" in real.ok("inspect", "x.kedge").stdout


def test_rows_that_are_too_few_to_check_are_said_to_be(real: Kedge) -> None:
    few = ["--rows", "0:40"]
    done = real.ok("fit", *options_of(gemma="gemma.npy", use="use.npy"), *few, "-o", "x.kedge")
    assert "warning: the rows of 'gemma' and 'use' could not be checked: 40 support rows are too few" in done.stderr
    done = real.ok("attach", "x.kedge", "--space", "mini=mini.npy", *few, "-o", "x.kedge")
    assert "warning: the rows of 'mini' could not be checked: 40 support rows are too few" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("method", [["consensus"], ["param", "--epochs", 2], ["kmeans", "--similarity", "euclidean"]])
def test_an_attached_space_that_is_off_is_noticed(real: Kedge, method: list[object]) -> None:
    real.ok("fit", *options_of(gemma="gemma.npy", use="use.npy"), "--rows", "0:2700", "--method", *method, "-o",
            "x.kedge")
    right = real.ok("attach", "x.kedge", "--space", "smol=smol.npy", "--rows", "0:2700", "-o", "x.kedge")
    assert "the same row is found first among 500: smol " in right.stderr and "warning" not in right.stderr
    summary = real.json("attach", "x.kedge", "--space", "off=off.npy", "--rows", "0:2700", "-o", "y.kedge")
    assert summary["row_check"]["suspicious"] and summary["row_check"]["found_first_then"] > 0.5


@pytest.mark.long
@pytest.mark.parametrize("rows", ["0:50", "1000:1050", "0:200", "0:3300"])
def test_honest_encoders_are_not_accused(real: Kedge, rows: str) -> None:
    everyone = {name: f"{name}.npy" for name in NAMES}
    done = real.ok("fit", *options_of(**everyone), "--rows", rows, "-o", "x.kedge")
    assert "the same row is found first among" in done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("count", [50, 2000])
def test_encoders_nobody_trained_are_not_accused(kedge: Kedge, count: int) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(count, 30))
    for name, dim in (("a", 64), ("b", 300)):
        hidden = np.maximum(inputs @ rng.normal(size=(30, dim)), 0) @ rng.normal(size=(dim, dim))
        np.save(kedge.folder / f"{name}.npy", hidden + hidden.std() * rng.normal(size=hidden.shape))
    assert "warning" not in kedge.ok("fit", *options_of(a="a.npy", b="b.npy"), "-o", "x.kedge").stderr


def test_mixture_maps_say_how_well_they_fit(real: Kedge) -> None:
    both = options_of(gemma="gemma.npy", use="use.npy")
    done = real.ok("fit", *both, "--method", "kmeans", "--support", 500, "-o", "x.kedge")
    assert "'use' fits the anchors with a mean R^2 of" in done.stderr
    attached = real.json("attach", "x.kedge", "--space", "mini=mini.npy", "-o", "x.kedge")
    assert -1 <= attached["r2"] < 1
    table = real.ok("inspect", "x.kedge").stdout
    line = next(line for line in table.splitlines() if line.split()[:1] == ["mini"])
    assert f"{attached['r2']:.3f}" in line


def test_fewer_anchors_than_the_default_are_no_complaint(kedge: Kedge, spaces: list[str]) -> None:
    done = kedge.ok("fit", *spaces, "-o", "x.kedge")
    assert "asked for" not in done.stderr
    anchors = kedge.json("inspect", "x.kedge")["anchors"]
    assert anchors <= 13
    assert f"the bundle has {anchors} anchors, not 300: that is how many directions the spaces share" in done.stderr
    done = kedge.ok("fit", *spaces, "--method", "random", "-o", "y.kedge")
    assert "the bundle has 200 anchors, not 300: there are no more support rows" in done.stderr


@pytest.mark.parametrize("method", [["consensus"], ["param", "--epochs", 1]])
def test_rows_are_chosen_by_number_or_by_mask(kedge: Kedge, spaces: list[str], method: list[object]) -> None:
    ids = np.arange(1, 200, 2)
    np.save(kedge.folder / "ids.npy", ids)
    np.save(kedge.folder / "mask.npy", np.arange(200) % 2 == 1)
    for name in ("a", "b"):
        np.save(kedge.folder / f"half-{name}.npy", np.load(kedge.folder / f"{name}.npy")[ids])
    for chosen in ("ids", "mask"):
        kedge.ok("fit", *spaces, "--method", *method, "--rows-file", f"{chosen}.npy", "-o", f"{chosen}.kedge")
    assert (kedge.folder / "ids.kedge").read_bytes() == (kedge.folder / "mask.kedge").read_bytes()
    shown = kedge.json("inspect", "ids.kedge")
    assert set(shown["support_ids"]) == set(ids)  # numbers of the file
    # The same as a fit on files of those rows alone.
    kedge.ok("fit", *options_of(a="half-a.npy", b="half-b.npy"), "--method", *method, "-o", "half.kedge")
    kedge.ok("transform", "ids.kedge", "--space", "a", "-i", "a.npy", "-o", "one.npy", "--rows-file", "ids.npy")
    kedge.ok("transform", "half.kedge", "--space", "a", "-i", "half-a.npy", "-o", "other.npy")
    one, other = np.load(kedge.folder / "one.npy"), np.load(kedge.folder / "other.npy")
    np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(one).max())


def test_rows_come_in_the_order_they_are_asked_for(kedge: Kedge, bundle: str) -> None:
    np.save(kedge.folder / "ids.npy", np.array([7, 3, 150]))
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "all.npy")
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "some.npy", "--rows-file", "ids.npy")
    whole = np.load(kedge.folder / "all.npy")
    np.testing.assert_allclose(np.load(kedge.folder / "some.npy"), whole[[7, 3, 150]], atol=1e-6 * np.abs(whole).max())


@pytest.mark.parametrize("code, values, says", [
    (2, np.array([1, 200]), "row 200"), (2, np.array([-1, 2]), "row -1"),
    (2, np.array([4, 4]), "row 4 is given more than once"), (2, np.ones(199, bool), "mask of rows is for 199 rows"),
    (3, np.zeros(200, bool), "chooses no row"), (3, np.array([], int), "no row numbers"),
    (3, np.array([0.5]), "array of integers")])
def test_rows_that_cannot_be_are_refused(kedge: Kedge, spaces: list[str], code: int, values: np.ndarray,
                                         says: str | list[str]) -> None:
    np.save(kedge.folder / "rows.npy", values)
    kedge.refused(code, "fit", *spaces, "--rows-file", "rows.npy", "-o", "x.kedge", says=says)


def test_heads_are_trained_and_tested_on_chosen_rows(kedge: Kedge, spaces: list[str]) -> None:
    labels = (np.load(kedge.folder / "a.npy")[:, 0] > 3).astype(int)
    np.save(kedge.folder / "y.npy", labels)
    np.save(kedge.folder / "even.npy", np.arange(200) % 2 == 0)
    np.save(kedge.folder / "odd.npy", np.arange(1, 200, 2))
    stitch = ["stitch", *spaces, "--labels", "y.npy", "--methods", "absolute,consensus", "--head", "linear",
              "--no-report"]
    kedge.ok(*stitch, "--train-file", "even.npy", "--test-file", "odd.npy", "-o", "by-file")
    order = np.r_[np.arange(0, 200, 2), np.arange(1, 200, 2)]
    for file in ("a.npy", "b.npy", "y.npy"):
        np.save(kedge.folder / file, np.load(kedge.folder / file)[order])
    kedge.ok(*stitch, "--train", "0:100", "--test", "100:200", "-o", "by-range")
    scores = [[record["accuracy"]
               for record in json.loads((kedge.folder / out / "results.json").read_text())["records"]]
              for out in ("by-file", "by-range")]
    assert scores[0] == scores[1]
    both = kedge.run(*stitch, "--train-file", "even.npy", "--test", "0:10", "-o", "x")
    assert both.returncode == 2 and "row 0 is a test row and a train row" in both.stderr
    kedge.refused(2, *stitch, "--test", "0:10", "-o", "y", says="--train is required, or --train-file")


def test_stitching_notices_rows_that_do_not_match(real: Kedge) -> None:
    for name in ("gemma", "off", "use"):
        np.save(real.folder / f"{name}.npy", np.load(real.folder / f"{name}.npy")[:600, :100])
    stitch = ["stitch", "--train", "0:500", "--test", "500:600", "--methods", "consensus", "--no-report"]
    done = real.ok(*stitch, *options_of(gemma="gemma.npy", off="off.npy", use="use.npy"), "-o", "out")
    assert "warning: the rows of 'off' do not match those of the others" in done.stderr


def test_rows_nobody_chose_may_hold_anything(real: Kedge) -> None:
    rows = np.load(real.folder / "off.npy")
    rows[1301:] = np.nan
    np.save(real.folder / "off.npy", rows)
    real.ok("fit", *options_of(gemma="gemma.npy", use="use.npy"), "--rows", "0:1300", "-o", "x.kedge")
    done = real.ok("attach", "x.kedge", "--space", "off=off.npy", "--rows", "0:1300", "-o", "y.kedge")
    assert "warning: the rows of 'off' do not match" in done.stderr


def test_chosen_rows_are_not_replaced_by_the_result(kedge: Kedge, bundle: str) -> None:
    np.save(kedge.folder / "ids.npy", np.array([7, 3, 150]))
    kedge.refused(2, "transform", bundle, "--space", "a", "-i", "a.npy", "--rows-file", "ids.npy", "-o", "ids.npy",
                  says="is an input")


def test_robust_leaves_wrong_pairs_out_and_says_so(real: Kedge) -> None:
    bent = np.load(SLM / "use-multilingual.npy")
    bent[::5] = np.roll(bent[::5], 1, axis=0)
    np.save(real.folder / "bent.npy", bent)
    arguments = ["fit", "--space", f"mini={SLM / 'minilm-l6.npy'}", "--space", "use=bent.npy", "--rows", "0:1500",
                 "--method", "ridge", "-o", "x.kedge"]
    said = real.ok(*arguments).stderr
    assert "warning: about " in said and "of the pairs of 'mini' and 'use' look wrong, rows " in said
    said = real.ok(*arguments, "--robust").stderr
    assert "warning" not in said and "of the pairs of 'mini' and 'use', 1500 in all, which look wrong: rows " in said
    wrong = real.json(*arguments, "--robust")["spaces"][1]["wrong_pairs"]
    assert wrong["left_out"] and 250 < len(wrong["rows"]) < 350 and np.mean(np.array(wrong["rows"]) % 5 == 0) > 0.9
    right = ["fit", "--space", f"mini={SLM / 'minilm-l6.npy'}", "--space", f"use={SLM / 'use-multilingual.npy'}",
             "--rows", "0:1500", "--method", "ridge", "-o", "x.kedge"]
    assert "look wrong" not in real.ok(*right).stderr


def test_right_pairs_of_weakly_related_spaces_are_not_accused(real: Kedge) -> None:
    for name in ("minilm-l6", "gemma3-270m"):
        np.save(real.folder / f"{name}.npy", np.load(SLM / f"{name}.npy")[:1500, :24])
    spaces = ["--space", "mini=minilm-l6.npy", "--space", "gemma=gemma3-270m.npy", "--method", "ridge"]
    assert "look wrong" not in real.ok("fit", *spaces, "--support", 1500, "-o", "x.kedge").stderr


def test_robust_needs_rows_to_tell_by(real: Kedge) -> None:
    real.refused(2, "fit", *[word for name in NAMES for word in ("--space", f"{name}={name}.npy")], "--support", 99,
                 "--robust", "-o", "x.kedge", says=["99 support rows are too few", "which takes 100", "--robust"])
