# SPDX-License-Identifier: Apache-2.0
"""Names for what a migration makes in PostgreSQL, which cuts longer ones without a word."""
from __future__ import annotations

import hashlib

NAME_BYTES = 63


def fitted(start: str, name: str, ending: str = "") -> str:
    """All three together. If that is too long, a hash stands for what is cut off the name, so that two long names do
    not become one."""
    if len(f"{start}{name}{ending}".encode()) <= NAME_BYTES:
        return start + name + ending
    tail = f"_{hashlib.sha256(name.encode()).hexdigest()[:8]}{ending}"
    return start + name.encode()[:NAME_BYTES - len(f"{start}{tail}".encode())].decode(errors="ignore") + tail
