# SPDX-License-Identifier: Apache-2.0
"""What engines share, without an engine: ids, partials and their sum, sizes, options."""
import copy
import pathlib
import pickle
from typing import Any

import kedge
import numpy as np
import pyarrow as pa
import pytest
from bad_rows import BAD, broken
from conftest import ROWS
from kedge import Bundle
from kedge.parts import columns, files, repeated, seen, sizes, solve
from kedge.parts.partial import Partial
from made_up import COLUMNS, DIMS, Spaces, difference, encoders, folder_of
from partials import SUPPORT, chosen, summed

NO_ROWS: Any = None  # the type of the column tells its width, so no row is needed


def test_partitions_and_order_do_not_matter(rows: pa.Table) -> None:
    whole = solve.fitted(summed([rows]), SUPPORT, 0, {})
    shuffled = rows.take(np.random.default_rng(0).permutation(ROWS))
    for sizes_of_parts in ([1, 999, 2000], [1100, 1100, 800], [50] * 60):
        edges = np.cumsum([0, *sizes_of_parts])
        parts = [shuffled.slice(first, end - first) for first, end in zip(edges, edges[1:])]
        assert difference(solve.fitted(summed(parts), SUPPORT, 0, {}), whole) < 1e-5


def test_another_seed_draws_other_rows(rows: pa.Table) -> None:
    ids = [set(summed([rows], seed=seed).moments.support_ids) for seed in (0, 1)]
    assert len(ids[0]) == SUPPORT and len(ids[0] & ids[1]) < SUPPORT / 2


def test_the_support_is_the_beginning_of_a_larger_sample(rows: pa.Table) -> None:
    few, many = summed([rows], 100).moments, summed([rows], 500).moments
    assert list(many.support_ids[:100]) == list(few.support_ids)
    assert (many.support("a")[:100] == few.support("a")).all()


def test_the_fit_of_all_rows_is_the_same(rows: pa.Table, spaces: Spaces) -> None:
    ours = solve.fitted(summed([rows]), SUPPORT, 0, {})
    whole = kedge.fit({name: spaces[name] for name in COLUMNS}, ids=np.arange(ROWS) * 7, support=SUPPORT)
    assert difference(ours, whole) < 1e-5


@pytest.mark.parametrize("ids", [
    pa.array([f"text {n}" for n in range(50)]),
    pa.array([f"text {n}" for n in range(50)]).dictionary_encode(),
    pa.array([f"text {n}" for n in range(50)], pa.large_string()),
    pa.array([f"text {n}".encode() for n in range(50)], pa.binary()),
    pa.chunked_array([[f"text {n}" for n in range(20)], [f"text {n}" for n in range(20, 50)]]),
    pa.array([None] + [f"text {n}" for n in range(50)])[1:],
])
def test_texts_of_every_type_are_the_same_ids(ids: pa.Array) -> None:
    expected = columns.id_numbers(pa.array([f"text {n}" for n in range(50)]), "id", "here")
    assert (columns.id_numbers(ids, "id", "here") == expected).all()
    assert len(set(expected)) == 50 and (expected >= 0).all()


def test_whole_numbers_are_themselves() -> None:
    numbers = [0, 7, 2**63 - 1]
    for ids in (pa.array(numbers), pa.array(numbers, pa.uint64()), pa.array([str(n) for n in numbers])):
        assert list(columns.id_numbers(ids, "id", "here")) == numbers
    assert list(columns.id_numbers(pa.array([3], pa.int8()), "id", "here")) == [3]
    beyond = columns.id_numbers(pa.array([2**63, 2**64 - 1], pa.uint64()), "id", "here")
    assert list(beyond) == list(columns.id_numbers(pa.array([str(2**63), str(2**64 - 1)]), "id", "here"))
    below = columns.id_numbers(pa.array([-1, 5]), "id", "here")
    assert list(below) == list(columns.id_numbers(pa.array(["-1", "5"]), "id", "here")) and below[0] >= 0


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_named(tmp_path: pathlib.Path, kind: str) -> None:
    source = folder_of(tmp_path / "rows", encoders(600), np.arange(600), parts=3)
    sentence = broken(source, kind)
    pieces = files.pieces(files.parquet_files(source))
    schema = files.opened(pieces[0].path).schema_arrow
    given = columns.chosen(COLUMNS, "id", schema, NO_ROWS)
    with pytest.raises(ValueError, match=sentence):
        total = Partial(given, 50, 0)
        for piece in pieces:
            part = Partial(given, 50, 0)
            for batch in piece.batches(given.names, 100):
                part.add(batch, str(piece), piece.first_row)
            total.merge(part)
        total.seen.require_unique()


