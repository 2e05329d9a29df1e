# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with Qdrant: servers that are gone, addresses, and folders of local mode."""
import contextlib
import pathlib

import numpy as np
import pytest
from contract import OWNER, contents, unit_rows
from kedge.migrate import BadFile, Error, UsageError
from kedge.migrate.store import Missing, open_store
from kedge.migrate.stores.qdrant import QdrantStore
from limits import held_by_another_process, nearly_full, only_read, open_folder, small_disk
from qdrant_client import models
from qdrant_rest import qdrant_server
from require import of_kind, require_errors
from test_qdrant import Local, Server, alias, fill


@pytest.mark.long
def test_a_server_that_goes_away_and_one_that_is_not_there(tmp_path: pathlib.Path) -> None:
    with qdrant_server(tmp_path) as (_, port):
        with Server(port) as client:
            fill(client, [1, 2], unit_rows(2, 8), [{}] * 2)
            alias(client, "docs", "docs.1")
        old = open_store(f"qdrant://127.0.0.1:{port}/docs")
        new = old.beside("_new")
        new.create(old, 8, OWNER)
    require_errors("no answer from 127.0.0.1:.*is the server running",
                   old.describe, lambda: list(old.read()), lambda: new.write([1], unit_rows(1, 8)), new.finish,
                   new.drop, lambda: old.search(unit_rows(1, 8), 1), lambda: old.switch(new, old.beside("_old")))
    for store in (old, new):
        store.close()


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("kedge.migrate.stores.qdrant_link.QdrantClient", lambda **given: asked.append(given))
    monkeypatch.setenv("THE_KEY", "secret")
    for address in ("qdrant://host/docs", "qdrant://host:7000/docs?https=1&api_key_env=THE_KEY", "qdrant://[::1]/docs"):
        of_kind(QdrantStore, open_store(address)).link._open()
    assert [(given["url"], given["api_key"]) for given in asked] == [
        ("http://host:6333", None), ("https://host:7000", "secret"), ("http://[::1]:6333", None)]
    store = open_store("qdrant://host:7000/docs?vector=a&text=b").beside("_new")
    assert store.address == "qdrant://host:7000/docs_new?vector=a&text=b"
    for address in ("qdrant://host", "qdrant://host/", "qdrant:folder", "qdrant://host/docs?column=v"):
        with pytest.raises(UsageError):
            open_store(address)


@pytest.mark.long
def test_a_local_folder_has_one_process(tmp_path: pathlib.Path) -> None:
    with Local(tmp_path / "db") as client:
        fill(client, [1, 2], unit_rows(2, 8), [{}] * 2)
    opening = "from qdrant_client import QdrantClient\nclient = QdrantClient(path=sys.argv[1])"
    with held_by_another_process(opening, tmp_path / "db"):
        store = open_store(f"qdrant:{tmp_path}/db#docs.1")
        with pytest.raises(Error, match="another process has this folder open.*run a Qdrant server"):
            store.describe()
    assert store.describe().rows == 2
    store.close()
    with Local(tmp_path / "db"):
        pass


def test_local_sentences(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Missing, match="no folder of Qdrant's local mode"):
        open_store(f"qdrant:{tmp_path}/none#docs").describe()
    assert not (tmp_path / "none").exists()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "meta.json").write_text("{")
    with pytest.raises(BadFile, match="cannot read it"):
        open_store(f"qdrant:{tmp_path}/bad#docs").describe()
    with Local(tmp_path / "db") as client:
        fill(client, [1, 2], unit_rows(2, 8), [{}] * 2)
    with contextlib.closing(open_store(f"qdrant:{tmp_path}/db#docs.1")) as store:
        with pytest.raises(UsageError, match="somewhere else"):
            store.beside("_new").create(open_store("npy:docs.npy"), 4, OWNER)
        with pytest.raises(Error, match="cannot search it"):
            store.search(unit_rows(1, 5), 1)


@pytest.mark.long
def test_a_folder_that_may_only_be_read() -> None:
    with open_folder() as folder:
        with Local(folder / "db") as client:
            fill(client, list(range(60)), unit_rows(60, 8), [{}] * 60)
            alias(client, "docs", "docs.1")
        old = open_store(f"qdrant:{folder}/db#docs")
        with only_read(folder), pytest.raises(Error, match="this user may not"):
            old.beside("_new").create(old, 8, OWNER)
        assert len(contents(old)) == 60
        old.close()


@pytest.mark.long
def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        with Local(disk / "db") as client:
            fill(client, list(range(100)), unit_rows(100, 64), [{}] * 100, models.Distance.DOT)
            alias(client, "docs", "docs.1")
        old = open_store(f"qdrant:{disk}/db#docs")
        new, kept, vectors = old.beside("_new"), old.beside("_old"), unit_rows(100, 512)
        new.create(old, 512, OWNER)
        with nearly_full(disk, 50_000), pytest.raises(Error, match="the disk is full; make room and run it again"):
            new.write(list(range(100)), vectors)
        new.write(list(range(100)), vectors)
        old.switch(new, kept)
        np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)
        for store in (old, new, kept):
            store.close()
