# SPDX-License-Identifier: Apache-2.0
"""Every step of a migration, over the simplest store; other stores have tests of their own."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from made_up import NEW, OLD, ROWS, models, spaces

from kedge import migrate
from kedge.migrate import __main__ as command
from kedge.migrate import check, draw, fused, maps, quality, sample, survey, top_up
from kedge.migrate.stores.scores import unit


@pytest.fixture
def folder(tmp_path, monkeypatch):
    old, new = spaces()
    np.save(tmp_path / "docs.npy", old)
    (tmp_path / "texts.txt").write_text("".join(f"{n}\n" for n in range(ROWS)))
    models(tmp_path, new)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("models", None)
    return tmp_path


def run(*words):
    return command.main([words[0], *map(str, words[1:])])


def begin(*settings):
    assert run("plan", "-q", "--store", "npy:docs.npy", "--texts", "texts.txt", "--sample", 120, *settings) == 0


def until(last, *settings):
    """Runs the steps up to this one."""
    begin("--embed", "models:new", *settings)
    for step in ("sample", "fit", "check", "apply", "verify", "cutover"):
        assert run(step, "-q", *(["--yes"] if step == "cutover" else [])) == 0
        if step == last:
            return


@pytest.fixture
def migration(folder):
    opened = []

    def open_it():
        opened.append(migrate.Migration())
        return opened[-1]
    yield open_it
    for one in opened:
        one.close()


def facts(capsys):
    return json.loads(capsys.readouterr().out)


def test_plan_counts_what_is_there(folder, capsys):
    old, _ = spaces()
    old[3], old[5], old[7, 2] = old[4], 0, np.nan
    np.save("docs.npy", old)
    assert run("plan", "--json", "--store", "npy:docs.npy", "--texts", "texts.txt", "--embed", "models:new") == 0
    found = facts(capsys)
    assert (found["rows"], found["width"], found["duplicates"], found["zeros"], found["nan"]) == (ROWS, OLD, 1, 1, 1)
    assert found["usable"] == ROWS - 2 and found["new_width"] == NEW and found["new_bytes"] == 4 * NEW * (ROWS - 2)
    assert found["length"]["mean"] == pytest.approx(1, abs=1e-5)


def test_plan_writes_a_config_and_never_changes_one(folder, capsys):
    begin()
    text = open("migrate.toml").read()
    assert run("plan", "--store", "npy:other.npy") == 2
    assert "there already" in capsys.readouterr().err and open("migrate.toml").read() == text
    assert run("plan", "-q") == 0


def test_a_sample_depends_on_ids_and_seed_alone():
    ids = list(range(5000))
    forward, backward, larger = (draw.Smallest(count, 3) for count in (100, 100, 200))
    for first in range(0, 5000, 700):
        forward.add(ids[first:first + 700])
        larger.add(ids[first:first + 700])
    backward.add(ids[::-1])
    assert forward.ids == backward.ids == larger.ids[:100]
    assert len(set(forward.ids)) == 100 and 2000 < np.mean(forward.ids) < 3000
    other = draw.Smallest(100, 4)
    other.add(ids)
    assert len(set(other.ids) & set(forward.ids)) < 20


def test_a_sample_leaves_out_what_cannot_be_translated(folder, migration):
    old, _ = spaces()
    old[:200] = 0
    np.save("docs.npy", old)
    begin("--embed", "models:new")
    assert run("sample", "-q") == 0
    ids, _, _ = migration().journal.sample()
    assert len(ids) == 120 and min(ids) >= 200


def test_the_sample_is_embedded_once(folder):
    begin("--embed", "models:new")
    for _ in range(3):
        assert run("sample", "-q") == 0
    asked = [line for line in open("asked.txt").read().split()]
    timed = survey.TEXTS_TO_TIME + 1  # by plan, to tell the minutes
    assert len(asked) == timed + 120
    assert run("sample", "-q", "--rows", 150) == 0
    assert len(open("asked.txt").read().split()) == timed + 150


def test_vectors_can_be_made_by_hand(folder, capsys):
    _, new = spaces()
    begin()
    assert run("sample", "--json") == 0
    path = facts(capsys)["to_embed"]
    lines = [json.loads(line) for line in open(path)]
    assert len(lines) == 120 and all(line["text"] == str(line["id"]) for line in lines)
    np.save("made.npy", new[[line["id"] for line in lines]])
    assert run("sample", "-q", "--vectors", "made.npy") == 0
    for step in ("fit", "apply", "verify"):
        assert run(step, "-q") == 0
    assert run("top-up", "--json", "--rows", 10) == 0
    lines = [json.loads(line) for line in open(facts(capsys)["to_embed"])]
    np.save("more.npy", new[[line["id"] for line in lines]])
    assert run("top-up", "--json", "--vectors", "more.npy") == 0
    assert facts(capsys)["real"] == 130
    np.testing.assert_allclose(np.load("docs_new.npy")[lines[0]["id"]], new[lines[0]["id"]], atol=1e-6)


def test_a_target_error_decides_the_sample(folder, capsys):
    begin("--embed", "models:new", "--map", "ridge")
    assert run("sample", "--json", "--target-error", .9) == 0
    assert facts(capsys)["drawn"] == min(sample.PILOT_ROWS, ROWS)
    assert run("sample", "--target-error", 2) == 2


def test_the_rows_for_a_target_follow_the_curve():
    curve = [(rows, 4 * rows ** -.5) for rows in (100, 200, 400)]
    assert maps.rows_for(curve, .1) == pytest.approx(1600, rel=.01)
    assert maps.rows_for(curve, .3) == 400
    assert maps.rows_for([(100, .5), (200, .5), (400, .5)], .1) is None


def test_the_error_of_a_ridge_is_that_of_leaving_every_row_out():
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
        # The penalty is that of all rows, which is what the closed form leaves one row out of.
        penalty = strength * np.square(old - old.mean(axis=0)).sum() / old.shape[1]
        weight = np.linalg.solve(centre.T @ centre + penalty * np.eye(old.shape[1]), centre.T @ (y - y.mean(axis=0)))
        missed.append(new[n] - y.mean(axis=0) - (old[n] - x.mean(axis=0)) @ weight)
    shares = np.square(missed).sum(axis=0) / np.square(new - new.mean(axis=0)).sum(axis=0)
    assert error == pytest.approx(shares.mean(), rel=1e-5)


def test_fit_takes_the_smaller_error(folder, capsys):
    begin("--embed", "models:new")
    assert run("sample", "-q") == 0
    assert run("fit", "--json") == 0
    found = facts(capsys)
    assert set(found["errors"]) == {"ridge", "kernel"}
    assert found["map"] == min(found["errors"], key=found["errors"].get)
    assert [rows for rows, _ in found["curve"]] == [30, 60, 120]


def test_apply_is_what_the_map_gives(folder, migration):
    old, new = spaces()
    before = open("docs.npy", "rb").read()
    until("apply")
    one = migration()
    ids, _, _ = one.journal.sample()
    expected = one.translator().transform(old, normalize=True)
    expected[ids] = unit(new[ids])
    np.testing.assert_array_equal(np.load("docs_new.npy"), expected)
    assert open("docs.npy", "rb").read() == before


def test_rows_that_cannot_be_translated_are_counted(folder, capsys):
    old, _ = spaces()
    old[5], old[7, 2] = 0, np.inf
    np.save("docs.npy", old)
    until("fit")
    assert run("apply", "--json") == 0
    assert facts(capsys)["skipped"] == 2
    assert run("verify", "--json") == 0
    found = facts(capsys)
    assert found["cannot_translate"] == 2 and found["new_rows"] == ROWS - 2 and found["whole"]


def test_verify_notices_what_is_wrong(folder, capsys):
    until("apply")
    rows = np.load("docs_new.npy")
    rows[3], rows[4], rows[6, 2] = np.nan, rows[5], np.nan
    np.save("docs_new.npy", rows)
    assert run("verify", "--json") == 1
    found = facts(capsys)
    assert found["lost"] == 1 and found["differ"] == 2 and not found["whole"]
    assert run("cutover", "--yes") == 1
    assert "not whole" in capsys.readouterr().err
    assert run("apply", "-q") == 0  # brings back what was lost


def test_verify_takes_rows_that_cannot_be_translated_any_more(folder, capsys):
    until("apply")
    old, _ = spaces()
    old[8:12], old[20:24, 3] = 0, np.nan
    np.save("docs.npy", old)
    assert run("verify", "-q") == 0
    with pytest.raises(SystemExit):
        run("verify", "--rows", 0)
    assert "1 or more" in capsys.readouterr().err


def test_a_cutover_needs_a_verified_place_and_says_if_it_is_not_one_step(folder, capsys, monkeypatch):
    until("apply")
    assert run("cutover") == 1
    assert "verify" in capsys.readouterr().err
    assert run("verify", "-q") == 0
    from kedge.migrate.stores.npy import NpyStore
    described = NpyStore.describe

    def not_atomic(store):
        found = described(store)
        found.atomic = "two names change"
        return found
    monkeypatch.setattr(NpyStore, "describe", not_atomic)
    assert run("cutover") == 1
    assert "not one step: two names change" in capsys.readouterr().err
    assert run("cutover", "--yes", "-q") == 0


def test_cutover_and_rollback_change_places(folder, migration, capsys):
    old, _ = spaces()
    until("cutover")
    assert np.load("docs.npy").shape == (ROWS, NEW)
    np.testing.assert_array_equal(np.load("docs_old.npy"), old)
    assert run("cutover", "--json") == 0 and facts(capsys)["already"]
    assert run("apply") == 1 and "cut over" in capsys.readouterr().err
    assert run("rollback", "--yes", "-q") == 0
    np.testing.assert_array_equal(np.load("docs.npy"), old)
    assert np.load("docs_new.npy").shape == (ROWS, NEW)
    assert run("rollback") == 1
    assert run("rollback", "--drop", "-q") == 0
    assert not os.path.exists("docs_new.npy")
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0


def test_rows_that_arrive_change_or_go_are_caught_up(folder, capsys):
    old, new = spaces()
    until("verify")
    more, _ = spaces(ROWS + 20)
    np.save("docs.npy", np.vstack([old, more[-20:]]))
    assert run("cutover", "--json", "--yes") == 0
    assert facts(capsys)["arrived"] == 20
    assert len(np.load("docs.npy")) == ROWS + 20 and np.isfinite(np.load("docs.npy")).all()


def test_top_up_replaces_translated_rows(folder, migration, capsys):
    _, new = spaces()
    until("cutover")
    assert run("top-up", "--json", "--share", .5) == 0
    found = facts(capsys)
    assert found["real"] == ROWS // 2 and found["share"] == .5
    assert 0 <= found["expected"]["translated"]["overlap"] <= 1
    assert run("top-up", "--json") == 0
    assert facts(capsys)["share"] == 1
    np.testing.assert_allclose(np.load("docs.npy"), unit(new), atol=1e-6)
    asked = open("asked.txt").read().split()
    assert len(asked) == ROWS + survey.TEXTS_TO_TIME + 1, "no document is embedded twice"


def test_a_top_up_that_was_stopped_goes_on_to_the_same_end(folder, migration):
    until("apply")
    text = open("models.py").read()
    stop = text.replace("def new(texts):", "def new(texts):\n    if len(open(__file__[:-9] + 'asked.txt').read().split()) > 250:"
                        "\n        raise OSError('quota')")
    open("models.py", "w").write(stop)
    sys.modules.pop("models")
    assert run("top-up", "-q", "--rows", 200) == 1
    with migrate.Migration() as one:
        assert 120 < one.journal.count_real() < 320
    open("models.py", "w").write(text)
    sys.modules.pop("models")
    assert run("top-up", "-q", "--rows", 200) == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 320
    assert run("top-up", "-q", "--rows", 30) == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 350


def test_top_up_begins_with_what_queries_find(folder, migration):
    old, new = spaces()
    queries = np.array([3, 3, 3, 9])
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    until("apply", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy")
    with migrate.Migration() as one:
        real = one.journal.real()
        found, _ = migrate.search(one, old[[3]], new[[3]])
        expected = {id for id in found[0] if id not in real}
        assert set(top_up.choose(one, len(expected))) == expected


def test_top_up_is_content_with_the_new_model_s_queries(folder, migration):
    _, new = spaces()
    until("apply")
    (folder / "queries.txt").write_text("3\n" * 70 + "9\n")  # more than one batch
    with open("migrate.toml", "a") as file:
        file.write("queries = 'queries.txt'\nold_encoder = 'gone'\n")
    with migrate.Migration() as one:
        real = one.journal.real()
        found, _ = migrate.search(one, None, new[3])
        expected = [id for id in found if id not in real]
        assert set(top_up.choose(one, len(expected))) == set(expected)


def test_the_sample_is_checked_by_maps_that_have_not_seen_it(folder, migration):
    until("fit")
    with migrate.Migration() as one:
        ids, old, new = one.journal.sample()
        translated = check.out_of_fold(one, old, one.as_new(new), "ridge")
        held = np.arange(len(ids)) % check.FOLDS == 0
        bundle, _, _ = maps.learn(old[~held], one.as_new(new[~held]), "ridge")
        np.testing.assert_array_equal(translated[held], one.translate(bundle.translator("old", "new"), old[held]))


def test_check_with_judged_queries_measures_the_whole_store(folder, capsys):
    old, new = spaces()
    rng = np.random.default_rng(1)
    queries = rng.permutation(ROWS)[:60]
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    nearest = np.argsort(-(new[queries] @ new.T), axis=1)[:, :5]
    np.save("judgements.npy", [(query, document, 1) for query, found in enumerate(nearest) for document in found])
    until("fit", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy", "--judgements", "judgements.npy")
    assert run("check", "--json") == 0
    found = facts(capsys)
    assert found["queries"] == "judged" and found["verdict"] in ("translate", "fuse", "embed again")
    assert found["scores"]["new"]["ndcg"][0] == pytest.approx(1) and found["scores"]["new"]["overlap"][0] == 1
    low, high = found["scores"]["fused"]["ndcg"][1:]
    assert low < found["scores"]["fused"]["ndcg"][0] < high
    # The same from the arrays, once they are applied.
    assert run("apply", "-q") == 0
    applied = np.load("docs_new.npy")
    import kedge
    by_hand = kedge.retrieve(new[queries], applied, np.load("judgements.npy").astype(np.int32), k=10)
    assert found["whole"]["scores"]["translated"][0] == pytest.approx(by_hand["ndcg@10"], abs=1e-6)


def test_judgements_count_in_the_whole_store_where_the_sample_has_few_of_them(folder, capsys):
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


def test_ndcg_is_that_of_retrieve():
    import kedge
    rng = np.random.default_rng(0)
    documents, queries = rng.normal(size=(200, 8)).astype(np.float32), rng.normal(size=(30, 8)).astype(np.float32)
    judged = np.unique(rng.integers(0, (30, 200), (200, 2)), axis=0)
    judged = np.column_stack([judged, rng.integers(1, 4, len(judged))]).astype(np.int32)
    grades = {}
    for query, document, grade in judged.tolist():
        grades.setdefault(query, {})[document] = grade
    order = np.argsort(-(unit(queries) @ unit(documents).T), axis=1, kind="stable")
    mean = np.mean([quality.ndcg(order[query].tolist(), grades[query]) for query in grades])
    assert mean == pytest.approx(kedge.retrieve(queries, documents, judged)["ndcg@10"], abs=1e-6)


def test_a_fused_search_is_what_the_arrays_give(folder, migration):
    old, new = spaces()
    until("apply")
    one, applied = migration(), np.load("docs_new.npy")
    asked = np.arange(20)
    ids, scores = migrate.search(one, old[asked], new[asked], k=5, candidates=30)
    for n in asked:
        by_old, by_new = old @ old[n], applied @ new[n]
        both = np.union1d(np.argsort(-by_old)[:30], np.argsort(-by_new)[:30])
        total = by_old[both] / by_old[both].std() + by_new[both] / by_new[both].std()
        expected = both[np.argsort(-total)[:5]]
        assert ids[n] == expected.tolist()
        np.testing.assert_allclose(scores[n], np.sort(total)[::-1][:5], rtol=1e-4)
    alone, _ = migrate.search("migrate.toml", None, new[3], k=4)
    assert alone == np.argsort(-(applied @ new[3]))[:4].tolist()
    heavy, _ = migrate.search(one, old[3], new[3], k=4, weights=(1, 0))
    assert heavy == np.argsort(-(old @ old[3]))[:4].tolist()


def test_before_apply_a_new_query_is_translated_back(folder, migration):
    old, new = spaces()
    until("fit")
    one = migration()
    found, _ = migrate.search(one, None, new[3], k=4)
    back = one.translator(back=True).transform(new[3:4])[0]
    assert found == np.argsort(-(old @ back))[:4].tolist()
    assert migrate.search(one, old[3], None, k=4)[0] == np.argsort(-(old @ old[3]))[:4].tolist()
    with pytest.raises(migrate.UsageError, match="apply"):
        migrate.search(one, old[3], new[3])


def test_rows_without_a_new_vector_count_as_the_worst():
    total = fused.fuse([1., 2., 3.], [5., np.nan, 7.])
    old, new = np.array([1., 2., 3.]), np.array([5., 5., 7.])
    np.testing.assert_allclose(total, old / old.std() + new / np.array([5., 7.]).std())
    np.testing.assert_array_equal(fused.fuse([1., 1.], [0., 0.]), [0, 0])


def test_one_command_at_a_time(folder, migration, capsys):
    begin("--embed", "models:new")
    held = migration()
    assert run("sample") == 1
    assert "another kedge-migrate" in capsys.readouterr().err
    assert run("status", "-q") == 0
    held.close()


def test_a_map_that_was_fitted_again_does_not_mix_with_the_old_one(folder, capsys):
    until("apply")
    assert run("sample", "-q", "--rows", 200) == 0 and run("fit", "-q") == 0
    assert run("apply") == 1
    assert "fitted again" in capsys.readouterr().err


def test_status_and_report_know_every_state(folder, capsys):
    begin("--embed", "models:new")
    said = set()
    for step in ("sample", "fit", "check", "apply", "verify", "cutover", "top-up", "rollback"):
        assert run(step, "-q", *(["--yes"] if step in ("cutover", "rollback") else [])) == 0
        assert run("status", "--json") == 0
        found = facts(capsys)
        said.add(found["next"])
        assert run("report", "-q") == 0
        page = open("migrate.html").read()
        assert step in page and "<script" not in page
    assert said == {"fit", "check", "apply", "verify", "cutover", "top-up"}
    assert "everything again" in page


def test_the_command_is_there(folder):
    done = subprocess.run([sys.executable, "-m", "kedge.migrate", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and all(name in done.stdout for name in command.COMMANDS)
