# SPDX-License-Identifier: Apache-2.0
"""Parquet files as stores: one file and folders of them, with ids and without."""
import datetime
import os
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate import BadFile, Error, UsageError
from kedge.migrate.store import open_store
from kedge.migrate.stores import files
from kedge.migrate.stores.parquet import ParquetStore
from limits import cut_short
from require import of_kind

TYPES = {
    "fixed": pa.list_(pa.float32(), OLD_WIDTH), "list": pa.list_(pa.float32()), "large": pa.large_list(pa.float64()),
    "half": pa.list_(pa.float16(), OLD_WIDTH), "tensor": pa.fixed_shape_tensor(pa.float32(), [OLD_WIDTH]),
}
METADATA = {b"made by": b"a test"}


def column(vectors: np.ndarray, kind: pa.DataType) -> pa.Array:
    inner = kind.storage_type.value_type if hasattr(kind, "storage_type") else kind.value_type
    values = pa.array(vectors.astype(inner.to_pandas_dtype()).ravel())
    lists = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    return pa.ExtensionArray.from_storage(kind, lists) if hasattr(kind, "storage_type") else lists.cast(kind)


def table(ids: list[Any] | None, vectors: np.ndarray, kind: pa.DataType, texts: list[str] | None = None) -> pa.Table:
    columns = {} if ids is None else {"id": pa.array(ids)}
    columns["embedding"] = column(vectors, kind)
    if texts is not None:
        columns["body"] = pa.array(texts)
    columns["extra"] = pa.array([{"a": n, "b": [n] * (n % 3)} for n in range(len(vectors))])
    return pa.table(columns).replace_schema_metadata(METADATA)


def make_folder(folder: pathlib.Path, ids: list[Any] | None, vectors: np.ndarray, kind: pa.DataType,
                texts: list[str] | None = None) -> None:
    """Three files, one in a folder below, with several row groups; not in the order of their making."""
    (folder / "more").mkdir(parents=True)
    for name, first, end in (("b.parquet", 40, 70), ("a.parquet", 0, 40), ("more/c.parquet", 70, ROWS)):
        part = slice(first, end)
        part_rows = table(ids and ids[part], vectors[part], kind, texts and texts[part])
        pq.write_table(part_rows, folder / name, row_group_size=13, compression="zstd")


class FolderContract(StoreContract):
    kind, address = "fixed", "parquet:{}/docs#embedding"
    ids: list[Any] | None = None

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors = unit_rows(ROWS, OLD_WIDTH)
        texts = [f"text {n}" for n in range(ROWS)] if "text=" in self.address else None
        make_folder(tmp_path / "docs", self.ids, vectors, TYPES[self.kind], texts)
        return Filled(open_store(self.address.format(tmp_path)), self.ids or list(range(ROWS)), vectors, texts)


class TestFolder(FolderContract):
    ids = [5000 + (n * 37) % ROWS for n in range(ROWS)]


class TestNames(FolderContract):
    ids, kind, address = [f"doc-{n}" for n in range(ROWS)], "list", "parquet:{}/docs#embedding?id=id&text=body"


class TestRowNumbers(FolderContract):
    kind = "large"


class TestHalf(FolderContract):
    kind, ids = "half", [f"doc-{n}" for n in range(ROWS)]


class TestFile(StoreContract):
    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors, ids = unit_rows(ROWS, OLD_WIDTH), [f"doc-{n}" for n in range(ROWS)]
        pq.write_table(table(ids, vectors, TYPES["fixed"]), tmp_path / "docs.parquet", row_group_size=13)
        return Filled(open_store(f"parquet:{tmp_path}/docs.parquet#embedding"), ids, vectors)


def migrated(folder: pathlib.Path, ids: list[Any] | None, kind: str = "fixed",
             address: str = "parquet:{}/docs#embedding") -> tuple[ParquetStore, ParquetStore, np.ndarray]:
    """(old, new, the vectors of new), finished."""
    make_folder(folder / "docs", ids, unit_rows(ROWS, OLD_WIDTH), TYPES[kind])
    old = of_kind(ParquetStore, open_store(address.format(folder)))
    new = of_kind(ParquetStore, old.beside("_new"))
    new.create(old, NEW_WIDTH, OWNER)
    rows = unit_rows(ROWS, NEW_WIDTH, 2)
    for batch in old.read(size=30):
        places = [(ids or list(range(ROWS))).index(key) for key in batch.ids]
        new.write(batch.ids, rows[places])
    new.finish()
    return old, new, rows


