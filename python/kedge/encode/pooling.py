# SPDX-License-Identifier: Apache-2.0
"""From one vector per token to one per text. Padding may be on either side and never counts."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

NAMES = ("last", "mean", "cls")


def pool(hidden: torch.Tensor, mask: torch.Tensor, how: str) -> torch.Tensor:
    """hidden: texts x tokens x dim; mask: texts x tokens, 1 for a token and 0 for padding. Gives texts x dim."""
    import torch
    if how == "mean":
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1)
    tokens = mask.shape[1]
    place = torch.arange(tokens, device=mask.device)
    if how == "last":
        at = torch.where(mask.bool(), place, -1).amax(1)
    else:
        at = torch.where(mask.bool(), place, tokens).amin(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), at]
