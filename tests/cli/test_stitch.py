# SPDX-License-Identifier: Apache-2.0
"""stitch and sweep from the shell: what they write, that they resume, and what wrong input gets."""
import csv
import json
import signal
import subprocess
import time
from typing import Any

import numpy as np
import pytest
from conftest import SLM, Kedge

SMALL = ["--anchors", 8, "--support", 80, "--epochs", 3, "--batch", 64, "--no-report"]


@pytest.fixture
def world(kedge: Kedge) -> list[str]:
    """Three spaces of 240 rows that see the same causes, labels and pictures that follow from them."""
    rng = np.random.default_rng(1)
    causes = rng.normal(size=(240, 5))
    for name, dim in (("a", 9), ("b", 6), ("c", 7)):
        noise = 0.2 * rng.normal(size=(240, dim))
        np.save(kedge.folder / f"{name}.npy", (causes @ rng.normal(size=(5, dim)) + noise + 2).astype(np.float32))
    np.save(kedge.folder / "labels.npy", (causes[:, 0] > 0).astype(np.int64) + 2 * (causes[:, 1] > 0))
    np.save(kedge.folder / "pixels.npy", (1 / (1 + np.exp(-causes @ rng.normal(size=(5, 12))))).astype(np.float32))
    spaces = sum((["--space", f"{n}={n}.npy"] for n in "abc"), [])
    return [*spaces, "--train", "0:200", "--test", "200:240"]


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made for a report; a test that looks at them alone need not draw the page."""
    monkeypatch.setenv("KEDGE_REPORT", "true")


def records(kedge: Kedge, folder: str = "out") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((kedge.folder / folder / "results.json").read_text())["records"]
    return found


def test_anchors_that_the_sources_do_not_share_are_not_made(kedge: Kedge, world: list[str]) -> None:
    done = kedge.ok("stitch", *world, "--anchors", 80, "--support", 80, "--no-report", "--labels", "labels.npy",
                    "--head", "linear", "--methods", "random-wip,consensus", "-o", "out")
    runs = json.loads((kedge.folder / "out" / "results.json").read_text())["runs"]
    found = sorted({run["found_anchors"] for run in runs if run["method"] == "consensus"})
    assert found[-1] < 16 and {run["found_anchors"] for run in runs if run["method"] == "random-wip"} == {80}
    assert f", {found[0]} anchors of 80 rows" in done.stderr
    shown = f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
    note = f"consensus has {shown} anchors, not 80: that is how many directions its sources share."
    assert done.stderr.count(note) == 1 and note in (kedge.folder / "out" / "tables.md").read_text()


@pytest.mark.long
def test_every_method_is_measured_for_every_pair(kedge: Kedge, world: list[str], no_page: None) -> None:
    methods = "absolute,random-cosine,random-wip,kmeans-wip,fps-cosine,param-single,param-multi,param-cosine,consensus"
    summary = kedge.json("stitch", *world, *SMALL[:-1], "--labels", "labels.npy", "--targets", "pixels.npy",
                         "--target-shape", "3x4", "--methods", methods, "--seeds", 2, "-o", "out")
    found = records(kedge)
    assert summary["records"] == len(found) == 2 * (3 + 8 * 9)
    assert {r["method"] for r in found} == set(methods.split(","))
    for r in found:
        assert 0 <= r["weighted_f1"] <= 1 and r["mse"] > 0 and np.isfinite(r["psnr"])
        assert r["zero_shot"] == (r["encoder"] != r["trained_on"]) == (r["mrr"] is not None)
        assert (r["anchors"] is None) == (r["rr_std"] is None) == (r["method"] == "absolute")
    lines = list(csv.DictReader((kedge.folder / "out" / "results.csv").open()))
    assert [line["method"] for line in lines] == [r["method"] for r in found]
    assert float(lines[-1]["weighted_f1"]) == found[-1]["weighted_f1"]
    figures = json.loads((kedge.folder / "out" / "figures.json").read_text())
    pictures = figures["reconstructions"]
    assert (pictures["trained_on"], pictures["encoder"], pictures["shape"]) == ("a", "c", [3, 4])
    assert np.array(pictures["original"]) == pytest.approx(np.load(kedge.folder / "pixels.npy")[200:210], abs=1e-3)
    assert set(pictures["methods"]) == set(methods.split(","))
    assert {s["similarity"] for s in figures["similarities"]} == {
        "wip", "cosine", "euclidean", "inner", "angular", "manhattan"}
    assert np.array(figures["raw"]["b"]).shape == (40, 2)
    means = {m["method"]: m["F1"]["mean"] for m in summary["means"]}
    own = [r["weighted_f1"] for r in found if r["method"] == "consensus" and r["zero_shot"]]
    assert means["consensus"] == pytest.approx(100 * np.mean(own))


def test_without_labels_there_is_retrieval_only(kedge: Kedge, world: list[str]) -> None:
    kedge.ok("stitch", *world, *SMALL, "--methods", "absolute,random-cosine,consensus", "-o", "out")
    assert {r["method"] for r in records(kedge)} == {"random-cosine", "consensus"}
    assert all(r["weighted_f1"] is None and r["mse"] is None for r in records(kedge))


def test_linear_heads_are_those_of_scikit_learn(kedge: Kedge, world: list[str]) -> None:
    from sklearn.linear_model import LogisticRegression
    kedge.ok("stitch", *world, *SMALL, "--labels", "labels.npy", "--methods", "absolute", "--head", "linear", "-o",
             "out")
    labels = np.load(kedge.folder / "labels.npy")
    for r in records(kedge):
        rows = np.load(kedge.folder / f"{r['encoder']}.npy")
        peer = LogisticRegression(max_iter=5000, tol=1e-8).fit(rows[:200], labels[:200])
        assert r["accuracy"] == pytest.approx(peer.score(rows[200:], labels[200:]), abs=0.01)


def test_a_sweep_has_a_record_for_every_point(kedge: Kedge, world: list[str]) -> None:
    kedge.ok("sweep", *world, "--labels", "labels.npy", "--no-report", "--epochs", 2, "--methods", "random,param",
             "--similarity", "wip,cosine", "--anchors", "4,8", "--support", "50,100", "--shrinkage", "0.1,auto", "-o",
             "out")
    found = records(kedge)
    assert {r["method"] for r in found} == {"random-wip", "random-cosine", "param-multi", "param-cosine"}
    points = {(r["anchors"], r["support"], r["shrinkage"]) for r in found}
    assert points == {(m, k, s) for m in (4, 8) for k in (50, 100) for s in (0.1, "ledoit-wolf")}
    assert len(found) == 4 * 8 * 9
    assert "## Sweep: MRR" in (kedge.folder / "out" / "tables.md").read_text()


@pytest.mark.long
def test_an_interrupted_stitch_ends_as_an_undisturbed_one(kedge: Kedge) -> None:
    """On encoders of a size at which another order of additions would show."""
    spaces = sum((["--space", SLM / f"{n}.npy"] for n in ("smollm2-135m", "minilm-l6", "use-multilingual")), [])
    command = ["stitch", *spaces, "--train", "0:3000", "--test", "3000:3300", "--epochs", 8, "--no-report",
               "--methods", "random-cosine,param-single,param-multi"]
    kedge.ok(*command, "-o", "whole")
    process = subprocess.Popen([kedge.program, *map(str, command), "-o", "parts"], cwd=kedge.folder,
                               stderr=subprocess.PIPE, text=True)
    done = kedge.folder / "parts" / "results.json"
    until = time.monotonic() + 600
    while not done.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=600)[1]
    assert process.returncode == 130, stderr
    assert "the same command continues from what is in" in stderr
    before = records(kedge, "parts")
    assert 0 < len(before) < len(records(kedge, "whole"))
    again = kedge.ok(*command, "-o", "parts")
    assert f"already has {len(before)} records" in again.stderr
    assert records(kedge, "parts") == records(kedge, "whole")
    assert "param-multi on" not in kedge.ok(*command, "-o", "parts").stderr


def test_known_records_stay_whatever_is_run_again_for_figures(kedge: Kedge, world: list[str], no_page: None) -> None:
    """The known ones are altered, so that one which was made again shows on every machine."""
    command = ["stitch", *world, *SMALL[:-1], "--labels", "labels.npy", "--targets", "pixels.npy", "--head", "linear",
               "--methods", "absolute,random-cosine,param-single,consensus", "-o", "out"]
    out = kedge.folder / "out"
    kedge.ok(*command)
    figures = (out / "figures.json").read_bytes()
    results = json.loads((out / "results.json").read_text())
    for i, record in enumerate(results["records"]):
        record.update(weighted_f1=0.5 + i / 1024, mse=1000 + record["mse"])
    for i, run in enumerate(results["runs"]):
        run.update(seconds=1000.5 + i)
    (out / "results.json").write_text(json.dumps(results))

    def require_kept() -> None:
        kept = json.loads((out / "results.json").read_text())
        assert kept["records"] == results["records"] and kept["runs"] == results["runs"]
        with (out / "results.csv").open() as lines:
            assert [float(line["mse"]) for line in csv.DictReader(lines)] == [r["mse"] for r in results["records"]]

    (out / "figures.json").unlink()
    said = kedge.ok(*command, "--no-report").stderr
    require_kept()
    assert "/4]" not in said  # no report is asked for, so nothing is missing
    (out / "figures.json").unlink()
    said = kedge.ok(*command).stderr
    require_kept()
    assert f"already has {len(results['records'])} records, which are kept" in said
    assert said.count("rerun for figures or a bundle; its records are unchanged") == said.count("/4]") == 4
    assert (out / "figures.json").read_bytes() == figures
    assert "/4]" not in kedge.ok(*command).stderr
    require_kept()


def test_results_of_other_settings_are_not_mixed(kedge: Kedge, world: list[str]) -> None:
    command = ["stitch", *world, *SMALL, "--methods", "consensus", "-o", "out"]
    kedge.ok(*command)
    before = (kedge.folder / "out" / "results.json").read_bytes()
    refused = kedge.run(*command, "--power", 1)
    assert refused.returncode == 2 and "fit.power was 0.5 and is now 1" in refused.stderr
    assert (kedge.folder / "out" / "results.json").read_bytes() == before
    kedge.ok(*command, "--power", 1, "--fresh")
    assert (kedge.folder / "out" / "results.json").read_bytes() != before


def test_bundles_can_be_kept_and_used(kedge: Kedge, world: list[str]) -> None:
    kedge.ok("stitch", *world, *SMALL, "--methods", "param-multi", "--hold-out", "b", "--keep-bundles", "-o", "out")
    (bundle,) = (kedge.folder / "out" / "bundles").iterdir()
    assert "without-b" in bundle.name
    known = kedge.json("inspect", bundle)
    assert {s["name"] for s in known["spaces"]} == {"a", "b", "c"}


def test_no_report_program_is_said_and_costs_nothing(kedge: Kedge, world: list[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_REPORT", "/nowhere/kedge-report")
    done = kedge.ok("stitch", *world, *SMALL[:-1], "--methods", "consensus", "-o", "out")
    assert "no report was written" in done.stderr and "/nowhere/kedge-report" in done.stderr
    assert len(records(kedge)) == 9


@pytest.mark.long
def test_what_is_written_can_be_shown(kedge: Kedge, world: list[str]) -> None:
    """Real results of every kind go through the real report."""
    pixels = np.load(kedge.folder / "pixels.npy")
    np.save(kedge.folder / "pictures.npy", (255 * pixels).astype(np.uint8).reshape(240, 3, 4))
    np.save(kedge.folder / "small.npy", np.load(kedge.folder / "labels.npy").astype(np.int16)[:, None])
    done = kedge.json("stitch", *world, *SMALL[:-1], "--labels", "small.npy", "--targets", "pictures.npy", "--head",
                      "linear",
                      "--shrinkage", "auto", "--methods", "absolute,random-cosine,random-ridge,consensus", "-o", "out")
    page = (kedge.folder / done["report"]).read_text()
    assert "random-wip-ridge" in page
    figures = json.loads((kedge.folder / "out" / "figures.json").read_text())
    assert figures["reconstructions"]["shape"] == [3, 4]
    done = kedge.json("sweep", *world, "--labels", "small.npy", "--epochs", 2, "--methods", "random-wip,consensus",
                      "--anchors", "4,8,90", "--support", "50,100", "--shrinkage", "0.1,oas", "-o", "swept")
    assert "oas" in (kedge.folder / done["report"]).read_text()
    points = {(r["anchors"], r["support"]) for r in records(kedge, "swept")}
    assert points == {(4, 50), (8, 50), (4, 100), (8, 100), (90, 100)}  # 90 anchors of 50 rows cannot be


def test_pictures_follow_the_options_and_order_the_question(kedge: Kedge, world: list[str], no_page: None) -> None:
    """Asked again with another shape, more samples or another order, a finished folder gives what is asked."""
    command = ["stitch", *world, *SMALL[:-1], "--targets", "pixels.npy", "--head", "ridge", "--ridge", 0.1, "-o", "out"]
    kedge.ok(*command, "--methods", "random-cosine,consensus")
    kedge.ok(*command, "--methods", "consensus,random-cosine", "--target-shape", "3x4")
    pictures = json.loads((kedge.folder / "out" / "figures.json").read_text())["reconstructions"]
    assert pictures["shape"] == [3, 4] and len(pictures["original"]) == 10
    assert records(kedge)[0]["method"] == "consensus"
    kedge.ok(*command, "--methods", "consensus,random-cosine,random-wip", "--samples", 4)
    pictures = json.loads((kedge.folder / "out" / "figures.json").read_text())["reconstructions"]
    assert {m: len(rows) for m, rows in pictures["methods"].items()} == dict.fromkeys(
        ("consensus", "random-cosine", "random-wip"), 4)


def test_one_command_at_a_time_writes_to_a_folder(kedge: Kedge, world: list[str]) -> None:
    import fcntl
    import os
    (kedge.folder / "out").mkdir()
    folder = os.open(kedge.folder / "out", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    refused = kedge.run("stitch", *world, *SMALL, "--methods", "consensus", "-o", "out")
    os.close(folder)
    assert refused.returncode == 1 and "another kedge is writing to 'out'" in refused.stderr
    kedge.ok("stitch", *world, *SMALL, "--methods", "consensus", "-o", "out")


@pytest.mark.parametrize("code, change, says", [
    (2, ["--methods", "absolute"], ["nothing to measure", "labels or targets"]),
    (2, ["--target-shape", "3x4"], ["no targets"]),
    (2, ["--targets", "pixels.npy", "--target-shape", "12"], ["12", "height x width"]),
    (2, ["--targets", "pixels.npy", "--target-shape", "99999999999999999999x2"], ["99999999999999999999x2"]),
    (2, ["--seeds", "1000000000"], ["10000"]),
    (2, ["--labels", "labels.npy", "--head-hidden", "1"], ["hidden", "linear"]),
    (2, ["--test", "150:240"], ["overlap", "150:240", "0:200"]),
    (2, ["--train", "0:300"], ["train rows 0:300", "240 rows"]),
    (3, ["--labels", "short.npy"], ["short.npy", "239 labels", "240 rows"]),
    (3, ["--labels", "a.npy"], ["a.npy", "integers", "float32"]),
    (3, ["--labels", "gone.npy"], ["gone.npy"]),
    (2, ["--labels", "one.npy"], ["label 5", "two classes"]),
    (2, ["--labels", "missing.npy"], ["label 9 of test row 220", "train rows 0:200"]),
    (3, ["--targets", "few.npy"], ["few.npy", "10 rows of targets", "240 rows"]),
    (2, ["--targets", "pixels.npy", "--target-shape", "5x5"], ["5x5", "25 values", "have 12"]),
    (2, ["--targets", "pixels.npy", "--target-shape", "3by4"], ["3by4", "28x28"]),
    (2, ["--methods", "param-cos"], ["param-cos", "consensus"]),
    (2, ["--methods", "consensus", "--hold-out", "d"], ["'d'", "a, b, c"]),
    (2, ["--labels", "labels.npy", "--head", "ridge"], ["ridge", "targets"]),
    (2, ["--labels", "labels.npy", "--head-dropout", "1"], ["dropout"]),
    (2, ["--seeds", "0"], ["0 is too few"]),
    (2, ["--space", "a=b.npy"], ["two spaces are called 'a'"]),
    (2, ["--anchors", "300"], ["300", "support"]),
    (1, ["-o", "a.npy"], ["a.npy"]),
])
def test_wrong_input_gets_a_sentence(kedge: Kedge, world: list[str], code: int, change: list[str],
                                     says: list[str]) -> None:
    labels = np.load(kedge.folder / "labels.npy")
    np.save(kedge.folder / "short.npy", labels[:-1])
    np.save(kedge.folder / "one.npy", np.full(240, 5))
    labels[220] = 9
    np.save(kedge.folder / "missing.npy", labels)
    np.save(kedge.folder / "few.npy", np.ones((10, 12), np.float32))
    methods = [] if "--methods" in change else ["--methods", "absolute,consensus"]
    done = kedge.run("stitch", *world, *methods, "--anchors", 20, "--no-report", "-o", "out", *change)
    assert done.returncode == code, done.stderr
    for word in says:
        assert word in done.stderr, done.stderr
    assert not (kedge.folder / "out" / "results.json").exists()
