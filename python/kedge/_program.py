# SPDX-License-Identifier: Apache-2.0
"""What kedge's programs share: errors with the code they end with, and progress on stderr."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from ._extras import install
from ._progress import RowProgress

SECONDS_BETWEEN_LINES = 10
T = TypeVar("T")


class Error(Exception):
    """It failed; the message is a whole sentence for the user, 'exit' what the command ends with."""
    exit = 1


class UsageError(Error):
    """It was asked for something that does not exist or does not fit together."""
    exit = 2


class BadFile(Error):
    """A file is missing, damaged, or not what it should be."""
    exit = 3


def run(program: str, work: Callable[[], T], *, path: str, interrupted: str, extra: str | None = None,
        memory: str = "not enough memory") -> tuple[int, T | None]:
    """(0, what the work returns), or the code to end with and None after a sentence on stderr. extra: what pip installs
    for it; path: the file to blame where an OSError names none; interrupted: for a Ctrl-C that says nothing itself."""
    try:
        return 0, work()
    except Error as error:
        code, sentence = error.exit, str(error)
    except ImportError as error:
        advice = f"; {install(extra, error.name)}" if extra else ""
        code, sentence = 1, f"needs {error.name or error}, which is not installed{advice}"
    except KeyboardInterrupt as error:
        code, sentence = 130, str(error) or interrupted
    except MemoryError:
        code, sentence = 1, memory
    except OSError as error:
        code, sentence = 1, f"{error.filename or path}: {error.strerror or error}"
    print(f"{program}: {sentence}", file=sys.stderr)
    return code, None


class Lines:
    """A progress function that prints a line now and then, for a log."""

    def __init__(self, done: int) -> None:
        self.before, self.began, self.last_line = done, time.monotonic(), time.monotonic()

    def __call__(self, step: str, done: int, total: int, detail: str) -> None:
        if time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            rate = (done - self.before) / (self.last_line - self.began)
            print(f"{step}: {done} of {total} rows, {rate:.3g} rows per second, "
                  f"{max(total - done, 0) / max(rate, 1e-9) / 60:.0f} min left", file=sys.stderr, flush=True)


class Progress(RowProgress):
    """A bar with the time left on a terminal, a line now and then otherwise, nothing if quiet."""

    def __init__(self, step: str, total: int, quiet: bool, done: int = 0) -> None:
        super().__init__(step, total, done=done)
        if not quiet and sys.stderr.isatty():
            import tqdm

            self.bar = tqdm.tqdm(total=total, initial=done, unit="row", unit_scale=total > 99_999, desc=step)
        elif not quiet:
            self.function = Lines(done)
