# SPDX-License-Identifier: Apache-2.0
"""Columns of vectors: Arrow, Parquet, polars, Hugging Face datasets, pandas on Arrow."""
import pathlib
import sys
from typing import Any

import kedge
import numpy as np
import pandas as pd
import pytest
from kedge._inputs import integers_of, rows_of

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

X = np.arange(15, dtype=np.float32).reshape(5, 3)
FIXED, LIST, LARGE = pa.list_(pa.float32(), 3), pa.list_(pa.float32()), pa.large_list(pa.float32())


def matrix_of(given: Any) -> np.ndarray:
    rows = rows_of(given, "X")
    assert isinstance(rows, np.ndarray)
    return rows


def column(kind: pa.DataType, rows: np.ndarray = X) -> pa.Array:
    return pa.array(rows.tolist(), kind)


@pytest.mark.parametrize("kind", [FIXED, LIST, LARGE], ids=str)
def test_lists_are_read_where_they_lie(kind: pa.DataType) -> None:
    whole = column(kind)
    start = whole.values.buffers()[1].address
    for part, first in ((whole, 0), (whole.slice(2), 2), (whole.slice(1, 3), 1), (whole.slice(1).slice(2, 1), 3)):
        rows = matrix_of(part)
        np.testing.assert_array_equal(rows, X[first:first + len(part)])
        assert rows.ctypes.data == start + first * 12, "it was copied"


@pytest.mark.parametrize("value", [pa.float16(), pa.float64(), pa.int8(), pa.int64(), pa.uint8()], ids=str)
def test_values_of_other_types(value: Any) -> None:
    numpy = {"halffloat": np.float16}.get(str(value))
    given = [row.astype(numpy) for row in X] if numpy else X.tolist()
    np.testing.assert_array_equal(rows_of(pa.array(given, pa.list_(value)), "X"), X)


def test_truths_are_numbers() -> None:
    assert matrix_of(pa.array([[True, False], [False, False]])).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("kind", [FIXED, LIST, LARGE], ids=str)
def test_chunks_are_joined(kind: pa.DataType) -> None:
    parts = [column(kind).slice(0, 2), column(kind).slice(2, 0), column(kind).slice(2)]
    np.testing.assert_array_equal(rows_of(pa.chunked_array(parts), "X"), X)
    one = pa.chunked_array([column(kind)])
    assert matrix_of(one).ctypes.data == one.chunk(0).values.buffers()[1].address


def test_tables() -> None:
    ids, text = pa.array(range(5)), pa.array(list("abcde"))
    for table in (pa.table({"e": column(LIST)}), pa.table({"id": ids, "e": column(FIXED), "text": text}),
                  pa.table({"x": X[:, 0], "y": X[:, 1], "z": X[:, 2]})):
        np.testing.assert_array_equal(rows_of(table, "X"), X)
        np.testing.assert_array_equal(rows_of(table.slice(1, 2), "X"), X[1:3])
    np.testing.assert_array_equal(rows_of(pa.RecordBatch.from_pydict({"e": column(LIST)}), "X"), X)


def test_tensors_of_one_dimension_per_row() -> None:
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(X)
    np.testing.assert_array_equal(rows_of(tensors, "X"), X)
    np.testing.assert_array_equal(rows_of(tensors.slice(2), "X"), X[2:])


def test_no_rows() -> None:
    assert matrix_of(pa.array([], FIXED)).shape == (0, 3)
    with pytest.raises(ValueError, match="^X: the column has no rows"):
        rows_of(pa.array([], LIST), "X")


def with_null(kind: pa.DataType) -> pa.Array:
    rows: list[Any] = X.tolist()
    rows[3] = None
    return pa.array(rows, kind)


def with_null_value(kind: pa.DataType) -> pa.Array:
    rows: list[Any] = X.tolist()
    rows[3][1] = None
    return pa.array(rows, kind)


