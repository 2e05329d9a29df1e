# SPDX-License-Identifier: Apache-2.0
"""Embeddings that are hard on arithmetic: too alike, too large, too small, too few, too many."""
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Method = Literal["param", "consensus", "random", "kmeans", "fps"]
Similarity = Literal["wip", "cosine", "euclidean", "inner", "angular", "manhattan"]
Change = Callable[[np.ndarray], np.ndarray]
METHODS, SIMILARITIES = get_args(Method), get_args(Similarity)
ROWS, DIMS = 60, {"vit": 12, "rex": 9, "clip": 7}


@dataclasses.dataclass
class Hard:
    spaces: dict[str, np.ndarray]  # every one of the same inputs
    new: np.ndarray  # of an encoder to attach
    options: dict[str, Any] = dataclasses.field(default_factory=lambda: {"anchors": 8, "support": 40})


Maker = Callable[[], Hard]
MAKERS: dict[str, Maker] = {}


def kind(name: str) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        MAKERS[name] = make
        return make

    return add


def views(rows: int = ROWS, rank: int = 5, dims: dict[str, int] = DIMS, noise: float = 0.2, seed: int = 7) -> dict[str,
          np.ndarray]:
    """Encoders of the same inputs: linear views of what they have in common, with noise of their own."""
    rng = np.random.default_rng(seed)
    meaning = rng.normal(size=(rows, rank))
    return {name: meaning @ rng.normal(size=(rank, dim)) + noise * rng.normal(size=(rows, dim)) + rng.normal(size=dim)
            for name, dim in dims.items()}


def brief(method: str) -> dict[str, Any]:
    """Options that keep a fit short, of the one method that takes long."""
    return {"epochs": 3} if method == "param" else {}


def hard(given: dict[str, np.ndarray], new: str = "clip", dtype: npt.DTypeLike = np.float32, **options: Any) -> Hard:
    spaces = {name: rows.astype(dtype) for name, rows in given.items()}
    return Hard(spaces, spaces.pop(new), options or {"anchors": 8, "support": 40})


def each(change: Change, dtype: npt.DTypeLike = np.float32) -> Hard:
    """Ordinary spaces, every one of them changed."""
    return hard({name: change(rows) for name, rows in views().items()}, dtype=dtype)


def with_row(row: int, value: float) -> Change:
    def change(rows: np.ndarray) -> np.ndarray:
        rows[row] = value
        return rows

    return change


def with_column(value: float) -> Change:
    def change(rows: np.ndarray) -> np.ndarray:
        rows[:, 1] = value
        return rows

    return change


@kind("ordinary")
def ordinary() -> Hard:
    return hard(views())


@kind("the same space twice")
def twice() -> Hard:
    rows = views()["vit"]
    return hard({"vit": rows, "rex": rows, "clip": rows})


@kind("the same space three times")
def thrice() -> Hard:
    rows = views()["vit"]
    return hard({"vit": rows, "rex": rows, "again": rows, "clip": rows})


@kind("a space and its mirror image")
def mirrored() -> Hard:
    rows = views()["vit"]
    return hard({"vit": rows, "rex": -rows, "clip": rows[:, ::-1]})


@kind("independent spaces")
def independent() -> Hard:
    rng = np.random.default_rng(1)
    return hard({name: rng.normal(size=(ROWS, dim)) for name, dim in DIMS.items()})


@kind("rank 1")
def rank_one() -> Hard:
    return hard(views(rank=1, noise=0))


@kind("1 value per row")
def one_value() -> Hard:
    return hard(views(dims={"vit": 1, "rex": 1, "clip": 1}))


@kind("1 value per row beside 9")
def one_beside_nine() -> Hard:
    return hard(views(dims={"vit": 1, "rex": 9, "clip": 1}))


