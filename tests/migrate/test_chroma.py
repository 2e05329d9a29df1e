# SPDX-License-Identifier: Apache-2.0
"""Collections of Chroma as stores, in a folder and on Chroma's own server."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.api.client import Client
from chromadb.api.collection_configuration import CreateCollectionConfiguration
from chromadb.api.types import Space
from chromadb.config import Settings
from contract import OLD_WIDTH, OWNER, ROWS, CollectionContract, Filled, contents, order, unit_rows
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores.chroma import ChromaStore
from limits import nearly_full, only_read, open_folder, small_disk
from require import number, of_kind, require_errors, require_near, texts_of

Place = tuple[ClientAPI, str]  # and what addresses begin with


def quiet() -> Settings:
    """Settings of their own for each client, because clients change them."""
    return Settings(anonymized_telemetry=False)


@contextlib.contextmanager
def closing(client: ClientAPI) -> Iterator[ClientAPI]:
    assert isinstance(client, Client)  # only that type has a close()
    with contextlib.closing(client):
        yield client


def fill(client: ClientAPI, ids: list[str], vectors: np.ndarray, texts: list[str] | None,
         space: Space = "cosine") -> None:
    settings: CreateCollectionConfiguration = {"hnsw": {"space": space, "ef_construction": 120}}
    collection = client.create_collection("docs", embedding_function=None, metadata={"team": "search"},
                                    configuration=settings)
    collection.add(ids=ids, embeddings=vectors, documents=texts, metadatas=[{"number": n} for n in range(len(ids))])


class TestFolder(CollectionContract):
    tolerance = new_tolerance = 1e-6

    @pytest.fixture
    def place(self, tmp_path: pathlib.Path) -> Iterator[Place]:
        with closing(chromadb.PersistentClient(tmp_path / "db", settings=quiet())) as client:
            yield client, f"chroma:{tmp_path}/db#"

    @pytest.fixture
    def filled(self, place: Place) -> Filled:
        client, start = place
        vectors = unit_rows(ROWS, OLD_WIDTH)
        ids = [f"doc {n}" for n in np.random.default_rng(7).permutation(ROWS)]
        texts = [f"text of {key}" for key in ids]
        fill(client, ids, vectors, texts)
        return Filled(open_store(start + "docs?changed=number"), ids, vectors, texts)

    def test_documents_settings_and_metadata_are_copied(self, place: Place, filled: Filled, old: Store, new: Store,
                                                        written: np.ndarray) -> None:
        client, _ = place
        before, after = (client.get_collection(name, embedding_function=None) for name in ("docs", "docs_new"))
        assert after.configuration_json["hnsw"] == before.configuration_json["hnsw"]
        assert after.configuration_json["hnsw"]["ef_construction"] == 120
        assert after.metadata["team"] == "search" and before.metadata == {"team": "search"}
        found = [dict(zip(got["ids"], zip(got["documents"] or [], got["metadatas"] or [])))
                 for got in (collection.get(include=["documents", "metadatas"]) for collection in (before, after))]
        assert found[0] == found[1] and len(found[0]) == ROWS
        assert {text for batch in new.read(texts=True) for text in texts_of(batch)} == set(filled.texts or [])

    def test_documents_are_those_in_use_when_it_switches(self, place: Place, filled: Filled, old: Store, new: Store,
                                                         written: np.ndarray) -> None:
        (client, _), kept, key = place, old.beside("_old"), filled.ids[4]
        docs = client.get_collection("docs", embedding_function=None)
        docs.update(ids=[key], embeddings=filled.vectors[4:5], documents=["edited"],
                    metadatas=[{"number": None, "kind": "late"}])  # type: ignore[dict-item]  # None removes a field
        old.switch(new, kept)
        found = client.get_collection("docs", embedding_function=None).get(ids=[key])
        assert (found["documents"], found["metadatas"]) == (["edited"], [{"kind": "late"}])
        self.require_new(old, filled, written)
        kept.close()

    def test_rows_that_changed_since(self, place: Place, filled: Filled, old: Store, new: Store) -> None:
        client, start = place
        assert old.newest() == ROWS - 1
        docs = client.get_collection("docs", embedding_function=None)
        docs.add(ids=["late"], embeddings=unit_rows(1, OLD_WIDTH), metadatas=[{"number": 500, "at": "2026-02-01"}])
        assert set(order(old, changed=ROWS - 1)) == {filled.ids[-1], "late"}
        by_time = open_store(start + "docs?changed=at")
        assert by_time.newest() == "2026-02-01" and order(by_time, changed="2026-01-31") == ["late"]
        assert order(by_time, changed="2026-02-02") == [] and open_store(start + "docs").newest() is None
        docs.update(ids=[filled.ids[0]], metadatas=[{"at": 5}])
        with pytest.raises(UsageError, match="only numbers, or only texts"):
            by_time.newest()

    def test_documents_that_left_stay_away(self, place: Place, filled: Filled, old: Store, new: Store,
                                           written: np.ndarray) -> None:
        client, _ = place
        client.get_collection("docs", embedding_function=None).delete(ids=filled.ids[:2])
        new.write(filled.ids[:2], None)
        new.write(filled.ids[:3], written[:3])
        assert set(order(new)) == set(filled.ids[2:])
        old.switch(new, old.beside("_old"))
        old.write(filled.ids[:3], written[:3])
        assert set(order(old)) == set(filled.ids[2:])
        with pytest.raises(Error, match="cannot be without a vector"):
            old.write(filled.ids[2:3], None)
        assert len(contents(old)) == ROWS - 2

    def test_a_switch_says_that_it_takes_two_steps_and_goes_on_after_the_first(
            self, place: Place, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        client, _ = place
        assert "one after the other" in (old.describe().atomic or "")
        client.get_collection("docs", embedding_function=None).modify(name="docs_old")
        kept = old.beside("_old")
        old.switch(new, kept)
        self.require_new(old, filled, written)
        self.require_old(kept, filled)

    def test_a_query_of_another_width(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        with pytest.raises(Error, match="cannot search it: .*dimension of 24, got 3"):
            new.search(unit_rows(1, 3), 1)
        self.require_old(old, filled)
        self.require_new(new, filled, written)


@contextlib.contextmanager
def chroma_server(folder: pathlib.Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(pathlib.Path(sys.executable).with_name("chroma")), "run", "--path", str(folder), "--host",
               "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            assert process.poll() is None, "the server ended"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=5).close()
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the server does not answer")
        yield process, port
    finally:
        process.kill()
        process.wait()


class TestServer(TestFolder):
    @pytest.fixture(scope="class")
    def port(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
        with chroma_server(tmp_path_factory.mktemp("server")) as (_, port):
            yield port

    @pytest.fixture
    def place(self, port: int) -> Iterator[Place]:
        with closing(chromadb.HttpClient("127.0.0.1", port, settings=quiet())) as client:
            for found in client.list_collections():
                client.delete_collection(found.name)
            yield client, f"chroma://127.0.0.1:{port}/"


@pytest.mark.long
def test_a_server_that_goes_away_and_one_that_is_not_there(tmp_path: pathlib.Path) -> None:
    with chroma_server(tmp_path / "db") as (process, port):
        fill(chromadb.HttpClient("127.0.0.1", port, settings=quiet()), ["one", "two"], unit_rows(2, 8), ["1", "2"])
        store = open_store(f"chroma://127.0.0.1:{port}/docs")
        new = store.beside("_new")
        new.create(store, 8, OWNER)
        assert order(store) == ["one", "two"]
        process.kill()
        process.wait()
        require_errors("no answer from 127.0.0.1.*is the server running",
                       lambda: list(store.read()), lambda: new.write(["one"], unit_rows(1, 8)), store.describe,
                       lambda: store.search(unit_rows(1, 8), 1), lambda: store.switch(new, store.beside("_old")),
                       open_store(f"chroma://127.0.0.1:{port}/other").describe)


@pytest.fixture
def docs(tmp_path: pathlib.Path) -> pathlib.Path:
    with closing(chromadb.PersistentClient(tmp_path / "db", settings=quiet())) as client:
        fill(client, [f"d{n:03}" for n in range(60)], 3 * unit_rows(60, 8), [str(n) for n in range(60)], "l2")
    return tmp_path / "db"


def test_a_search_finds_what_comparing_with_every_row_finds(tmp_path: pathlib.Path) -> None:
    vectors, queries = unit_rows(2000, 48), unit_rows(40, 48, seed=8)
    with closing(chromadb.PersistentClient(tmp_path / "db", settings=quiet())) as client:
        fill(client, [str(n) for n in range(2000)], vectors, None)
        found, _ = open_store(f"chroma:{tmp_path}/db#docs").search(queries, 100)
    best = np.argsort(-(queries @ vectors.T), axis=1)[:, :100]
    assert np.mean([len({*map(number, got)} & {*row.tolist()}) / 100 for got, row in zip(found, best)]) > .99


@pytest.mark.long
@pytest.mark.parametrize("space, metric", [("l2", "euclidean"), ("ip", "inner"), ("cosine", "cosine")])
def test_metrics(tmp_path: pathlib.Path, space: Space, metric: str) -> None:
    vectors, queries = 3 * unit_rows(60, 8), 2 * unit_rows(2, 8, seed=9)
    with closing(chromadb.PersistentClient(tmp_path / "db", settings=quiet())) as client:
        fill(client, [str(n) for n in range(60)], vectors, None, space)
    store = open_store(f"chroma:{tmp_path}/db#docs")
    found = store.describe()
    assert (found.metric, found.index, found.texts) == (metric, f"HNSW, {space}", False)
    assert found.kind == ("float32 with rounding" if space == "cosine" else "float32")
    expected = {"euclidean": -np.linalg.norm(queries[:, None] - vectors, axis=2), "inner": queries @ vectors.T,
                "cosine": queries @ vectors.T / 6}[metric]
    ids, scores = store.search(queries, 4)
    assert ids == [[str(n) for n in row] for row in np.argsort(-expected, axis=1)[:, :4]]
    require_near(scores, -np.sort(-expected, axis=1)[:, :4])
    if space != "cosine":
        got = contents(store)
        np.testing.assert_array_equal([got[str(n)] for n in range(60)], vectors)
    store.close()


KILLED = """
import os, signal, sys
from chromadb.api.models.Collection import Collection
from kedge.migrate.store import open_store
renames, modify = [], Collection.modify
def then_die(self, **changes):
    modify(self, **changes)
    renames.append(changes)
    if len(renames) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
