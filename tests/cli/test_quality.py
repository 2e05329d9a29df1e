# SPDX-License-Identifier: Apache-2.0
"""The held-out protocol on the demo data: learn on three encoders, attach the fourth, find the same sentences."""
import numpy as np
import pytest
from conftest import SLM, Kedge

pytestmark = pytest.mark.long

ENCODERS = ["smollm2-135m", "gemma3-270m", "minilm-l6", "use-multilingual"]


@pytest.mark.parametrize("held_out", ENCODERS)
def test_a_held_out_encoder_is_understood(kedge: Kedge, held_out: str) -> None:
    sources = [e for e in ENCODERS if e != held_out]
    named = [word for e in sources for word in ("--space", f"{e}={SLM}/{e}.npy")]
    kedge.ok("fit", *named, "--method", "param", "--rows", "0:3000", "-o", "shared.kedge")
    kedge.ok("attach", "shared.kedge", "--space", f"{held_out}={SLM}/{held_out}.npy", "--rows", "0:3000", "-o",
             "shared.kedge")
    for e in ENCODERS:
        kedge.ok("transform", "shared.kedge", "--space", e, "-i", f"{SLM}/{e}.npy", "-o", f"{e}.npy", "--rows",
                 "3000:3300")
    found = [kedge.json("compare", f"{e}.npy", f"{held_out}.npy")["recall@1"] for e in sources]
    print(f"{held_out}: R@1 {found}")
    assert np.mean(found) >= 0.90
