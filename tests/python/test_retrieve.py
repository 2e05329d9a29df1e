# SPDX-License-Identifier: Apache-2.0
"""Judged retrieval against its definitions, and SVCCA against plain numpy."""
import json
import os
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import Similarity

RNG = np.random.default_rng(5)
QUERIES, DOCUMENTS = RNG.normal(size=(40, 12)).astype(np.float32), RNG.normal(size=(700, 12)).astype(np.float32)
QRELS = np.array([(query, document, RNG.integers(0, 4)) for query in range(0, 40, 2)
                  for document in RNG.choice(700, 1 + query, replace=False)])
for query, document, grade in QRELS:  # so that there is something to find
    DOCUMENTS[document] += 0.7 * grade * QUERIES[query]


def reference(queries: np.ndarray, documents: np.ndarray, qrels: Any, k: int = 10, recall_k: int = 100,
              exclude: Sequence[int] = (), cosine: bool = True) -> list[float]:
    """One sorted list for each query, in float64."""
    queries, documents = queries.astype(np.float64), documents.astype(np.float64)
    if cosine:
        queries, documents = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, documents))
    found = []
    for query, row in enumerate(queries):
        grades = {d: g for q, d, g in np.asarray(qrels).tolist() if q == query and g > 0 and d not in set(exclude)}
        if not grades:
            continue
        order = [d for d in np.argsort(-(documents @ row), kind="stable").tolist() if d not in set(exclude)]
        ideal = sorted(grades.values(), reverse=True)[:k]
        gains = sum(grades.get(d, 0) / np.log2(rank + 2) for rank, d in enumerate(order[:k]))
        ranks = [rank + 1 for rank, d in enumerate(order[:k]) if d in grades]
        found.append((gains / sum(g / np.log2(rank + 2) for rank, g in enumerate(ideal)),
                      sum(d in grades for d in order[:recall_k]) / len(grades), 1 / ranks[0] if ranks else 0))
    return [len(found), *np.mean(found, axis=0)]


def values(scores: dict[str, Any], k: int = 10, recall_k: int = 100) -> list[float]:
    return [scores["queries"], scores[f"ndcg@{k}"], scores[f"recall@{recall_k}"], scores[f"mrr@{k}"]]


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("k, recall_k", [(10, 100), (3, 7), (100, 10), (1000, 1000)])
def test_equals_the_definitions(similarity: Similarity, k: int, recall_k: int) -> None:
    found = kedge.retrieve(QUERIES, DOCUMENTS, QRELS, k=k, recall_k=recall_k, similarity=similarity)
    assert values(found, k, recall_k) == pytest.approx(
        reference(QUERIES, DOCUMENTS, QRELS, k, recall_k, cosine=similarity == "cosine"), rel=1e-6)
    assert 0.1 < found[f"ndcg@{k}"] < 1
    assert found["documents"] == 700 and found["dim"] == 12 and found["queries"] + found["queries_without"] == 40


def test_the_scores_of_each_query_are_those_of_a_search_with_it_alone() -> None:
    found = kedge.retrieve(QUERIES, DOCUMENTS, QRELS, each=True)["each"]
    assert found["query"] == list(range(0, 40, 2))
    for place, query in enumerate(found["query"]):
        alone = kedge.retrieve(QUERIES, DOCUMENTS, QRELS[QRELS[:, 0] == query])
        assert alone["queries"] == 1 and set(found) == {"query", "ndcg@10", "recall@100", "mrr@10"}
        for name in set(found) - {"query"}:
            assert found[name][place] == pytest.approx(alone[name])


def test_documents_are_left_out_with_their_judgements() -> None:
    out = np.unique(np.r_[QRELS[::3, 1], 5:300:7])
    mask = np.isin(np.arange(700), out)
    expected = reference(QUERIES, DOCUMENTS, QRELS, exclude=out.tolist())
    for exclude in (out, out[::-1].copy(), mask):
        found = kedge.retrieve(QUERIES, DOCUMENTS, QRELS, exclude=exclude)
        assert values(found) == pytest.approx(expected, rel=1e-6)
        assert found["documents"] == 700 - len(out) and found["left_out"] == np.isin(QRELS[:, 1], out).sum()
    assert kedge.retrieve(QUERIES, DOCUMENTS, QRELS, rows=~mask) == found
    half = kedge.retrieve(QUERIES, DOCUMENTS, QRELS, rows=slice(0, 350))
    assert values(half) == pytest.approx(reference(QUERIES, DOCUMENTS, QRELS, exclude=range(350, 700)), rel=1e-6)


