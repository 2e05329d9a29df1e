# SPDX-License-Identifier: Apache-2.0
"""Bundles that keep rows: what they say, hold and translate."""
import numpy as np
import pytest
from conftest import Kedge
from safetensors.numpy import load_file

ROWS = 300


@pytest.fixture
def shared(kedge: Kedge) -> list[str]:
    """Encoders of which a and b share more than c knows, and than one anchor holds."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(ROWS, 4))
    for name, dim in (("a", 6), ("b", 8), ("c", 5)):
        causes = hidden[:, :2] if name == "c" else hidden
        rows = causes @ rng.normal(size=(causes.shape[1], dim)) + 0.05 * rng.normal(size=(ROWS, dim))
        np.save(kedge.folder / f"{name}.npy", (3 + rows).astype(np.float32))
    return ["--rows", "0:240", "--anchors", "1"]


def explained(kedge: Kedge, bundle: str, old: str = "a", new: str = "b", begin: int = 240, end: int = ROWS) -> float:
    kedge.ok("translate", bundle, "--from", old, "--to", new, "-i", f"{old}.npy", "--rows", f"{begin}:{end}", "-o",
             "found.npy")
    truth, found = np.load(kedge.folder / f"{new}.npy")[begin:], np.load(kedge.folder / "found.npy")
    return float(1 - ((truth - found) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum())


def test_fit_says_what_to_expect_and_what_it_takes(kedge: Kedge, shared: list[str]) -> None:
    spaces = ["--space", "a=a.npy", "--space", "b=b.npy", "--space", "c=c.npy"]
    plain = kedge.ok("fit", *spaces, *shared, "-o", "plain.kedge")
    kept = kedge.ok("fit", *spaces, *shared, "--keep-rows", "-o", "kept.kedge")
    assert plain.stderr.count("' is translated with an expected R^2 of: ") == 3
    assert "'a' is translated with an expected R^2 of: b 0.9" in kept.stderr
    assert f"keeps the support rows of every space, which take {240 * 19 * 4 / 1e6:.1f} MB of it" in kept.stderr
    foretold = kedge.json("fit", *spaces, *shared, "--keep-rows", "-o", "kept.kedge")["spaces"][0]["translations"]
    assert [one["to"] for one in foretold] == ["b", "c"]
    assert abs(foretold[0]["r2"] - explained(kedge, "kept.kedge")) < 0.02
    assert explained(kedge, "plain.kedge") < 0.8


def test_what_fit_expects_counts_what_the_decoder_misses(kedge: Kedge) -> None:
    """At 120 support rows of 40 and 48 values, what is expected to be missed is within a tenth of what is missed."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(1120, 20))
    for name, dim in (("a", 48), ("b", 40)):
        rows = hidden @ rng.normal(size=(20, dim)) + rng.normal(size=(1120, dim))
        np.save(kedge.folder / f"{name}.npy", rows.astype(np.float32))
    fitted = kedge.json("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--rows", "0:120", "-o", "plain.kedge")
    for space, to in zip(fitted["spaces"], "ba"):
        assert [one["to"] for one in space["translations"]] == [to]
        missed = 1 - explained(kedge, "plain.kedge", space["name"], to, 120, 1120)
        assert 0.9 < (1 - space["translations"][0]["r2"]) / missed < 1.1


def test_inspect_says_which_rows_are_kept(kedge: Kedge, shared: list[str]) -> None:
    spaces = ["--space", "a=a.npy", "--space", "c=c.npy"]
    kedge.ok("fit", *spaces, *shared, "-o", "plain.kedge")
    kedge.ok("fit", *spaces, *shared, "--keep-rows", "-o", "kept.kedge")
    assert "support rows that are kept" not in kedge.ok("inspect", "plain.kedge").stdout
    assert "support rows that are kept, with which a translation regresses its own pair: a 240, c 240" in kedge.ok(
        "inspect", "kept.kedge").stdout
    assert all("kept_rows" not in space for space in kedge.json("inspect", "plain.kedge")["spaces"])
    assert [space["kept_rows"] for space in kedge.json("inspect", "kept.kedge")["spaces"]] == [240, 240]


