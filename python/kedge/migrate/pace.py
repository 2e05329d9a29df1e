# SPDX-License-Identifier: Apache-2.0
"""How fast a pass over a store may go, for the sake of those who use it meanwhile."""
from __future__ import annotations

import time

from .._errors import UsageError
from .store import BATCH_ROWS, Store

LEAST_BATCH = 16
LAG_SECONDS = .5  # between two looks at replicas that are behind


class Pace:
    """At most 'rate' rows a second, and none while replicas are more than 'max_lag' seconds behind."""

    def __init__(self, store: Store, rate: float | None = None, max_lag: float | None = None) -> None:
        for name, value in (("rate", rate), ("max-lag", max_lag)):
            if value is not None and not value > 0:
                raise UsageError(f"--{name} must be above 0, found {value}")
        self.store, self.rate, self.max_lag = store, rate, max_lag
        self.next = time.monotonic()
        if max_lag is not None:
            store.lag()  # says at once if it cannot be known

    @property
    def batch(self) -> int:
        """Rows at a time: a slow pass makes small steps rather than long pauses."""
        return BATCH_ROWS if self.rate is None else min(BATCH_ROWS, max(LEAST_BATCH, round(self.rate)))

    def after(self, rows: int) -> None:
        """Waits as long as so many rows ask for."""
        if self.rate is not None:
            self.next = max(self.next, time.monotonic()) + rows / self.rate
            time.sleep(max(0, self.next - time.monotonic()))
        while self.max_lag is not None and self.store.lag() > self.max_lag:
            time.sleep(LAG_SECONDS)
