# SPDX-License-Identifier: Apache-2.0
"""Three small encoders of the same inputs: linear views of what they have in common, with noise of their own."""
import signal
from typing import Any, Literal, get_args

import kedge
import matplotlib
import numpy as np
import pytest

try:
    import kedge
    import kedge._core
except ImportError as error:
    raise pytest.UsageError(f"the tests need the built package, as in PYTHONPATH=build/t/python: {error}") from error

matplotlib.use("Agg")
# What runs in the background of a shell ignores Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
ROWS, DIMS = 400, {"vit": 24, "rex": 16, "clip": 20}
Similarity = Literal["wip", "inner", "cosine", "euclidean", "angular", "manhattan"]
SIMILARITIES = get_args(Similarity)


def assert_near(found: Any, expected: Any, share: float = 1e-5, **words: Any) -> None:
    """To a share of the largest value: processors add float32 products up in different orders, and a sum that cancels
    out to next to nothing is as far off as the largest ones."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max(initial=0), **words)


def merged(moments: list[kedge.Moments]) -> kedge.Moments:
    """With sum(), as users do."""
    total = sum(moments)
    assert isinstance(total, kedge.Moments)
    return total


@pytest.fixture(scope="session")
def spaces() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    meaning = rng.normal(size=(ROWS, 10))
    views = {}
    for name, dim in DIMS.items():
        views[name] = meaning @ rng.normal(size=(10, dim)) + 0.2 * rng.normal(size=(ROWS, dim)) + rng.normal(size=dim)
    return {name: rows.astype(np.float32) for name, rows in views.items()}


@pytest.fixture(scope="session")
def labels(spaces: dict[str, np.ndarray]) -> np.ndarray:
    """Classes a head can learn from any of the spaces."""
    middle = np.median(spaces["vit"][:, :2], axis=0)
    classes: np.ndarray = (spaces["vit"][:, :2] > middle) @ np.array([2, 1])
    return classes


@pytest.fixture(scope="session")
def bundle(spaces: dict[str, np.ndarray]) -> kedge.Bundle:
    fitted = kedge.fit({name: spaces[name] for name in ("vit", "rex")}, method="consensus", anchors=10)
    fitted.attach("clip", spaces["clip"])
    return fitted


@pytest.fixture(scope="session")
def maps(spaces: dict[str, np.ndarray]) -> dict[str, kedge.RelativeMap]:
    """The map of one space with every similarity."""
    return {similarity: kedge.fit({"vit": spaces["vit"]}, method="random", similarity=similarity, anchors=12)["vit"]
            for similarity in SIMILARITIES}


@pytest.fixture(scope="session")
def bent() -> dict[str, np.ndarray]:
    """Three encoders of 300 directions in three dimensions, with noise; all but the first bend them."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(300, 3))
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    dims = {"a": 6, "b": 8, "c": 5}
    rows = {name: hidden @ rng.normal(size=(3, dim)) + 0.1 * rng.normal(size=(300, dim)) for name, dim in dims.items()}
    return {name: (3 + (x if name == "a" else np.tanh(2 * x))).astype(np.float32) for name, x in rows.items()}


@pytest.fixture(scope="session")
def pair(bent: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Two of them, without the rows that are to be new."""
    return {name: bent[name][:240] for name in "ab"}


@pytest.fixture(scope="session")
def shared(pair: dict[str, np.ndarray]) -> kedge.Bundle:
    """A consensus with maps by kernel."""
    return kedge.fit(pair, anchors=4, attach="kernel", kernel_whitening=0.5)


@pytest.fixture(scope="session")
def adapter(pair: dict[str, np.ndarray]) -> kedge.Bundle:
    return kedge.fit(pair, method="kernel")


@pytest.fixture(params=["map", "no whitener", "translator", "translator back"])
def function(request: pytest.FixtureRequest, pair: dict[str, np.ndarray], shared: kedge.Bundle, adapter: kedge.Bundle,
             bent: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    """What maps rows through a kernel, and rows for it."""
    if request.param == "map":
        return shared["b"], bent["b"]
    if request.param == "no whitener":
        return kedge.fit(pair, anchors=4, attach="kernel", kernel_whitening=0)["b"], bent["b"]
    source, target = "ba" if "back" in request.param else "ab"
    return adapter.translator(source, target), bent[source]