@pytest.mark.parametrize("kind", [FIXED, LIST, LARGE], ids=str)
def test_nulls_are_refused_by_row(kind: pa.DataType) -> None:
    for given, sentence in ((with_null(kind), "row 3 is null"), (with_null_value(kind), "row 3 holds a null")):
        with pytest.raises(ValueError, match=f"^X: {sentence}; leave that input out"):
            rows_of(given, "X")
        with pytest.raises(ValueError, match=sentence.replace("3", "1")):
            rows_of(given.slice(2), "X")
        with pytest.raises(ValueError, match=sentence.replace("3", "8")):
            rows_of(pa.chunked_array([column(kind), given]), "X")
        np.testing.assert_array_equal(rows_of(given.slice(0, 3), "X"), X[:3])  # it is not in there


@pytest.mark.parametrize("given, sentence", [
    (pa.array([[1.0, 2.0], [3.0, 4.0], [5.0]]), "row 2 has length 1, but row 0 has length 2"),
    (pa.chunked_array([[[1.0, 2.0]], [[1.0, 2.0, 3.0]]]), "row 1 has length 3, but row 0 has length 2"),
    (pa.array([1.0, 2.0]), "found one of double"), (pa.array(["a"]), "found one of string"),
    (pa.array([["a"]]), "found lists of string"), (pa.array([[[1.0]]]), "lists of lists"),
    (pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((2, 2, 2))), "3 dimensions"),
    (pa.table({"a": [[1.0]], "b": [[1.0]]}), "found 2 among the columns 'a', 'b'; choose one"),
    (pa.table({"a": [1.0], "b": ["x"]}), "found 0 among the columns 'a', 'b'"),
    (pa.table({"a": [1.0, None], "b": [1.0, 2.0]}), "row 1 is null in the column 'a'"),
    (pa.scalar(1.0), "found DoubleScalar")])
def test_is_refused_with_a_sentence(given: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^X: .*{sentence}"):
        rows_of(given, "X")


@pytest.fixture
def parquet(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(5), "text": list("abcde"), "e": column(LIST)}), path, row_group_size=2)
    return str(path)


