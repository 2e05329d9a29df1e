# SPDX-License-Identifier: Apache-2.0
"""The whole path on real encoders: fit, attach, transform, compare, inspect, export."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import SLM, Kedge
from safetensors import safe_open
from safetensors.numpy import load_file
from sanitized import SANITIZED


@pytest.fixture(scope="module")
def story(shared_kedge: Kedge) -> Kedge:
    kedge = shared_kedge
    kedge.ok("fit", "--space", f"smollm2={SLM}/smollm2-135m.npy", "--space", f"minilm={SLM}/minilm-l6.npy",
             "--rows", "0:3000", "--method", "kmeans", "-o", "shared.kedge")
    kedge.ok("attach", "shared.kedge", "--space", f"use={SLM}/use-multilingual.npy", "--rows", "0:3000", "-o",
             "shared.kedge")
    for name, file in (("smollm2", "smollm2-135m"), ("use", "use-multilingual")):
        kedge.ok("transform", "shared.kedge", "--space", name, "-i", f"{SLM}/{file}.npy", "-o", f"{name}.npy")
    return kedge


def test_an_encoder_attached_later_finds_the_same_sentences(story: Kedge) -> None:
    found = story.json("compare", "smollm2.npy", "use.npy", "--rows", "3000:3300")
    assert found["rows"] == 300 and found["dim"] == 300
    assert found["recall@1"] > 0.95


def test_transform_is_the_exported_affine_map(story: Kedge) -> None:
    story.ok("export", "shared.kedge", "--space", "use", "-o", "use_map.npy")
    story.ok("export", "shared.kedge", "--space", "use", "-o", "use_map.safetensors")
    weight, bias = (np.load(story.folder / f"use_map.{part}.npy").astype(np.float64) for part in ("weight", "bias"))
    x = np.load(SLM / "use-multilingual.npy").astype(np.float64)
    rr = np.load(story.folder / "use.npy")
    assert rr.dtype == np.float32 and rr.shape == (3300, 300) and rr.flags.c_contiguous
    np.testing.assert_allclose(rr, x @ weight.T + bias, atol=2e-4 * rr.std())
    tensors = load_file(story.folder / "use_map.safetensors")
    assert sorted(tensors) == ["bias", "weight"]
    np.testing.assert_array_equal(tensors["weight"], weight.astype(np.float32))


def test_the_map_is_wip_as_numpy_computes_it(story: Kedge) -> None:
    """The identity everything rests on, on real data: whitened inner products with mixtures of the support."""
    tensors = load_file(story.folder / "shared.kedge")
    x = np.load(SLM / "use-multilingual.npy").astype(np.float64)
    train = x[:3000]
    mean = train.mean(0)
    sigma = (train - mean).T @ (train - mean) / len(train)
    dim = len(sigma)
    sigma = 0.85 * sigma + (0.15 * np.trace(sigma) / dim + 5e-8) * np.eye(dim)
    anchors = tensors["mixture"].astype(np.float64) @ x[tensors["support_ids"]]
    wanted = (x - mean) @ np.linalg.solve(sigma, (anchors - mean).T)
    np.testing.assert_allclose(np.load(story.folder / "use.npy"), wanted, atol=1e-3 * wanted.std())


def test_a_bundle_is_a_safetensors_file_any_language_can_open(story: Kedge) -> None:
    with safe_open(story.folder / "shared.kedge", "np") as file:
        assert file.metadata()["method"] == "kmeans"
        assert file.metadata()["similarity"] == "wip"
        assert json.loads(file.metadata()["spaces"]) == ["smollm2", "minilm", "use"]
        assert json.loads(file.metadata()["sources"]) == ["smollm2", "minilm"]
        assert file.get_tensor("mixture").shape == (300, 3000)
        assert file.get_tensor("use.weight").shape == (300, 512)
        np.testing.assert_allclose(file.get_tensor("mixture").sum(1), 1, atol=1e-5)


def test_inspect_says_what_is_inside(story: Kedge) -> None:
    text = story.ok("inspect", "shared.kedge").stdout
    for word in ("300 (kmeans)", "wip", "3000 of rows 0:3000", "smollm2", "attach"):
        assert word in text
    info = story.json("inspect", "shared.kedge")
    assert [s["name"] for s in info["spaces"]] == ["smollm2", "minilm", "use"]
    assert [s["fitted"] for s in info["spaces"]] == [True, True, False]
    assert len(info["support_ids"]) == info["support"] == 3000


def test_support_rows_alone_attach_nearly_as_well(story: Kedge) -> None:
    ids = story.json("inspect", "shared.kedge")["support_ids"]
    np.save(story.folder / "support.npy", np.load(SLM / "use-multilingual.npy")[ids])
    story.ok("attach", "shared.kedge", "--space", "use=support.npy", "--support-rows", "--replace", "-o", "again.kedge")
    story.ok("transform", "again.kedge", "--space", "use", "-i", f"{SLM}/use-multilingual.npy", "-o", "again.npy")
    # All 3000 rows are support rows here, so nothing is lost; their sums are in another order.
    wanted = np.load(story.folder / "use.npy")
    np.testing.assert_allclose(np.load(story.folder / "again.npy"), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def peak_kilobytes(command: list[str], folder: pathlib.Path) -> int:
    """Started by a small process of its own: a child begins with the peak memory of its parent."""
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    words = [sys.executable, "-c", measure, *map(str, command)]
    return int(subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is not what is measured")
def test_transform_keeps_memory_flat(kedge: Kedge, bundle: str) -> None:
    """600,000 rows make 307 MB of input and 480 MB of output; the process stays far below either."""
    rows = 600_000
    wide = np.lib.format.open_memmap(kedge.folder / "wide.npy", mode="w+", dtype=np.float16, shape=(rows, 256))
    del wide  # a sparse file: zeros that take no disk
    rng = np.random.default_rng(0)
    np.save(kedge.folder / "fit.npy", rng.normal(size=(400, 256)).astype(np.float32))
    kedge.ok("fit", "--space", "wide=fit.npy", "--anchors", 200, "--method", "random", "-o", "wide.kedge")
    command = [kedge.program, "transform", "wide.kedge", "--space", "wide", "-i", "wide.npy", "-o", "rr.npy", "-q",
               "--threads", "2"]  # each has buffers of its own
    assert peak_kilobytes(command, kedge.folder) < 150_000
    assert np.load(kedge.folder / "rr.npy", mmap_mode="r").shape == (rows, 200)
    (kedge.folder / "rr.npy").unlink()


@pytest.mark.long
def test_the_demo_tells_its_story(kedge: Kedge) -> None:
    """As the reference shows on these encoders: cosines to random rows do not carry over, learned anchors do, and a
    ridge of each pair comes near them."""
    done = kedge.json("demo", "--data", SLM)
    records = {(r["method"], r["from"], r["to"]): r for r in done["records"]}
    assert len(records) == 4 + 12 + 3 * 16
    for pair in (("smollm2-135m", "gemma3-270m"), ("gemma3-270m", "smollm2-135m")):
        assert records[("random-cosine", *pair)]["recall@1"] < 0.10
        assert records[("param-multi", *pair)]["recall@1"] > 0.85  # 40 epochs; cli.quality asks more of 95
        assert records[("consensus", *pair)]["recall@1"] > 0.90
    for method in ("param-multi", "consensus"):
        found = [r["recall@1"] for (m, a, b), r in records.items() if m == method and a != b]
        assert len(found) == 12 and np.mean(found) > 0.95
    f1 = {m: np.mean([r["weighted_f1"] for (method, a, b),
                      r in records.items() if method == m and (a != b or m == "absolute")])
          for m in ("absolute", "random-cosine", "param-multi", "consensus")}
    assert f1["consensus"] > f1["absolute"] - 0.01 and f1["param-multi"] > f1["absolute"] - 0.03
    assert f1["random-cosine"] < 0.6
    ridge = np.mean([r["recall@1"] for (m, _, _), r in records.items() if m == "ridge"])
    assert 0.9 < ridge < np.mean([r["recall@1"] for (m, a, b), r in records.items() if m == "consensus" and a != b])
    page = (kedge.folder / "kedge-demo" / "report.html").read_text()
    assert done["report"] == "kedge-demo/report.html" and "use-multilingual" in page
    for name in ("results.json", "results.csv", "tables.json", "tables.md", "tables.tex", "figures.json"):
        assert (kedge.folder / "kedge-demo" / name).stat().st_size > 100
