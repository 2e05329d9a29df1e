# SPDX-License-Identifier: Apache-2.0
"""Collections of Qdrant as stores: in local mode, and over HTTP from Qdrant's own engine."""
import contextlib
import functools
import pathlib
import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, CollectionContract, Filled, contents, order, unit_rows
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from kedge.migrate.stores import qdrant_points
from kedge.migrate.stores.qdrant import QdrantStore
from qdrant_client import QdrantClient, models
from qdrant_rest import Collections, qdrant_server
from require import of_kind, require_near, texts_of

Docs = tuple[list[Any], np.ndarray, list[str]]  # ids, vectors, texts
# What gives a client for a moment, and what addresses begin with.
Place = tuple[Callable[[], contextlib.closing[QdrantClient]], str]


def alias(client: QdrantClient, name: str, collection: str) -> None:
    client.update_collection_aliases([qdrant_points.creating(name, collection)])


def fill(client: QdrantClient, ids: list[Any], vectors: np.ndarray, payloads: list[dict[str, Any]],
         distance: models.Distance = models.Distance.COSINE, name: str = "docs.1", **settings: Any) -> None:
    client.create_collection(name, vectors_config=models.VectorParams(size=vectors.shape[1], distance=distance),
                             **settings)
    client.upsert(name, [models.PointStruct(id=key, vector=vector, payload=payload)
                         for key, vector, payload in zip(ids, vectors.tolist(), payloads)], wait=True)


def fill_docs(client: QdrantClient, ids: list[Any]) -> Docs:
    """The collection docs.1 with the alias docs, and what is in it."""
    vectors, texts = unit_rows(ROWS, OLD_WIDTH), [f"document {key}" for key in ids]
    fill(client, ids, vectors, [{"body": text, "n": n} for n, text in enumerate(texts)])
    alias(client, "docs", "docs.1")
    return ids, vectors, texts