@pytest.mark.parametrize("kind", TYPES)
def test_all_but_the_vectors_is_as_it_was(kind: str, tmp_path: pathlib.Path) -> None:
    ids = [f"doc-{n}" for n in range(ROWS)]
    migrated(tmp_path, ids, kind)
    for name in ("a.parquet", "b.parquet", "more/c.parquet"):
        before, after = (pq.ParquetFile(tmp_path / place / name) for place in ("docs", "docs_new"))
        assert after.metadata.num_row_groups == before.metadata.num_row_groups > 1
        for group in range(before.metadata.num_row_groups):
            was, now = before.metadata.row_group(group), after.metadata.row_group(group)
            assert (was.num_rows, was.column(0).compression) == (now.num_rows, now.column(0).compression)
        assert after.schema_arrow.names == before.schema_arrow.names
        assert after.schema_arrow.metadata[b"made by"] == b"a test"
        old, new = before.read(), after.read()
        assert new.drop_columns("embedding").equals(old.drop_columns("embedding"))
        assert str(new.schema.field("embedding").type).replace("24", "16") == str(old.schema.field("embedding").type)
        assert new.column("embedding").null_count == 0
    assert sorted(os.listdir(tmp_path)) == ["docs", "docs_new", "docs_new.owner.json"]


def test_ids_are_read_once_and_then_only_the_row_groups_that_have_them(tmp_path: pathlib.Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"doc-{n}" for n in range(ROWS)]
    old, _, _ = migrated(tmp_path, ids)
    groups: list[tuple[list[str], int]] = []
    read = pq.ParquetFile.iter_batches

    def counted(self: pq.ParquetFile, size: int, row_groups: list[int], columns: list[str]) -> Any:
        groups.append((columns, row_groups[0]))
        return read(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    again = open_store(old.address)
    assert sorted(contents(again, ids=["doc-3", "doc-100", "none"])) == ["doc-100", "doc-3"]
    everywhere = [columns for columns, _ in groups if columns == ["id"]]
    assert len(groups) == len(everywhere) + 2 and len(everywhere) > 3
    groups.clear()
    assert list(contents(again, ids=["doc-50"])) == ["doc-50"] and len(groups) == 1
    again.close()


@pytest.mark.parametrize("ids", [None, [f"doc-{n}" for n in range(ROWS)]])
def test_rows_that_arrive_before_the_switch_are_taken_along(ids: list[str] | None, tmp_path: pathlib.Path) -> None:
    old, new, rows = migrated(tmp_path, ids)
    added: list[Any] = list(range(ROWS, ROWS + 3)) if ids is None else ["x", "y", "z"]
    pq.write_table(table(ids and added, unit_rows(3, OLD_WIDTH, 8), TYPES["fixed"]), tmp_path / "docs" / "z.parquet")
    new.create(old, NEW_WIDTH, OWNER)
    new.write(added, unit_rows(3, NEW_WIDTH, 9))
    assert order(new) == [*(ids or range(ROWS)), *added]
    assert order(new, after=added[0]) == added[1:] and order(new, after=order(new)[-5]) == order(new)[-4:]
    untouched = (tmp_path / "docs_new" / "a.parquet").stat().st_ino
    new.finish()
    assert (tmp_path / "docs_new" / "a.parquet").stat().st_ino == untouched, "a file without changes was written again"
    again = open_store(new.address)
    found = contents(again)
    assert (np.array(list(found.values())) == np.concatenate([rows, unit_rows(3, NEW_WIDTH, 9)])).all()
    assert again.describe().rows == ROWS + 3


def test_a_file_that_was_written_anew_is_followed(tmp_path: pathlib.Path) -> None:
    """One row is gone, one is new, the others are in another order."""
    ids = [f"doc-{n}" for n in range(ROWS)]
    old, new, rows = migrated(tmp_path, ids)
    rewritten = table(["new", *reversed(ids[41:70])], unit_rows(30, OLD_WIDTH, 8), TYPES["fixed"])
    pq.write_table(rewritten, tmp_path / "docs" / "b.parquet", row_group_size=11)
    new.write(["new"], unit_rows(1, NEW_WIDTH, 9))
    new.write(ids[40:41], None)
    new.finish()
    found = contents(open_store(new.address))
    assert list(found) == ids[:40] + ["new", *reversed(ids[41:70])] + ids[70:]
    assert all((found[key] == rows[n]).all() for n, key in enumerate(ids) if n != 40)


def test_what_changed_since_is_read_again(tmp_path: pathlib.Path) -> None:
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    times = [None if n == 3 else day + datetime.timedelta(seconds=n, microseconds=1) for n in range(20)]
    for name, values in (("time", pa.array(times, pa.timestamp("us", "Europe/Zurich"))),
                         ("number", pa.array(range(20))),
                         ("text", pa.array([f"2026-{n:02}" for n in range(20)])),
                         ("date", pa.array([datetime.date(2026, 1, 1 + n) for n in range(20)]))):
        pq.write_table(pa.table({"id": pa.array(range(20)), "v": column(unit_rows(20, 4), pa.list_(pa.float32(), 4)),
                                 "updated": values}), tmp_path / f"{name}.parquet", row_group_size=6)
        store = open_store(f"parquet:{tmp_path}/{name}.parquet#v?changed=updated")
        newest = store.newest()
        assert isinstance(newest, (int, str))
        assert order(store, changed=newest) == ([3, 19] if name == "time" else [19])  # unknown is taken for changed
    with pytest.raises(UsageError, match="add changed="):
        list(open_store(f"parquet:{tmp_path}/date.parquet#v").read(changed=3))
    assert open_store(f"parquet:{tmp_path}/date.parquet#v").newest() is None


def test_a_row_without_a_vector_is_not_there(tmp_path: pathlib.Path) -> None:
    vectors = [[1.0, 2.0], None, [3.0, 4.0]]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        pq.write_table(pa.table({"v": pa.array(vectors, kind)}), tmp_path / "docs.parquet")
        store = open_store(f"parquet:{tmp_path}/docs.parquet")
        assert order(store) == order(store, vectors=False) == [0, 2] and store.describe().rows == 2
        new = store.beside("_new")
        new.create(store, NEW_WIDTH, OWNER)
        new.write([0, 2], unit_rows(2, NEW_WIDTH))
        new.finish()
        assert pq.read_table(of_kind(ParquetStore, new).path).column("v").is_null().to_pylist() == [False, True, False]
        assert (contents(new)[2] == unit_rows(2, NEW_WIDTH)[1]).all()
        new.drop()


def test_a_switch_that_was_cut_short_is_completed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stop in range(14):
        folder = tmp_path / str(stop)
        old, new, _ = migrated(folder, None)
        new.write([3], unit_rows(1, NEW_WIDTH, 5))
        new.finish()
        kept = of_kind(ParquetStore, old.beside("_old"))
        for incoming, outgoing, widths in ((new, kept, (NEW_WIDTH, OLD_WIDTH)), (kept, new, (OLD_WIDTH, NEW_WIDTH))):
            with cut_short(monkeypatch, stop, *((os, name) for name in ("link", "replace", "rename", "unlink")),
                           (files, "exchange")) as calls:
                old.switch(incoming, outgoing)
            assert len(pq.read_table(folder / "docs")) == ROWS, "the name always leads to the data"
            old, incoming, outgoing = (of_kind(ParquetStore, open_store(store.address))
                                       for store in (old, incoming, outgoing))
            old.switch(incoming, outgoing)
            assert (old.describe().width, outgoing.describe().width) == widths
            assert not incoming.path.exists() and not incoming.mark.path.exists()
    assert len(calls) < 14, "the last round was not cut short"


def test_without_an_exchange_of_names_it_is_said_that_a_switch_is_not_one_step(tmp_path: pathlib.Path,
                                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, _ = migrated(tmp_path, None)
    kept = of_kind(ParquetStore, old.beside("_old"))
    assert old.describe().atomic is None
    monkeypatch.setattr(files, "can_exchange", lambda: False)
    monkeypatch.setattr("kedge.migrate.stores.parquet.can_exchange", lambda: False)
    assert "for an instant there is none" in (old.describe().atomic or "")
    old.switch(new, kept)
    assert (old.describe().width, kept.describe().width, new.path.exists()) == (NEW_WIDTH, OLD_WIDTH, False)
    old.switch(kept, new)
    assert (old.describe().width, new.describe().width, kept.path.exists()) == (OLD_WIDTH, NEW_WIDTH, False)


def test_a_finish_that_was_cut_short_is_completed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, rows = migrated(tmp_path, None)
    changed = unit_rows(ROWS, NEW_WIDTH, 7)
    new.write(list(range(ROWS)), changed)
    replace, done = os.replace, []

    def second(*words: Any) -> None:
        done.append(words)
        if len(done) > 1:
            raise KeyboardInterrupt
        replace(*words)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", second)
        with pytest.raises(KeyboardInterrupt):
            new.finish()
    again = open_store(new.address)
    assert (np.array(list(contents(again).values())) == changed).all()
    again.finish()
    assert not of_kind(ParquetStore, again).staged.exists()
    assert (np.array(list(contents(again).values())) == changed).all()


def test_what_is_wrong_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad.parquet").write_text("not Parquet at all")
    pq.write_table(pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]], "w": [["a"], ["b"]],
                             "x": [[1.0], [1.0, 2.0]]}), tmp_path / "good.parquet")
    (tmp_path / "empty").mkdir()
    for address, kind, message in [
            ("bad.parquet#v", BadFile, "bad.parquet cannot be read"),
            ("good.parquet#y", UsageError, "no column 'y'; it has id"),
            ("good.parquet#w", BadFile, "expected a list of floats"), ("good.parquet", BadFile, "choose one"),
            ("good.parquet#v?key=id", UsageError, "'key' means nothing"), ("good.parquet#v?id=no", UsageError, "'no'"),
            ("empty#v", Error, "holds no Parquet files"), ("none#v", Error, "no such file or folder"),
            ("good.parquet#x", BadFile, "row 1 has length 2")]:
        with pytest.raises(kind, match=message):
            list(open_store(f"parquet:{tmp_path}/{address}").read())
    store = open_store(f"parquet:{tmp_path}/good.parquet#v")
    with pytest.raises(Error, match="not made by a migration"):
        store.write([1], unit_rows(1, 2))
    with pytest.raises(Error, match="'a'"):
        list(store.read(ids=["a"]))
    new = store.beside("_new")
    new.create(store, 3, OWNER)
    new.write([9], unit_rows(1, 3))
    with pytest.raises(Error, match="no row"):
        new.finish()
