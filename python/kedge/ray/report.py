# SPDX-License-Identifier: Apache-2.0
"""How far tasks are, and what went wrong in them."""
from __future__ import annotations

from typing import Any

import ray
from ray.experimental import tqdm_ray

from .._progress import RowProgress, ShowProgress

Reference = ray.ObjectRef[Any]


def row_progress(step: str, rows: int | None, progress: ShowProgress) -> RowProgress:
    """With a bar of Ray's, which lets workers print."""
    return RowProgress(step, rows, progress,
                       lambda step, total: tqdm_ray.tqdm(desc=step, total=total, unit="rows"))


def plain(error: BaseException) -> BaseException:
    """What went wrong in a task, without the way it took."""
    while isinstance(error, ray.exceptions.RayTaskError) and getattr(error, "cause", None) is not None:
        error = error.cause
    return error
