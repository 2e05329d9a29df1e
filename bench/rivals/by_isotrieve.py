# SPDX-License-Identifier: Apache-2.0
"""isotrieve: its ridge is its default; its other maps want spaces of one width, which padding gives them."""
import numpy as np
from adapt import padded
from isotrieve import OrthogonalProcrustesMapping, RidgeMapping
from isotrieve.mapping.linear import LowRankAffineMapping
from protocol import Map

PACKAGE = "isotrieve"


def ridge(old: np.ndarray, new: np.ndarray) -> Map:
    transform: Map = RidgeMapping().fit(old, new).transform
    return transform


def procrustes(old: np.ndarray, new: np.ndarray) -> Map:
    width = max(old.shape[1], new.shape[1])
    mapping = OrthogonalProcrustesMapping().fit(padded(old, width), padded(new, width))
    return lambda rows: mapping.transform(padded(rows, width))[:, :new.shape[1]]


def low_rank(old: np.ndarray, new: np.ndarray) -> Map:
    transform: Map = LowRankAffineMapping().fit(old, new).transform
    return transform


TRANSLATE = {"RidgeMapping": ridge, "LowRankAffineMapping": low_rank, "OrthogonalProcrustesMapping, padded": procrustes}
