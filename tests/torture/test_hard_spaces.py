# SPDX-License-Identifier: Apache-2.0
"""Every hard space with every method and similarity, through every step; and as the one that is attached."""
import pickle

import kedge
import numpy as np
import pytest
import spaces as hard_spaces
from spaces import METHODS, SIMILARITIES, Hard, Method, Similarity
from steps import Steps, TakeSteps

pytestmark = pytest.mark.long

KINDS = list(hard_spaces.MAKERS)
Ordinary = tuple[Hard, dict[tuple[Method, Similarity], kedge.Bundle]]


def ways(similarity: str) -> list[str]:
    return ["mixture", "ridge"] if similarity == "wip" else ["mixture"]


def attach_every_way(steps: Steps, bundle: kedge.Bundle, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The rows by the name of each space that could be attached."""
    attached = {f"new-{by}": steps.attach(bundle, f"new-{by}", rows, by) for by in ways(bundle.similarity)}
    return {name: rows for name, found in attached.items() if found is not None}


def require_useful(rr: np.ndarray, rows: np.ndarray) -> None:
    """Rows that float32 tells apart must not all come out as zeros: that would be an answer that says nothing."""
    if np.ptp(rows.astype(np.float32), axis=0).max() > 0:
        assert np.abs(rr).max() > 0


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_fit_and_everything_after_it(kind: str, method: Method, similarity: Similarity, steps: TakeSteps) -> None:
    hard = hard_spaces.MAKERS[kind]()
    step = steps("Hard spaces: fit, attach, transform, translate, compare", kind)
    bundle = step.fit(hard.spaces, method=method, similarity=similarity, **hard_spaces.brief(method), **hard.options)
    if bundle is None:
        return
    rows = hard.spaces | attach_every_way(step, bundle, hard.new)
    for name, rr in step.use(bundle, rows).items():
        require_useful(rr, rows[name])
    again = pickle.loads(pickle.dumps(bundle))  # the bytes of its file
    for name in bundle.spaces:
        np.testing.assert_array_equal(again[name].weight, bundle[name].weight)


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("kind", KINDS)
def test_search(kind: str, similarity: str, steps: TakeSteps) -> None:
    with np.errstate(all="ignore"):
        rows = hard_spaces.MAKERS[kind]().new
    found = steps("Hard rows: retrieve", kind).retrieve(rows, similarity=similarity)
    if kind == "ordinary" and similarity == "cosine":
        assert found is not None and found["mrr@10"] == 1


@pytest.fixture(scope="module")
def ordinary() -> Ordinary:
    easy = hard_spaces.MAKERS["ordinary"]()
    fitted = {(method, similarity): kedge.fit(easy.spaces, method=method, similarity=similarity,
                                              **hard_spaces.brief(method), **easy.options)
              for method in METHODS for similarity in SIMILARITIES}
    return easy, fitted


@pytest.mark.parametrize("kind", [kind for kind in KINDS if len(hard_spaces.MAKERS[kind]().new) == hard_spaces.ROWS])
def test_a_hard_space_beside_ordinary_ones(kind: str, ordinary: Ordinary, steps: TakeSteps) -> None:
    easy, fitted = ordinary
    hard = hard_spaces.MAKERS[kind]()
    step = steps("A hard space attached to an ordinary bundle", kind)
    for bundle in fitted.values():
        bundle = pickle.loads(pickle.dumps(bundle))
        step.use(bundle, attach_every_way(step, bundle, hard.new) | {"vit": easy.spaces["vit"]})


@pytest.mark.parametrize("kind", [kind for kind in KINDS
                                  if hard_spaces.MAKERS[kind]().new.shape[1] == hard_spaces.DIMS["clip"]])
def test_hard_rows_through_an_ordinary_map(kind: str, ordinary: Ordinary, steps: TakeSteps) -> None:
    """As they come after the map was made, with whatever scale went wrong."""
    easy, fitted = ordinary
    step = steps("Hard rows through the map of an ordinary space", kind)
    with np.errstate(all="ignore"):
        rows = hard_spaces.MAKERS[kind]().new
    for bundle in fitted.values():
        bundle.attach("clip", easy.new, replace="clip" in bundle)
        rr = step.transform(bundle["clip"], rows)
        if rr is not None:
            step.compare(rr, rr)
        if bundle.similarity == "wip":
            step.translate(bundle, "clip", "vit", rows)
