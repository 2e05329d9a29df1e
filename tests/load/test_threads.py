# SPDX-License-Identifier: Apache-2.0
"""8 threads of Python that share one map and one bundle get the bits that one thread gets."""
import concurrent.futures
import pathlib
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

import kedge
import numpy as np
import pytest
from conftest import DIM
from tally import Tally

pytestmark = pytest.mark.long

THREADS, TIMES = 8, 5
T = TypeVar("T")
Similarity = Literal["wip", "cosine", "euclidean", "inner", "angular", "manhattan"]
SECTION = "Processes and threads at the same time"


def at_once(work: Callable[[int], T]) -> list[T]:
    """work(i) on every thread, none before all are there; raises what any of them raised."""
    ready = threading.Barrier(THREADS)

    def one(i: int) -> T:
        ready.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(3000, DIM)).astype(np.float32)


@pytest.mark.parametrize("similarity", get_args(Similarity))
def test_one_map(similarity: Similarity, rows: np.ndarray, tally: Tally) -> None:
    rr_map = kedge.fit({"a": rows}, method="random", similarity=similarity, anchors=20)["a"]
    expected = rr_map.transform(rows)
    for found in at_once(lambda i: [rr_map.transform(rows) for _ in range(TIMES)]):
        for rr in found:
            np.testing.assert_array_equal(rr, expected)
            tally(SECTION, f"{THREADS} Python threads transform with one map", "the bits of one thread")


def test_one_bundle(bundle: pathlib.Path, rows: np.ndarray, folder: pathlib.Path, tally: Tally) -> None:
    """Attach, save, transform, translate and compare, all on the same bundle."""
    shared, alone = kedge.load(bundle), kedge.load(bundle)
    spaces = [rows + i for i in range(THREADS)]
    expected = [alone.attach(f"new{i}", own).transform(own) for i, own in enumerate(spaces)]
    translated = alone.translator("a", "b").transform(rows)
    scores = kedge.compare(expected[0], expected[1])

    def work(i: int) -> tuple[Any, ...]:
        attached = shared.attach(f"new{i}", spaces[i])
        shared.save(folder / f"saved{i}.kedge")
        return (attached.transform(spaces[i]), shared.translator("a", "b").transform(rows),
                kedge.compare(expected[0], expected[1]), shared["a"].transform(rows))

    direct = alone["a"].transform(rows)
    for i, (rr, there, compared, own) in enumerate(at_once(work)):
        np.testing.assert_array_equal(there, translated)
        np.testing.assert_array_equal(own, direct)
        saved = kedge.load(folder / f"saved{i}.kedge")
        np.testing.assert_array_equal(saved[f"new{i}"].weight, shared[f"new{i}"].weight)
        np.testing.assert_array_equal(rr, expected[i])
        assert compared == scores
        tally(SECTION, f"{THREADS} Python threads transform and translate on one bundle", "the bits of one thread", 2)
        tally(SECTION, f"{THREADS} Python threads attach, save and compare on one bundle",
              "the bits of one thread", 3)
    assert set(shared.spaces) == set(alone.spaces)