def test_ties_go_to_the_first_document() -> None:
    documents = np.repeat(DOCUMENTS[:1], 50, axis=0)
    found = kedge.retrieve(QUERIES[:2], documents, [(0, 3, 1), (1, 19, 1)], k=20)
    assert found["mrr@20"] == pytest.approx((1 / 4 + 1 / 20) / 2)


def test_every_kind_of_input_gives_the_same(tmp_path: pathlib.Path) -> None:
    expected = kedge.retrieve(QUERIES, DOCUMENTS, QRELS)
    for name, array in (("q", QUERIES), ("d", DOCUMENTS), ("r", QRELS.astype(np.int32))):
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(QRELS.astype(np.uint16)))
    for qrels in (QRELS.tolist(), QRELS.astype(np.uint8 if QRELS.max() < 256 else np.uint16), tmp_path / "r.npy",
                  str(tmp_path / "fortran.npy"), np.asfortranarray(QRELS), QRELS[::-1]):
        assert kedge.retrieve(tmp_path / "q.npy", tmp_path / "d.npy", qrels) == pytest.approx(expected)
    done = subprocess.run([os.environ["KEDGE"], "retrieve", "--queries", "q.npy", "--documents", "d.npy", "--qrels",
                           "r.npy", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert list(said) == list(expected) and said == pytest.approx(expected)


@pytest.mark.parametrize("qrels, words", [
    (QRELS.astype(float), "in rows of 3 .* of float64"), (QRELS[:, :2], r"in rows of 3 .*\[\d+ x 2\]"),
    (QRELS[0], r"found \[3\]"), ([], "found none"), ([(0, 1, 1), (0, 1)], "different lengths"),
    (QRELS > 0, "of bool"), ([(0, 1, 1), (0, 1, 2)], "document 1 is judged more than once for query 0"),
    ([(40, 0, 1)], "row 40 of the queries"), ([(0, -1, 1)], "row -1 of the documents"), ([(0, 1, -2)], "the grade -2"),
    ([(0, 1, 0)], "no query has a relevant document"), (np.array([(0, 1, 2**63)], np.uint64), "too large")])
def test_judgements_that_cannot_be(qrels: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kedge.retrieve(QUERIES, DOCUMENTS, qrels)


def test_rows_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="12 values and the documents 11"):
        kedge.retrieve(QUERIES, DOCUMENTS[:, :11], QRELS)
    for index in (0, 1):
        rows = [QUERIES.copy(), DOCUMENTS.copy()]
        rows[index][QRELS[-1][index], 3] = np.nan
        with pytest.raises(ValueError, match=f"row {QRELS[-1][index]} .*NaN"):
            kedge.retrieve(rows[0], rows[1], QRELS)
    with pytest.raises(ValueError, match="all 700 rows of the documents are left out"):
        kedge.retrieve(QUERIES, DOCUMENTS, QRELS, exclude=slice(0, 700))
    with pytest.raises(ValueError, match="asked for row 700"):
        kedge.retrieve(QUERIES, DOCUMENTS, QRELS, exclude=[700])
    with pytest.raises(ValueError, match="k is 0"):
        kedge.retrieve(QUERIES, DOCUMENTS, QRELS, k=0)


def svcca(a: np.ndarray, b: np.ndarray) -> float:
    """As Raghu et al. define it: SVD of each, the directions that hold 99 % of the variance, then CCA."""
    def kept(x: np.ndarray) -> np.ndarray:
        u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
        return u[:, :1 + np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.99)]
    return float(np.linalg.svd(kept(a.astype(np.float64)).T @ kept(b.astype(np.float64)), compute_uv=False).mean())


@pytest.mark.parametrize("noise", [0.05, 1, 10])
def test_svcca_equals_plain_numpy(noise: float) -> None:
    rng = np.random.default_rng(1)
    scale = np.geomspace(1, 1e-3, 20)  # so that 99 % of the variance are not all directions
    a = (rng.normal(size=(500, 20)) * scale + 4).astype(np.float32)
    b = (a @ rng.normal(size=(20, 20)) + noise * rng.normal(size=(500, 20))).astype(np.float32)
    assert kedge.compare(a, b)["svcca"] == pytest.approx(svcca(a, b), abs=1e-5)
