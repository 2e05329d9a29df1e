# SPDX-License-Identifier: Apache-2.0
"""Documents that come, change and go while a migration is under way, and commands that are run in an unusual order: no
document is lost, and what counts as real is real."""
import contextlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import Migration
from kedge.migrate.stores.npy import NpyStore
from kedge.migrate.stores.scores import unit
from made_up import ROWS, spaces
from qdrant_client import QdrantClient
from require import number, require_near, vectors_of
from steps import facts, run, until

pytestmark = pytest.mark.long


def change_old(change: Callable[[np.ndarray], None]) -> None:
    rows = np.load("docs.npy")
    change(rows)
    np.save("docs.npy", rows)


def test_documents_that_go_and_come_back_are_not_taken_for_real(folder: pathlib.Path,
                                                                migration: Callable[[], Migration]) -> None:
    old, new = spaces()
    until("apply")
    with migrate.Migration() as one:
        gone = number(one.journal.sample()[0][0])
    change_old(lambda rows: rows.__setitem__(gone, np.nan))
    assert run("apply", "-q") == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 119 and gone not in one.journal.real()
    change_old(lambda rows: rows.__setitem__(gone, old[gone]))
    assert run("apply", "-q") == 0
    with migrate.Migration() as one:
        assert gone not in one.journal.real(), "it came back translated"
    assert run("verify", "-q", "--rows", ROWS) == 0
    assert run("top-up", "-q") == 0
    require_near(np.load("docs_new.npy")[gone], unit(new)[gone], 1e-6)


