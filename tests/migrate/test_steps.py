# SPDX-License-Identifier: Apache-2.0
"""Every step of a migration, over the simplest store; other stores have tests of their own."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import Migration, draw, survey, top_up
from kedge.migrate import __main__ as command
from kedge.migrate.embed import BATCH_TEXTS
from kedge.migrate.store import Contents
from kedge.migrate.stores.scores import unit
from made_up import NEW, OLD, ROWS, spaces
from require import number, require_near
from steps import begin, facts, run, until


def test_plan_counts_what_is_there(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = spaces()
    old[3], old[5], old[7, 2] = old[4], 0, np.nan
    np.save("docs.npy", old)
    assert run("plan", "--json", "--store", "npy:docs.npy", "--texts", "texts.txt", "--embed", "models:new") == 0
    found = facts(capsys)
    assert (found["rows"], found["width"], found["duplicates"], found["zeros"], found["nan"]) == (ROWS, OLD, 1, 1, 1)
    assert found["usable"] == ROWS - 2 and found["new_width"] == NEW and found["new_bytes"] == 4 * NEW * (ROWS - 2)
    assert found["length"]["mean"] == pytest.approx(1, rel=1e-5)


def test_plan_writes_a_config_and_never_changes_one(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin()
    text = (folder / "migrate.toml").read_text()
    assert run("plan", "--store", "npy:other.npy") == 2
    assert "there already" in capsys.readouterr().err and (folder / "migrate.toml").read_text() == text
    assert run("plan", "-q") == 0


def test_a_sample_leaves_out_what_cannot_be_translated(folder: pathlib.Path,
                                                       migration: Callable[[], Migration]) -> None:
    old, _ = spaces()
    old[:200] = 0
    np.save("docs.npy", old)
    begin("--embed", "models:new")
    assert run("sample", "-q") == 0
    ids, _, _ = migration().journal.sample()
    assert len(ids) == 120 and min(map(number, ids)) >= 200


def test_the_sample_is_embedded_once(folder: pathlib.Path) -> None:
    begin("--embed", "models:new")
    for _ in range(3):
        assert run("sample", "-q") == 0
    asked = (folder / "asked.txt").read_text().split()
    timed = survey.TEXTS_TO_TIME + 1  # by plan, to tell the minutes
    assert len(asked) == timed + 120
    assert run("sample", "-q", "--rows", 150) == 0
    assert len((folder / "asked.txt").read_text().split()) == timed + 150


def test_what_a_batch_costs_does_not_grow_with_the_sample(folder: pathlib.Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    sorts, sort = [0], draw.Smallest._sort

    def counted(smallest: draw.Smallest) -> None:
        sorts[0] += 1
        sort(smallest)
    monkeypatch.setattr(draw.Smallest, "_sort", counted)
    smallest = draw.Smallest(5000)
    for first in range(0, 20_000, 10):
        smallest.add(range(first, first + 10))
    assert sorts[0] < 20
    expected = np.argsort(draw.keys(range(20_000)), kind="stable")[:5000]
    assert smallest.ids == expected.tolist()
    begin()
    assert run("sample", "-q") == 0
    with migrate.Migration() as one:
        asked: list[str] = []
        one.journal.db.set_trace_callback(asked.append)
        one.journal.embed_sample([key for key, _ in one.journal.unembedded()][:5], np.ones((5, NEW), np.float32))
        assert asked and not any("FROM sample" in text and "WHERE id" not in text for text in asked
                                 if "new IS NULL" not in text)


def test_vectors_can_be_made_by_hand(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    begin()
    assert run("sample", "--json") == 0
    path = facts(capsys)["to_embed"]
    lines = [json.loads(line) for line in (folder / path).read_text().splitlines()]
    assert len(lines) == 120 and all(line["text"] == str(line["id"]) for line in lines)
    np.save("made.npy", new[[line["id"] for line in lines]])
    assert run("sample", "-q", "--vectors", "made.npy") == 0
    for step in ("fit", "apply", "verify"):
        assert run(step, "-q") == 0
    assert run("top-up", "--json", "--rows", 10) == 0
    lines = [json.loads(line) for line in (folder / facts(capsys)["to_embed"]).read_text().splitlines()]
    np.save("more.npy", new[[line["id"] for line in lines]])
    assert run("top-up", "--json", "--vectors", "more.npy") == 0
    assert facts(capsys)["real"] == 130
    require_near(np.load("docs_new.npy")[lines[0]["id"]], new[lines[0]["id"]], 1e-6)


def test_apply_is_what_the_map_gives(folder: pathlib.Path, migration: Callable[[], Migration]) -> None:
    old, new = spaces()
    before = (folder / "docs.npy").read_bytes()
    until("apply")
    one = migration()
    ids = [number(key) for key in one.journal.sample()[0]]
    expected = one.translator().transform(old, normalize=True)
    expected[ids] = unit(new[ids])
    require_near(np.load("docs_new.npy"), expected)  # translated in other batches, which some BLAS round differently
    assert (folder / "docs.npy").read_bytes() == before


def test_rows_that_cannot_be_translated_are_counted(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = spaces()
    old[5], old[7, 2] = 0, np.inf
    np.save("docs.npy", old)
    until("fit")
    assert run("apply", "--json") == 0
    assert facts(capsys)["skipped"] == 2
    assert run("verify", "--json") == 0
    found = facts(capsys)
    assert found["cannot_translate"] == 2 and found["new_rows"] == ROWS - 2 and found["whole"]


def test_verify_notices_what_is_wrong(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_verify_takes_rows_that_cannot_be_translated_any_more(folder: pathlib.Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    until("apply")
    old, _ = spaces()
    old[8:12], old[20:24, 3] = 0, np.nan
    np.save("docs.npy", old)
    assert run("verify", "-q") == 0
    with pytest.raises(SystemExit):
        run("verify", "--rows", 0)
    assert "1 or more" in capsys.readouterr().err


def test_a_cutover_needs_a_verified_place_and_says_if_it_is_not_one_step(
        folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    until("apply")
    assert run("cutover") == 1
    assert "verify" in capsys.readouterr().err
    assert run("verify", "-q") == 0
    from kedge.migrate.stores.npy import NpyStore
    described = NpyStore.facts

    def not_atomic(store: NpyStore) -> Contents:
        found = described(store)
        found.atomic = "two names change"
        return found
    monkeypatch.setattr(NpyStore, "facts", lambda store: dataclasses.replace(not_atomic(store), can_switch=False))
    assert run("cutover", "--yes") == 1
    assert "--yes" not in capsys.readouterr().err
    monkeypatch.setattr(NpyStore, "facts", not_atomic)
    assert run("cutover") == 1
    assert "not one step: two names change" in capsys.readouterr().err
    assert run("cutover", "--yes", "-q") == 0


def test_cutover_and_rollback_change_places(folder: pathlib.Path, migration: Callable[[], Migration],
                                            capsys: pytest.CaptureFixture[str]) -> None:
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


def test_rows_that_arrive_are_caught_up(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = spaces()
    until("verify")
    more, _ = spaces(ROWS + 20)
    np.save("docs.npy", np.vstack([old, more[-20:]]))
    assert run("cutover", "--json", "--yes") == 0
    assert facts(capsys)["arrived"] == 20
    assert len(np.load("docs.npy")) == ROWS + 20 and np.isfinite(np.load("docs.npy")).all()


def test_documents_that_came_after_a_cutover_survive_a_rollback(folder: pathlib.Path,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    """They have no old vector, so they look like documents that are gone."""
    until("cutover")
    rows = np.load("docs.npy")
    np.save("docs.npy", np.vstack([rows, rows[:3]]))
    assert run("verify", "--json") == 0 and facts(capsys)["extra"] == 3
    assert run("rollback", "--json", "--yes") == 0
    assert facts(capsys)["only_new"] == 3
    assert run("apply", "--json") == 0 and facts(capsys)["removed"] == 0
    assert run("verify", "-q") == 0 and run("cutover", "-q", "--yes") == 0
    np.testing.assert_array_equal(np.load("docs.npy")[ROWS:], rows[:3])


def test_top_up_replaces_translated_rows(folder: pathlib.Path, migration: Callable[[], Migration],
                                         capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    until("cutover")
    assert run("top-up", "--json", "--share", .5) == 0
    found = facts(capsys)
    assert found["real"] == ROWS // 2 and found["share"] == .5
    assert 0 <= found["expected"]["translated"]["overlap"] <= 1
    assert run("top-up", "--json") == 0
    assert facts(capsys)["share"] == 1
    require_near(np.load("docs.npy"), unit(new), 1e-6)
    asked = (folder / "asked.txt").read_text().split()
    assert len(asked) == ROWS + survey.TEXTS_TO_TIME + 1, "no document is embedded twice"


def test_a_top_up_that_was_stopped_goes_on_to_the_same_end(folder: pathlib.Path,
                                                           migration: Callable[[], Migration]) -> None:
    until("apply")
    text = (folder / "models.py").read_text()
    stop = text.replace("def new(texts):", "def new(texts):\n"
                        "    if len(open(__file__[:-9] + 'asked.txt').read().split()) > 250:\n"
                        "        raise OSError('quota')")
    (folder / "models.py").write_text(stop)
    sys.modules.pop("models")
    assert run("top-up", "-q", "--rows", 200) == 1
    with migrate.Migration() as one:
        assert 120 < one.journal.count_real() < 320
    (folder / "models.py").write_text(text)
    sys.modules.pop("models")
    assert run("top-up", "-q", "--rows", 200) == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 320
    assert run("top-up", "-q", "--rows", 30) == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 350
    asked = (folder / "asked.txt").read_text().split()
    assert len(asked) - survey.TEXTS_TO_TIME - 1 <= 350 + BATCH_TEXTS, "one batch at most is paid for twice"


def test_top_up_begins_with_what_queries_meet_and_the_map_knows_least(folder: pathlib.Path,
                                                                      migration: Callable[[], Migration]) -> None:
    old, new = spaces()
    queries = np.array([3, 3, 3, 9])
    np.save("old_queries.npy", old[queries])
    np.save("new_queries.npy", new[queries])
    until("apply", "--old-queries", "old_queries.npy", "--new-queries", "new_queries.npy")
    with migrate.Migration() as one:
        real, (_, support, _) = one.journal.real(), one.journal.sample()
        start, slope = one.journal.fact("error_by_distance")
        worth = np.zeros(ROWS)
        lists, _ = migrate.search(one, old[queries], new[queries], k=100)
        for found in lists:
            worth[found] += 1 / np.arange(1, 101)
        worth *= np.maximum(start + slope * (1 - (old @ unit(support).T).max(axis=1)), .01)
        expected = [n for n in np.argsort(-worth, kind="stable").tolist() if n not in real][:20]
        assert slope > 0 and top_up.choose(one, 20) == expected
        one.journal.note(error_by_distance=None)  # as if there was no check
        assert top_up.choose(one, 1) == [expected[0]]


def test_top_up_is_content_with_the_new_model_s_queries(folder: pathlib.Path,
                                                        migration: Callable[[], Migration]) -> None:
    _, new = spaces()
    until("apply")
    (folder / "queries.txt").write_text("3\n" * 70 + "9\n")  # more than one batch
    with open("migrate.toml", "a") as file:
        file.write("queries = 'queries.txt'\nold_encoder = 'gone'\n")
    with migrate.Migration() as one:
        real = one.journal.real()
        found, _ = migrate.search(one, None, new[3])
        assert top_up.choose(one, 1) == [key for key in found if key not in real][:1]


def test_one_command_at_a_time(folder: pathlib.Path, migration: Callable[[], Migration],
                               capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    held = migration()
    assert run("sample") == 1
    assert "another kedge-migrate" in capsys.readouterr().err
    assert run("status", "-q") == 0
    held.close()


def test_a_map_that_was_fitted_again_does_not_mix_with_the_old_one(folder: pathlib.Path,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    until("apply")
    assert run("sample", "-q", "--rows", 200) == 0 and run("fit", "-q") == 0
    assert run("apply") == 1
    assert "fitted again" in capsys.readouterr().err


def test_status_and_report_know_every_state(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    said = set()
    for step in ("sample", "fit", "check", "apply", "verify", "cutover", "top-up", "rollback"):
        assert run(step, "-q", *(["--yes"] if step in ("cutover", "rollback") else [])) == 0
        assert run("status", "--json") == 0
        found = facts(capsys)
        said.add(found["next"])
        assert run("report", "-q") == 0
        page = (folder / "migrate.html").read_text()
        assert step in page and "<script" not in page
    assert said == {"fit", "check", "apply", "verify", "cutover", "top-up", "finish"}
    assert "everything again" in page


def test_what_is_said_after_a_cutover_and_at_the_end(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "models:new")
    assert run("rollback", "--drop") == 0
    assert capsys.readouterr().out == "there were no new vectors to remove; the sample and the map are kept\n"
    until_cut_over()
    np.save(folder / "more.npy", np.concatenate([np.load(folder / "docs.npy"), np.ones((1, 16), np.float32)]))
    (folder / "more.npy").rename(folder / "docs.npy")  # a document that comes with a new vector
    assert run("status") == 0
    said = capsys.readouterr().out
    assert f"searches go to the new vectors since {_cut_at()}" in said
    assert "401 documents have a new vector, 400 an old one; 120 were embedded by the new model" in said
    assert run("cutover") == 0
    said = capsys.readouterr().out
    assert f"cut over since {_cut_at()}\nnpy:docs.npy has the new vectors; the old ones are in npy:docs_old.npy" in said
    assert run("finish", "-q") == 0 and run("status") == 0
    said = capsys.readouterr().out
    assert "finished 2" in said and "there is no way back" in said and "remove the old vectors when you like" in said
    (folder / "docs_old.npy").unlink()
    assert run("status") == 0 and run("report", "-q") == 0
    said = capsys.readouterr().out
    assert "401 documents have a new vector, the old ones are gone" in said and "Next:" not in said


def until_cut_over() -> None:
    for step in ("sample", "fit", "apply", "verify", "cutover"):
        assert run(step, "-q", *(["--yes"] if step == "cutover" else [])) == 0


def _cut_at() -> str | None:
    with migrate.Migration(alone=False) as one:
        return one.journal.when("cutover")


def test_the_command_is_there(folder: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-m", "kedge.migrate", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and all(name in done.stdout for name in command.COMMANDS)
