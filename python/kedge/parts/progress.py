# SPDX-License-Identifier: Apache-2.0
"""How fast rows go by, for those who watch."""
from __future__ import annotations


def pace(done, total, seconds):
    """Rows per second, and the time left if there are more to come."""
    rate = done / max(seconds, 1e-9)
    left = f", {(total - done) / rate:.0f} s left" if total > done else ""
    return f"{rate:,.0f} rows/s{left}"
