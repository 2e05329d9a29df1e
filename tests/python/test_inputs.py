# SPDX-License-Identifier: Apache-2.0
"""What users give: all of it means the same matrix, or is refused with a sentence that names it and says what to do."""
import fractions
import pathlib
import subprocess
import sys
from typing import Any

import kedge
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from kedge._inputs import END, integers_of, range_of, rows_of

X = np.array([[1, -2, 3], [4, 5, 6]], np.float32)
WHOLE = X.astype(np.int64)


def matrix_of(given: Any) -> np.ndarray:
    rows = rows_of(given, "X")
    assert isinstance(rows, np.ndarray)
    return rows


def record_field() -> np.ndarray:
    """A field of a record: the distance of its rows is not a whole number of values."""
    records = np.zeros(2, [("id", "u1"), ("embedding", "f4", 3)])
    records["embedding"] = X
    return records["embedding"]


MATRICES = {
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, WHOLE.tolist())),
    "list of arrays": list(X),
    "int8": X.astype(np.int8), "int32": X.astype(np.int32), "int64": WHOLE,
    "longdouble": X.astype(np.longdouble),
    "big endian float32": X.astype(">f4"), "big endian float64": X.astype(">f8"), "big endian int16": X.astype(">i2"),
    "objects": X.astype(object),
    "fractions": np.array([[fractions.Fraction(int(v)) for v in row] for row in X]),
    "nothing masked": np.ma.masked_array(X),
    "matrix": np.asmatrix(X),
    "memoryview": X.data,
    "field of records": record_field(),
    "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
    "fortran": np.asfortranarray(X),
    "read-only": np.frombuffer(X.tobytes(), np.float32).reshape(2, 3),
    "DataFrame": pd.DataFrame(X),
    "DataFrame of several types": pd.DataFrame({"a": [1.0, 4.0], "b": [-2, 5], "c": np.array([3, 6], np.uint8)}),
    "DataFrame of nullable types": pd.DataFrame(WHOLE).astype("Int64"),
    "DataFrame with a column of vectors": pd.DataFrame({"embedding": list(X)}),
    "Series of vectors": pd.Series(list(X), index=[7, 9]),
    "Series of lists": pd.Series(X.tolist()),
}


@pytest.mark.parametrize("given", MATRICES.values(), ids=MATRICES)
def test_is_the_same_matrix(given: Any) -> None:
    rows = matrix_of(given)
    assert rows.shape == (2, 3)
    assert rows.dtype.type in (np.float32, np.float64) and rows.dtype.isnative
    np.testing.assert_array_equal(rows, X)


@pytest.mark.parametrize("given", MATRICES.values(), ids=MATRICES)
def test_is_transformed_as_its_floats_are(given: Any) -> None:
    import kedge

    rr_map = kedge.RelativeMap("toy", "inner", np.array([[1, 0, 0], [1, 1, 1]], np.float32), np.zeros(2, np.float32),
                            np.zeros(3, np.float32))
    np.testing.assert_array_equal(rr_map.transform(given), [[1, 2], [4, 15]])


def test_bytes_and_truths_are_numbers() -> None:
    assert matrix_of(X > 0).tolist() == [[1, 0, 1], [1, 1, 1]]
    assert matrix_of(np.array([[200, 3]], np.uint8)).tolist() == [[200, 3]]
    assert matrix_of(np.array([[2**53, 1]])).tolist() == [[2**53, 1]], "float32 would have lost the last digit"


def test_bfloat16_of_numpy() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has bfloat16 through ml_dtypes alone")
    np.testing.assert_array_equal(rows_of(X.astype(ml_dtypes.bfloat16), "X"), X)


def test_a_frame_is_not_copied() -> None:
    frame = pd.DataFrame(X)
    assert np.shares_memory(rows_of(frame, "X"), frame.to_numpy())


def test_missing_values_of_a_frame_become_nan() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [1.0, 2.0]})
    np.testing.assert_array_equal(rows_of(frame, "X"), [[1, 1], [np.nan, 2]])


