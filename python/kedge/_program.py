# SPDX-License-Identifier: Apache-2.0
"""What kedge's programs share: errors with the code they end with, and progress on stderr."""
import sys
import time

from ._extras import install

SECONDS_BETWEEN_LINES = 10


class Error(Exception):
    """It failed; the message is a whole sentence for the user, 'exit' what the command ends with."""
    exit = 1


class UsageError(Error):
    """It was asked for something that does not exist or does not fit together."""
    exit = 2


class BadFile(Error):
    """A file is missing, damaged, or not what it should be."""
    exit = 3


def run(program, work, *, extra, path, interrupted, memory="not enough memory"):
    """(0, what the work returns), or the code to end with and None after a sentence on stderr. extra: what pip installs for
    it; path: the file to blame where an OSError names none; interrupted: for a Ctrl-C that says nothing itself."""
    try:
        return 0, work()
    except Error as error:
        code, said = error.exit, str(error)
    except ImportError as error:
        code, said = 1, f"needs {error.name or error}, which is not installed; {install(extra, error.name)}"
    except KeyboardInterrupt as error:
        code, said = 130, str(error) or interrupted
    except MemoryError:
        code, said = 1, memory
    except OSError as error:
        code, said = 1, f"{error.filename or path}: {error.strerror or error}"
    print(f"{program}: {said}", file=sys.stderr)
    return code, None


class Progress:
    """A bar with the time left on a terminal, a line now and then otherwise, nothing if quiet."""

    def __init__(self, step, total, quiet, done=0):
        self.step, self.total, self.done, self.before = step, total, done, done
        self.began = self.last_line = time.monotonic()
        self.bar = None
        self.lines = not quiet and not sys.stderr.isatty()
        if not quiet and sys.stderr.isatty():
            import tqdm
            self.bar = tqdm.tqdm(total=total, initial=done, unit="row", unit_scale=total > 99_999, desc=step)

    def advance(self, rows):
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        elif self.lines and time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            rate = (self.done - self.before) / (self.last_line - self.began)
            print(f"{self.step}: {self.done} of {self.total} rows, {rate:.3g} rows per second, "
                  f"{max(self.total - self.done, 0) / max(rate, 1e-9) / 60:.0f} min left", file=sys.stderr, flush=True)

    def close(self):
        if self.bar is not None:
            self.bar.close()
