# SPDX-License-Identifier: Apache-2.0
"""kedge retrieve: what it prints, and what it refuses."""
import numpy as np
import pytest
from conftest import Kedge

SEARCH = ("retrieve", "--queries", "q.npy", "--documents", "d.npy", "--qrels", "qrels.npy")


@pytest.fixture
def collection(kedge: Kedge) -> Kedge:
    """Four queries; query i finds document i first, and document i + 4 second."""
    queries = np.eye(4, 6, dtype=np.float32)
    rest = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
    rest[:, :4] = -np.abs(rest[:, :4])
    np.save(kedge.folder / "q.npy", queries)
    np.save(kedge.folder / "d.npy", np.vstack([queries, queries + 0.1, rest]).astype(np.float32))
    np.save(kedge.folder / "qrels.npy", np.array([[0, 0, 1], [1, 5, 2], [1, 1, 0], [2, 2, 1], [2, 6, 3]]))
    return kedge


def test_prints_every_measure(collection: Kedge) -> None:
    found = collection.json(*SEARCH)
    second = 1 / np.log2(3)
    assert found == pytest.approx({
        "dim": 6, "queries": 3, "queries_without": 1, "documents": 38, "relevant": 4, "left_out": 0,
        "ndcg@10": (1 + second + (1 + 3 * second) / (3 + second)) / 3, "recall@100": 1, "mrr@10": (1 + 1 / 2 + 1) / 3})
    shown = collection.ok(*SEARCH, "--k", 1, "--recall-k", 1).stdout
    said = dict(line.split() for line in shown.splitlines())
    assert said["queries"] == "3" and said["queries_without"] == "1" and said["documents"] == "38"
    assert float(said["ndcg@1"]) == pytest.approx((1 + 0 + 1 / 3) / 3, abs=1e-4)
    assert float(said["recall@1"]) == pytest.approx((1 + 0 + 1 / 2) / 3, abs=1e-4)
    assert float(said["mrr@1"]) == pytest.approx(2 / 3, abs=1e-4)


def test_the_support_stays_out_of_the_index(collection: Kedge) -> None:
    np.save(collection.folder / "support.npy", np.array([0, 1, 6]))
    found = collection.json(*SEARCH, "--exclude", "support.npy")
    assert (found["queries"], found["documents"], found["left_out"]) == (2, 35, 3)
    assert found["mrr@10"] == found["ndcg@10"] == found["recall@100"] == 1
    collection.ok(*SEARCH, "--rows", "2:8", "--similarity", "inner")
    collection.refused(2, *SEARCH, "--rows", "0:50", says="rows 0:50")
    np.save(collection.folder / "all.npy", np.ones(38, bool))
    collection.refused(2, *SEARCH, "--exclude", "all.npy", says="none remains")


def test_a_gate_decides_by_the_lower_end_of_its_interval(collection: Kedge) -> None:
    """Query 2 scores less than the two others, so the interval of the mean is between its score and 1."""
    gate = collection.json(*SEARCH, "--at-least", "ndcg@10=0.01")["at_least"]
    assert 0 < gate["low"] < gate["value"] <= gate["high"] <= 1
    collection.ok(*SEARCH, "--at-least", f"ndcg@10={gate['low'] - 1e-6:.9f}")
    below = collection.run(*SEARCH, "--at-least", f"ndcg@10={gate['value']:.9f}")
    assert below.returncode == 4 and "95 % interval begins at" in below.stderr and "at_least" in below.stdout
    # The share of a search is a whole one with itself, whatever is drawn.
    same = collection.json(*SEARCH, "--at-least", "mrr@10=1:q.npy,d.npy")["at_least"]
    assert same == {"value": 1, "low": 1, "high": 1}
    np.save(collection.folder / "poor.npy", -np.load(collection.folder / "d.npy"))
    poor = collection.run(*SEARCH, "--documents", "poor.npy", "--at-least", "ndcg@10=0.9:q.npy,d.npy")
    assert poor.returncode == 4 and "of what d.npy scores" in poor.stderr


@pytest.mark.parametrize("gate", ["ndcg@10", "ndcg@10=", "ndcg@10=x", "ndcg@5=.9", "ndcg@10=0.9:q.npy", "=0.9",
                                  "ndcg@10=0.9:q.npy,", "ndcg@10=0.9:,d.npy", "ndcg@10=-1", "ndcg@10=nan"])
def test_a_gate_that_cannot_be(collection: Kedge, gate: str) -> None:
    collection.refused(2, *SEARCH, "--at-least", gate, says=["--at-least", "ndcg@10, recall@100 or mrr@10"])


@pytest.mark.parametrize("qrels, code, words", [
    (np.ones((3, 2), int), 3, ["qrels.npy", "rows of 3", "3 x 2"]), (np.ones((3, 3)), 3, "float64"),
    (np.empty((0, 3), int), 3, "no judgements"), (np.array([[0, 1, 1]] * 2), 2, "more than once"),
    (np.array([[4, 0, 1]]), 2, ["row 4 of the queries", "q.npy has rows 0:4"]), (np.array([[0, 38, 1]]), 2, "row 38"),
    (np.array([[0, 1, -1]]), 2, "grade -1"), (np.array([[0, 1, 0]]), 2, "no query"),
    (np.array([[0, -1, 1]]), 2, "row -1"), (np.ones((3, 3), bool), 3, "booleans"),
    (np.array([[0, 1, 2**63 + 5]], np.uint64), 3, ["qrels.npy", str(2**63 + 5), "int64"])])
def test_judgements_that_cannot_be(collection: Kedge, qrels: np.ndarray, code: int, words: str | list[str]) -> None:
    np.save(collection.folder / "qrels.npy", qrels)
    collection.refused(code, *SEARCH, says=words)


def test_rows_that_cannot_be(collection: Kedge) -> None:
    bad = np.load(collection.folder / "d.npy")
    np.save(collection.folder / "wide.npy", np.hstack([bad, bad]))
    collection.refused(2, *SEARCH, "--documents", "wide.npy", says=["6 values", "12"])
    bad[20, 2] = np.nan
    np.save(collection.folder / "nan.npy", bad)
    collection.refused(3, *SEARCH, "--documents", "nan.npy", says=["row 20 of nan.npy", "NaN"])
    collection.refused(2, *SEARCH, "--k", 0, says="--k")
    collection.refused(2, *SEARCH, "--similarity", "wip", says=["wip", "cosine"])
    collection.refused(2, *SEARCH[:-2], says="--qrels")
    collection.refused(3, *SEARCH, "--qrels", "none.npy", says="none.npy")
