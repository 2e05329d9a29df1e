# SPDX-License-Identifier: Apache-2.0
"""How much memory the parts of a fit take, so that what cannot work is refused before it begins."""
from __future__ import annotations

from .columns import Columns
from .seen import BYTES_KEPT


def partial_bytes(columns: Columns, support: int) -> int:
    """Of one partial: sums of products in float64, support rows in float32, ids."""
    return 8 * columns.dim**2 + 4 * support * columns.dim + BYTES_KEPT


def arithmetic(columns: Columns, support: int) -> str:
    """How that comes about, for messages."""
    dim = columns.dim
    return (f"a partial of {dim} values takes {shown(partial_bytes(columns, support))} (sums of products 8 x {dim}^2 = "
            f"{shown(8 * dim**2)}, {support} support rows 4 x {support} x {dim} = {shown(4 * support * dim)}, ids up "
            f"to {shown(BYTES_KEPT)})")


def shown(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def require_room(columns: Columns, support: int, room: int, what: str, advice: str) -> None:
    """Raises a sentence unless a partial fits into 'room' bytes of 'what'."""
    if partial_bytes(columns, support) > room:
        raise ValueError(f"{arithmetic(columns, support)}, but {what} holds {shown(room)}; {advice}")
