# SPDX-License-Identifier: Apache-2.0
"""Configs, files, addresses and embedders that are not what they should be: a sentence, and no password in it."""
import json
import os
import pathlib

import numpy as np
import pytest
from kedge import migrate
from made_up import NEW, OLD, ROWS, spaces
from require import require_near
from steps import begin, facts, run, until


def test_vectors_of_another_number_or_width_are_refused(folder: pathlib.Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    begin()
    assert run("sample", "-q") == 0
    for shape, words in (((119, NEW), "120 rows"), ((120,), "120 rows")):
        np.save("made.npy", np.ones(shape, np.float32))
        assert run("sample", "--vectors", "made.npy") == 3
        assert words in capsys.readouterr().err
    rows = np.ones((120, NEW), np.float32)
    rows[7, 3] = np.nan
    np.save("made.npy", rows)
    assert run("sample", "--vectors", "made.npy") == 3
    assert "row 7" in capsys.readouterr().err


def test_what_is_begun_cannot_be_changed(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("fit")
    text = (folder / "migrate.toml").read_text()
    (folder / "migrate.toml").write_text(text + "normalize = false\n")
    assert run("apply") == 2
    assert "normalize was True" in capsys.readouterr().err
    (folder / "migrate.toml").write_text(text + "colour = 'red'\n")
    assert run("apply") == 3
    assert "'colour'" in capsys.readouterr().err


def test_an_address_with_a_mistake_can_be_corrected(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--store", "npy:dosc.npy") == 1
    assert run("plan", "-q", "--store", "npy:docs.npy") == 0, "nothing is in the way of another try"
    os.remove("migrate.toml")
    os.remove("migrate.journal")
    migrate.Migration.begin(store="npy:dosc.npy").close()
    assert run("plan") == 1
    text = (folder / "migrate.toml").read_text()
    (folder / "migrate.toml").write_text(text.replace("dosc", "docs"))
    assert run("plan", "-q") == 0


def test_status_does_not_need_the_store(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    migrate.Migration.begin(store="postgresql://127.0.0.1:1/db?table=docs").close()
    assert run("plan") == 1
    assert run("status") == 0
    assert "does not answer" in capsys.readouterr().out


@pytest.mark.parametrize("address", [
    "postgresql://me:s3cret@127.0.0.1:1/db?table=t&column=c", "postgresql://127.0.0.1:1/db?password=s3cret&table=t&column=c",
    "postgresql://me:s3/cret@127.0.0.1:1/db?table=t&column=c", "postgresql://me:s3@cret@127.0.0.1:1/db?table=t&column=c",
    "postgresql://me:s3cret@[::1/db?table=t&column=c", "postgresql://me:s3%cret@h/db?table=t&column=c",
    "postgress://me:s3cret@127.0.0.1:1/db?table=t"])
def test_a_password_is_never_shown(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert run("plan", "--store", address) in (1, 2)
    migrate.Migration.begin(store=address).close()
    assert run("plan") in (1, 2)
    run("status")
    with migrate.Migration() as one:
        one.journal.add_sample([(1, None, "", np.ones(2, np.float32))])
    text = (folder / "migrate.toml").read_text()
    (folder / "migrate.toml").write_text(text.replace("table=t", "table=other"))
    assert run("status") == 2
    said = capsys.readouterr()
    assert "cret" not in said.out + said.err and b"cret" not in (folder / "migrate.journal").read_bytes()
    (folder / "migrate.toml").write_text(text.replace("s3", "new-"))
    assert run("status") in (0, 1, 2) and "begun" not in capsys.readouterr().err, "a password may be changed"


def test_a_journal_that_is_none_is_refused(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin()
    (folder / "migrate.journal").write_bytes(
        b"not a journal at all, but long enough to be looked at by SQLite as a file" * 20)
    assert run("sample") == 3
    assert "journal" in capsys.readouterr().err


def test_a_journal_that_is_damaged_is_told(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("apply")
    data = bytearray((folder / "migrate.journal").read_bytes())
    data[4096:12000] = b"\xff" * (12000 - 4096)
    (folder / "migrate.journal").write_bytes(data)
    for step in ("status", "verify", "top-up"):
        assert run(step) == 3
        assert "migrate.journal" in capsys.readouterr().err


def test_a_store_that_is_no_store(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for address, words in (("docs.npy", "address of a store"), ("npy:missing.npy", "no such file"),
                           ("oracle:docs", "postgresql:")):
        assert run("plan", "--store", address) in (1, 2)
        assert words in capsys.readouterr().err
        for name in ("migrate.toml", "migrate.journal"):
            (folder / name).unlink(missing_ok=True)


def test_texts_that_are_empty_or_under_other_ids(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "texts.txt").write_text("\n" * ROWS)
    begin("--embed", "models:new")
    assert run("sample") == 1
    assert "no rows with a text" in capsys.readouterr().err
    from kedge.migrate.texts import Texts
    (folder / "texts.jsonl").write_text('{"id": 7, "text": "seven"}\n{"id": "8", "text": "eight"}\n')
    (folder / "migrate.toml").write_text("store = 'npy:docs.npy'\ntexts = 'texts.jsonl'\n")
    with migrate.Migration() as one:
        assert [document.text for document in Texts(one).read([7, 8, 9])] == ["seven", "eight", None]


def test_files_of_queries_that_are_none(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    np.save("none.npy", np.zeros((0, OLD), np.float32))
    until("fit")
    text = (folder / "migrate.toml").read_text()
    for name in ("objects.npy", "none.npy", "missing.npy"):
        (folder / "migrate.toml").write_text(text + f"old_queries = '{name}'\nnew_queries = '{name}'\n")
        assert run("check") == 3
        assert name in capsys.readouterr().err
    (folder / "migrate.toml").write_text(text + "seed = -1\n")
    assert run("check") == 3


def test_an_embedder_that_fails_is_told_by_name(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.py").write_text("def one(texts):\n    return [[1, 2]]\n"
                                     "def two(texts):\n    raise OSError('quota')\n"
                                     "def ragged(texts):\n    return [[1, 2]] + [[1]] * (len(texts) - 1)\n"
                                     "def narrow(texts):\n    return [[] for _ in texts]\n")
    for name, words in (("broken:ragged", "no matrix of numbers"), ("broken:narrow", "shape (30, 0)"),
                        ("broken:one", "shape (1, 2)"), ("broken:two", "quota"), ("broken:three", "no function three"),
                        ("nowhere:f", "cannot import")):
        (folder / "migrate.toml").write_text(f"store = 'npy:docs.npy'\ntexts = 'texts.txt'\nembed = '{name}'\n"
                                             "sample = 30\n")
        assert run("sample") in (1, 2)
        assert words in capsys.readouterr().err


def test_vectors_in_another_order_are_noticed_and_can_be_replaced(folder: pathlib.Path,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    _, new = spaces()
    begin()
    assert run("sample", "-q") == 0
    ids = [json.loads(line)["id"] for line in (folder / "migrate.sample.jsonl").read_text().splitlines()]
    np.save("sorted.npy", new[sorted(ids)])
    assert run("sample", "-q", "--vectors", "sorted.npy") == 0
    assert run("fit") == 1
    assert "explains nothing" in capsys.readouterr().err
    np.save("right.npy", new[ids])
    assert run("sample", "-q", "--again", "--vectors", "right.npy") == 0
    assert run("fit", "-q") == 0 and run("apply", "-q") == 0 and run("verify", "-q") == 0
    assert run("sample", "--again") == 2
    assert "rollback --drop" in capsys.readouterr().err


def test_what_top_up_paid_for_is_not_dropped_unasked(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("apply")
    assert run("top-up", "-q", "--rows", 20) == 0
    assert run("rollback", "--drop") == 1
    assert "20 documents" in capsys.readouterr().err
    assert run("rollback", "--drop", "--yes", "-q") == 0


def test_a_new_place_that_someone_removed_is_made_again(folder: pathlib.Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    until("verify")
    expected = np.load("docs_new.npy")
    os.unlink("docs_new.npy")
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0
    require_near(np.load("docs_new.npy"), expected)


def test_rows_of_a_live_store_do_not_stop_a_cutover(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    until("apply")
    more, _ = spaces(ROWS + 3)
    np.save("docs.npy", np.vstack([np.load("docs.npy"), more[-3:]]))
    assert run("verify", "--json") == 0
    found = facts(capsys)
    assert found["lost"] == 3 and found["whole"]
    assert run("cutover", "--json") == 0 and facts(capsys)["arrived"] == 3
    more, _ = spaces(ROWS + 103)
    assert run("rollback", "-q") == 0
    np.save("docs.npy", np.vstack([np.load("docs.npy"), more[-100:]]))
    assert run("verify", "-q") == 1, "a quarter of the store is not an ordinary day"


def test_the_next_command_is_that_of_this_config(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--config", "other.toml", "--store", "npy:docs.npy") == 0
    assert "Next: kedge-migrate sample --config other.toml" in capsys.readouterr().out


def test_a_query_of_another_width_gets_a_sentence(folder: pathlib.Path) -> None:
    old, new = spaces()
    until("apply")
    with pytest.raises(migrate.UsageError, match="holds vectors of 16 values; got a query of 12"):
        migrate.search("migrate.toml", None, old[0])
