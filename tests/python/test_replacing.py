# SPDX-License-Identifier: Apache-2.0
"""What may be replaced, results of length 1, and messages that speak Python."""
import os
import pathlib
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_a_file_is_not_replaced_by_what_becomes_of_it(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                                      tmp_path: pathlib.Path) -> None:
    for mapper in (bundle["vit"], bundle.translator("vit", "rex")):
        path = tmp_path / "x.npy"
        np.save(path, spaces["vit"])
        with pytest.raises(ValueError, match="is an input.*in_place=True"):
            mapper.transform_file(path, path)
        np.testing.assert_array_equal(np.load(path), spaces["vit"])
        mapper.transform_file(path, tmp_path / "apart.npy")
        mapper.transform_file(path, path, in_place=True)
        np.testing.assert_array_equal(np.load(path), np.load(tmp_path / "apart.npy"))


@pytest.mark.parametrize("write", [lambda b, *a, **k: b.save(*a, **k), lambda b, *a, **k: b["vit"].to_onnx(*a, **k),
                                   lambda b, *a, **k: b.translator("vit", "rex").to_onnx(*a, **k)])
def test_results_replace_their_own_kind_only(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                             tmp_path: pathlib.Path, write: Callable[..., None]) -> None:
    write(bundle, tmp_path / "result")
    write(bundle, tmp_path / "result")
    np.save(tmp_path / "x.npy", spaces["vit"])
    with pytest.raises(ValueError, match="is there already and is not .* in_place=True"):
        write(bundle, tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), spaces["vit"])
    write(bundle, tmp_path / "x.npy", in_place=True)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "result").read_bytes()


def test_results_of_length_1(bundle: kedge.Bundle, spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    for mapper in (bundle["vit"], bundle.translator("vit", "rex")):
        plain = mapper.transform(spaces["vit"])
        wanted = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        np.testing.assert_allclose(mapper.transform(spaces["vit"], normalize=True), wanted, atol=1e-5)
        mapper.to_onnx(tmp_path / "m.onnx", normalize=True)
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"x": spaces["vit"]})[0], wanted, atol=1e-5)
        np.save(tmp_path / "x.npy", spaces["vit"])
        mapper.transform_file(tmp_path / "x.npy", tmp_path / "y.npy", normalize=True)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, atol=1e-5)


@pytest.mark.long
def test_modules_give_results_of_length_1(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    import torch

    for mapper in (bundle["vit"], bundle.translator("vit", "rex")):
        wanted = mapper.transform(spaces["vit"], normalize=True)
        np.testing.assert_allclose(mapper.to_torch(normalize=True)(torch.from_numpy(spaces["vit"])), wanted, atol=1e-5)


def test_parquet_files_are_streamed(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                    tmp_path: pathlib.Path) -> None:
    x = spaces["vit"]
    column = pa.FixedSizeListArray.from_arrays(x.ravel(), x.shape[1])
    pq.write_table(pa.table({"id": range(len(x)), "v": column}), tmp_path / "x.parquet", row_group_size=100)
    bundle["vit"].transform_file(tmp_path / "x.parquet", tmp_path / "y.parquet", rows=(50, 350))
    found = pq.read_table(tmp_path / "y.parquet")
    assert found.column("id").to_pylist() == list(range(50, 350))
    wanted = bundle["vit"].transform(x)[50:350]
    np.testing.assert_allclose(np.stack(found.column("v").to_pylist()), wanted, atol=1e-5 * np.abs(wanted).max())


def test_parquet_that_replaces_its_input_is_on_the_disk_first(bundle: kedge.Bundle, spaces: dict[str, np.ndarray],
                                                              tmp_path: pathlib.Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    column = pa.FixedSizeListArray.from_arrays(spaces["vit"].ravel(), spaces["vit"].shape[1])
    pq.write_table(pa.table({"v": column}), path)
    calls: list[Any] = []
    replace, fsync = os.replace, os.fsync

    def noted_fsync(file: int) -> None:
        calls.append(os.fstat(file).st_ino)
        fsync(file)

    def noted_replace(old: str, new: str) -> None:
        calls.append((os.stat(old).st_ino, new))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    bundle["vit"].transform_file(path, tmp_path / "apart.parquet")
    assert len(calls) == 1
    bundle["vit"].transform_file(path, path, in_place=True)
    flushed, (moved, new), folder = calls[1:]
    assert flushed == moved and new == str(path) and folder == tmp_path.stat().st_ino


def test_a_wrong_name_is_a_key_error_that_lists_the_right_ones(bundle: kedge.Bundle) -> None:
    for kind in (KeyError, ValueError):
        with pytest.raises(kind) as caught:
            bundle["vti"]
        assert str(caught.value).startswith("the bundle has no space 'vti'; it has: vit, rex, clip")
    with pytest.raises(KeyError, match="no space 'x'") as caught:
        bundle.translator("vit", "x")
    assert "kedge attach" not in str(caught.value)


def test_messages_speak_python(spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="^refine_rate is -1"):
        kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, anchors=5, refine_epochs=1, refine_rate=-1)
    with pytest.raises(OSError, match=r"x\.csv.*\.parquet"):
        kedge.fit({"vit": "x.csv"})
    with pytest.raises(ValueError, match=r"reversed order.*\(0, 300\)"):
        kedge.fit({"vit": spaces["vit"]}, rows=(300, 0))


def test_a_fit_that_ends_well_leaves_no_checkpoint(spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, method="param", anchors=5, epochs=3, batch=100,
              checkpoint=tmp_path / "c", checkpoint_every=1)
    assert not (tmp_path / "c").exists()
