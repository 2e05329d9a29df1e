# SPDX-License-Identifier: Apache-2.0
"""Cut-offs of the old model and what takes their place; the order of a top-up and what it gains."""
import pathlib
import re

import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import check, cut_offs, maps, quality, worth
from kedge.migrate.stores.scores import closeness, unit
from made_up import spaces
from steps import begin, facts, run, until

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/cranfield"


def test_a_cut_off_lets_as_many_through_as_the_old_one() -> None:
    rng = np.random.default_rng(0)
    old = rng.normal(.4, .1, 20_000)
    new = .2 + .5 * np.square(old) + rng.normal(0, .01, len(old))
    found = cut_offs.CutOffs.between(old, new)
    for cut in (.2, .4, .5, .6):
        assert (new >= found(cut)).mean() == pytest.approx((old >= cut).mean(), abs=.005)
    cuts = found(np.linspace(-1, 2, 301))
    assert (np.diff(cuts) >= 0).all() and cuts[0] == new.min() and cuts[-1] == new.max()


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
def test_the_same_model_has_the_same_cut_offs(metric: str) -> None:
    """On the scale of the store's own scores, whatever the metric."""
    old, _ = spaces()
    queries = np.arange(80)
    bench = quality.Bench(old, old, old, old[queries], old[queries], queries, None, (metric, metric))
    maps, measured = cut_offs.measure(bench, metric)
    assert len(measured) > 1
    for one in measured:
        assert one["ways"]["new"]["at"] == pytest.approx(one["old"], rel=.05)
        assert one["ways"]["new"]["agreement"][0] > .97 and one["ways"]["new"]["kept"] > .9
    if metric == "euclidean":
        assert all(-2 <= one["old"] <= 0 for one in measured), "a distance, as search gives it"
    scores = cut_offs.Pairs(bench, metric).together("new")[0]
    shown = closeness(old[queries], old, "cosine")
    np.fill_diagonal(shown, -np.inf)
    nearest = shown.max() if metric != "euclidean" else -np.sqrt(2 - 2 * shown.max())
    assert scores.max() == pytest.approx(nearest, rel=1e-3)


def test_check_says_which_cut_offs_keep_the_decisions(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    assert run("sample", "-q") == 0 and run("fit", "-q") == 0
    with pytest.raises(migrate.Error, match="run 'kedge-migrate check'"):
        migrate.thresholds("migrate.toml")
    assert run("check", "--json") == 0
    found = facts(capsys)["cut_offs"]
    maps = migrate.thresholds("migrate.toml")
    assert set(maps) == {"new", "translated", "fused"} and found
    for one in found:
        for way, at in one["ways"].items():
            assert at["at"] == pytest.approx(float(maps[way](one["old"])))
            low, high = at["agreement"][1:]
            assert 0 <= low <= at["agreement"][0] <= high <= 1 and 0 <= at["kept"] <= 1
    assert run("check") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == [f"{found[0]['old']:.3g}"])
    assert line.split()[1] == f"{found[0]['ways']['new']['at']:.3f}"


def test_rows_far_from_the_sample_are_expected_to_be_worse() -> None:
    old, new = (unit(np.load(DATA / f"{name}-docs.npy").astype(np.float32)) for name in ("minilm-l6", "mpnet-base"))

    def translated(seen: np.ndarray, asked: np.ndarray) -> np.ndarray:
        bundle, _, _ = maps.learn(old[seen], new[seen], "kernel")
        return np.asarray(bundle.translator("old", "new").transform(old[asked], normalize=True))

    order = np.random.default_rng(0).permutation(len(old))
    seen, held, away = order[:160], order[160:240], order[240:]
    line = worth.error_by_distance(worth.distance(old[held], old[seen]), new[held], translated(seen, held))
    guessed = worth.expected_error(worth.distance(old[away], old[seen]), line)
    errors = 1 - (translated(seen, away) * new[away]).sum(axis=1)
    assert np.corrcoef(guessed, errors)[0, 1] > .5 and guessed.mean() == pytest.approx(errors.mean(), rel=.1)


def test_the_curve_in_the_order_of_top_up_ends_where_the_other_does(folder: pathlib.Path,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    queries = np.repeat(np.arange(10), 8)
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    until("check", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy")
    assert run("check", "--json") == 0
    found = facts(capsys)
    for place in (0, -1):
        assert found["ordered"][place][0] == found["curve"][place][0]
        for way, scores in found["curve"][place][1].items():
            assert found["ordered"][place][1][way]["overlap"] == pytest.approx(scores["overlap"])
    half = [points[2][1]["translated"]["overlap"] for points in (found["ordered"], found["curve"])]
    assert half[0] > half[1], "queries meet some documents more than others"


def test_a_report_names_the_place_and_measures_it_as_it_is(folder: pathlib.Path,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    queries = np.random.default_rng(1).permutation(len(new))[:60]
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    nearest = np.argsort(-(new[queries] @ new.T), axis=1)[:, :5]
    np.save("judgements.npy", [(query, document, 1) for query, found in enumerate(nearest) for document in found])
    until("apply", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy", "--judgements",
          "judgements.npy")
    with migrate.Migration() as one:
        before = check.in_the_store(one)
        foreseen = one.journal.fact("check")["whole"]["scores"]
        assert before["new"][0] == pytest.approx(foreseen["translated"][0], rel=1e-6)
        assert before["fused"][0] == pytest.approx(foreseen["fused"][0], rel=1e-6)
    assert run("top-up", "--json", "--share", .5) == 0
    expected = facts(capsys)["expected"]
    assert expected["old"]["whole_ndcg"] == pytest.approx(foreseen["old"][0])
    assert expected["translated"]["whole_ndcg"] > foreseen["translated"][0]
    assert run("top-up", "--rows", 1) == 0 and "expected nDCG@10 in the whole store: old" in capsys.readouterr().out
    assert run("top-up") == 0 and re.search("measured nDCG@10 in the whole store: old .* new 1.000",
                                            capsys.readouterr().out)
    with migrate.Migration() as one:
        assert check.in_the_store(one)["new"][0] == pytest.approx(1)
    assert run("report", "-q") == 0
    page = (folder / "migrate.html").read_text()
    assert "npy:docs.npy" in page and "In the whole store as it is now" in page and "still pass" in page
    assert f"The store has {len(old)}" in page
    (folder / "docs.npy").rename(folder / "away.npy")
    assert run("report", "-q") == 0, "a store that does not answer hides nothing of what is known"
