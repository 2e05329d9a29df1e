# SPDX-License-Identifier: Apache-2.0
"""Collections of Milvus Lite as a store: embedded, and over gRPC as a server."""
from __future__ import annotations

import contextlib
import pathlib
import socket
from collections.abc import Iterator

import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, CollectionContract, Filled, contents, unit_rows
from kedge.migrate import Error, UsageError
from kedge.migrate.store import Missing, Store, open_store
from milvus_lite.adapter.grpc.server import start_server_in_thread
from pymilvus import DataType, MilvusClient


def fill(client: MilvusClient, ids: list[str], vectors: np.ndarray, metric: str = "COSINE") -> None:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=40)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
    schema.add_field("body", DataType.VARCHAR, max_length=100, nullable=True)
    schema.add_field("stamp", DataType.INT64)
    indexes = client.prepare_index_params()
    indexes.add_index("embedding", index_type="FLAT", metric_type=metric)
    client.create_collection("docs", schema=schema, index_params=indexes)
    client.insert("docs", [{"id": key, "embedding": row.tolist(), "body": f"text of {key}", "stamp": n, "more": n % 7}
                           for n, (key, row) in enumerate(zip(ids, vectors))])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """One database for all tests: Milvus Lite takes a while to start."""
    yield tmp_path_factory.mktemp("milvus") / "docs.db"


@contextlib.contextmanager
def emptied(place: str) -> Iterator[MilvusClient]:
    with contextlib.closing(MilvusClient(place)) as client:
        for name in client.list_collections():
            client.drop_collection(name)
        yield client


