# SPDX-License-Identifier: Apache-2.0
"""The support is drawn by the ids of the rows: whatever their order, their parts, and who draws it."""
import pathlib
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import merged
from kedge import _core

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "parts.md"
ROWS, SUPPORT = 1500, 200
MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15
TEXTS = ["7", "07", "+7", "0", "", "-5", "é", "doc-1", "doc-2", " 7", "7\n", str(2**63 - 1), str(2**63), "9" * 40]


def mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def number_of(text: str) -> int:
    """The number of an id as docs/format.md has it, in plain Python."""
    if re.fullmatch("0|[1-9][0-9]*", text) and int(text) < 2**63:
        return int(text)
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return mix(value) >> 1


def key_of(number: int, seed: int) -> int:
    return mix(mix(number + GOLDEN & MASK) ^ mix(seed + 2 * GOLDEN & MASK))


def numbers_of(texts: list[str], kind: type[np.integer] = np.int64) -> np.ndarray:
    coded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, coded)]).astype(kind)
    return _core.id_numbers(offsets, np.frombuffer(b"".join(coded), np.uint8))


def views() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(ROWS, 6))
    return {name: (hidden @ random.normal(size=(6, dim)) + 0.3 * random.normal(size=(ROWS, dim)) + 1).astype(np.float32)
            for name, dim in (("a", 9), ("b", 12), ("c", 7))}


ALL = views()
SOURCES = {name: ALL[name] for name in "ab"}
IDS = np.random.default_rng(1).choice(10**9, ROWS, replace=False)
DRAWN = sorted(range(ROWS), key=lambda row: key_of(int(IDS[row]), 3))[:SUPPORT]


def part(rows: Any, spaces: dict[str, np.ndarray] = SOURCES, support: Any = SUPPORT,
         seed: int = 3) -> kedge.Moments:
    return kedge.Moments({name: x[rows] for name, x in spaces.items()}, ids=IDS[rows], support=support, seed=seed)


def parts(shares: int = 7, spaces: dict[str, np.ndarray] = SOURCES, **how: Any) -> list[kedge.Moments]:
    order = np.random.default_rng(shares).permutation(ROWS)
    cuts = np.sort(np.random.default_rng(2).choice(np.arange(1, ROWS), shares - 1, replace=False))
    return [part(rows, spaces, **how) for rows in np.split(order, cuts)]


def assert_same(found: kedge.Bundle, expected: kedge.Bundle, names: str = "ab", most: float = 1e-6) -> None:
    assert found.support_ids.tolist() == expected.support_ids.tolist()
    for name in names:
        a, b = found[name].weight, expected[name].weight
        assert np.abs(a - b).max() <= most * np.abs(b).max()


def in_pairs(moments: list[kedge.Moments]) -> kedge.Moments:
    while len(moments) > 1:
        moments = [merged(moments[i:i + 2]) for i in range(0, len(moments), 2)]
    return moments[0]


def from_the_right(moments: list[kedge.Moments]) -> kedge.Moments:
    total = kedge.Moments(support=SUPPORT, seed=3)
    for one in reversed(moments):
        total.merge(pickle.loads(pickle.dumps(one)))
    return total


def test_numbers_and_keys_are_those_of_the_documents() -> None:
    expected = [number_of(text) for text in TEXTS]
    assert numbers_of(TEXTS).tolist() == expected
    assert numbers_of(TEXTS, np.int32).tolist() == expected
    assert numbers_of([]).tolist() == [] and _core.id_numbers(np.zeros(0, np.int64), np.zeros(0, np.uint8)).size == 0
    numbers = [0, 1, 2, 12345678901234567, 2**63 - 1]
    for seed in (0, 1, 2**64 - 1):
        assert _core.draw_keys(np.array(numbers), seed).tolist() == [key_of(number, seed) for number in numbers]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [-1, 2], [0, 9]])
def test_texts_that_lie_outside_their_bytes_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="lies at bytes"):
        _core.id_numbers(np.array(offsets), np.frombuffer(b"abcd", np.uint8))


