# SPDX-License-Identifier: Apache-2.0
"""A bar for long work: one for each step, under one another in notebooks and in turn on a terminal."""
from tqdm.auto import tqdm


class Bar:
    """Called with what is going on, how much of it is done, and what there is to say about it."""

    def __init__(self):
        self.step, self.bar = None, None

    def __call__(self, step, done, total, detail):
        if step != self.step:
            self.close()
            self.step, self.bar = step, tqdm(total=total, desc=step)
        if detail:
            self.bar.set_postfix_str(detail, refresh=False)
        self.bar.update(done - self.bar.n)

    def close(self):
        if self.bar is not None:
            self.bar.close()

    def __del__(self):
        self.close()
