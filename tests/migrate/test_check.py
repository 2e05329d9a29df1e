# SPDX-License-Identifier: Apache-2.0
"""What a migration measures, chooses and finds: samples, maps, quality and fused search."""
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import Migration, check, draw, maps, quality, sample, say
from kedge.migrate.stores.scores import fuse, unit
from made_up import ROWS, spaces
from require import number, require_near
from steps import begin, facts, run, until


def test_a_sample_depends_on_ids_and_seed_alone() -> None:
    ids: list[int | str] = list(range(5000))
    forward, backward, larger = (draw.Smallest(count, 3) for count in (100, 100, 200))
    for first in range(0, 5000, 700):
        forward.add(ids[first:first + 700])
        larger.add(ids[first:first + 700])
    backward.add(ids[::-1])
    assert forward.ids == backward.ids == larger.ids[:100]
    assert len(set(forward.ids)) == 100 and 2000 < np.mean([number(key) for key in forward.ids]) < 3000
    other = draw.Smallest(100, 4)
    other.add(ids)
    assert len(set(other.ids) & set(forward.ids)) < 20


def test_a_target_error_decides_the_sample(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new", "--map", "ridge")
    assert run("sample", "--json", "--target-error", .9) == 0
    assert facts(capsys)["drawn"] == min(sample.PILOT_ROWS, ROWS)
    assert run("sample", "--target-error", 2) == 2


def test_the_rows_for_a_target_follow_the_curve() -> None:
    curve = [(rows, 4 * rows ** -.5) for rows in (100, 200, 400)]
    assert maps.rows_for(curve, .1) == pytest.approx(1600, rel=.01)
    assert maps.rows_for(curve, .3) == 400
    assert maps.rows_for([(100, .5), (200, .5), (400, .5)], .1) is None


def test_the_error_of_a_ridge_is_that_of_leaving_every_row_out() -> None:
    """Also with fewer rows than values, and with rows that are there twice."""
    rng = np.random.default_rng(0)
    old, new = spaces(40)
    old = np.hstack([old, .1 * rng.normal(size=(40, 50))]).astype(np.float32)
    old[7], new[7] = old[3], new[3]
    strength, error = maps.best_ridge(old, new)
    missed = []
    for n in range(40):
        rest = np.arange(40) != n
        x, y = old[rest].astype(float), new[rest].astype(float)
        centre = x - x.mean(axis=0)
        # The closed form leaves one row out but keeps the penalty of all rows.
        penalty = strength * np.square(old - old.mean(axis=0)).sum() / old.shape[1]
        weight = np.linalg.solve(centre.T @ centre + penalty * np.eye(old.shape[1]), centre.T @ (y - y.mean(axis=0)))
        missed.append(new[n] - y.mean(axis=0) - (old[n] - x.mean(axis=0)) @ weight)
    shares = np.square(missed).sum(axis=0) / np.square(new - new.mean(axis=0)).sum(axis=0)
    assert error == pytest.approx(shares.mean(), rel=1e-5)


def test_fit_takes_the_smaller_error(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    assert run("sample", "-q") == 0
    assert run("fit", "--json") == 0
    found = facts(capsys)
    assert set(found["errors"]) == {"ridge", "kernel"}
    assert found["map"] == min(found["errors"], key=found["errors"].get)
    assert [rows for rows, _ in found["curve"]] == [30, 60, 120]


def test_the_sample_is_checked_by_maps_that_have_not_seen_it(folder: pathlib.Path,
                                                             migration: Callable[[], Migration]) -> None:
    until("fit")
    with migrate.Migration() as one:
        ids, old, new = one.journal.sample()
        translated = check.out_of_fold(one, old, one.as_new(new), "ridge")
        held = np.arange(len(ids)) % check.FOLDS == 0
        bundle, _, _ = maps.learn(old[~held], one.as_new(new[~held]), "ridge")
        require_near(translated[held], one.translate(bundle.translator("old", "new"), old[held]))


def test_check_with_judged_queries_measures_the_whole_store(folder: pathlib.Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    rng = np.random.default_rng(1)
    queries = rng.permutation(ROWS)[:60]
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    nearest = np.argsort(-(new[queries] @ new.T), axis=1)[:, :5]
    np.save("judgements.npy", [(query, document, 1) for query, found in enumerate(nearest) for document in found])
    until("fit", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy", "--judgements",
          "judgements.npy")
    assert run("check", "--json") == 0
    found = facts(capsys)
    assert found["queries"] == "judged" and found["verdict"] in ("translate", "fuse", "embed again")
    assert found["scores"]["new"]["ndcg"][0] == pytest.approx(1) and found["scores"]["new"]["overlap"][0] == 1
    low, high = found["scores"]["fused"]["ndcg"][1:]
    assert low < found["scores"]["fused"]["ndcg"][0] < high
    # A gate is passed if the lower end of the interval reaches it, and only then.
    way = "translated" if found["verdict"] == "translate" else "fused"
    kept, low, high = found["whole"]["share"][way]
    assert kept == pytest.approx(found["whole"]["scores"][way][0] / found["whole"]["scores"]["old"][0])
    assert low < kept < high
    assert run("check", "-q", "--gate", f"{low - 1e-6:.9f}") == 0
    assert run("check", "--json", "--gate", f"{(low + kept) / 2:.9f}") == 4
    assert facts(capsys)["gate"]["passed"] is False
    # The same from the arrays, once they are applied.
    assert run("apply", "-q") == 0
    applied = np.load("docs_new.npy")
    import kedge
    by_hand = kedge.retrieve(new[queries], applied, np.load("judgements.npy").astype(np.int32), k=10)
    assert found["whole"]["scores"]["translated"][0] == pytest.approx(by_hand["ndcg@10"], rel=1e-6)


def test_a_gate_needs_judgements(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("fit")
    assert run("check", "--gate", .9) == 2
    assert "judgements" in capsys.readouterr().err


def test_judgements_of_documents_that_the_store_does_not_have(folder: pathlib.Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    """All scores would be 0, and no way better than another."""
    old, new = spaces()
    np.save("old_queries.npy", old[:60])
    np.save("new_queries.npy", new[:60])
    np.save("judgements.npy", [(query, ROWS + query, 1) for query in range(60)])
    until("fit", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy", "--judgements",
          "judgements.npy")
    assert run("check") == 3
    assert "none of the 60 judged documents is in npy:docs.npy; name them by their ids" in capsys.readouterr().err


def test_the_first_line_says_if_translation_alone_does_not_pay() -> None:
    last = {"old": .9, "translated": .2, "new": 1}
    scores = {way: {"ndcg": np.array([.1, .5, .9, value])} for way, value in last.items()}
    found = {"gain": check.gains(scores), "share": check.shares(scores)}
    assert list(say._no_better(found))[0].startswith("Translation alone is no better than staying with the old model")
    scores["translated"]["ndcg"] = scores["old"]["ndcg"] + .05
    assert not list(say._no_better({"gain": check.gains(scores), "share": check.shares(scores)}))


def test_ndcg_is_that_of_retrieve() -> None:
    import kedge
    rng = np.random.default_rng(0)
    documents, queries = rng.normal(size=(200, 8)).astype(np.float32), rng.normal(size=(30, 8)).astype(np.float32)
    judged = np.unique(rng.integers(0, (30, 200), (200, 2)), axis=0)
    judged = np.column_stack([judged, rng.integers(1, 4, len(judged))]).astype(np.int32)
    grades: dict[int, dict[Any, float]] = {}
    for query, document, grade in judged.tolist():
        grades.setdefault(query, {})[document] = grade
    order = np.argsort(-(unit(queries) @ unit(documents).T), axis=1, kind="stable")
    mean = np.mean([quality.ndcg(order[query].tolist(), grades[query]) for query in grades])
    assert mean == pytest.approx(kedge.retrieve(queries, documents, judged)["ndcg@10"], rel=1e-6)


def test_a_fused_search_is_what_the_arrays_give(folder: pathlib.Path, migration: Callable[[], Migration]) -> None:
    old, new = spaces()
    until("apply")
    one, applied = migration(), np.load("docs_new.npy")
    asked = np.arange(20)
    ids, scores = migrate.search(one, old[asked], new[asked], k=5, candidates=30)
    for n in asked:
        by_old, by_new = old @ old[n], applied @ new[n]
        both = np.union1d(np.argsort(-by_old)[:30], np.argsort(-by_new)[:30])
        shares = 1 / by_old[both].std(), 1 / by_new[both].std()
        total = (shares[0] * by_old[both] + shares[1] * by_new[both]) / sum(shares)
        expected = both[np.argsort(-total)[:5]]
        assert ids[n] == expected.tolist()
        np.testing.assert_allclose(scores[n], np.sort(total)[::-1][:5], rtol=1e-4)
    alone, _ = migrate.search("migrate.toml", None, new[3], k=4)
    assert alone == np.argsort(-(applied @ new[3]))[:4].tolist()
    heavy, _ = migrate.search(one, old[3], new[3], k=4, weights=(1, 0))
    assert heavy == np.argsort(-(old @ old[3]))[:4].tolist()


def test_before_apply_a_new_query_is_translated_back(folder: pathlib.Path, migration: Callable[[], Migration]) -> None:
    old, new = spaces()
    until("fit")
    one = migration()
    found, _ = migrate.search(one, None, new[3], k=4)
    back = one.translator(back=True).transform(new[3:4])[0]
    assert found == np.argsort(-(old @ back))[:4].tolist()
    assert migrate.search(one, old[3], None, k=4)[0] == np.argsort(-(old @ old[3]))[:4].tolist()
    with pytest.raises(migrate.UsageError, match="apply"):
        migrate.search(one, old[3], new[3])


def test_rows_without_a_new_vector_count_as_the_worst() -> None:
    total = fuse([1., 2., 3.], [5., np.nan, 7.])
    old, new = np.array([1., 2., 3.]), np.array([5., 5., 7.])
    shares = 1 / np.array([old.std(), np.array([5., 7.]).std()])
    np.testing.assert_allclose(total, (shares[0] * old + shares[1] * new) / shares.sum())
    np.testing.assert_array_equal(fuse([1., 1.], [0., 0.]), [0, 0])


def test_a_fused_score_is_on_the_scale_of_the_scores_whatever_their_spread() -> None:
    old, new = np.array([.2, .3, .7]), np.array([.1, .5, .6])
    for spread in (1., .1):
        narrow = .5 + spread * (new - .5)
        total = fuse(old, narrow)
        assert (np.minimum(old, narrow) <= total).all() and (total <= np.maximum(old, narrow)).all()
    np.testing.assert_allclose(fuse(old, old, (1, 3)), old)
    assert fuse(old, new, (1, -2))[0] > fuse(old, new, (1, -2))[1], "a weight below 0 counts against"


def test_judgements_count_in_the_whole_store_where_the_sample_has_few_of_them(
        folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    until("fit")
    with migrate.Migration() as one:
        away = sorted(set(range(ROWS)) - set(one.journal.sample()[0]))[:40]
    np.save("old_queries.npy", old[away])
    np.save("new_queries.npy", new[away])
    np.save("judgements.npy", [(query, document, 1) for query, document in enumerate(away)])
    with open("migrate.toml", "a") as file:
        file.write("old_queries = 'old_queries.npy'\nnew_queries = 'new_queries.npy'\njudgements = 'judgements.npy'\n")
    assert run("check", "--json") == 0
    found = facts(capsys)
    assert found["queries"] == "log" and found["whole"]["scores"]["old"][0] == pytest.approx(1)
    assert "in the whole store" in found["why"]
    assert run("check") == 0 and "nDCG@10" in capsys.readouterr().out


def test_where_the_old_model_is_gone_the_new_one_s_queries_are_enough(folder: pathlib.Path,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    queries = np.random.default_rng(1).permutation(ROWS)[:60]
    np.save("new_queries.npy", new[queries])
    nearest = np.argsort(-(new[queries] @ new.T), axis=1)[:, :30]
    np.save("judgements.npy", [(query, document, 1) for query, found in enumerate(nearest) for document in found])
    until("check", "--new-queries", "new_queries.npy", "--judgements", "judgements.npy", "--old-encoder", "gone")
    assert run("check", "--json") == 0
    found = facts(capsys)
    assert set(found["scores"]) == {"translated", "new"} and found["verdict"] == "translate"
    assert found["scores"]["new"]["ndcg"][0] > found["scores"]["translated"]["ndcg"][0] > .7
    assert run("check") == 0 and "stay with" not in capsys.readouterr().out
    assert run("apply", "-q") == 0 and run("top-up", "--rows", 5) == 0
    assert run("report", "-q") == 0
