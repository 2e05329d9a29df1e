# SPDX-License-Identifier: Apache-2.0
"""cca-zoo: multiset CCA. It takes views of the same rows only, so an encoder that comes later gets a ridge. With its
default, no shrinkage, it fits noise: it gets some, and more components than its default of one."""
from collections.abc import Sequence

import numpy as np
from adapt import with_ridge_attach
from cca_zoo.linear import MCCA
from protocol import Map

PACKAGE = "cca-zoo"
COMPONENTS, SHRINKAGE = 100, 0.1


def mcca(sources: Sequence[np.ndarray]) -> list[Map]:
    scales = [np.linalg.norm(space - space.mean(axis=0), axis=1).mean() / space.shape[1] ** .5 for space in sources]
    model = MCCA(n_components=COMPONENTS, shrinkage=SHRINKAGE)
    model.fit([space / scale for space, scale in zip(sources, scales)])

    def way(n: int) -> Map:
        return lambda rows: (rows / scales[n] - model.means_[n]) @ model.weights_[n]
    return [way(n) for n in range(len(sources))]


JOIN = {f"MCCA, {COMPONENTS} components, RidgeCV attach": with_ridge_attach(mcca)}