@pytest.mark.parametrize("ids", [np.arange(100_000), 7 * np.arange(100_000) + 3,
                                 numbers_of([f"doc-{i}" for i in range(100_000)])])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_row_is_drawn_as_likely_as_any_other(ids: np.ndarray, seed: int) -> None:
    """Chi-square over 100 groups of neighbouring rows: 99 on average, and beyond 180 once in a million times."""
    drawn = np.argsort(_core.draw_keys(ids, seed))[:20_000]
    for groups in (drawn // 1000, drawn % 100):
        counts = np.bincount(groups, minlength=100)
        expected = 200 * (1 - 20_000 / 100_000)  # the variance of drawing without putting back
        assert ((counts - 200) ** 2 / expected).sum() < 180


def test_seeds_draw_rows_independently() -> None:
    first, second = (set(np.argsort(_core.draw_keys(np.arange(100_000), seed))[:10_000]) for seed in (0, 1))
    assert abs(len(first & second) - 1000) < 150  # 5 deviations of 28.5


@pytest.mark.parametrize("shares", [1, 2, 7, 40])
def test_order_and_parts_do_not_matter(shares: int) -> None:
    total = merged(parts(shares))
    assert total.support_ids.tolist() == IDS[DRAWN].tolist()
    for name in "ab":
        assert np.array_equal(total.support(name), ALL[name][DRAWN])
    assert total.rows == ROWS


def test_small_batches_add_up() -> None:
    total = kedge.Moments(support=SUPPORT, seed=3)
    for first in range(0, ROWS, 37):
        rows = slice(first, first + 37)
        total.add({name: x[rows].astype(np.float64) for name, x in SOURCES.items()}, ids=IDS[rows])
        assert len(total.support_ids) == min(SUPPORT, total.rows)
    assert total.support_ids.tolist() == IDS[DRAWN].tolist()
    assert np.array_equal(total.support("b"), ALL["b"][DRAWN])


def test_threads_may_add_to_the_same_moments() -> None:
    total = kedge.Moments(support=SUPPORT, seed=3)
    adds = [threading.Thread(target=total.add, args=({n: x[i::4] for n, x in SOURCES.items()},),
                             kwargs={"ids": IDS[i::4]}) for i in range(4)]
    for thread in adds:
        thread.start()
    for thread in adds:
        thread.join()
    assert total.support_ids.tolist() == IDS[DRAWN].tolist() and total.rows == ROWS


def test_rows_choose_their_ids_too() -> None:
    chosen = np.random.default_rng(5).permutation(ROWS)[:700]
    total = kedge.Moments(SOURCES, rows=chosen[:400], ids=IDS, support=SUPPORT, seed=3)
    total.add(SOURCES, rows=chosen[400:], ids=IDS)
    drawn = sorted(IDS[chosen].tolist(), key=lambda number: key_of(number, 3))[:SUPPORT]
    assert total.support_ids.tolist() == drawn
    slices = kedge.Moments(SOURCES, rows=(100, 900), ids=IDS, support=50)
    assert set(slices.support_ids) <= set(IDS[100:900])


@pytest.mark.parametrize("tree", [merged, in_pairs, from_the_right])
@pytest.mark.parametrize("options", [{}, {"method": "random", "anchors": 20}, {"attach": "kernel"}])
def test_trees_of_any_shape_make_the_bundle_of_one_fit(tree: Callable[[list[kedge.Moments]], kedge.Moments],
                                                       options: dict[str, Any]) -> None:
    whole = kedge.fit(SOURCES, ids=IDS, support=SUPPORT, seed=3, **options)
    assert_same(kedge.fit(moments=tree(parts()), seed=3, **options), whole)


def test_the_bundle_is_that_of_the_same_rows_by_number() -> None:
    by_number = kedge.fit(SOURCES, support_ids=DRAWN)
    by_id = kedge.fit(SOURCES, ids=IDS, support=SUPPORT, seed=3)
    assert by_id.support_ids.tolist() == IDS[by_number.support_ids].tolist()
    assert np.array_equal(by_id["a"].weight, by_number["a"].weight)
    by_given_ids = kedge.fit(SOURCES, ids=IDS, support_ids=IDS[DRAWN])
    assert np.array_equal(by_given_ids["a"].weight, by_number["a"].weight)


def test_fewer_rows_than_were_drawn_are_the_first() -> None:
    total = merged(parts())
    assert kedge.fit(moments=total, support=50).support_ids.tolist() == IDS[DRAWN[:50]].tolist()


def test_a_sample_to_learn_from_is_drawn_by_id_too() -> None:
    sample = np.sort(DRAWN)
    bundle = kedge.fit({n: x[sample] for n, x in SOURCES.items()}, ids=IDS[sample], moments=kedge.Moments(SOURCES),
                       method="param", epochs=2, batch=50, anchors=5, support=100, seed=3)
    assert bundle.support_ids.tolist() == IDS[DRAWN[:100]].tolist()


def test_attach_finds_the_support_by_id(tmp_path: pathlib.Path) -> None:
    bundle = kedge.fit(SOURCES, ids=IDS, support=SUPPORT, seed=3)
    expected = kedge.fit(SOURCES, support_ids=DRAWN).attach("c", ALL["c"])
    found = bundle.attach("c", moments=sum(parts(5, {"c": ALL["c"]}, support=bundle.support_ids)))
    assert np.abs(found.weight - expected.weight).max() <= 1e-6 * np.abs(expected.weight).max()
    drawn_again = bundle.attach("again", moments=sum(parts(5, {"again": ALL["c"]})))
    assert np.abs(drawn_again.weight - expected.weight).max() <= 1e-6 * np.abs(expected.weight).max()
    shuffled = np.random.default_rng(8).permutation(ROWS)
    by_id = bundle.attach("by id", ALL["c"][shuffled], ids=IDS[shuffled])
    assert np.abs(by_id.weight - expected.weight).max() <= 1e-6 * np.abs(expected.weight).max()
    bundle.save(tmp_path / "x.kedge")
    assert kedge.load(tmp_path / "x.kedge").support_ids.tolist() == IDS[DRAWN].tolist()


def test_texts_are_ids(tmp_path: pathlib.Path) -> None:
    texts = [f"doc-{i}" for i in range(ROWS)]
    numbers = np.array([number_of(text) for text in texts])
    expected = sorted(numbers.tolist(), key=lambda number: key_of(number, 0))[:60]
    for ids in (texts, np.array(texts), numbers):
        assert kedge.fit(SOURCES, ids=ids, support=60).support_ids.tolist() == expected
        moments = kedge.Moments(SOURCES, ids=ids, support=60)
        assert moments.support_ids.tolist() == expected
    mixed = kedge.Moments({"a": ALL["a"][:3]}, ids=[5, "6", "x"], support=np.array([6, number_of("x"), 5]))
    assert mixed.support_ids.tolist() == [6, number_of("x"), 5]
    negative = kedge.Moments({"a": ALL["a"][:2]}, ids=np.array([-5, 2]), support=2)
    assert set(negative.support_ids) == {number_of("-5"), 2}
    large = kedge.Moments({"a": ALL["a"][:2]}, ids=np.array([2**63, 2], np.uint64), support=2)
    assert set(large.support_ids) == {number_of(str(2**63)), 2}


def test_the_support_travels(tmp_path: pathlib.Path) -> None:
    total = merged(parts())
    total.save(tmp_path / "all.moments")
    some = part(slice(0, 100), {"c": ALL["c"]}, support=IDS[50:150])
    for moments, names in ((total, "ab"), (some, "c")):
        moments.save(tmp_path / "x.moments")
        for other in (pickle.loads(pickle.dumps(moments)), kedge.Moments.load(tmp_path / "x.moments")):
            assert np.array_equal(other.support_ids, moments.support_ids) and len(other.support_ids) > 0
            for name in names:
                assert np.array_equal(other.support(name), moments.support(name))
    some = pickle.loads(pickle.dumps(some)) + part(slice(100, 200), {"c": ALL["c"]}, support=IDS[50:150])
    assert np.array_equal(some.support_ids, IDS[50:150]) and np.array_equal(some.support("c"), ALL["c"][50:150])
    empty = pickle.loads(pickle.dumps(kedge.Moments(support=SUPPORT, seed=3)))
    assert (empty + total).support_ids.tolist() == total.support_ids.tolist()
    assert "200 support rows" in repr(total)


def test_what_is_refused_leaves_the_moments_as_they_were() -> None:
    moments = part(slice(0, 300))
    before = pickle.dumps(moments)
    with pytest.raises(ValueError, match=f"id {moments.support_ids[0]} "):
        moments.add({n: x[300:600] for n, x in SOURCES.items()}, ids=np.r_[moments.support_ids[0], IDS[301:600]])
    broken = {n: x[300:600].copy() for n, x in SOURCES.items()}
    broken["b"][7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7 of"):
        moments.add(broken, ids=IDS[300:600])
    with pytest.raises(ValueError, match=f"id {moments.support_ids[0]} "):
        moments.merge(part(slice(0, 10)) + part(slice(10, 300)))
    assert pickle.dumps(moments) == before


@pytest.mark.parametrize("do, error, words", [
    (lambda: part(slice(0, 9)) + part(slice(0, 9)), ValueError, "belongs to more than one row"),
    (lambda: kedge.Moments(SOURCES, ids=np.r_[IDS[1], IDS[1:]], support=ROWS), ValueError, f"id {IDS[1]} "),
    (lambda: kedge.fit(SOURCES, ids=np.r_[IDS[1], IDS[1:]], support=ROWS), ValueError, f"id {IDS[1]} "),
    (lambda: kedge.Moments(SOURCES, ids=[1] * ROWS, support=1), ValueError, "id 1 belongs"),
    (lambda: kedge.Moments(SOURCES, ids=IDS), ValueError, "no support was asked for"),
    (lambda: kedge.Moments(SOURCES, support=5), ValueError, "give ids"),
    (lambda: kedge.Moments(SOURCES, support=5, ids=IDS[:9]), ValueError, f"9 ids, but {ROWS} rows"),
    (lambda: kedge.fit(SOURCES, ids=IDS[:9]), ValueError, f"9 ids, but {ROWS} rows"),
    (lambda: kedge.Moments(support=0), ValueError, "1 row or more"),
    (lambda: kedge.Moments(support=True), TypeError, "how many rows"),
    (lambda: kedge.Moments(support=[1, 1]), ValueError, "support id 1 is given more than once"),
    (lambda: kedge.Moments(support=[-1]), ValueError, "negative"),
    (lambda: kedge.Moments(support=[]), ValueError, "no ids"),
    (lambda: kedge.Moments(SOURCES, support=5, ids=[None] * ROWS), ValueError, "in row 0"),
    (lambda: part(slice(0, 9)) + part(slice(9, 20), seed=4), ValueError,
     "seed 3, another 200 support rows drawn with the seed 4"),
    (lambda: part(slice(0, 9)) + part(slice(9, 20), support=5), ValueError, "same support and seed"),
    (lambda: part(slice(0, 9)) + kedge.Moments(SOURCES), ValueError, "no support rows"),
    (lambda: kedge.Moments(SOURCES) + kedge.Moments(support=4), ValueError, "no support rows"),
    (lambda: part(slice(0, 9), support=IDS[:3]) + part(slice(9, 12), support=IDS[:4]), ValueError, "same bundle"),
    (lambda: kedge.fit(), ValueError, "nothing to fit"),
    (lambda: kedge.fit(moments=kedge.Moments(SOURCES)), ValueError, "carry no support rows"),
    (lambda: kedge.fit(moments=kedge.Moments(support=3)), ValueError, "of no space"),
    (lambda: kedge.fit(moments=part(slice(0, 90))), ValueError, "200 rows, but there are 90"),
    (lambda: kedge.fit(moments=part(slice(0, 900)), support=300), ValueError, "carry only 200"),
    (lambda: kedge.fit(moments=part(slice(0, 900)), method="param"), ValueError, "param learns from batches"),
    (lambda: kedge.fit(moments=part(slice(0, 900)), refine_epochs=2), ValueError, "refinement learns from batches"),
    (lambda: kedge.fit(moments=part(slice(0, 900)), ids=IDS), ValueError, "ids says something about the rows"),
    (lambda: kedge.fit(moments=part(slice(0, 900), support=IDS[899:901])), ValueError,
     f"1 of 2 support rows are missing, that with the id {IDS[900]}"),
    (lambda: kedge.fit(SOURCES, ids=IDS, support_select="fps"), ValueError, "fps"),
    (lambda: kedge.fit(SOURCES, ids=IDS, support_ids=[10**10]), ValueError, "are these the ids of other rows"),
    (lambda: kedge.fit(SOURCES, ids=IDS, support=ROWS + 1), ValueError, str(ROWS + 1)),
])
def test_what_does_not_fit_is_refused(do: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        do()
    assert words in str(refused.value)


def test_attach_names_what_is_missing() -> None:
    bundle = kedge.fit(SOURCES, ids=IDS, support=SUPPORT, seed=3)
    missing = IDS[DRAWN[4]]
    others = np.flatnonzero(missing != IDS)
    with pytest.raises(ValueError, match=f"space 'c': 1 of 200 support rows are missing, that with the id {missing};"):
        bundle.attach("c", moments=part(others, {"c": ALL["c"]}, support=bundle.support_ids))
    with pytest.raises(ValueError, match="support=bundle.support_ids"):
        bundle.attach("c", moments=kedge.Moments({"c": ALL["c"]}))
    with pytest.raises(ValueError, match="give X, or moments"):
        bundle.attach("c")
    with pytest.raises(ValueError, match="leave them out"):
        bundle.attach("c", moments=part(slice(0, ROWS), {"c": ALL["c"]}, support=bundle.support_ids), support_rows=True)
    with pytest.raises(ValueError, match="without moments and support_rows"):
        bundle.attach("c", ALL["c"], ids=IDS, support_rows=True)
    with pytest.raises(ValueError, match="9 ids"):
        bundle.attach("c", ALL["c"], ids=IDS[:9])
    with pytest.raises(ValueError, match="one space is attached at a time"):
        bundle.attach("c", moments=part(slice(0, ROWS), ALL, support=bundle.support_ids))
    with pytest.raises(KeyError, match="no space 'd'"):
        bundle.attach("d", moments=part(slice(0, ROWS), {"c": ALL["c"]}, support=bundle.support_ids))
    assert "c" not in bundle


def test_ids_do_not_find_row_numbers() -> None:
    bundle = kedge.fit(SOURCES, support=SUPPORT)
    numbers = np.random.default_rng(4).permutation(ROWS)  # ids that any row number is one of
    with pytest.raises(ValueError, match="by row number"):
        bundle.attach("c", ALL["c"], ids=numbers)
    with pytest.raises(ValueError, match="by row number"):
        bundle.attach("c", moments=kedge.Moments({"c": ALL["c"]}, ids=numbers, support=bundle.support_ids))
    assert "c" not in bundle


def test_a_report_of_progress_cannot_look_at_what_is_being_added() -> None:
    moments = kedge.Moments()
    reported: list[object] = []

    def look(*_: object) -> None:
        try:
            reported.append(moments.rows)
        except ValueError as error:
            reported.append(str(error))

    moments.add(SOURCES, progress=look)
    assert reported and all("being added to" in str(one) for one in reported) and moments.rows == ROWS


def test_the_page_on_parts_does_what_it_shows() -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    cuts = [slice(0, 500), slice(500, 1400), slice(1400, ROWS)]
    given: dict[str, Any] = {"kedge": kedge, "shards": [(ALL["a"][rows], ALL["b"][rows], IDS[rows]) for rows in cuts],
             "c_shards": [(ALL["c"][rows], IDS[rows]) for rows in cuts]}
    exec(code.replace("support=5000", f"support={SUPPORT}, seed=3"), given)
    assert_same(given["bundle"], kedge.fit(SOURCES, ids=IDS, support=SUPPORT, seed=3))
    assert "c" in given["bundle"]
