# SPDX-License-Identifier: Apache-2.0
"""Folders of Parquet files in pieces, and maps applied to them, without an engine."""
import os
import pathlib
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_rows import broken
from conftest import ROWS
from kedge import Bundle
from kedge.parts import apply, files, folder, storage
from made_up import COLUMNS, DIMS, Spaces, encoders, folder_of


def test_pieces_cover_every_row_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder_of(tmp_path / "rows", encoders(1000), np.arange(1000), parts=3, row_group_size=50)
    (source / "_metadata.parquet").write_bytes(b"not rows")
    (source / ".hidden").mkdir()
    (source / ".hidden" / "x.parquet").write_bytes(b"not rows")
    monkeypatch.setattr(files, "PIECE_BYTES", 30_000)
    pieces = files.pieces(files.parquet_files(source))
    assert len(pieces) > 3
    ids = np.concatenate([batch.column("id").to_numpy() for piece in pieces for batch in piece.batches(["id"], 37)])
    assert (ids == np.arange(1000)).all()
    assert [piece.first_row for piece in pieces if piece.path.endswith("000.parquet")][:2] == [0, pieces[0].rows]


def test_a_file_that_is_not_whole(tmp_path: pathlib.Path) -> None:
    source = folder_of(tmp_path / "rows", encoders(100), np.arange(100), parts=2)
    whole = (source / "part-001.parquet").read_bytes()
    (source / "part-001.parquet").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(OSError, match="cannot read '.*part-001.parquet'"):
        files.pieces(files.parquet_files(source))


