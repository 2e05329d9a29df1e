# SPDX-License-Identifier: Apache-2.0
"""Maps and translators as torch modules, to run on any device, inside a model, or under a gradient."""
# Annotations are not put off here: TorchScript reads them.
import math
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray

from ._extras import install

try:
    import torch
except ImportError:
    raise ImportError(f"to_torch needs torch, which is not installed; {install('torch')}") from None


if TYPE_CHECKING:
    from ._core import RelativeMap, Translator


def unit(x: torch.Tensor) -> torch.Tensor:
    """Rows of length 1; a row of zeros stays, and gives no NaN on the way back either."""
    # The largest value is taken out first, so that squares stay in range, half precision's too. It cancels out.
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / torch.where(largest > 0, largest, torch.ones_like(largest))
    return x / torch.where(largest > 0, torch.linalg.vector_norm(x, dim=-1, keepdim=True), torch.ones_like(largest))


class UnitRows(torch.nn.Module):
    """Divides vectors by their lengths."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return unit(x)


class RelativeModule(torch.nn.Module):
    """RR(x) with the similarity cosine, angular, euclidean or manhattan, for x of shape (..., dim).

    weight and mean are buffers, as in docs/format.md: they move with .to() and are saved, but no optimizer sees them.
    """

    weight: torch.Tensor
    mean: torch.Tensor

    def __init__(self, similarity: str, weight: torch.Tensor, mean: torch.Tensor) -> None:
        super().__init__()
        self.similarity = similarity
        self.register_buffer("weight", weight)
        self.register_buffer("mean", mean)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.similarity == "cosine":
            return torch.nn.functional.linear(unit(x), self.weight)
        if self.similarity == "angular":
            return self.angles(x)
        if self.similarity == "manhattan":
            return self.differences(x)
        assert self.similarity == "euclidean"
        return self.distances(x)

    def angles(self, x: torch.Tensor) -> torch.Tensor:
        """From the lengths of difference and sum, in float64, as the cosine loses the digits of a small angle."""
        rows, anchors = unit(x).double(), self.weight.double()
        squares = rows.square().sum(-1, keepdim=True) + anchors.square().sum(-1)
        twice = 2 * rows @ anchors.T
        apart, along = (squares - twice).clamp_min(1e-60).sqrt(), (squares + twice).clamp_min(1e-60).sqrt()
        angles: torch.Tensor = 1 - torch.atan2(apart, along) * (2 / math.pi)
        return angles.to(x.dtype)

    def differences(self, x: torch.Tensor) -> torch.Tensor:
        rows = (x - self.mean).reshape(-1, self.weight.shape[1]).double()
        distances = torch.cdist(rows, self.weight.double(), p=1.0).to(x.dtype)
        return distances.reshape(list(x.shape[:-1]) + [self.weight.shape[0]])

    def distances(self, x: torch.Tensor) -> torch.Tensor:
        """In float64, as the difference of squares loses its digits close to an anchor."""
        centred, anchors = (x - self.mean).double(), self.weight.double()
        squared = centred.square().sum(-1, keepdim=True) + anchors.square().sum(-1) - 2 * centred @ anchors.T
        return squared.clamp_min(1e-300).sqrt().to(x.dtype)  # the slope of sqrt at 0 would be infinite

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, similarity={self.similarity}"


class KernelModule(torch.nn.Module):
    """A map or translation with a kernel, for x of shape (..., dim), as in docs/format.md: weight f(x) + bias +
    q(width f(x) rows^T) coefficients. Its arrays are buffers; coefficients are e^width times those of the file, and q
    as much smaller, so that both stay in the range of half precision."""

    weight: torch.Tensor
    bias: torch.Tensor
    mean: torch.Tensor
    whitener: Optional[torch.Tensor]  # noqa: UP045  TorchScript knows no '|'
    rows: torch.Tensor
    coefficients: torch.Tensor

    def __init__(self, affine: "RelativeMap | Translator", kernel: dict[str, Any]) -> None:
        super().__init__()
        self.width = float(kernel["width"])
        for name in ("weight", "bias", "mean"):
            self.register_buffer(name, tensor(getattr(affine, name)))
        for name in ("whitener", "rows", "coefficients"):
            self.register_buffer(name, None if kernel[name] is None else tensor(kernel[name]))
        self.coefficients *= math.exp(self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - self.mean
        whitener = self.whitener
        features = unit(centred if whitener is None else centred @ whitener)
        u = (self.width * (features @ self.rows.T)).double()  # e^u - 1 - u cancels near 0
        curve = ((torch.expm1(u) - u) * math.exp(-self.width)).to(x.dtype)
        return torch.nn.functional.linear(features, self.weight, self.bias) + curve @ self.coefficients

    def extra_repr(self) -> str:
        return (f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, rows={self.rows.shape[0]}, "
                f"width={self.width:g}")


def tensor(values: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(values.copy())  # views of a bundle are read-only


def linear(affine: "RelativeMap | Translator") -> torch.nn.Linear:
    """An nn.Linear with a copy of weight and bias.

    They do not require a gradient, as in nn.Embedding.from_pretrained: a map trained on its own would leave
    the space it shares with others. The input still gets its gradient; .requires_grad_() makes the map trainable.
    """
    module = torch.nn.Linear(affine.weight.shape[1], affine.weight.shape[0], device="meta")  # nothing to initialise
    module.weight = torch.nn.Parameter(tensor(affine.weight), requires_grad=False)
    module.bias = torch.nn.Parameter(tensor(affine.bias), requires_grad=False)
    return module


def normalized(module: torch.nn.Module, normalize: bool) -> torch.nn.Module:
    return torch.nn.Sequential(module, UnitRows()) if normalize else module


def map_to_torch(relative_map: "RelativeMap", normalize: bool) -> torch.nn.Module:
    kernel = relative_map.kernel
    if kernel is not None:
        return normalized(KernelModule(relative_map, kernel), normalize)
    if relative_map.similarity in ("wip", "inner"):
        return normalized(linear(relative_map), normalize)
    weight, mean = tensor(relative_map.weight), tensor(relative_map.mean)
    return normalized(RelativeModule(relative_map.similarity, weight, mean), normalize)


def translator_to_torch(translator: "Translator", normalize: bool) -> torch.nn.Module:
    kernel = translator.kernel
    return normalized(linear(translator) if kernel is None else KernelModule(translator, kernel), normalize)
