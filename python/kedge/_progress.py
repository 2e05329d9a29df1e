# SPDX-License-Identifier: Apache-2.0
"""How far long work is: in a bar, as lines of a log, or reported to a function."""
from __future__ import annotations

import contextlib
import contextvars
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

ProgressFunction = Callable[[str, int, int, str], object]  # called with step, done, total and detail
ShowProgress = bool | ProgressFunction  # True shows a bar

SECONDS_BETWEEN_LINES = 10
# Who hears of a program's steps instead of a terminal or a log. A step asks once, in the thread that begins it.
_listener: contextvars.ContextVar[ShowProgress | None] = contextvars.ContextVar("listener", default=None)


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


class Lines:
    """A progress function that prints a line now and then, for a log. 'done' rows were there before."""

    def __init__(self, done: int, unit: str) -> None:
        self.before, self.unit, self.began, self.last_line = done, unit, time.monotonic(), time.monotonic()

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        if time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            if self.unit == "%":
                print(f"{step}: {done} %" if total else step, file=sys.stderr, flush=True)
                return
            rate = (done - self.before) / (self.last_line - self.began)
            print(f"{step}: {done} of {total} rows, {rate:.3g} rows per second, "
                  f"{max(total - done, 0) / max(rate, 1e-9) / 60:.0f} min left", file=sys.stderr, flush=True)


class RowProgress:
    """Counts the rows of one step and shows them as 'show' says; new_bar(step, total) makes the bar. 'total' is None if
    nobody knows it; 'done' rows were there before. With the unit '%' it counts these, or nothing if total is 0."""

    def __init__(self, step: str, total: int | None, show: ShowProgress, new_bar: Callable[[str, int | None], Any],
                 done: int = 0, unit: str = "row") -> None:
        self.step, self.total, self.done, self.unit, self.began = step, total, done, unit, time.monotonic()
        self.function = show if callable(show) else None
        self.bar: Any = new_bar(step, total) if show is True else None

    def expect(self, total: int) -> None:
        """Corrects the total, which was not known or a guess."""
        self.total = total
        if self.bar is not None:
            self.bar.total = total

    def advance(self, rows: int) -> None:
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        if self.function is not None:
            total = self.total or self.done
            detail = pace(self.done, total, time.monotonic() - self.began) if self.unit == "row" else ""
            self.function(self.step, self.done, total, detail)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


@contextlib.contextmanager
def progress_goes_to(show: ShowProgress) -> Iterator[None]:
    """The steps of a program that are run inside report as 'show' says, and not as the program itself would."""
    before = _listener.set(show)
    try:
        yield
    finally:
        _listener.reset(before)


def command_progress(step: str, total: int, quiet: bool, done: int = 0, unit: str = "row") -> RowProgress:
    """A bar with the time left on a terminal, a line now and then otherwise, nothing if quiet; or as
    progress_goes_to has it."""
    def new_bar(step: str, total: int | None) -> Any:
        import tqdm

        return tqdm.tqdm(total=total, initial=done, unit=unit, unit_scale=(total or 0) > 99_999, desc=step,
                         bar_format=None if total or unit == "row" else "{desc} {elapsed}")

    listener = _listener.get()
    show: ShowProgress = not quiet and (sys.stderr.isatty() or Lines(done, unit)) if listener is None else listener
    return RowProgress(step, total, show, new_bar, done, unit)


def pace(done: int, total: int, seconds: float) -> str:
    """Rows per second, and the time left if there are more to come."""
    rate = done / max(seconds, 1e-9)
    left = f", {(total - done) / rate:.0f} s left" if total > done > 0 else ""
    return f"{rate:,.0f} rows/s{left}"
