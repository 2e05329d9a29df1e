# SPDX-License-Identifier: Apache-2.0
"""latentis: its translators take and give tensors, and pairs of them. Its least squares gets the scaling of its
Procrustes."""
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from latentis.transform.base import StandardScaling
from latentis.transform.translate import aligner
from latentis.transform.translate.functional import lstsq_align_state
from protocol import Map, Translate

PACKAGE = "latentis"


def translator(make: Callable[[], Any]) -> Translate:
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        made = make()
        made.fit(torch.from_numpy(old), torch.from_numpy(new))

        def transform(rows: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                result: np.ndarray = made.transform(torch.from_numpy(rows))[0].numpy()
            return result
        return transform
    return fit


def least_squares() -> Any:
    return aligner.Translator(aligner.MatrixAligner("lstsq_aligner", lstsq_align_state),
                              x_transform=StandardScaling(), y_transform=StandardScaling())


TRANSLATE = {"Procrustes": translator(aligner.Procrustes), "least squares": translator(least_squares)}