def test_a_folder_is_mapped_in_pieces(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, spaces: Spaces,
                                      bundle: Bundle) -> None:
    source = folder_of(tmp_path / "rows", spaces, np.arange(ROWS), parts=2, row_group_size=100)
    monkeypatch.setattr(files, "PIECE_BYTES", 100_000)
    application = pickle.loads(pickle.dumps(apply.translation(bundle, "a", "b", "emb_a", "as_b", False)))
    plan = folder.planned(application, str(source), str(tmp_path / "out"), ["id"])
    assert len(plan.parts) > 2 and plan.writer.keep == ["id"]
    carried_out(plan)
    (tmp_path / "out" / ".kedge-0.partial").write_bytes(b"left by a worker that died")
    storage.clear(str(tmp_path / "out"))
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith(".")]
    found = pa.concat_tables([files.opened(path).read() for path in files.parquet_files(tmp_path / "out")])
    assert found.column_names == ["id", "as_b"] and found.column("id").to_pylist() == list(range(ROWS))
    expected = bundle.translator("a", "b").transform(spaces["a"])
    rows = np.array(found.column("as_b").to_pylist(), np.float32)
    assert np.abs(rows - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.fixture
def application(bundle: Bundle) -> apply.Application:
    return apply.transformation(bundle, "a", "emb_a", "shared", False)


def mapped(application: apply.Application, given: str | pathlib.Path, output: str | pathlib.Path,
           keep: Any = None) -> list[str]:
    """Files that were written, by their place within the output."""
    plan = folder.planned(application, *folder.paths(given, output, "a dataset"), keep)
    carried_out(plan)
    return [storage.system_of(part.target)[1] for part in plan.parts]


def carried_out(plan: folder.Plan) -> None:
    """As an engine does, without one."""
    with plan.writing():
        for part in plan.left:
            plan.writer(part)


def test_folders_with_spaces_and_uris(tmp_path: pathlib.Path, application: apply.Application, spaces: Spaces,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder_of(tmp_path / "my rows", spaces, np.arange(ROWS), parts=2)
    (source / "day=a%3Ab#1").mkdir()
    (source / "part-001.parquet").rename(source / "day=a%3Ab#1" / "x y.parquet")
    expected = [str(tmp_path / "my out" / name) for name in ("day=a%3Ab#1/x y.parquet", "part-000.parquet")]
    assert mapped(application, source, tmp_path / "my out") == expected and all(map(os.path.exists, expected))
    with_uris = mapped(application, source.as_uri(), (tmp_path / "other out").as_uri())
    assert with_uris == [path.replace("my out", "other out") for path in expected]
    monkeypatch.chdir(tmp_path)  # workers run elsewhere, so that paths are made absolute
    plan = folder.planned(application, *folder.paths("my rows", "relative", "a dataset"), None)
    assert all(os.path.isabs(part.piece.path) and os.path.isabs(part.target) for part in plan.parts)
    # options of the storage stay at the end
    assert files.inside("s3://bucket/rows/?region=x", "a b.parquet") == "s3://bucket/rows/a%20b.parquet?region=x"


def test_empty_files_and_row_groups(tmp_path: pathlib.Path, application: apply.Application, rows: pa.Table) -> None:
    source = tmp_path / "rows"
    source.mkdir()
    loose = rows.set_column(1, "emb_a", rows.column("emb_a").cast(pa.list_(pa.float32())))
    with pq.ParquetWriter(source / "b.parquet", loose.schema) as writer:
        for count in (0, 10, 0, 5):
            writer.write_table(loose.slice(0, count))
    pq.write_table(rows.slice(0, 0), source / "a.parquet")
    found = files.Files(source, COLUMNS, "id")
    assert found.rows == 15 and found.columns.dims == {name: DIMS[name] for name in COLUMNS}
    assert [pq.read_table(path).num_rows for path in mapped(application, source, tmp_path / "out")] == [15]
    (source / "b.parquet").unlink()
    with pytest.raises(ValueError, match="there are no rows to learn from in"):
        files.Files(source, COLUMNS, "id")
    with pytest.raises(ValueError, match="there are no rows in"):
        mapped(application, source, tmp_path / "none")


def test_outputs_that_would_be_lost_or_read_again(tmp_path: pathlib.Path, application: apply.Application,
                                                  spaces: Spaces, rows: pa.Table,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder_of(tmp_path / "rows", spaces, np.arange(ROWS), parts=2)
    with pytest.raises(ValueError, match="is inside .* name a folder elsewhere"):
        mapped(application, source, source / "out")
    with pytest.raises(FileExistsError, match="already has Parquet files"):
        mapped(application, source, source)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot write to '.*file/out'"):
        mapped(application, source, tmp_path / "file" / "out")
    with pytest.raises(TypeError, match=r"such as \['id'\]; found the text 'id'"):
        mapped(application, source, tmp_path / "out", keep="id")
    monkeypatch.setattr(files, "PIECE_BYTES", 100_000)
    pq.write_table(rows.slice(0, 10), source / "part-000-0000.parquet")
    with pytest.raises(ValueError, match="would both be written to .*out/part-000-0000.parquet; rename one of them"):
        mapped(application, source, tmp_path / "out")


def test_what_fails_leaves_no_file(tmp_path: pathlib.Path, application: apply.Application) -> None:
    source = folder_of(tmp_path / "rows", encoders(600), np.arange(600), parts=3)
    broken(source, "not_a_number")
    for output in (tmp_path / "out", (tmp_path / "other").as_uri()):
        with pytest.raises(ValueError, match="part-001.parquet: row 7 has a vector that holds NaN"):
            mapped(application, source, output)
    assert os.listdir(tmp_path / "out") == os.listdir(tmp_path / "other") == ["part-000.parquet"]


def test_a_column_is_replaced_but_not_by_accident(bundle: Bundle, rows: pa.Table) -> None:
    same = apply.transformation(bundle, "a", "emb_a", "emb_a", False)
    same.require(rows.schema.names)
    assert same(rows, "here").column_names == rows.column_names
    assert same(rows.slice(0, 0), "here").num_rows == 0
    with pytest.raises(ValueError, match="already is a column 'emb_b'"):
        apply.transformation(bundle, "a", "emb_a", "emb_b", False).require(rows.schema.names)
    with pytest.raises(ValueError, match="no column 'emb_x'"):
        apply.transformation(bundle, "a", "emb_x", "y", False).require(rows.schema.names)


def test_columns_that_a_map_does_not_take(bundle: Bundle, rows: pa.Table) -> None:
    with pytest.raises(ValueError, match="here: row 0 has a vector of 16 values where the map takes 24"):
        apply.transformation(bundle, "a", "emb_b", "y", False)(rows, "here")
    with pytest.raises(ValueError, match="here: id: expected a column of vectors"):
        apply.transformation(bundle, "a", "id", "y", False)(rows, "here")
    nothing: Any = None
    with pytest.raises(TypeError, match="expected a Bundle or the path of one, found NoneType"):
        apply.transformation(nothing, "a", "emb_a", "y", False)
    with pytest.raises(ValueError, match="there are several columns 'id'; rename all but one"):
        apply.transformation(bundle, "a", "emb_a", "y", False).require(["id", "emb_a", "id"])
