# SPDX-License-Identifier: Apache-2.0
"""mvlearn: generalised CCA. It takes views of the same rows only, so an encoder that comes later gets a ridge. Its
default keeps a handful of components, by elbows; it gets more."""
from collections.abc import Sequence

import numpy as np
from adapt import with_ridge_attach
from mvlearn.embed import GCCA
from protocol import Map

PACKAGE = "mvlearn"
COMPONENTS = 100


def gcca(sources: Sequence[np.ndarray]) -> list[Map]:
    model = GCCA(n_components=COMPONENTS).fit([np.array(space, np.float64) for space in sources])
    means = [space.mean(axis=0) for space in sources]

    def way(n: int) -> Map:
        return lambda rows: (rows - means[n]) @ model.projection_mats_[n]
    return [way(n) for n in range(len(sources))]


JOIN = {f"GCCA, {COMPONENTS} components, RidgeCV attach": with_ridge_attach(gcca)}