def test_kept_rows_translate_where_no_map_can_be_inverted(kedge: Kedge, shared: list[str]) -> None:
    fit = ["fit", "--space", "a=a.npy", "--space", "b=b.npy", *shared, "--method", "random", "--similarity", "cosine"]
    kedge.ok(*fit, "-o", "plain.kedge")
    kedge.refused(2, "translate", "plain.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "x.npy",
                  says=["cosine", "wip", "one that keeps rows (--keep-rows)"])
    kedge.ok(*fit, "--keep-rows", "-o", "kept.kedge")
    assert explained(kedge, "kept.kedge") > 0.95


def test_attach_keeps_the_rows_of_the_new_space(kedge: Kedge, shared: list[str]) -> None:
    kedge.ok("fit", "--space", "a=a.npy", "--space", "c=c.npy", *shared, "--keep-rows", "-o", "kept.kedge")
    kedge.ok("attach", "kept.kedge", "--space", "b=b.npy", "--rows", "0:240", "-o", "kept.kedge")
    tensors = load_file(kedge.folder / "kept.kedge")
    ids = tensors["support_ids"]
    np.testing.assert_array_equal(tensors["b.support"], np.load(kedge.folder / "b.npy")[ids])
    assert explained(kedge, "kept.kedge") > 0.95


def test_a_pair_that_shares_few_rows_takes_the_shared_space_if_that_is_better(kedge: Kedge,
                                                                              shared: list[str]) -> None:
    np.save(kedge.folder / "early.npy", np.repeat(np.arange(121)[:, None], 2, axis=1))
    np.save(kedge.folder / "late.npy", np.repeat(np.arange(119, 240)[:, None], 2, axis=1))
    for bundle, keep in (("kept.kedge", ["--keep-rows"]), ("plain.kedge", [])):
        kedge.ok("fit", "--space", "a=a.npy", "--space", "c=c.npy", *shared[:2], *keep, "-o", bundle)
        kedge.ok("attach", bundle, "--space", "b=b.npy", "--pairs", "early.npy", "-o", bundle)
        kedge.ok("attach", bundle, "--space", "d=a.npy", "--pairs", "late.npy", "-o", bundle)
    translate = ["--from", "b", "--to", "d", "-i", "b.npy", "-o"]
    kedge.ok("translate", "kept.kedge", *translate, "kept.npy")
    kedge.ok("translate", "plain.kedge", *translate, "plain.npy")
    plain = np.load(kedge.folder / "plain.npy")
    np.testing.assert_allclose(np.load(kedge.folder / "kept.npy"), plain, rtol=0, atol=1e-5 * np.abs(plain).max())


def test_it_is_refused_where_it_adds_nothing(kedge: Kedge, shared: list[str]) -> None:
    kedge.refused(2, "fit", "--space", "a=a.npy", "--space", "b=b.npy", *shared[:2], "--method", "ridge", "--keep-rows",
                  "-o", "x.kedge", says=["ridge", "--keep-rows", "leave it out"])


def test_translate_says_what_a_pair_s_own_regression_explains(kedge: Kedge, shared: list[str]) -> None:
    translate = ["--from", "a", "--to", "b", "-i", "a.npy", "-o", "x.npy"]
    for bundle, keep in (("kept.kedge", ["--keep-rows"]), ("plain.kedge", [])):
        kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", *shared, *keep, "-o", bundle)
    told = kedge.ok("translate", "kept.kedge", *translate).stderr
    assert "regressed on the kept rows of both, with a cross-validated R^2 of 0.9" in told
    assert kedge.json("translate", "kept.kedge", *translate)["r2"] > 0.9
    assert "r2" not in kedge.json("translate", "plain.kedge", *translate)
    kedge.ok("translate", "kept.kedge", *translate[:-1], "x.parquet")
    assert kedge.json("translate", "kept.kedge", "--from", "b", "--to", "a", "-i", "x.parquet", "-o",
                      "y.parquet")["r2"] > 0.9


def test_nothing_is_foretold_of_translations_learned_from_too_few_rows(kedge: Kedge) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(1000, 80))
    for name, dim in (("a", 400), ("b", 300)):
        rows = hidden @ rng.normal(size=(80, dim)) + 20 * rng.normal(size=(1000, dim))
        np.save(kedge.folder / f"{name}.npy", rows.astype(np.float32))
    fit = ["fit", "--space", "a=a.npy", "--space", "b=b.npy", "-o", "few.kedge"]
    told = {rows: [space.get("translations", []) for space in kedge.json(*fit, "--support", rows)["spaces"]]
            for rows in (60, 1000)}
    assert told[60] == [[], []]
    assert [[one["to"] for one in space] for space in told[1000]] == [["b"], ["a"]]