for scale, dtype in ((1e-6, "f4"), (1e-30, "f4"), (1e-40, "f4"), (1e30, "f4"), (1e37, "f4"), (1e-100, "f8"),
                     (1e-300, "f8"),
                     (1e100, "f8"), (1e300, "f8")):
    kind(f"values around {scale:g}, float{8 * np.dtype(dtype).itemsize}")(
        functools.partial(each, functools.partial(np.multiply, scale), dtype))


@kind("values around 6e4, float16")
def largest_halves() -> Hard:
    return each(lambda rows: rows * (65504 / np.abs(rows).max()), np.float16)


@kind("values around 1e-7, float16")
def subnormal_halves() -> Hard:
    return each(lambda rows: rows * 1e-7, np.float16)


@kind("float16 that overflowed to infinity")
def overflowed_halves() -> Hard:
    with np.errstate(over="ignore"):
        return each(lambda rows: rows * 3e4, np.float16)


@kind("1 row")
def one_row() -> Hard:
    return hard(views(rows=1), anchors=1, support=1)


@kind("2 rows")
def two_rows() -> Hard:
    return hard(views(rows=2), anchors=2, support=2)


@kind("3 rows, 1 support row")
def three_rows() -> Hard:
    return hard(views(rows=3), anchors=1, support=1)


@kind("fewer rows than values")
def few_rows() -> Hard:
    return hard(views(rows=8), anchors=4, support=6)


@kind("every row the same")
def constant() -> Hard:
    return each(lambda rows: np.tile(rows[:1], (ROWS, 1)))


@kind("every value zero")
def zero() -> Hard:
    return each(np.zeros_like)


@kind("one space of two with every row the same")
def one_constant() -> Hard:
    spaces = views()
    spaces["rex"][:] = spaces["rex"][0]
    return hard(spaces)


@kind("one column the same everywhere")
def constant_column() -> Hard:
    return each(with_column(3.0))


@kind("one column zero")
def zero_column() -> Hard:
    return each(with_column(0.0))


@kind("one row zero")
def zero_row() -> Hard:
    return each(with_row(5, 0.0))


@kind("near-identical rows, 1e-7 apart")
def near_identical() -> Hard:
    rng = np.random.default_rng(2)
    return each(lambda rows: rows[:1] + 1e-7 * rng.normal(size=rows.shape))


@kind("near-identical rows, 1e-7 apart, float64")
def near_identical_doubles() -> Hard:
    rng = np.random.default_rng(2)
    return each(lambda rows: rows[:1] + 1e-7 * rng.normal(size=rows.shape), np.float64)


@kind("far from zero: 1e6 and ordinary spread")
def far_from_zero() -> Hard:
    return each(lambda rows: rows + 1e6)


@kind("every row twice")
def duplicated_rows() -> Hard:
    return each(lambda rows: np.repeat(rows[: ROWS // 2], 2, axis=0))


@kind("two different rows, thirty times each")
def two_different_rows() -> Hard:
    return each(lambda rows: np.tile(rows[:2], (ROWS // 2, 1)))


for size in (1e6, 1e18, 1e30, 1e38):
    kind(f"one row of {size:g}")(functools.partial(each, with_row(5, size)))


@kind("1e-20 beside 1e20")
def tiny_beside_huge() -> Hard:
    spaces = views()
    return hard({"vit": spaces["vit"] * 1e-20, "rex": spaces["rex"] * 1e20, "clip": spaces["clip"]})


@kind("columns from 1e-20 to 1e20")
def many_scales() -> Hard:
    return each(lambda rows: rows * np.geomspace(1e-20, 1e20, rows.shape[1]))


@kind("1 anchor")
def one_anchor() -> Hard:
    return hard(views(), anchors=1, support=40)


@kind("as many anchors as support rows")
def all_support() -> Hard:
    return hard(views(), anchors=40, support=40)


@kind("more anchors than values")
def many_anchors() -> Hard:
    return hard(views(), anchors=30, support=40)


@kind("every row is support and anchor")
def all_rows() -> Hard:
    return hard(views(), anchors=ROWS, support=ROWS)


@kind("1 support row")
def one_support_row() -> Hard:
    return hard(views(), anchors=1, support=1)
