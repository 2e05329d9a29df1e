# SPDX-License-Identifier: Apache-2.0
"""Consensus, ridge attach, translation and adapters from the shell, on the demo data and on small spaces."""
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from conftest import SLM, Kedge
from safetensors.numpy import load_file

ENCODERS = ["smollm2-135m", "gemma3-270m", "minilm-l6", "use-multilingual"]


def fit(kedge: Kedge, encoders: Iterable[str], *options: object) -> Any:
    named = (word for e in encoders for word in ("--space", f"{e}={SLM}/{e}.npy"))
    return kedge.json("fit", *named, "--rows", "0:3000", "-o", "shared.kedge", *options)


def attach(kedge: Kedge, encoder: str, *options: object) -> Any:
    return kedge.json("attach", "shared.kedge", "--space", f"{encoder}={SLM}/{encoder}.npy", "--rows", "0:3000",
                      "-o", "shared.kedge", *options)


@pytest.mark.parametrize("held_out", ENCODERS)
def test_a_held_out_encoder_is_understood(kedge: Kedge, held_out: str) -> None:
    sources = [e for e in ENCODERS if e != held_out]
    fit(kedge, sources, "--method", "consensus")
    said = attach(kedge, held_out)
    assert said["attach"] == "ridge" and 0.1 < said["r2"] < 1 and len(said["r2_per_output"]) == said["anchors"] <= 300
    for e in ENCODERS:
        kedge.ok("transform", "shared.kedge", "--space", e, "-i", f"{SLM}/{e}.npy", "-o", f"{e}.npy", "--rows",
                 "3000:3300")
    found = [kedge.json("compare", f"{e}.npy", f"{held_out}.npy")["recall@1"] for e in sources]
    print(f"{held_out}: R@1 {found}")
    assert np.mean(found) >= 0.93


def test_translation_is_nearly_as_good_as_a_direct_adapter(kedge: Kedge) -> None:
    fit(kedge, ENCODERS, "--method", "consensus", "--support", "2000")
    a, b = "minilm-l6", "use-multilingual"
    truth = np.load(SLM / f"{b}.npy").astype(np.float32)
    centred = truth[3000:] - truth[:3000].mean(0)

    def cosine(bundle: str, out: str) -> float:
        kedge.ok("translate", bundle, "--from", a, "--to", b, "-i", SLM / f"{a}.npy", "--rows", "3000:3300", "-o", out)
        found = np.load(kedge.folder / out) - truth[:3000].mean(0)
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(centred, axis=1)
        return float(np.mean((found * centred).sum(1) / lengths))

    shared = cosine("shared.kedge", "shared.npy")
    kedge.ok("fit", "--space", f"{a}={SLM}/{a}.npy", "--space", f"{b}={SLM}/{b}.npy", "--rows", "0:3000", "--support",
             "2000", "--method", "ridge", "-o", "pair.kedge")
    direct = cosine("pair.kedge", "pair.npy")
    print(f"cosine to the true rows: {shared:.3f} through the shared space, {direct:.3f} direct")
    assert shared > 0.6 and shared > direct - 0.03


