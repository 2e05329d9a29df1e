# SPDX-License-Identifier: Apache-2.0
"""How far long work is: in a bar, or reported to a function."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

ProgressFunction = Callable[[str, int, int, str], object]  # called with step, done, total and detail
ShowProgress = bool | ProgressFunction  # True shows a bar


class RowBar(Protocol):
    """A bar of tqdm, or of a library that imitates it."""

    def update(self, rows: int) -> object: ...
    def close(self) -> object: ...


class Bar:
    """A progress function that shows a bar for each step, under one another in notebooks and in turn on a terminal."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self.new_bar, self.step = tqdm, ""
        self.bar: Any = None  # of the step

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        if self.bar is None or step != self.step:
            self.close()
            self.step, self.bar = step, self.new_bar(total=total, desc=step)
        if detail:
            self.bar.set_postfix_str(detail, refresh=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def __del__(self) -> None:
        self.close()


class RowProgress:
    """Counts the rows of one step and shows them in a bar, to a function, or to nobody. 'total' is None if nobody knows
    it; 'done' rows were there before."""

    def __init__(self, step: str, total: int | None, *, bar: RowBar | None = None,
                 function: ProgressFunction | None = None, done: int = 0) -> None:
        self.step, self.total, self.done = step, total, done
        self.bar, self.function, self.began = bar, function, time.monotonic()

    def advance(self, rows: int) -> None:
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        if self.function is not None:
            total = self.total or self.done
            self.function(self.step, self.done, total, pace(self.done, total, time.monotonic() - self.began))

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def pace(done: int, total: int, seconds: float) -> str:
    """Rows per second, and the time left if there are more to come."""
    rate = done / max(seconds, 1e-9)
    left = f", {(total - done) / rate:.0f} s left" if total > done > 0 else ""
    return f"{rate:,.0f} rows/s{left}"
