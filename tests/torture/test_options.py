# SPDX-License-Identifier: Apache-2.0
"""Every hard space with the options that change the arithmetic, in stitch with every head, and in validate."""
from collections.abc import Callable
from typing import Any, Literal

import kedge
import numpy as np
import pandas as pd
import pytest
import spaces as hard_spaces
from steps import TakeSteps

pytestmark = pytest.mark.long

ADAPTERS = ("procrustes", "ridge", "cca")
OPTIONS: dict[str, dict[str, Any]] = {
    **{f"{method}, wip": {"method": method} for method in ADAPTERS},
    **{f"{method}, inner": {"method": method, "similarity": "inner"} for method in ADAPTERS[:2]},
    **{f"support by {select}, {similarity}": {"method": "random", "support_select": select, "similarity": similarity}
       for select in ("fps", "kmeans", "leverage")
       for similarity in ("wip", "cosine", "euclidean", "inner", "angular", "manhattan")},
    "no shrinkage": {"method": "random", "shrinkage": 0.0},
    "no shrinkage, no epsilon": {"method": "random", "shrinkage": 0.0, "epsilon": 0.0},
    "consensus, no shrinkage, no epsilon": {"method": "consensus", "shrinkage": 0.0, "epsilon": 0.0},
    "consensus, no epsilon": {"method": "consensus", "epsilon": 0.0},
    "all shrinkage": {"method": "consensus", "shrinkage": 1.0},
    "shrinkage auto": {"method": "consensus", "shrinkage": "auto"},
    "shrinkage oas": {"method": "random", "shrinkage": "oas"},
    "shrinkage ledoit-wolf": {"method": "param", "shrinkage": "ledoit-wolf", "epochs": 2},
    "keep 1": {"method": "param", "epochs": 2, "keep": 1},
    "refined": {"method": "consensus", "refine_epochs": 2},
    "coverage of all rows": {"method": "param", "epochs": 2, "coverage_rows": "all"},
    "power 0": {"method": "consensus", "power": 0.0},
    "power 9": {"method": "consensus", "power": 9.0},
    "PARAM by ridge": {"method": "param", "epochs": 2, "attach": "ridge"},
    "ridge 0": {"method": "consensus", "ridge": 0.0},
}
METHODS = ["absolute", "random-cosine", "random-wip", "kmeans-euclidean", "param-single", "param-multi", "consensus"]


@pytest.mark.parametrize("kind", hard_spaces.MAKERS)
def test_options(kind: str, steps: TakeSteps) -> None:
    step = steps("Hard spaces: adapters, choices of support, shrinkage, ridge", kind)
    for options in OPTIONS.values():
        hard = hard_spaces.MAKERS[kind]()
        spaces = dict(list(hard.spaces.items())[:2]) if options["method"] in ADAPTERS else hard.spaces
        bundle = step.fit(spaces, **hard.options, **options)
        if bundle is None:
            continue
        attached = step.attach(bundle, "new", hard.new)
        step.use(bundle, spaces | ({} if attached is None else {"new": hard.new}))


def scores_of(head: str) -> Callable[[pd.DataFrame], list[pd.DataFrame]]:
    """Those of every head; and those of retrieval wherever one encoder was put in place of another."""
    heads = ["mse", "psnr"] if head == "ridge" else ["accuracy", "weighted_f1", "macro_f1"]
    retrieval = ["mrr", "recall@1", "nmse", "rr_std", "paired_cosine", "linear_cka"]
    return lambda table: [table[heads], table.loc[table.zero_shot, retrieval]]


@pytest.mark.parametrize("head", ["mlp", "linear", "ridge"])
@pytest.mark.parametrize("kind", hard_spaces.MAKERS)
def test_stitch(kind: str, head: Literal["mlp", "linear", "ridge"], steps: TakeSteps) -> None:
    hard = hard_spaces.MAKERS[kind]()
    rows = len(hard.new)
    spaces = hard.spaces | {"clip": hard.new}
    train = max(1, rows * 2 // 3)
    goal = {"targets": hard_spaces.views(rows)["vit"]} if head == "ridge" else {"labels": np.arange(rows) % 3}
    steps("Hard spaces: stitch with the heads mlp, linear and ridge", kind).take(
        lambda: kedge.stitch(spaces, train=slice(0, train), test=slice(train, rows), methods=METHODS, head=head,
                             head_epochs=3, epochs=2, anchors=min(4, train), support=train, **goal),
        scores_of(head), failures=(ValueError, OSError))


@pytest.mark.parametrize("kind", hard_spaces.MAKERS)
def test_validate(kind: str, steps: TakeSteps) -> None:
    hard = hard_spaces.MAKERS[kind]()
    spaces = hard.spaces | {"clip": hard.new}
    steps("Hard spaces: validate", kind).take(
        lambda: kedge.validate(spaces, method="consensus", anchors=4, support=min(20, len(hard.new))),
        lambda table: [table.select_dtypes("number").to_numpy()])
