# SPDX-License-Identifier: Apache-2.0
"""Results of length 1, translations outside kedge, and Parquet."""
import json
import pathlib

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Kedge
from safetensors import safe_open

WAYS = {"transform": ["--space", "a"], "translate": ["--from", "a", "--to", "b"]}


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def run(kedge: Kedge, command: str, *more: object) -> np.ndarray:
    kedge.ok(command, "x.kedge", *WAYS[command], "-i", "a.npy", "-o", "y.npy", *more)
    found: np.ndarray = np.load(kedge.folder / "y.npy")
    return found


@pytest.mark.parametrize("command", WAYS)
def test_normalised_results_are_the_others_at_length_1(kedge: Kedge, bundle: str, command: str) -> None:
    np.testing.assert_allclose(run(kedge, command, "--normalize"), unit(run(kedge, command)), atol=1e-5)


def test_a_row_of_zeros_stays_one(kedge: Kedge, spaces: list[str]) -> None:
    kedge.ok("fit", *spaces, "--anchors", 5, "--method", "random", "--similarity", "inner", "-o", "x.kedge")
    np.save(kedge.folder / "a.npy", np.zeros((3, 8), np.float32))
    assert not run(kedge, "transform", "--normalize").any()


@pytest.mark.parametrize("normalize", [[], ["--normalize"]])
@pytest.mark.parametrize("command", WAYS)
def test_a_model_does_what_the_command_does(kedge: Kedge, bundle: str, command: str, normalize: list[str]) -> None:
    kedge.ok("export", bundle, *WAYS[command], "-o", "m.onnx", *normalize)
    x = np.load(kedge.folder / "a.npy")
    wanted = run(kedge, command, *normalize)
    session = onnxruntime.InferenceSession(kedge.folder / "m.onnx", providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].name == {"transform": "rr", "translate": "y"}[command]
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_a_translation_as_arrays(kedge: Kedge, bundle: str) -> None:
    x, wanted = np.load(kedge.folder / "a.npy"), run(kedge, "translate")
    assert kedge.json("export", bundle, *WAYS["translate"], "-o", "t.npy")["files"] == ["t.weight.npy", "t.bias.npy"]
    kedge.ok("export", bundle, *WAYS["translate"], "-o", "t.safetensors", "--normalize")
    with safe_open(kedge.folder / "t.safetensors", "numpy") as file:
        assert file.metadata()["format"] == "kedge translator" and file.metadata()["normalize"] == "true"
        assert (file.metadata()["from"], file.metadata()["to"]) == ("a", "b")
        weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
    np.testing.assert_array_equal(weight, np.load(kedge.folder / "t.weight.npy"))
    np.testing.assert_allclose(x @ weight.T + bias, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_what_to_export_is_said_once_and_whole(kedge: Kedge, bundle: str) -> None:
    kedge.refused(2, "export", bundle, "-o", "m.onnx", says=["--space NAME", "--from NAME", "--to NAME"])
    kedge.refused(2, "export", bundle, "--from", "a", "-o", "m.onnx", says="--to NAME")
    kedge.refused(2, "export", bundle, "--space", "a", "--from", "a", "--to", "b", "-o", "m.onnx", says="--from")
    kedge.refused(2, "export", bundle, "--space", "a", "-o", "m.npy", "--normalize", says=["--normalize", ".onnx"])


@pytest.fixture
def table(kedge: Kedge) -> np.ndarray:
    """The rows of a.npy with their ids, in several row groups."""
    x: np.ndarray = np.load(kedge.folder / "a.npy")
    columns = {"id": [f"doc {i}" for i in range(len(x))],
               "vector": pa.FixedSizeListArray.from_arrays(x.ravel(), x.shape[1])}
    pq.write_table(pa.table(columns), kedge.folder / "a.parquet", row_group_size=64)
    return x


def vectors(path: pathlib.Path, name: str) -> np.ndarray:
    return np.stack(pq.read_table(path).column(name).to_pylist())


@pytest.mark.parametrize("command", WAYS)
def test_parquet_keeps_its_other_columns(kedge: Kedge, bundle: str, table: np.ndarray, command: str) -> None:
    wanted = run(kedge, command, "--normalize", "--rows", "10:150")
    kedge.ok(command, bundle, *WAYS[command], "-i", "a.parquet#vector", "-o", "y.parquet", "--normalize", "--rows",
             "10:150")
    found = pq.read_table(kedge.folder / "y.parquet")
    assert found.column_names == ["id", "vector"] and found.column("id")[0].as_py() == "doc 10"
    np.testing.assert_allclose(vectors(kedge.folder / "y.parquet", "vector"), wanted, rtol=1e-5, atol=1e-5)


def test_parquet_on_either_side(kedge: Kedge, bundle: str, table: np.ndarray) -> None:
    wanted = run(kedge, "transform")
    near = {"rtol": 1e-5, "atol": 1e-5 * np.abs(wanted).max()}
    said = kedge.ok("transform", bundle, "--space", "a", "-i", "a.parquet", "-o", "y.npy", "--json", "--quiet").stdout
    assert json.loads(said)["out"] == "y.npy"
    np.testing.assert_allclose(np.load(kedge.folder / "y.npy"), wanted, **near)
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "y.parquet#shared")
    np.testing.assert_allclose(vectors(kedge.folder / "y.parquet", "shared"), wanted, **near)
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.parquet", "-o", "both.parquet#shared")
    assert pq.read_table(kedge.folder / "both.parquet").column_names == ["id", "vector", "shared"]


def test_parquet_is_not_replaced_unasked(kedge: Kedge, bundle: str, table: np.ndarray) -> None:
    command = ["transform", bundle, "--space", "a", "-i", "a.parquet#vector", "-o", "a.parquet"]
    kedge.refused(2, *command, says=["'a.parquet' is an input", "--in-place"])
    kedge.ok(*command, "--in-place")
    assert vectors(kedge.folder / "a.parquet", "vector").shape == (200, 10)
    assert not list(kedge.folder.glob(".kedge-*"))


def test_parquet_without_its_program_says_what_to_install(kedge: Kedge, bundle: str, table: np.ndarray,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_PARQUET", "/nowhere/kedge-parquet")
    kedge.refused(1, "transform", bundle, "--space", "a", "-i", "a.parquet", "-o", "y.npy",
                  says=["/nowhere/kedge-parquet", "pip install '.[arrow]' in kedge's folder"])
    kedge.refused(3, "fit", "--space", "a=a.parquet", "-o", "y.kedge", says=["Parquet", "Python"])


def test_parquet_without_the_package_says_what_to_install(kedge: Kedge, bundle: str, table: np.ndarray,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    (kedge.folder / "other" / "kedge").mkdir(parents=True)
    (kedge.folder / "other" / "kedge" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(kedge.folder / "other"))
    kedge.refused(1, "transform", bundle, "--space", "a", "-i", "a.parquet", "-o", "y.npy",
                  says=["No module named 'kedge.parquet'", "-m pip install '.[arrow]' in kedge's folder"])


def test_parquet_names_the_row_that_is_not_finite(kedge: Kedge, bundle: str) -> None:
    rows = np.load(kedge.folder / "a.npy")
    rows[150, 2] = np.nan
    vectors_of = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    pq.write_table(pa.table({"vector": vectors_of}), kedge.folder / "bad.parquet", row_group_size=64)
    kedge.refused(3, "transform", bundle, "--space", "a", "-i", "bad.parquet", "-o", "y.npy",
                  says=["bad.parquet", "row 150"])
