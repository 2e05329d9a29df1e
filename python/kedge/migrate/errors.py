# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Messages are whole sentences for the user."""
from .._program import BadFile, Error, UsageError

__all__ = ["BadFile", "Error", "UsageError"]
