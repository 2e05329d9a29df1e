# SPDX-License-Identifier: Apache-2.0
"""What every reader of inputs makes, and what an encoder says of an input that it cannot embed."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class BadRow(Exception):
    """One input cannot be embedded; work.py, which knows the rows of the data, turns this into a BadFile."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


@dataclasses.dataclass
class Data:
    """Inputs in a fixed order; row n of the embeddings is read(n)."""
    kind: str  # image or text
    what: str  # the format, for people
    ids: list[str]  # one line each
    read: Callable[[int], Any]  # row -> PIL image in RGB, or str
    labels: NDArray[np.int64] | None
    names: list[str] | None  # of the classes
    content: str  # fingerprint; other inputs, other fingerprint
    place: Callable[[int], str] | None = None  # row -> where it is, for messages

    def where(self, row: int) -> str:
        return self.place(row) if self.place else f"image {self.ids[row]}"
