# SPDX-License-Identifier: Apache-2.0
"""A bar on a terminal, a line now and then otherwise, nothing if quiet; all of it on stderr."""
import sys
import time

SECONDS_BETWEEN_LINES = 10


class Progress:
    def __init__(self, total, done, quiet):
        self.total, self.done = total, done
        self.bar = None
        self.lines = not quiet and not sys.stderr.isatty()
        if not quiet and sys.stderr.isatty():
            import tqdm
            self.bar = tqdm.tqdm(total=total, initial=done, unit="row", desc="kedge-encode")
        self.last_line = time.monotonic()

    def advance(self, rows):
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        elif self.lines and time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            print(f"kedge-encode: {self.done} of {self.total} rows", file=sys.stderr, flush=True)

    def close(self):
        if self.bar is not None:
            self.bar.close()