@pytest.mark.parametrize("name, values, sentence", [
    ("id", pa.array(np.arange(10.)), "batch 1: the column 'id' cannot name rows: .* found double"),
    ("id", pa.array(np.arange(10)).cast(pa.timestamp("s")), "batch 1: the column 'id' cannot .* found timestamp"),
    ("emb_a", pa.array(np.arange(10.)), "batch 1, from row 0: a: expected a column of vectors, .* found one of double"),
    ("emb_a", pa.array([["x"] * 24] * 10), "batch 1, from row 0: a: expected a list of numbers .* found lists of"),
    ("emb_a", pa.array([[[1.] * 24]] * 10), "batch 1, from row 0: a: expected a list of numbers .* found lists of"),
])
def test_columns_that_are_something_else_in_another_file(rows: pa.Table, name: str, values: pa.Array,
                                                         sentence: str) -> None:
    spoilt = rows.slice(0, 10).set_column(rows.column_names.index(name), name, values)
    with pytest.raises(ValueError, match=f"^{sentence}"):
        Partial(chosen(rows), SUPPORT, 0).add(spoilt, "batch 1")


def test_files_with_numbers_of_other_types_and_lists_without_a_size(rows: pa.Table, spaces: Spaces) -> None:
    double = rows.column("emb_a").cast(pa.list_(pa.float64()))
    first, other = rows.slice(0, 1000), rows.set_column(1, "emb_a", double).slice(1000).select(rows.column_names[::-1])
    halved = spaces["b"][:1000].astype(np.float16)
    first = first.set_column(2, "emb_b", pa.FixedSizeListArray.from_arrays(pa.array(halved.ravel()), DIMS["b"]))
    whole = solve.fitted(summed([rows]), SUPPORT, 0, {})
    assert difference(solve.fitted(summed([first, other]), SUPPORT, 0, {}), whole) < 1e-2


def test_a_vector_without_values_is_not_taken_for_the_length_of_all(rows: pa.Table) -> None:
    values = rows.column("emb_a").to_pylist()
    values[0], values[1] = None, []
    spoilt = rows.set_column(1, "emb_a", pa.array(values, pa.list_(pa.float32())))
    assert chosen(spoilt).dims == {name: DIMS[name] for name in COLUMNS}
    with pytest.raises(ValueError, match="id 7 has a vector of 0 values where others have 24"):
        Partial(chosen(spoilt), SUPPORT, 0).add(spoilt.slice(1), "here")
    with pytest.raises(ValueError, match="no vectors in its first rows"):
        chosen(spoilt.slice(0, 2))
    with pytest.raises(ValueError, match="no rows to learn from"):
        chosen(spoilt.slice(0, 0))


def test_long_ids_are_cut_short(rows: pa.Table) -> None:
    renamed = rows.slice(0, 2).set_column(0, "id", pa.array(["x" * 10_000] * 2))
    with pytest.raises(seen.RepeatedId, match=r"the same id 'x+\.\.\.; give") as caught:
        summed([renamed]).seen.require_unique()
    assert len(str(caught.value)) < 300