@pytest.mark.long
class TestLite(CollectionContract):
    @pytest.fixture
    def client(self, file: pathlib.Path) -> Iterator[MilvusClient]:
        with emptied(str(file)) as client:
            yield client

    @pytest.fixture
    def filled(self, client: MilvusClient, file: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [f'doc "{n}"' for n in range(ROWS)]
        fill(client, ids, vectors)
        return Filled(open_store(f"milvus:{file}#docs?text=body&changed=stamp"), ids, vectors,
                      [f"text of {key}" for key in ids])

    def test_documents_are_those_in_use_when_it_switches(self, client: MilvusClient, filled: Filled, old: Store,
                                                         new: Store, written: np.ndarray) -> None:
        kept, key = old.beside("_old"), filled.ids[7]
        client.upsert("docs", [{"id": key, "body": "edited", "more": 90}], partial_update=True)
        old.switch(new, kept)
        found = client.get("docs", ids=[key])[0]
        assert (found["body"], found["more"], found["stamp"]) == ("edited", 90, 7)
        self.require_new(old, filled, written)
        old.write([key], unit_rows(1, NEW_WIDTH, seed=9))
        assert client.get("docs", ids=[key])[0]["body"] == "edited"
        with pytest.raises(Error, match="cannot be without a vector"):
            old.write([key], None)
        client.upsert("docs", [{"id": key, "body": "edited again"}], partial_update=True)
        old.switch(kept, new)
        assert client.get("docs", ids=[key])[0]["body"] == "edited again"
        self.require_old(old, filled)
        kept.close()

    def test_documents_that_left_stay_away(self, client: MilvusClient, filled: Filled, old: Store, new: Store,
                                           written: np.ndarray) -> None:
        client.delete("docs", ids=[filled.ids[3]])
        new.write([filled.ids[3]], None)
        new.write(filled.ids[2:5], written[2:5])
        assert filled.ids[3] not in contents(new)

    def test_rows_that_changed_since(self, filled: Filled, old: Store) -> None:
        assert old.newest() == ROWS - 1
        assert set(contents(old, changed=99)) == set(filled.ids[99:])

    def test_a_switch_goes_on_after_its_first_step(self, client: MilvusClient, filled: Filled, old: Store, new: Store,
                                                   written: np.ndarray) -> None:
        assert "two collections change names" in (old.describe().atomic or "")
        client.rename_collection("docs", "docs_old")
        kept = old.beside("_old")
        old.switch(new, kept)
        self.require_new(old, filled, written)
        self.require_old(kept, filled)
        kept.close()


@pytest.mark.parametrize(("name", "metric"), [("L2", "euclidean"), ("IP", "inner")])
def test_metrics(file: pathlib.Path, name: str, metric: str) -> None:
    with emptied(str(file)) as client:
        ids, vectors = ["a", "b", "c"], np.array([[3, 0], [1, 1], [0, 2]], np.float32)
        fill(client, ids, vectors, name)
        store = open_store(f"milvus:{file}#docs")
        assert store.describe().metric == metric
        found, scores = store.search(np.array([[1, 0]], np.float32), 3)
        expected = vectors[:, 0] if metric == "inner" else -np.linalg.norm(vectors - [1, 0], axis=1)
        assert found == [[ids[n] for n in np.argsort(-expected, kind="stable")]]
        np.testing.assert_allclose(scores[0], np.sort(expected)[::-1], rtol=1e-6)
        store.close()


def test_sentences(file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(Missing, match="no database of Milvus Lite"):
        open_store(f"milvus:{tmp_path}/none.db#docs").describe()
    assert not (tmp_path / "none.db").exists()
    with emptied(str(file)) as client:
        fill(client, ["a"], unit_rows(1, 8))
        client.create_alias("docs", "today")
        for address, message in ((f"milvus:{file}#today", "is an alias.*name the collection docs itself"),
                                 (f"milvus:{file}#docs.body", "0 fields of float vectors")):
            with pytest.raises(UsageError, match=message):
                open_store(address).describe()
        with pytest.raises(UsageError, match="somewhere else"):
            open_store(f"milvus:{file}#docs_new").create(open_store("npy:docs.npy"), 4, OWNER)
        with pytest.raises(Error, match="cannot search it"):
            open_store(f"milvus:{file}#docs").search(unit_rows(1, 5), 1)


def make(client: MilvusClient, *, auto_id: bool = False, tenants: bool = False) -> None:
    schema = client.create_schema(auto_id=auto_id)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("tenant", DataType.INT64, is_partition_key=tenants)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=8)
    indexes = client.prepare_index_params()
    indexes.add_index("embedding", index_type="FLAT", metric_type="COSINE")
    client.create_collection("docs", schema=schema, index_params=indexes)


def test_what_a_copy_would_not_keep_is_refused_before_any_work(file: pathlib.Path) -> None:
    with emptied(str(file)) as client:
        make(client, auto_id=True)
        with pytest.raises(UsageError, match="makes the ids of this collection"):
            open_store(f"milvus:{file}#docs").facts()
        client.drop_collection("docs")
        make(client)
        client.create_partition("docs", "north")
        with pytest.raises(UsageError, match="partitions of its own .*north"):
            open_store(f"milvus:{file}#docs").facts()


def test_a_partition_key_is_kept_and_a_search_asks_for_no_facts(file: pathlib.Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    with emptied(str(file)) as client:
        make(client, tenants=True)
        rows, new_rows = unit_rows(6, 8), unit_rows(6, 12)
        client.insert("docs", [{"id": n, "tenant": n % 2, "embedding": row.tolist()} for n, row in enumerate(rows)])
        old = open_store(f"milvus:{file}#docs")
        new = old.beside("_new")
        new.create(old, 12, OWNER)
        new.write(list(range(6)), new_rows)
        fields = {field["name"]: field for field in client.describe_collection("docs_new")["fields"]}
        assert fields["tenant"]["is_partition_key"] and new.search(new_rows[3:4], 1)[0] == [[3]]
        monkeypatch.setattr(MilvusClient, "describe_collection", None)
        assert new.search(new_rows[4:5], 1)[0] == [[4]] and new.facts().width == 12
        for store in (old, new):
            store.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_server(tmp_path: pathlib.Path) -> None:
    """Milvus Lite's own, which speaks what a Milvus server does."""
    started, database, port = start_server_in_thread(str(tmp_path), port=free_port())
    try:
        ids, vectors, new_vectors = ["a", "b", "c"], unit_rows(3, 8), unit_rows(3, 12)
        with emptied(f"http://127.0.0.1:{port}") as client:
            fill(client, ids, vectors)
        old = open_store(f"milvus://127.0.0.1:{port}/docs?text=body")
        new, kept = old.beside("_new"), old.beside("_old")
        new.create(old, 12, OWNER)
        new.write(ids, new_vectors)
        assert (old.describe().rows, new.describe().rows, new.describe().width) == (3, 3, 12)
        old.switch(new, kept)
        np.testing.assert_array_equal(np.array(list(contents(old).values())), new_vectors)
        np.testing.assert_array_equal(np.array(list(contents(kept).values())), vectors)
        assert old.search(new_vectors, 1)[0] == [["a"], ["b"], ["c"]]
        for store in (old, new, kept):
            store.close()
    finally:
        started.stop(None)
        database.close()
    with pytest.raises(Error, match="no answer from 127.0.0.1.*is the server running"):
        open_store(f"milvus://127.0.0.1:{free_port()}/docs").describe()