def test_paths_stay_paths(tmp_path: pathlib.Path, bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    assert rows_of(pathlib.Path("a/b.npy"), "X") == "a/b.npy"
    np.save(tmp_path / "x.npy", spaces["vit"])
    rr_map = bundle["vit"]
    np.testing.assert_array_equal(rr_map.transform(tmp_path / "x.npy"), rr_map.transform(spaces["vit"]))


REFUSED = {
    "one dimension": (X[0], ValueError, r"one dimension of 3 values.*X\[None, :\]"),
    "three dimensions": (X[None], ValueError, r"3 dimensions \[1 x 2 x 3\].*reshape"),
    "numbers in a list": ([1.0, 2.0], ValueError, r"X\[None, :\]"),
    "an empty list": ([], ValueError, "empty list"),
    "ragged lists": ([[1, 2, 3], [1, 2, 3], [1, 2]], ValueError, "row 2 has length 2, but row 0 has length 3"),
    "a row that is none": ([[1, 2], None], ValueError, "row 1 is not a vector"),
    "text": (np.array([["a", "b"]]), ValueError, "found text"),
    "text in lists": ([["a", "1"]], ValueError, "found text"),
    "complex": (X.astype(complex), ValueError, "complex numbers"),
    "dates": (np.array([["2020-01-01"]], "M8[D]"), ValueError, "dates"),
    "records": (np.zeros((2, 2), [("a", "f4"), ("b", "f4")]), ValueError, "records of several fields"),
    "vectors as objects": (np.array([X[0], X[1], None], object)[:2], ValueError, r"np\.stack\(X\)"),
    "objects": (np.array([["a", 1.0]], object), ValueError, "such as 'a'"),
    "masked": (np.ma.masked_array(X, X == 5), ValueError, r"row 1 holds masked values.*\.filled\(\)"),
    "sparse array": (scipy.sparse.csr_array(X), ValueError, r"\.toarray\(\)"),
    "sparse matrix": (scipy.sparse.coo_matrix(X), ValueError, r"\.toarray\(\)"),
    "columns of text": (pd.DataFrame({"a": [1.0], "name": ["x"], "when": pd.to_datetime(["2020-01-01"])}), ValueError,
                        r"'name', 'when'; choose the columns"),
    "series of numbers": (pd.Series([1.0, 2.0]), ValueError, "a column of float64"),
    "series of text": (pd.Series(["a", "b"]), ValueError, "text|str"),
    "ragged series": (pd.Series([[1, 2], [3]]), ValueError, "row 1 has length 1"),
    "nothing": (None, TypeError, "found NoneType"),
    "a number": (3.0, TypeError, "found float"),
    "bytes": (b"abc", TypeError, "found bytes"),
    "spaces": ({"vit": X}, TypeError, "found dict; choose one of its entries: 'vit'"),
    "a generator": ((row for row in X), TypeError, "make it a list first"),
}


@pytest.mark.parametrize("given, kind, sentence", REFUSED.values(), ids=REFUSED)
def test_is_refused_with_a_sentence(given: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=f"^space 'a': .*{sentence}"):
        rows_of(given, "space 'a'")


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "a generator"])  # spent by now
def test_is_refused_by_the_map_as_well(name: str, bundle: kedge.Bundle) -> None:
    given, kind, sentence = REFUSED[name]
    with pytest.raises(kind, match=sentence):
        bundle["vit"].transform(given)


def test_nothing_is_imported_that_is_not_needed() -> None:
    code = ("import sys, numpy, kedge; kedge.RelativeMap('a', 'inner', numpy.eye(2, dtype='f4'), numpy.zeros(2, 'f4'), "
            "numpy.zeros(2, 'f4')).transform([[1, 2]]); "
            "print([name for name in ('torch', 'pyarrow', 'pandas', 'matplotlib', 'sklearn') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("rows, meant", [
    (None, None), (slice(0, 5), (0, 5)), (slice(None), (0, END)), (slice(2, None), (2, END)), (range(3, 9), (3, 9)),
    ("1:20", (1, 20)), (" 1 : 20 ", (1, 20)), (":", (0, END)), ("5:", (5, END)), (":5", (0, 5)), ((0, 5), (0, 5)),
    ((4, None), (4, END)), ((np.int32(1), np.uint8(3)), (1, 3))])
