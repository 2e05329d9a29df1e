# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Messages are whole sentences for the user."""
from __future__ import annotations

from .._program import BadFile, Error, UsageError

__all__ = ["BadFile", "BadRow", "Error", "Interrupted", "UsageError"]


class BadRow(Exception):
    """One input cannot be embedded; whoever knows the rows of the data turns this into a BadFile."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence that says where the work stands."""
