# SPDX-License-Identifier: Apache-2.0
"""8192 values per row. What whitens them takes minutes, and is run only with --all: random anchors need no more than a
Cholesky factor of the covariance, consensus and PARAM need its eigenvectors."""
import numpy as np
import pytest
import spaces as hard_spaces
from steps import TakeSteps

pytestmark = pytest.mark.long

ROWS, ANCHORS = 24, 4
QUICK = [("random", "cosine"), ("random", "inner"), ("fps", "euclidean"), ("kmeans", "cosine")]
WHITENED = [("random", "wip"), ("consensus", "wip"), ("param", "cosine")]
DIM = 8192


def wide(method: str, similarity: str, steps: TakeSteps) -> None:
    spaces = hard_spaces.views(ROWS, dims={"vit": DIM, "rex": 5, "clip": 7})
    spaces = {name: rows.astype(np.float32) for name, rows in spaces.items()}
    step = steps("Many values per row", f"{DIM}, {method}, {similarity}")
    new = spaces.pop("clip")
    bundle = step.fit(spaces, method=method, similarity=similarity, anchors=ANCHORS, support=20,
                      **hard_spaces.brief(method))
    assert bundle is not None
    step.attach(bundle, "new", new)
    rr = step.use(bundle, spaces | {"new": new})
    assert rr["vit"].shape == (ROWS, ANCHORS) and np.ptp(rr["vit"], axis=0).min() > 0


@pytest.mark.parametrize("method, similarity", QUICK)
def test_without_whitening(method: str, similarity: str, steps: TakeSteps) -> None:
    wide(method, similarity, steps)


@pytest.mark.parametrize("method, similarity", WHITENED)
def test_whitened(method: str, similarity: str, steps: TakeSteps, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all"):
        pytest.skip("minutes; --all runs it")
    wide(method, similarity, steps)
