# SPDX-License-Identifier: Apache-2.0
"""scikit-learn: what a good engineer writes in five lines."""
import numpy as np
from adapt import STRENGTHS, each_pair, held_back
from protocol import Join, Map, Translate
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import RidgeCV

PACKAGE = "scikit-learn"


def ridge(old: np.ndarray, new: np.ndarray) -> Map:
    """The strengths are those of rows of length 1."""
    scale = np.linalg.norm(old - old.mean(axis=0), axis=1).mean()
    fitted = RidgeCV(alphas=STRENGTHS).fit(old / scale, new)
    return lambda rows: fitted.predict(rows / scale)


def pls(components: int) -> Translate:
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        predict: Map = PLSRegression(min(components, *old.shape), scale=False).fit(old, new).predict
        return predict
    return fit


TRANSLATE = {"RidgeCV": ridge, "PLSRegression": held_back(pls, (30, 100))}
JOIN: dict[str, Join] = {"RidgeCV of each pair": each_pair(ridge)}