def test_real_vectors_of_documents_that_changed_or_went_since_the_sample_are_not_written(
        folder: pathlib.Path, migration: Callable[[], Migration], capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = spaces()
    until("fit")
    with migrate.Migration() as one:
        changed, gone = (number(key) for key in one.journal.sample()[0][:2])

    def change(rows: np.ndarray) -> None:
        rows[changed], rows[gone] = -old[changed], np.nan
    change_old(change)
    assert run("apply", "--json") == 0
    assert facts(capsys)["real"] == 118
    one = migration()
    expected = one.translate(one.translator(), -old[[changed]])[0]
    require_near(np.load("docs_new.npy")[changed], expected, 1e-6)
    assert np.isnan(np.load("docs_new.npy")[gone]).all()


def test_only_what_this_migration_made_is_removed(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("docs_new.npy", np.ones((3, 4), np.float32))
    until("fit")
    assert run("apply") == 1
    assert run("rollback", "--drop") == 1
    assert "not made by this migration" in capsys.readouterr().err
    assert np.load("docs_new.npy").shape == (3, 4)
    os.unlink("docs_new.npy")
    assert run("apply", "-q") == 0
    assert run("rollback", "-q", "--drop") == 0 and not os.path.exists("docs_new.npy")


class Killed(BaseException):
    pass


def killed(*_: object) -> None:
    raise Killed


def test_rows_that_arrive_after_a_cutover_was_stopped_are_caught_up(folder: pathlib.Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    old, _ = spaces()
    until("verify")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(NpyStore, "switch", killed)
        run("cutover", "-q")
    np.save("docs.npy", np.vstack([old, spaces(ROWS + 20)[0][-20:]]))
    assert run("cutover", "-q") == 0
    assert len(np.load("docs.npy")) == ROWS + 20 and np.isfinite(np.load("docs.npy")).all()


def test_rows_of_a_transaction_that_a_kill_undid_are_caught_up_again(folder: pathlib.Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg
    from kedge.migrate.stores.postgresql import PostgresStore
    from postgres_server import server
    old, _ = spaces()
    with server() as address, psycopg.connect(address, autocommit=True) as sql:
        sql.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, changed timestamptz DEFAULT now(), embedding "
                    "vector(12))")
        sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, now(), %s)",
                                 [(n, str(n), str(row.tolist())) for n, row in enumerate(old[:200])])
        for step in (("plan", "--store", f"{address}&table=docs&column=embedding&text=body&changed=changed", "--embed",
                      "models:new", "--sample", 60, "--into", "column"), ("sample",), ("fit",), ("apply",),
                     ("verify",)):
            assert run(*step, "-q") == 0
        frozen = PostgresStore.frozen

        def first_come_and_change(*stores: Any) -> Any:
            sql.execute("INSERT INTO docs VALUES (777, '0', now(), %s)", [str(old[300].tolist())])
            sql.execute("UPDATE docs SET embedding = %s, changed = now() WHERE id = 5", [str((-old[5]).tolist())])
            sql.execute("UPDATE docs SET embedding = %s, changed = now() WHERE id = 6", [str((0 * old[6]).tolist())])
            return frozen(*stores)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(PostgresStore, "frozen", first_come_and_change)
            patch.setattr(PostgresStore, "switch", killed)
            run("cutover", "-q")
        assert run("cutover", "-q") == 0
        lacking = sql.execute("SELECT id FROM docs WHERE embedding IS NULL").fetchall()
        assert lacking == [(6,)], "zeros have no translation"
        with migrate.Migration() as one:
            expected = one.translate(one.translator(), -old[[5]])[0]
            found = vectors_of(next(one.new.read(ids=[5])))[0]
        require_near(found, expected)
        mine = spaces()[1][9]
        sql.execute("UPDATE docs SET embedding = %s, changed = clock_timestamp() WHERE id = 8", [str(mine.tolist())])
        for step in (("rollback",), ("apply",), ("verify",), ("cutover",)):
            assert run(*step, "-q") == 0
        with migrate.Migration() as one:
            kept = vectors_of(next(one.new.read(ids=[8])))[0]
        require_near(kept, mine, 1e-6, message="what an application wrote after the cutover stays")


def test_documents_that_arrive_after_a_cutover_survive_a_rollback(folder: pathlib.Path,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    until("cutover")
    with migrate.Migration() as one:
        one.place.write([ROWS], spaces(ROWS + 1)[1][-1:])  # as an application does
    assert run("rollback", "--drop") == 1
    assert "1 documents have arrived" in capsys.readouterr().err
    assert run("rollback", "--json") == 0 and facts(capsys)["only_new"] == 1
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0, "it is neither gone nor too much"
    assert len(np.load("docs_new.npy")) == ROWS + 1 and np.isfinite(np.load("docs_new.npy")).all()
    assert run("rollback", "--drop") == 1
    assert os.path.exists("docs_new.npy")
    assert run("rollback", "--drop", "--yes", "-q") == 0
    assert not os.path.exists("docs_new.npy")


def test_an_interrupted_switch_comes_first(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    until("verify")
    switch = NpyStore.switch

    def then_killed(*stores: Any) -> None:
        switch(*stores)
        raise Killed
    for step, back in (("cutover", "rollback"), ("rollback", "cutover")):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(NpyStore, "switch", then_killed)
            run(step, "-q")
        before = sorted(os.listdir())
        for other in ("sample", "apply", "verify", "top-up", back):
            assert run(other) == 1
            assert f"a {step} was interrupted" in capsys.readouterr().err
        assert sorted(os.listdir()) == before
        assert run(step, "-q") == 0


@pytest.mark.parametrize("key", [lambda n: 2**64 - 1 - n, lambda n: -n - 5, lambda n: f"ключ {n}'\"%"],
                         ids=["above 2**63", "negative", "text"])
def test_ids_of_all_kinds_go_all_the_way(folder: pathlib.Path, key: Callable[[int], int | str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    old, new = spaces()
    ids = [key(n) for n in range(80)]
    pq.write_table(pa.table({"id": pa.array(ids, pa.uint64() if ids[0] == 2**64 - 1 else None),
                             "body": [str(n) for n in range(80)],
                             "v": pa.FixedSizeListArray.from_arrays(pa.array(old[:80].ravel()), old.shape[1])}),
                   "docs.parquet")
    assert run("plan", "-q", "--store", "parquet:docs.parquet#v?text=body", "--embed", "models:new", "--sample",
               60) == 0
    for step in ("sample", "fit", "apply", "verify", "cutover", "top-up"):
        assert run(step, "-q") == 0
    with migrate.Migration() as one:
        assert one.journal.real() == set(ids)
    found = pq.read_table("docs.parquet")
    assert found["id"].to_pylist() == ids
    require_near(np.stack(found["v"].to_pylist()), unit(new[:80]), 1e-6)


def test_documents_without_a_text_do_not_stop_a_top_up(folder: pathlib.Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "texts.txt").write_text("".join(f"{n}\n" if n % 4 else "\n" for n in range(ROWS)))
    until("apply")
    for real, without in ((220, None), (300, 100)):
        assert run("top-up", "--json", "--rows", 100) == 0
        found = facts(capsys)
        assert found["real"] == real and without in (None, found["without_text"])


def test_another_kind_of_store_does_not_take_the_place(folder: pathlib.Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "docs.npy").read_bytes()
    until("verify", "--into", "faiss:new.index")
    assert run("cutover", "--yes") == 1
    assert "another kind of store" in capsys.readouterr().err
    assert (folder / "docs.npy").read_bytes() == before


def test_another_migration_that_cuts_over_first_is_noticed(folder: pathlib.Path,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    """Also if old and new vectors have the same width."""
    np.save("new_model.npy", unit(spaces()[1][:, :spaces()[0].shape[1]]))
    until("verify")
    text = (folder / "migrate.toml").read_text()
    (folder / "other.toml").write_text(text + "into = 'npy:other.npy'\n")
    for step in ("sample", "fit"):
        assert run(step, "-q", "--config", "other.toml") == 0
    assert run("cutover", "-q") == 0
    assert run("apply", "--config", "other.toml") == 1
    assert "does not hold the vectors any more" in capsys.readouterr().err and not os.path.exists("other.npy")
    assert run("rollback", "-q") == 0 and run("apply", "-q", "--config", "other.toml") == 0


def test_apply_goes_on_where_the_last_row_it_saw_is_gone(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss
    from kedge.migrate import apply

    def make(ids: np.ndarray) -> None:
        index = faiss.index_factory(old.shape[1], "IDMap,Flat", faiss.METRIC_INNER_PRODUCT)
        index.add_with_ids(old[ids], ids)
        faiss.write_index(index, "docs.index")
    old, _ = spaces()
    make(np.arange(ROWS))
    assert run("plan", "-q", "--store", "faiss:docs.index", "--texts", "texts.txt", "--sample", 60, "--embed",
               "models:new") == 0
    assert run("sample", "-q") == 0 and run("fit", "-q") == 0
    with migrate.Migration() as one:
        apply.begin(one)
        one.journal.note(apply_after=100, apply_rows=101)  # as a run that was killed
    make(np.delete(np.arange(ROWS), 100))
    assert run("apply", "-q") == 0 and run("verify", "-q") == 0
    assert faiss.read_index("docs_new.index").ntotal == ROWS - 1


def test_fields_that_change_while_the_vector_stays_are_copied(folder: pathlib.Path) -> None:
    """Where the new vectors are a collection of their own, it has the documents too."""
    from qdrant_client import models
    old, _ = spaces()

    def client() -> contextlib.closing[QdrantClient]:
        return contextlib.closing(QdrantClient(path="db"))
    with client() as qdrant:
        qdrant.create_collection("docs_1", models.VectorParams(size=old.shape[1], distance=models.Distance.COSINE))
        qdrant.upsert("docs_1", [models.PointStruct(id=n, vector=old[n].tolist(), payload={
            "body": str(n), "at": 1, "price": 10}) for n in range(80)])
        qdrant.update_collection_aliases([models.CreateAliasOperation(create_alias=models.CreateAlias(
            collection_name="docs_1", alias_name="docs"))])
    assert run("plan", "-q", "--store", "qdrant:db#docs?text=body&changed=at", "--embed", "models:new",
               "--sample", 60) == 0
    for step in ("sample", "fit", "apply", "verify"):
        assert run(step, "-q") == 0
    with client() as qdrant:
        qdrant.set_payload("docs", {"price": 20, "at": 2}, points=list(range(80)))
    assert run("cutover", "-q") == 0
    with client() as qdrant:
        assert {(point.payload or {})["price"] for point in qdrant.scroll("docs", limit=100)[0]} == {20}
