# SPDX-License-Identifier: Apache-2.0
"""How every program of kedge ends: with an exit code, and a sentence on stderr if something went wrong."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from ._errors import Error
from ._extras import what_is_missing

T = TypeVar("T")


def run(program: str, work: Callable[[], T], *, path: str, interrupted: str, extra: str | None = None,
        memory: str = "not enough memory") -> tuple[int, T | None]:
    """(0, what the work returns), or the exit code and None after a sentence on stderr. extra: what pip installs for
    it; path: the file to blame if an OSError names none; interrupted: for a Ctrl-C that says nothing itself."""
    try:
        return 0, work()
    except Error as error:
        code, sentence = error.exit_code, str(error)
    except ImportError as error:
        code, sentence = 1, what_is_missing(error, extra)
    except KeyboardInterrupt as error:
        code, sentence = 130, str(error) or interrupted
    except MemoryError:
        code, sentence = 1, memory
    except OSError as error:
        code, sentence = 1, f"{error.filename or path}: {error.strerror or error}"
    print(f"{program}: {sentence}", file=sys.stderr)
    return code, None


def print_lines(lines: Iterable[str]) -> None:
    """Prints what was found. A reader that has seen enough, such as head, is no error: the work is done."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end of the process