def test_repeated_texts_are_shown_as_they_are(rows: pa.Table) -> None:
    renamed = rows.set_column(0, "id", pa.array([f"item {n}" for n in range(ROWS)]))
    other = renamed.slice(10, 1)
    with pytest.raises(seen.RepeatedId, match="a row of batch 0 and one of batch 1 have the same id 'item 10'"):
        summed([renamed, other]).seen.require_unique()


def test_with_many_ids_those_of_the_support_are_compared(rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "BYTES_KEPT", 1000)
    parts = [rows.slice(first, 100) for first in range(0, ROWS, 100)]
    total = summed(parts)
    assert not total.seen.whole
    assert sum(len(numbers) for _, numbers, _ in total.seen.parts) <= 2 * SUPPORT
    assert all(len(numbers) for _, numbers, _ in total.seen.parts)
    total.seen.require_unique()
    drawn = int(total.moments.support_ids[3]) // 7
    with pytest.raises(seen.RepeatedId, match=f"batch {drawn // 100} and one of batch {len(parts)} have the same id "
                                              f"{drawn * 7};"):
        summed([*parts, rows.slice(drawn, 1)])


def test_repeated_numbers_are_all_found_wherever_they_are() -> None:
    rng = np.random.default_rng(6)
    numbers = np.concatenate([np.arange(0, 400_000, 4), rng.integers(2**62, 2**63 - 1, 100_000)])
    again = rng.choice(numbers, 1000, replace=False)
    rows = rng.permutation(np.concatenate([numbers, again, again[:10]]))
    with repeated.collected() as found:
        for batch in np.array_split(rows, 7):
            found.add(batch)
        assert found.repeated() == (1000, sorted(again.tolist())[:repeated.SHOWN])
        largest = max(path.stat().st_size for path in found.paths)
    assert largest < 2 * 8 * len(rows) / repeated.FILES
    with repeated.collected() as found:
        found.add(numbers)
        assert found.repeated() == (0, [])


def test_a_repeated_id_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(seen.RepeatedId("x", "one", "other")))
    assert str(error).startswith("a row of one and one of other have the same id 'x';")


def test_sizes_are_worked_out(rows: pa.Table) -> None:
    wide = columns.Columns({"a": "a", "b": "b"}, "id", {"a": 8192, "b": 4096})
    assert sizes.partial_bytes(wide, 5000) == 8 * 12288**2 + 4 * 5000 * 12288 + seen.BYTES_KEPT
    with pytest.raises(ValueError, match=r"12288 values takes 1.5 GB \(sums of products 8 x 12288\^2 = 1.2 GB, 5000 "
                                         r"support rows 4 x 5000 x 12288 = 246 MB.*but a box holds 1.0 GB; buy "
                                         r"another"):
        sizes.require_room(wide, 5000, 10**9, "a box", "buy another")
    # what is said is what it takes
    narrow = summed([rows])
    assert len(pickle.dumps(narrow)) < sizes.partial_bytes(narrow.columns, SUPPORT)
    assert len(pickle.dumps(narrow)) > 8 * sum(DIMS[name] for name in COLUMNS)**2


def attached(rows: pa.Table, bundle: Bundle, columns_: dict[str, str], **options: Any) -> Bundle:
    part = Partial(columns.chosen(columns_, "id", rows.schema, NO_ROWS), bundle.support_ids, 0)
    part.add(rows, "here")
    return solve.attached(part, bundle, options)


def test_several_encoders_are_attached_at_once(rows: pa.Table, spaces: Spaces, bundle: Bundle) -> None:
    both = attached(rows, bundle, {"c": "emb_c", "d": "emb_b"})
    assert list(both.spaces) == ["a", "b", "c", "d"] and list(bundle.spaces) == ["a", "b"]
    expected = copy.copy(bundle)
    expected.attach("c", spaces["c"], ids=np.arange(ROWS) * 7)
    expected.attach("d", spaces["b"], ids=np.arange(ROWS) * 7)
    assert difference(both, expected) < 1e-5


