# SPDX-License-Identifier: Apache-2.0
"""How far tasks are, and what went wrong in them."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ray
import ray.data
from tqdm.auto import tqdm

from .._progress import RowProgress, ShowProgress

if TYPE_CHECKING:
    import pyarrow as pa

Reference = ray.ObjectRef[Any]


@contextlib.contextmanager
def bars(progress: ShowProgress) -> Iterator[None]:
    """Ray Data's own, for datasets that are made in this block."""
    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars
    context.enable_progress_bars = progress is True
    try:
        yield
    finally:
        context.enable_progress_bars = before


@contextlib.contextmanager
def rows(step: str, total: int | None, progress: ShowProgress) -> Iterator[RowProgress]:
    """What the tasks of this block are to be counted with."""
    told = RowProgress(step, total, progress if callable(progress) else progress is True, lambda step, total:
                       tqdm(desc=step, total=total, unit=" rows", unit_scale=True))
    try:
        yield told
    finally:
        told.close()


class Refused(Exception):
    """Carries what went wrong in a task: Ray Data adds words to those of an exception, but leaves its attributes."""

    def __init__(self, words: str, original: Exception | None = None) -> None:
        super().__init__(words)
        self.original = original


def refusing(work: Callable[..., pa.Table]) -> Callable[..., Iterator[pa.Table]]:
    """For map_batches, which hands on the exceptions of generators and wraps those of functions."""
    @functools.wraps(work)
    def batches(*arguments: Any, **options: Any) -> Iterator[pa.Table]:
        try:
            yield work(*arguments, **options)
        except Exception as error:
            raise Refused(str(error), error) from None

    return batches


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Raises what went wrong in a task without the way it took."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise cause_of(error) from None


def cause_of(error: BaseException) -> BaseException:
    while isinstance(error, ray.exceptions.RayTaskError) and getattr(error, "cause", None) is not None:
        error = error.cause
    return (error.original or error) if isinstance(error, Refused) else error