Collection.modify = then_die
old = open_store(sys.argv[1])
old.switch(old.beside("_new"), old.beside("_old"))
"""


@pytest.mark.long
@pytest.mark.parametrize("renames", [1, 2])
def test_a_switch_that_is_killed_completes(docs: pathlib.Path, renames: int) -> None:
    old = open_store(f"chroma:{docs}#docs")
    new, kept, new_vectors = old.beside("_new"), old.beside("_old"), unit_rows(60, 16)
    ids, vectors = order(old), np.array(list(contents(old).values()))
    new.create(old, 16, OWNER)
    new.write(ids, new_vectors)
    for store in (old, new):
        store.close()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    ended = subprocess.run([sys.executable, "-c", KILLED, old.address, str(renames)], env=environment)
    assert ended.returncode == -signal.SIGKILL
    np.testing.assert_array_equal(np.array(list(contents(kept).values())), vectors)
    if renames == 1:
        with pytest.raises(Missing):
            old.describe()
    for _ in range(2):
        old.switch(new, kept)
        np.testing.assert_array_equal(np.array(list(contents(old).values())), new_vectors)
        np.testing.assert_array_equal(np.array(list(contents(kept).values())), vectors)
    old.switch(kept, new)
    np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)


@pytest.mark.long
def test_more_rows_than_chroma_takes_at_once(docs: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = open_store(f"chroma:{docs}#docs")
    new = old.beside("_new")
    new.create(old, 4, OWNER)
    monkeypatch.setattr(type(of_kind(ChromaStore, new)._open()), "get_max_batch_size", lambda self: 7)
    vectors = unit_rows(60, 4)
    new.write(order(old), vectors)
    np.testing.assert_array_equal(np.array(list(contents(new).values())), vectors)
    new.write(order(old)[:20], None)
    assert order(new) == order(old)[20:]


@pytest.mark.long
def test_an_application_in_the_same_process_keeps_its_settings(docs: pathlib.Path) -> None:
    with closing(chromadb.PersistentClient(str(docs))) as client:
        store = open_store(f"chroma:{docs}#docs")
        assert len(contents(store)) == client.get_collection("docs", embedding_function=None).count() == 60
        store.close()


@pytest.mark.long
def test_the_embedding_function_is_neither_called_nor_copied(tmp_path: pathlib.Path,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    from chromadb.utils.embedding_functions import DefaultEmbeddingFunction
    with closing(chromadb.PersistentClient(tmp_path / "db", settings=quiet())) as client:
        collection = client.create_collection("docs")
        collection.add(ids=["a", "b"], embeddings=unit_rows(2, 8), documents=["x", "y"])

    def called(*words: object) -> None:
        raise AssertionError("it was asked to embed")

    monkeypatch.setattr(DefaultEmbeddingFunction, "__call__", called)
    old = open_store(f"chroma:{tmp_path}/db#docs")
    new = old.beside("_new")
    new.create(old, 4, OWNER)
    new.write(["a", "b"], unit_rows(2, 4))
    old.switch(new, old.beside("_old"))
    assert old.describe().width == 4 and old.search(unit_rows(1, 4), 2)[0]
    function = of_kind(ChromaStore, old)._there().configuration_json["embedding_function"]
    assert not function or function["type"] == "legacy"


def test_sentences(docs: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address, words in ((f"chroma:{tmp_path}/none#docs", "no Chroma database in the folder"),
                           (f"chroma:{docs}#none", "there is no collection 'none'")):
        with pytest.raises(Missing, match=words):
            open_store(address).describe()
    assert not (tmp_path / "none").exists()
    for address in (f"chroma:{docs}", "chroma://127.0.0.1:1/", f"chroma:{docs}#docs?text=body"):
        with pytest.raises(UsageError):
            open_store(address)
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(Error, match="the variable NO_SUCH_TOKEN is not set"):
        open_store("chroma://127.0.0.1:1/docs?token_env=NO_SUCH_TOKEN").describe()
    store = open_store(f"chroma:{docs}#docs")
    with pytest.raises(UsageError, match="somewhere else"):
        open_store(f"chroma:{docs}#new").create(open_store("npy:docs.npy"), 4, OWNER)
    with pytest.raises(Error, match="cannot create it: .*name"):
        store.beside("_ä").create(store, 4, OWNER)


@pytest.mark.long
def test_a_folder_that_may_only_be_read() -> None:
    with open_folder() as folder:
        with closing(chromadb.PersistentClient(folder / "db", settings=quiet())) as client:
            fill(client, [str(n) for n in range(60)], unit_rows(60, 8), None)
        old = open_store(f"chroma:{folder}/db#docs")
        with only_read(folder):
            require_errors("this user may not write to the folder",
                           lambda: old.beside("_new").create(old, 8, OWNER), old.describe)
        assert len(contents(old)) == 60
        with pytest.raises(Missing):
            old.beside("_new").describe()
        old.close()


FULL = """
import sys
import numpy as np
from kedge.migrate import Error
from kedge.migrate.store import open_store
new = open_store(sys.argv[1])
try:
    new.write([f"{n:03}" for n in range(300)], np.ones((300, 512), np.float32))
except Error as error:
    print(error)
"""


@pytest.mark.long
def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    """Chroma may hang in a process that has met a full disk, so that is another one, as it is for the command."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        ids = [f"{n:03}" for n in range(300)]
        with closing(chromadb.PersistentClient(disk / "db", settings=quiet())) as client:
            fill(client, ids, unit_rows(300, 64), None, "ip")
        old = open_store(f"chroma:{disk}/db#docs")
        new, kept, vectors = old.beside("_new"), old.beside("_old"), unit_rows(300, 512)
        new.create(old, 512, OWNER)
        for store in (old, new):
            store.close()
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        with nearly_full(disk, 100_000):
            other = subprocess.run([sys.executable, "-c", FULL, new.address], env=environment, timeout=1200,
                                   capture_output=True, text=True)
        assert "the disk is full; make room and run it again" in other.stdout and not other.stderr
        assert order(old) == ids and order(new) == []
        new.write(ids, vectors)
        old.switch(new, kept)
        np.testing.assert_array_equal(np.array(list(contents(old).values())), vectors)
        for store in (old, new, kept):
            store.close()
