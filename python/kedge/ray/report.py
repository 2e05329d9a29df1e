# SPDX-License-Identifier: Apache-2.0
"""How far tasks are, and what went wrong in them."""
from __future__ import annotations

import time

import ray
from ray.experimental import tqdm_ray

from ..parts.progress import pace


class Report:
    """Rows that are done, as a bar of Ray's or for a function."""

    def __init__(self, step, rows, progress):
        self.step, self.rows, self.done, self.began = step, rows, 0, time.monotonic()
        self.call = progress if callable(progress) else None
        self.bar = tqdm_ray.tqdm(desc=step, total=rows, unit="rows") if progress is True else None

    def add(self, rows):
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        if self.call is not None and rows:
            total = self.rows or self.done
            self.call(self.step, self.done, total, pace(self.done, total, time.monotonic() - self.began))

    def close(self):
        if self.bar is not None:
            self.bar.close()


def plain(error):
    """What went wrong in a task, without the way it took."""
    while isinstance(error, ray.exceptions.RayTaskError) and getattr(error, "cause", None) is not None:
        error = error.cause
    return error