def test_parquet(parquet: str, bundle: kedge.Bundle, spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    np.testing.assert_array_equal(rows_of(parquet, "X"), X)
    np.testing.assert_array_equal(rows_of(parquet + "#e", "X"), X)
    path = tmp_path / "two.parquet"
    pq.write_table(pa.table({name: spaces[name].tolist() for name in ("vit", "rex")}), path)
    rr_map = bundle["rex"]
    expected = rr_map.transform(spaces["rex"])
    np.testing.assert_array_equal(rr_map.transform(f"{path}#rex"), expected)
    with pytest.raises(ValueError, match="found 2 among the columns 'vit', 'rex'"):
        rr_map.transform(path)


def test_parquet_that_is_none(parquet: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="has no column 'f'; it has 'id', 'text', 'e'"):
        rows_of(parquet + "#f", "X")
    with pytest.raises(ValueError, match="^X: .*found one of int64"):
        rows_of(parquet + "#id", "X")
    with pytest.raises(OSError, match="^X: cannot read .*there is no such file"):
        rows_of(str(tmp_path / "other.parquet"), "X")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(OSError, match=r"^X: cannot read .*bad\.parquet"):
        rows_of(tmp_path / "bad.parquet", "X")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^X: .*pip install 'pyarrow>=15'"):
        rows_of(str(tmp_path / "x.parquet"), "X")


def test_pandas_on_arrow() -> None:
    vectors = pd.Series(X.tolist(), dtype=pd.ArrowDtype(LIST))
    np.testing.assert_array_equal(rows_of(vectors, "X"), X)
    np.testing.assert_array_equal(rows_of(vectors.iloc[1:3], "X"), X[1:3])
    frame = pd.DataFrame(X).astype(pd.ArrowDtype(pa.float32()))
    np.testing.assert_array_equal(rows_of(frame, "X"), X)


def test_polars() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    vectors = pl.Series("e", X.tolist(), dtype=pl.Array(pl.Float32, 3))
    for given in (vectors, vectors.cast(pl.List(pl.Float32)), pl.DataFrame({"id": range(5), "e": vectors}),
                  pl.DataFrame(X)):
        np.testing.assert_array_equal(rows_of(given, "X"), X)
        np.testing.assert_array_equal(rows_of(given[1:4], "X"), X[1:4])
    assert integers_of(pl.Series([3, 1]), "labels").tolist() == [3, 1]
    with pytest.raises(ValueError, match="^X: .*found one of double"):
        rows_of(pl.Series([1.0, 2.0]), "X")


@pytest.fixture(scope="module")
def dataset() -> Any:
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    return datasets.Dataset.from_dict({"e": X.tolist(), "label": [4, 3, 2, 1, 0], "text": list("abcde"),
                                       "nested": [{"e": row} for row in X.tolist()]})


@pytest.mark.long
def test_datasets(dataset: Any) -> None:
    for given in (dataset["e"], dataset.select_columns(["e"]), dataset.remove_columns("nested"), dataset["nested"]["e"],
                  dataset.with_format("torch")["e"], dataset.with_format("numpy")["e"],
                  dataset.with_format("arrow")["e"], dataset["e"][:], dataset.with_format("numpy")[:]["e"]):
        np.testing.assert_array_equal(rows_of(given, "X"), X)


@pytest.mark.long
def test_datasets_keep_their_order(dataset: Any) -> None:
    chosen = dataset.select([4, 0, 2])
    np.testing.assert_array_equal(rows_of(chosen["e"], "X"), X[[4, 0, 2]])
    np.testing.assert_array_equal(rows_of(dataset.select(range(1, 3))["e"], "X"), X[1:3])
    shuffled = dataset.shuffle(seed=3)
    order = 4 - np.array(shuffled["label"][:])
    assert order.tolist() != list(range(5))
    np.testing.assert_array_equal(rows_of(shuffled["e"], "X"), X[order])
    assert integers_of(chosen["label"], "labels").tolist() == [0, 4, 2]


@pytest.mark.long
def test_datasets_of_arrays() -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    for feature in (datasets.List(datasets.Value("float32"), length=3), datasets.List(datasets.Value("float16"))):
        arrays = datasets.Dataset.from_dict({"e": X.tolist()}, features=datasets.Features({"e": feature}))
        np.testing.assert_array_equal(rows_of(arrays["e"], "X"), X)


@pytest.mark.long
def test_datasets_that_are_none(dataset: Any) -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    with pytest.raises(TypeError, match=r"^X: .*found DatasetDict; choose a split, as in ds\['train'\]"):
        rows_of(datasets.DatasetDict(train=dataset), "X")
    with pytest.raises(TypeError, match="found IterableDataset.*without streaming"):
        rows_of(dataset.to_iterable_dataset(), "X")
    with pytest.raises(ValueError, match="found one of int64"):
        rows_of(dataset["label"], "X")
    with pytest.raises(ValueError, match="^labels: .*text"):
        integers_of(dataset["text"], "labels")
    with pytest.raises(ValueError, match="^labels: .*found a null in row 1"):
        integers_of(pa.array([1, None]), "labels")


def test_a_bundle_fits_and_attaches_columns(spaces: dict[str, np.ndarray]) -> None:
    import kedge

    columns = {name: pa.array(list(rows), pa.list_(pa.float32(), rows.shape[1])) for name, rows in spaces.items()}
    bundle = kedge.fit({"vit": columns["vit"], "rex": columns["rex"]}, method="consensus", anchors=10)
    plain = kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, method="consensus", anchors=10)
    np.testing.assert_array_equal(bundle["rex"].weight, plain["rex"].weight)
    with pytest.raises(ValueError, match="^space 'clip': row 1 is null"):
        bundle.attach("clip", pa.array([spaces["clip"][0], None, *spaces["clip"][2:]], columns["clip"].type))