def test_the_translation_is_map_and_decoder_of_the_bundle(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "consensus", "--anchors", "4", "-o",
             "x.kedge")
    kedge.ok("translate", "x.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "y.npy")
    t, x = load_file(kedge.folder / "x.kedge"), np.load(kedge.folder / "a.npy")
    rr = x.astype(np.float64) @ t["a.weight"].T + t["a.bias"]
    wanted = rr @ t["b.decode_weight"].T + t["b.decode_bias"]
    np.testing.assert_allclose(np.load(kedge.folder / "y.npy"), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def test_no_anchors_that_nobody_agrees_on(kedge: Kedge, spaces: list[str]) -> None:
    fit = ["fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "consensus", "-o", "x.kedge", "--anchors",
           "100"]
    done = kedge.ok(*fit)
    anchors = kedge.json("inspect", "x.kedge")["anchors"]
    assert anchors < 13
    assert done.stderr.count(f"asked for 100 anchors, but the spaces share only {anchors} directions, so the bundle "
                             f"has {anchors}\n") == 1
    assert np.abs(load_file(kedge.folder / "x.kedge")["a.weight"]).max(axis=1).min() > 0
    kedge.ok("transform", "x.kedge", "--space", "a", "-i", "a.npy", "-o", "rr.npy")
    rr = np.load(kedge.folder / "rr.npy")
    assert rr.shape[1] == anchors and rr.std(axis=0).min() > 0


def test_validation_says_what_an_unseen_encoder_gets(kedge: Kedge, spaces: list[str]) -> None:
    rng = np.random.default_rng(5)
    np.save(kedge.folder / "c.npy", np.load(kedge.folder / "a.npy") @ rng.normal(size=(8, 6)).astype(np.float32))
    three = [word for name in "abc" for word in ("--space", f"{name}={name}.npy")]
    said = kedge.json("fit", *three, "--method", "consensus", "--anchors", "4", "--validate", "-o",
                      "x.kedge")["validation"]
    assert [one["held_out"] for one in said] == ["a", "b", "c"]
    assert all(one["rows"] == 20 and one["mrr"] > 0.5 for one in said)
    kedge.refused(2, "fit", *three[:4], "--method", "consensus", "--validate", "-o", "y.kedge", says="three or more")


def test_rows_in_another_order_are_suspected(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", "--space", "a=a.npy", "--method", "consensus", "--anchors", "4", "-o", "x.kedge")
    np.save(kedge.folder / "mixed.npy", np.random.default_rng(1).permutation(np.load(kedge.folder / "b.npy")))
    suspected = {name: "does row n of every file, or each pair, embed the same input?" in
                 kedge.ok("attach", "x.kedge", "--space", f"b={name}.npy", "-o", "y.kedge").stderr
                 for name in ("mixed", "b")}
    assert suspected == {"mixed": True, "b": False}


def test_bundles_of_the_first_format_are_read(kedge: Kedge, spaces: list[str]) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    kedge.ok("fit", "--space", "a=a.npy", "--method", "random", "--anchors", "4", "-o", "x.kedge")
    with safe_open(kedge.folder / "x.kedge", "numpy") as file:
        metadata = file.metadata()
        tensors = {k: file.get_tensor(k) for k in ("mixture", "support_ids", "a.weight", "a.bias", "a.mean")}
    metadata.pop("attached")
    metadata["options"] = '{"shrinkage":0.15,"epsilon":5e-08,"rows":[0,200]}'
    save_file(tensors, kedge.folder / "old.kedge", metadata)
    kedge.ok("attach", "old.kedge", "--space", "b=b.npy", "-o", "new.kedge")
    assert [space["attach"] for space in kedge.json("inspect", "new.kedge")["spaces"]] == ["mixture", "mixture"]


@pytest.mark.parametrize("more", [[], ["--similarity", "cosine"]])
def test_consensus_is_the_default(kedge: Kedge, spaces: list[str], more: list[str]) -> None:
    assert kedge.json("fit", *spaces, "--anchors", 4, *more, "-o", "x.kedge")["method"] == "consensus"
    kedge.ok("fit", *spaces, "--anchors", 4, *more, "--method", "consensus", "-o", "y.kedge")
    assert (kedge.folder / "x.kedge").read_bytes() == (kedge.folder / "y.kedge").read_bytes()
    assert kedge.json("fit", *spaces[:2], "--anchors", 4, *more, "-o", "one.kedge")["method"] == "consensus"


def test_refinement_says_what_it_did(kedge: Kedge, spaces: list[str]) -> None:
    done = kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "consensus", "--anchors", "4",
                    "--support", "100", "--refine-epochs", "3", "-o", "x.kedge")
    assert "refinement brought the loss on held-out rows from" in done.stderr


def test_ridge_attach_serves_param(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", "--space", "a=a.npy", "--method", "param", "--anchors", "10", "--epochs", "2", "-o", "x.kedge")
    said = kedge.json("attach", "x.kedge", "--space", "b=b.npy", "--attach", "ridge", "--ridge", "0.5", "-o", "x.kedge")
    assert said["attach"] == "ridge" and said["ridge"] == 0.5
    inspected = kedge.json("inspect", "x.kedge")
    assert [space["attach"] for space in inspected["spaces"]] == ["mixture", "ridge"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--method", "consensus", "--power", "-1"), "power is -1"),
        (("--method", "consensus", "--ridge", "much"), "expected auto or a number"),
        (("--method", "consensus", "--ridge", "-1"), "ridge is -1"),
        (("--method", "consensus", "--shrinkage", "some"), "ledoit-wolf"),
        (("--method", "consensus", "--keep", "3"), "keep"),
        (("--method", "consensus", "--refine-epochs", "2", "--refine-tau", "0"), "refine-tau is 0"),
        (("--method", "cca", "--similarity", "inner"), "not with inner"),
        (("--method", "random", "--similarity", "cosine", "--attach", "ridge"), "it has no targets"),
        (("--method", "random", "--support-select", "best"), "best"),
        (("--method", "random", "--power", "nan"), "power is nan"),
        (("--method", "random", "--similarity", "cosine", "--shrinkage", "7"), "shrinkage is 7"),
        (("--method", "random", "--ridge", "0.1"), "attached by mixture"),
        (("--method", "consensus", "--ridge", "1e300"), "ridge is 1e+300"),
        (("--method", "consensus", "--power", "1e6"), "power is 1000000"),
        (("--method", "procrustes", "--attach", "mixture"), "no anchors to mix"),
        (("--method", "cca", "--anchors", "0"), "--anchors: 0 is too few"),
        (("--method", "random", "--power", "1"), "power belongs to the method consensus, but the method is random"),
        (("--method", "cca", "--refine-epochs", "2"), "refine-epochs belongs to the method consensus"),
    ],
)
def test_options_that_cannot_work(kedge: Kedge, spaces: list[str], arguments: list[str],
                                  words: str | list[str]) -> None:
    kedge.refused(2, "fit", "--space", "a=a.npy", "--space", "b=b.npy", "--anchors", "4", "-o", "x.kedge", *arguments,
                  says=words)


def test_an_adapter_joins_one_pair(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", "--space", "a=a.npy", "--method", "procrustes", "-o", "x.kedge", says="one pair")
    for method in ("procrustes", "ridge", "cca"):
        kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", method, "-o", "x.kedge")
        for name in "ab":
            kedge.ok("transform", "x.kedge", "--space", name, "-i", f"{name}.npy", "-o", f"rr-{name}.npy")
        assert kedge.json("compare", "rr-a.npy", "rr-b.npy")["mrr"] > 0.5


def test_translation_needs_a_way_back(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "random", "--similarity", "cosine",
             "--anchors", "5", "-o", "x.kedge")
    kedge.refused(2, "translate", "x.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "y.npy",
                  says="similarity cosine")
    kedge.refused(2, "translate", "x.kedge", "--from", "a", "--to", "z", "-i", "a.npy", "-o", "y.npy",
                  says="no space 'z'")
