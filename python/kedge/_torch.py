# SPDX-License-Identifier: Apache-2.0
"""Maps and translators as torch modules, to run on any device, inside a model, or under a gradient."""
import math

from ._extras import install

try:
    import torch
except ImportError:
    raise ImportError(f"to_torch needs torch, which is not installed; {install('torch')}") from None


def unit(x):
    """Rows of length 1; a row of zeros stays, and gives no NaN on the way back either."""
    # The largest value is taken out first, so that squares stay in range, half precision's too. It cancels out.
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / torch.where(largest > 0, largest, torch.ones_like(largest))
    return x / torch.where(largest > 0, torch.linalg.vector_norm(x, dim=-1, keepdim=True), torch.ones_like(largest))


class UnitRows(torch.nn.Module):
    """Divides vectors by their lengths."""

    def forward(self, x):
        return unit(x)


class RelativeModule(torch.nn.Module):
    """RR(x) with the similarity cosine, angular, euclidean or manhattan, for x of shape (..., dim).

    weight and mean are buffers, as in docs/format.md: they move with .to() and are saved, but no optimizer sees them.
    """

    def __init__(self, similarity, weight, mean):
        super().__init__()
        self.similarity = similarity
        self.register_buffer("weight", weight)
        self.register_buffer("mean", mean)

    def forward(self, x):
        if self.similarity == "cosine":
            return torch.nn.functional.linear(unit(x), self.weight)
        if self.similarity == "angular":
            return self.angles(x)
        if self.similarity == "manhattan":
            return self.differences(x)
        return self.distances(x)

    def angles(self, x):
        """From the lengths of difference and sum, in float64, as the cosine loses the digits of a small angle."""
        rows, anchors = unit(x).double(), self.weight.double()
        squares = rows.square().sum(-1, keepdim=True) + anchors.square().sum(-1)
        twice = 2 * rows @ anchors.T
        apart, along = (squares - twice).clamp_min(1e-60).sqrt(), (squares + twice).clamp_min(1e-60).sqrt()
        return (1 - torch.atan2(apart, along) * (2 / math.pi)).to(x.dtype)

    def differences(self, x):
        rows = (x - self.mean).reshape(-1, self.weight.shape[1]).double()
        made = torch.cdist(rows, self.weight.double(), p=1.0).to(x.dtype)
        return made.reshape(list(x.shape[:-1]) + [self.weight.shape[0]])

    def distances(self, x):
        """In float64, as the difference of squares loses its digits close to an anchor."""
        centred, anchors = (x - self.mean).double(), self.weight.double()
        squared = centred.square().sum(-1, keepdim=True) + anchors.square().sum(-1) - 2 * centred @ anchors.T
        return squared.clamp_min(1e-300).sqrt().to(x.dtype)  # the slope of sqrt at 0 would be infinite

    def extra_repr(self):
        return f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, similarity={self.similarity}"


class KernelModule(torch.nn.Module):
    """A map or translation with a kernel, for x of shape (..., dim), as in docs/format.md: weight f(x) + bias +
    q(width f(x) rows^T) coefficients. Its arrays are buffers; coefficients are e^width times those of the file, and q
    as much smaller, so that both stay in the range of half precision."""

    def __init__(self, affine):
        super().__init__()
        kernel = affine.kernel
        self.width = kernel["width"]
        for name in ("weight", "bias", "mean"):
            self.register_buffer(name, tensor(getattr(affine, name)))
        for name in ("whitener", "rows", "coefficients"):
            self.register_buffer(name, None if kernel[name] is None else tensor(kernel[name]))
        self.coefficients *= math.exp(self.width)

    def forward(self, x):
        centred = x - self.mean
        features = unit(centred if self.whitener is None else centred @ self.whitener)
        u = (self.width * (features @ self.rows.T)).double()  # e^u - 1 - u cancels near 0
        curve = ((torch.expm1(u) - u) * math.exp(-self.width)).to(x.dtype)
        return torch.nn.functional.linear(features, self.weight, self.bias) + curve @ self.coefficients

    def extra_repr(self):
        return (f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, rows={self.rows.shape[0]}, "
                f"width={self.width:g}")


def tensor(values):
    return torch.from_numpy(values.copy())  # views of a bundle are read-only


def linear(affine):
    """An nn.Linear with a copy of weight and bias.

    They do not require a gradient, like those of nn.Embedding.from_pretrained: a map trained on its own would leave
    the space it shares with others. The input still gets its gradient; .requires_grad_() makes the map trainable.
    """
    module = torch.nn.Linear(affine.weight.shape[1], affine.weight.shape[0], device="meta")  # nothing to initialise
    module.weight = torch.nn.Parameter(tensor(affine.weight), requires_grad=False)
    module.bias = torch.nn.Parameter(tensor(affine.bias), requires_grad=False)
    return module


def normalized(module, normalize):
    return torch.nn.Sequential(module, UnitRows()) if normalize else module


def map_to_torch(map, normalize):
    if map.kernel is not None:
        return normalized(KernelModule(map), normalize)
    if map.similarity in ("wip", "inner"):
        return normalized(linear(map), normalize)
    return normalized(RelativeModule(map.similarity, tensor(map.weight), tensor(map.mean)), normalize)


def translator_to_torch(translator, normalize):
    return normalized(linear(translator) if translator.kernel is None else KernelModule(translator), normalize)