class Local(contextlib.closing[QdrantClient]):
    """A client of a local folder, for a moment."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(QdrantClient(path=str(folder)))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Docs]:
    """A folder to copy, because local mode takes its time over every point."""
    folder = tmp_path_factory.mktemp("template") / "db"
    with Local(folder) as client:
        ids = [3 * n for n in np.random.default_rng(7).permutation(ROWS).tolist()]
        return folder, fill_docs(client, ids)


class TestLocal(CollectionContract):
    tolerance = new_tolerance = 1e-6

    @pytest.fixture
    def start(self, tmp_path: pathlib.Path) -> str:
        """What addresses begin with."""
        return f"qdrant:{tmp_path}/db#"

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path, start: str, template: tuple[pathlib.Path, Docs]) -> Filled:
        folder, given = template
        shutil.copytree(folder, tmp_path / "db")
        return Filled(open_store(start + "docs?text=body&changed=n"), *given, 10 ** 6)

    def test_payloads_are_copied_and_a_collection_in_use_keeps_its_own(self, filled: Filled, old: Store, new: Store,
                                                                       written: np.ndarray) -> None:
        given = filled.texts or []
        texts = {key: text for batch in new.read(texts=True) for key, text in zip(batch.ids, texts_of(batch))}
        assert texts == dict(zip(filled.ids, given))
        old.switch(new, old.beside("_old"))
        name, _ = of_kind(QdrantStore, old)._collection()
        with of_kind(QdrantStore, old).link.asking("write") as client:
            client.set_payload(name, {"body": "changed"}, points=filled.ids[:1], wait=True)
            client.delete(name, points_selector=filled.ids[1:2], wait=True)
        old.write(filled.ids[:3], written[:3])
        found = {key: text for batch in old.read(texts=True) for key, text in zip(batch.ids, texts_of(batch))}
        assert found[filled.ids[0]] == "changed" and found[filled.ids[2]] == given[2]
        assert filled.ids[1] not in found and len(found) == ROWS - 1
        old.write(filled.ids[2:3], None)
        assert filled.ids[2] not in order(old) and old.describe().rows == ROWS - 2
        with of_kind(QdrantStore, old).link.asking("read") as client:
            point, = client.retrieve(name, filled.ids[2:3])
        assert point.payload and point.payload["body"] == given[2]

    def test_payloads_are_those_in_use_when_it_switches(self, filled: Filled, old: Store, new: Store,
                                                        written: np.ndarray) -> None:
        kept, store = old.beside("_old"), of_kind(QdrantStore, old)

        def edit(body: str) -> None:
            with store.link.asking("write") as client:
                client.overwrite_payload("docs", {"body": body}, points=filled.ids[4:5], wait=True)

        def payload() -> Any:
            with store.link.asking("read") as client:
                return client.retrieve("docs", filled.ids[4:5])[0].payload

        edit("edited")
        old.switch(new, kept)
        assert payload() == {"body": "edited"}
        self.require_new(old, filled, written)
        edit("edited again")
        old.switch(kept, new)
        assert payload() == {"body": "edited again"}
        self.require_old(old, filled)
        kept.close()

    def test_another_vector_of_the_same_points(self, start: str, filled: Filled, old: Store) -> None:
        """Nothing is copied or switched: the collection need not even have an alias."""
        place = open_store(start + "docs.1?text=body")
        side = place.new_place("vector")
        kept, vectors = place.beside("_old"), unit_rows(ROWS, NEW_WIDTH, seed=2)
        with pytest.raises(Missing):
            side.describe()
        for _ in range(2):
            side.create(place, NEW_WIDTH, OWNER)
        with pytest.raises(Error, match="was made by the migration"):
            side.create(place, NEW_WIDTH, "another")
        assert (side.describe().rows, side.describe().width, side.describe().owner) == (0, NEW_WIDTH, OWNER)
        side.write(filled.ids[:60], vectors[:60])
        side.write([*filled.ids[60:], 10 ** 6], np.vstack([vectors[60:], vectors[:1]]))
        self.require_new(side, filled, vectors)
        self.require_old(place, filled)
        self.require_best(side, filled.ids, vectors)
        self.require_best(place, filled.ids, filled.vectors)
        side.write(filled.ids[:2], None)
        assert set(place.not_in(side)) == set(filled.ids[:2]) and side.describe().rows == ROWS - 2
        assert contents(side, ids=filled.ids[:2]) == {} and len(contents(place)) == ROWS
        assert place.facts().can_switch and place.facts().atomic is None
        assert not place.switching(side, kept)
        place.switch(side, kept)
        assert place.switching(side, kept)
        place.switch(kept, side)
        assert not place.switching(side, kept)
        side.drop()
        with pytest.raises(Missing):
            side.describe()
        self.require_old(place, filled)
        for store in (place, side, kept):
            store.close()

    def test_documents_that_left_stay_away(self, filled: Filled, old: Store, new: Store) -> None:
        with of_kind(QdrantStore, old).link.asking("write") as client:
            client.delete("docs.1", points_selector=filled.ids[:2], wait=True)
        new.write(filled.ids[:3], unit_rows(3, NEW_WIDTH))
        assert order(new) == filled.ids[2:3]

    def test_rows_that_changed_since(self, filled: Filled, old: Store, new: Store) -> None:
        assert old.newest() == ROWS - 1
        assert set(order(old, changed=ROWS - 3)) == set(filled.ids[-3:])
        times = open_store(old.address.replace("changed=n", "changed=at.last"))
        with of_kind(QdrantStore, old).link.asking("write") as client:
            for key, time in zip(filled.ids, ("2026-01-31T12:00:00Z", "2026-01-31T13:30:00+02:00", "2025-01-01")):
                client.set_payload("docs.1", {"at": {"last": time}}, points=[key], wait=True)
        assert times.newest() == "2026-01-31T12:00:00Z"
        assert set(order(times, changed="2026-01-31T11:00:00Z")) == set(filled.ids[:2])
        assert order(times, changed=times.newest()) == filled.ids[:1]
        words = open_store(old.address.replace("changed=n", "changed=body"))
        with pytest.raises(UsageError, match="expected numbers, or times"):
            words.newest()
        for store in (times, words):
            store.close()

    def test_a_collection_without_an_alias_is_not_switched(self, start: str, filled: Filled, old: Store, new: Store,
                                                           written: np.ndarray) -> None:
        plain = open_store(start + "docs.1")
        self.require_old(plain, filled)
        assert old.describe().atomic is None and "make an alias" in (plain.describe().atomic or "")
        with pytest.raises(Error, match="is a collection, which Qdrant cannot rename.*make an alias"):
            plain.switch(new, plain.beside("_old"))
        self.require_old(plain, filled)
        plain.close()

    def test_a_place_made_by_half_is_completed(self, filled: Filled, old: Store, new: Store) -> None:
        with of_kind(QdrantStore, old).link.asking("write") as client:
            client.update_collection_aliases([qdrant_points.deleting("docs_new")])
        with pytest.raises(Missing):
            new.describe()
        new.create(old, NEW_WIDTH, OWNER)
        assert new.describe().owner == OWNER

    def test_large_batches_go_in_parts(self, filled: Filled, new: Store, written: np.ndarray,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(qdrant_points, "REQUEST_BYTES", 5000)
        new.write(filled.ids, -written)
        self.require_new(new, filled, -written)


class Server(contextlib.closing[QdrantClient]):
    """A client of a server, for a moment."""

    def __init__(self, port: int) -> None:
        super().__init__(QdrantClient(url=f"http://127.0.0.1:{port}", check_compatibility=False))


class TestServer(TestLocal):
    @pytest.fixture
    def served(self, tmp_path: pathlib.Path) -> Iterator[Collections]:
        with qdrant_server(tmp_path) as (served, _):
            yield served

    @pytest.fixture
    def start(self, served: Collections) -> str:
        return f"qdrant://127.0.0.1:{served.port}/"

    @pytest.fixture
    def filled(self, served: Collections, start: str) -> Filled:
        numbers = np.random.default_rng(8).integers(1, 2 ** 63, ROWS).astype(object) * 2 ** 60
        with Server(served.port) as client:
            given = fill_docs(client, [str(uuid.UUID(int=number)) for number in numbers])
        return Filled(open_store(start + "docs?text=body&changed=n"), *given, str(uuid.UUID(int=3)))

    def test_the_switch_is_one_request(self, served: Collections, filled: Filled, old: Store, new: Store,
                                       written: np.ndarray) -> None:
        served.asked.clear()
        old.switch(new, old.beside("_old"))
        read = ("/points", "/points/scroll")
        assert [asked for asked in served.asked if asked[0] != "GET" and not asked[1].endswith(read)] == [
            ("POST", "/collections/aliases")]

    def test_a_search_is_one_request(self, served: Collections, filled: Filled, old: Store) -> None:
        old.facts()
        served.asked.clear()
        old.search(unit_rows(2, OLD_WIDTH), 5)
        contents(old, ids=filled.ids[:5])
        assert [path.partition("/points")[2] for _, path in served.asked] == ["/query/batch", ""]

    def test_a_server_that_cannot_add_a_vector(self, served: Collections, start: str, filled: Filled,
                                               old: Store) -> None:
        served.named_vectors = False
        with pytest.raises(Error, match="needs Qdrant 1.18 or newer, or no 'into'"):
            old.new_place("vector").create(old, NEW_WIDTH, OWNER)

    def test_a_server_that_keeps_no_metadata(self, served: Collections, filled: Filled, old: Store) -> None:
        served.metadata = False
        with pytest.raises(Error, match="needs Qdrant 1.16 or newer"):
            old.beside("_new").create(old, 8, OWNER)
        assert list(served.collections) == ["docs.1"]

    @pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
    def test_keys(self, served: Collections, filled: Filled, old: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        served.api_key = "secret"
        with pytest.raises(Error, match="refuses this API key"):
            old.describe()
        monkeypatch.setenv("THE_KEY", "secret")
        assert open_store(old.address + "&api_key_env=THE_KEY").describe().rows == ROWS
        monkeypatch.delenv("THE_KEY")
        with pytest.raises(Error, match="the variable THE_KEY is not set"):
            open_store(old.address + "&api_key_env=THE_KEY").describe()


@pytest.fixture(params=["local", "server"])
def place(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Place]:
    if request.param == "local":
        yield functools.partial(Local, tmp_path / "db"), f"qdrant:{tmp_path}/db#"
        return
    with qdrant_server(tmp_path) as (_, port):
        yield functools.partial(Server, port), f"qdrant://127.0.0.1:{port}/"


@pytest.mark.long
def test_numbers_come_before_uuids_everywhere(place: Place) -> None:
    connect, start = place
    numbers = [5, 1, 2 ** 63, 10]
    words = [str(uuid.UUID(int=n)) for n in (2 ** 127, 7, 2 ** 64)]
    with connect() as client:
        fill(client, words + numbers, unit_rows(7, 8), [{}] * 7)
    with contextlib.closing(open_store(start + "docs.1")) as store:
        expected = sorted(numbers) + sorted(words)
        assert order(store) == order(store, size=2) == expected
        for number, after in enumerate(expected):
            assert order(store, after=after, size=2) == expected[number + 1:]
        assert order(store, after=6) == expected[2:], "an id that is gone marks its place all the same"


@pytest.mark.long
@pytest.mark.parametrize("distance, metric", [
    (models.Distance.EUCLID, "euclidean"), (models.Distance.DOT, "inner"), (models.Distance.COSINE, "cosine")])
def test_metrics(place: Place, distance: models.Distance, metric: str) -> None:
    connect, start = place
    vectors, queries = 3 * unit_rows(60, 8), 2 * unit_rows(2, 8, seed=9)
    with connect() as client:
        fill(client, list(range(60)), vectors, [{}] * 60, distance)
    with contextlib.closing(open_store(start + "docs.1")) as store:
        found = store.describe()
        assert found.metric == metric and found.kind == "float32" + " of length 1" * (metric == "cosine")
        expected = {"euclidean": -np.linalg.norm(queries[:, None] - vectors, axis=2), "inner": queries @ vectors.T,
                    "cosine": queries @ vectors.T / 6}[metric]
        ids, scores = store.search(queries, 4)
        assert ids == np.argsort(-expected, axis=1)[:, :4].tolist()
        require_near(scores, -np.sort(-expected, axis=1)[:, :4], 1e-4)
        got = np.array(list(contents(store).values()))
        if metric == "cosine":
            require_near(got, vectors / 3, 1e-6)
        else:
            np.testing.assert_array_equal(got, vectors)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
def test_other_vectors_and_settings_are_copied(place: Place) -> None:
    connect, start = place
    vectors, images = unit_rows(40, 8), unit_rows(40, 4, seed=3)
    with connect() as client:
        client.create_collection(
            "docs.1", vectors_config={
                "text": models.VectorParams(size=8, distance=models.Distance.COSINE,
                                            hnsw_config=models.HnswConfigDiff(m=24)),
                "image": models.VectorParams(size=4, distance=models.Distance.DOT)},
            sparse_vectors_config={"words": models.SparseVectorParams()})
        client.upsert("docs.1", [models.PointStruct(id=n, payload={"n": n}, vector={
            "image": images[n].tolist(), "words": models.SparseVector(indices=[n, 99], values=[1.0, 2.0]),
            **({"text": vectors[n].tolist()} if n < 30 else {})}) for n in range(40)], wait=True)
        client.create_payload_index("docs.1", "n", field_schema=models.PayloadSchemaType.INTEGER, wait=True)
        alias(client, "docs", "docs.1")
    with contextlib.closing(open_store(start + "docs")) as nameless, \
            pytest.raises(UsageError, match="it has (text, image|image, text); say which with .vector="):
        nameless.describe()
    old = open_store(start + "docs?vector=text")
    assert (old.describe().rows, old.describe().index) == (30, "HNSW, m=24")
    assert order(old) == order(old, vectors=False) == list(range(30)) and order(old, ids=[1, 35]) == [1]
    assert order(old, ids=[1, 35], vectors=False) == [1]
    new, kept = old.beside("_new"), old.beside("_old")
    new.create(old, 16, OWNER)
    new_vectors = unit_rows(30, 16)
    new.write(list(range(30)), new_vectors)
    assert new.describe().index == "HNSW, m=24"
    old.switch(new, kept)
    require_near(np.array(list(contents(old).values())), new_vectors, 1e-6)
    name, found = of_kind(QdrantStore, old)._collection()
    with of_kind(QdrantStore, old).link.asking("read") as client:
        point = client.retrieve(name, [7], with_vectors=True)[0]
    assert isinstance(point.vector, dict) and isinstance(words := point.vector["words"], models.SparseVector)
    require_near(np.asarray(point.vector["image"]), images[7], 1e-6)
    assert point.payload == {"n": 7} and sorted(words.indices) == [7, 99]
    if of_kind(QdrantStore, old).remote:
        assert list(found.payload_schema) == ["n"]
    for store in (old, new, kept):
        store.close()


@pytest.mark.long
def test_vectors_that_a_map_does_not_fit(place: Place) -> None:
    connect, start = place
    with connect() as client:
        client.create_collection("many", vectors_config=models.VectorParams(
            size=8, distance=models.Distance.COSINE, multivector_config=models.MultiVectorConfig(
                comparator=models.MultiVectorComparator.MAX_SIM)))
        client.create_collection("blocks", vectors_config=models.VectorParams(
            size=8, distance=models.Distance.MANHATTAN))
    for name, words in (("many", "each point has many vectors"), ("blocks", "compares by Manhattan")):
        with contextlib.closing(open_store(start + name)) as store, pytest.raises(UsageError, match=words):
            store.describe()