def test_support_rows_that_are_missing_are_named(rows: pa.Table, bundle: Bundle) -> None:
    few = rows.slice(0, 1000)
    missing = np.setdiff1d(bundle.support_ids, few.column("id").to_numpy())
    with pytest.raises(ValueError, match=f"'c': {len(missing)} of {SUPPORT} support rows are missing, with the id "
                                         f"{missing[0]}, .*add the rows with these ids$"):
        attached(few, bundle, {"c": "emb_c"})
    with pytest.raises(ValueError, match="or are these the ids of other rows"):
        attached(rows.set_column(0, "id", pa.array(np.arange(ROWS) + 10**9)), bundle, {"c": "emb_c"})


def test_ids_do_not_find_row_numbers(spaces: Spaces) -> None:
    numbered = kedge.fit({"a": spaces["a"], "b": spaces["b"]}, support=SUPPORT)
    with pytest.raises(ValueError, match="by row number"):
        solve.require_attach(numbered, {"c": "emb_c"}, False, {})


def test_a_support_that_was_asked_for_must_be_there(rows: pa.Table) -> None:
    few = rows.slice(0, 100)
    assert len(solve.fitted(summed([few], 5000), None, 0, {}).support_ids) == 100
    with pytest.raises(ValueError, match="asked for a support of 5000 rows, but there are 100"):
        solve.fitted(summed([few], 5000), 5000, 0, {})
    assert solve.rows_to_draw(None, 10, {}) == 5000
    of_numpy: Any = np.int64(100)
    assert type(solve.rows_to_draw(of_numpy, 10, {})) is int
    wrong: Any
    for wrong in (0, -1, 2.0, True, "5"):
        with pytest.raises(ValueError, match="support must be a number of rows, 1 or more"):
            solve.rows_to_draw(wrong, 10, {})


def test_options_are_refused_before_rows_are_read(bundle: Bundle) -> None:
    solve.require_fit(0, {"method": "param", "epochs": 3, "device": "cuda"})
    solve.require_attach(bundle, {"a": "emb_a", "c": "emb_c"}, True, {"attach": "kernel", "device": "cuda"})
    solve.require_validate({"a": "x", "b": "y", "c": "z"}, 0, {"support": 100})
    for options, sentence in (({"method": "no"}, "unknown method 'no'"), ({"anchors": -1}, "anchors"),
                              ({"device": "gpu"}, "unknown device")):
        with pytest.raises(ValueError, match=sentence):
            solve.require_fit(0, options)
        with pytest.raises(ValueError, match=sentence):
            solve.require_validate({"a": "x", "b": "y", "c": "z"}, 0, options)
    with pytest.raises(ValueError, match="seed is -1"):
        solve.require_fit(-1, {})
    for space, options, sentence in (("a", {}, "already has a space 'a'"), ("c", {"attach": "no"}, "attach is 'no'")):
        with pytest.raises(ValueError, match=sentence):
            solve.require_attach(bundle, {space: "emb_a"}, False, options)
    with pytest.raises(ValueError, match="needs three columns or more, but there are 2"):
        solve.require_validate(COLUMNS, 0, {})
    wrong: Any
    for wrong in (None, {}, ["emb_a"], {"a": 3}, {3: "emb_a"}):
        with pytest.raises(TypeError, match="columns must map the names of spaces to those of columns"):
            solve.require_attach(bundle, wrong, False, {})


def test_no_rows() -> None:
    with pytest.raises(ValueError, match="no rows"):
        solve.fitted(None, 10, 0, {})


def test_which_methods_learn_from_rows() -> None:
    assert not solve.learns_from_rows({}) and not solve.learns_from_rows({"attach": "kernel"})
    assert not solve.learns_from_rows({"method": "kernel", "effort": "best"})
    for options in ({"method": "param"}, {"refine_epochs": 3}, {"effort": "best"}):
        assert solve.learns_from_rows(options)
    assert solve.rows_to_draw(100, 1000, {}) == 100
    assert solve.rows_to_draw(100, 1000, {"method": "param"}) == 1000