def test_ranges(rows: Any, meant: Any) -> None:
    assert range_of(rows) == meant


@pytest.mark.parametrize("rows, sentence", [
    (slice(0, 9, 2), "expected rows as"), (range(9, 0, -1), "expected rows as"), ((1, 2, 3), "expected rows as"),
    ("5", "expected rows as"), (5, "expected rows as"),
    ("a:b", "expected row numbers, found 'a'"), ((0, 5.0), "expected row numbers, found 5.0"),
    (slice(-5, None), "start at 0 for the first row, found -5"), ("0:-1", "found -1"), ((0, 2**64), "start at 0")])
def test_ranges_that_are_none(rows: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^train: .*{sentence}"):
        range_of(rows, "train")


def test_an_open_range_reaches_the_last_row(spaces: dict[str, np.ndarray]) -> None:
    import kedge

    bundle = kedge.fit({"vit": spaces["vit"]}, rows="390:", method="random", anchors=10)
    assert bundle.support_ids.tolist() == list(range(390, 400))


@pytest.mark.parametrize("values", [
    [3, 1, 2], (3, 1, 2), [3.0, 1.0, 2.0], np.array([3, 1, 2], np.uint8), np.array([3, 1, 2], ">i4"),
    np.array([3, 1, 2], np.uint64), np.array([3, 1, 2], np.float32), np.array([3, 1, 2], object),
    np.array([3, 0, 1, 0, 2, 0])[::2], pd.Series([3, 1, 2], index=[5, 6, 7]), pd.Series([3, 1, 2], dtype="Int64"),
    pd.Series([3, 1, 2], dtype="category"), pd.Index([3, 1, 2])])
def test_integers(values: Any) -> None:
    integers = integers_of(values, "labels")
    assert integers.dtype == np.int64 and integers.flags.c_contiguous and integers.tolist() == [3, 1, 2]


def test_integers_of_other_kinds(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "y.npy", np.array([1, 2], np.int16))
    assert integers_of(tmp_path / "y.npy", "labels").tolist() == [1, 2]
    assert integers_of(str(tmp_path / "y.npy"), "labels").tolist() == [1, 2]
    assert integers_of([True, False], "labels").tolist() == [1, 0]
    assert integers_of([], "support_ids").shape == (0,)


@pytest.mark.parametrize("values, kind, sentence", [
    ([1, 1.5], ValueError, "found 1.5 in row 1"), ([1, np.nan], ValueError, "found nan in row 1"),
    (["cat", "dog"], ValueError, "found text; .*return_inverse.*LabelEncoder"),
    (pd.Series(["cat", "dog"]), ValueError, "LabelEncoder"),
    (pd.Series(["cat", "dog"], dtype="category"), ValueError, "LabelEncoder"),
    (pd.Series([1, None], dtype="Int64"), ValueError, "in row 1"), (np.array([1, None], object), ValueError, "row 1"),
    (np.ma.masked_array([1, 2], [False, True]), ValueError, "row 1 holds masked"),
    (np.array([1, 2**63], np.uint64), ValueError, "found 9223372036854775808 in row 1"),
    ([0, 2**70], ValueError, "in row 1"), (np.array([1e19]), ValueError, "in row 0"),
    (np.array([1 + 2j]), ValueError, "complex"), ([[1], [2]], ValueError, r"2 dimensions; use \.ravel\(\)"),
    (None, TypeError, "found NoneType"), (5, TypeError, "found int"),
    ("labels.csv", ValueError, r"a \.npy file, found 'labels\.csv'"), ("not/there.npy", OSError, "No such file")])
def test_integers_that_are_none(values: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=f"^labels: .*{sentence}"):
        integers_of(values, "labels")
