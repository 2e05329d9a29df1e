# SPDX-License-Identifier: Apache-2.0
"""kedge.Moments: a value that adds up, travels, and is all that a fit needs beside the support rows."""
import copy
import operator
import pathlib
import pickle
import threading
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import merged

CUTS = [0, 1, 400, 407, 900, 1100, 1101, 1200]


def views(dims: tuple[int, ...] = (9, 12, 7, 10), rows: int = 1200) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(rows, 6))
    return {name: (hidden @ random.normal(size=(6, dim)) + 0.3 * random.normal(size=(rows, dim)) + 2).astype(np.float32)
            for name, dim in zip("abcd", dims)}


ALL = views()
SOURCES = {name: ALL[name] for name in "abc"}
IDS = np.random.default_rng(1).permutation(1200)[:300]


def shards(spaces: dict[str, np.ndarray]) -> list[kedge.Moments]:
    parts = [kedge.Moments({name: x[first:end] for name, x in spaces.items()}) for first, end in zip(CUTS, CUTS[1:])]
    np.random.default_rng(2).shuffle(parts)
    return parts


def assert_near(found: np.ndarray, expected: np.ndarray, most: float = 1e-6) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= most * np.abs(expected).max()


@pytest.mark.parametrize("options", [{}, {"method": "random"}, {"shrinkage": "ledoit-wolf"}, {"similarity": "cosine"}])
def test_shards_make_the_bundle_that_all_rows_make(options: dict[str, Any]) -> None:
    whole = kedge.fit(SOURCES, support_ids=IDS, anchors=6, **options)
    parts = kedge.fit({name: x[IDS] for name, x in SOURCES.items()}, moments=merged(shards(SOURCES)),
                      support_rows=True, support_ids=IDS, anchors=6, **options)
    for name in SOURCES:
        assert_near(parts[name].weight, whole[name].weight)
    assert list(parts.support_ids) == list(whole.support_ids)


def test_attach_takes_moments() -> None:
    bundle = kedge.fit(SOURCES, support_ids=IDS)
    expected = bundle.attach("d", ALL["d"])
    found = bundle.attach("again", ALL["d"][IDS], support_rows=True, moments=sum(shards({"again": ALL["d"]})))
    assert_near(found.weight, expected.weight)


def test_they_add_up_in_any_order() -> None:
    whole = kedge.Moments(SOURCES)
    total = kedge.Moments()
    for part in shards(SOURCES):
        total.merge(part)
    total += kedge.Moments()
    assert total.rows == whole.rows == 1200
    assert total.spaces == {"a": 9, "b": 12, "c": 7}
    x = ALL["a"].astype(np.float64)
    assert_near(total.mean("a"), x.mean(0), 1e-12)
    assert_near(total.covariance("a"), np.cov(x.T, bias=True), 1e-12)
    y = ALL["b"].astype(np.float64)
    assert_near(total.covariance("b", "a"), (y - y.mean(0)).T @ (x - x.mean(0)) / 1200, 1e-12)
    assert_near(total.covariance("a", "b"), whole.covariance("a", "b"), 1e-12)


def test_a_sum_leaves_its_parts_as_they_were() -> None:
    a, b = shards(SOURCES)[:2]
    rows = a.rows, b.rows
    both = a + b
    assert (a.rows, b.rows) == rows and both.rows == sum(rows)
    duplicate = copy.deepcopy(a)
    duplicate.add(SOURCES)
    assert a.rows == rows[0]


def test_they_travel(tmp_path: pathlib.Path) -> None:
    moments = kedge.Moments(SOURCES, rows=(100, 500))
    moments.save(tmp_path / "part.moments")
    for other in (pickle.loads(pickle.dumps(moments)), kedge.Moments.load(tmp_path / "part.moments")):
        assert other.rows == 400 and other.spaces == moments.spaces
        assert np.array_equal(other.covariance("a"), moments.covariance("a"))
    assert pickle.loads(pickle.dumps(kedge.Moments())).rows == 0
    assert "400 rows of a (9), b (12), c (7)" in repr(moments)


NO_MOMENTS: dict[str, Any] = {"moments": "part.moments"}


@pytest.mark.parametrize("do, error, words", [
    (lambda: kedge.Moments(SOURCES) + kedge.Moments({"a": ALL["a"]}), ValueError, "cannot be merged"),
    (lambda: kedge.Moments({"a": ALL["a"][:, :5]}) + kedge.Moments({"a": ALL["a"]}), ValueError, "(5 values)"),
    (lambda: kedge.Moments({"a": ALL["a"], "b": ALL["b"][:9]}), ValueError, "'b' has 9"),
    (lambda: kedge.Moments({"a": ALL["a"] * np.nan}), ValueError, "NaN"),
    (lambda: kedge.fit({n: x[IDS] for n, x in SOURCES.items()}, support_rows=True, support_ids=IDS,
                       moments=merged([kedge.Moments({n: np.ones_like(x) for n, x in SOURCES.items()})] * 2)),
     ValueError, "all the same"),
    (lambda: operator.add(kedge.Moments(SOURCES), 1), TypeError, ""),
    (lambda: kedge.Moments(SOURCES).mean("x"), KeyError, "no space 'x'"),
    (lambda: kedge.Moments().covariance("a"), KeyError, "no space 'a'"),
    (lambda: kedge.fit(SOURCES, **NO_MOMENTS), TypeError, "must be kedge.Moments"),
    (lambda: kedge.fit(SOURCES, support_rows=True, support_ids=IDS), ValueError, "give moments="),
    (lambda: kedge.fit(SOURCES, support_rows=True, moments=kedge.Moments(SOURCES)), ValueError, "needs support_ids"),
    (lambda: kedge.fit({n: x[IDS] for n, x in SOURCES.items()}, support_rows=True, moments=kedge.Moments(SOURCES),
                       support_ids=IDS, method="param"), ValueError, "param learns from batches"),
    (lambda: kedge.fit({n: x[:7] for n, x in SOURCES.items()}, support_rows=True, moments=kedge.Moments(SOURCES),
                       support_ids=IDS), ValueError, "300 support ids"),
])
def test_what_does_not_fit_is_refused(do: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        do()
    assert words in str(refused.value)


def test_damaged_files_are_refused(tmp_path: pathlib.Path) -> None:
    kedge.fit(SOURCES).save(tmp_path / "bundle.kedge")
    with pytest.raises(OSError, match="not moments of kedge"):
        kedge.Moments.load(tmp_path / "bundle.kedge")
    kedge.Moments(SOURCES).save(tmp_path / "good.moments")
    (tmp_path / "short.moments").write_bytes((tmp_path / "good.moments").read_bytes()[:-9])
    with pytest.raises(OSError):
        kedge.Moments.load(tmp_path / "short.moments")


def test_threads_may_add_to_the_same_moments() -> None:
    total = kedge.Moments()
    threads = [threading.Thread(target=total.add, args=({n: x[i::4] for n, x in SOURCES.items()},)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.rows == 1200
    assert_near(total.covariance("a"), kedge.Moments(SOURCES).covariance("a"), 1e-12)


def test_one_map_can_be_loaded_alone(tmp_path: pathlib.Path) -> None:
    bundle = kedge.fit(SOURCES)
    bundle.save(tmp_path / "x.kedge")
    alone = kedge.load_map(tmp_path / "x.kedge", "b")
    assert np.array_equal(alone.transform(ALL["b"][:5]), bundle["b"].transform(ALL["b"][:5]))
    with pytest.raises(KeyError, match="no space 'x'"):
        kedge.load_map(tmp_path / "x.kedge", "x")
