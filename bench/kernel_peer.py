# SPDX-License-Identifier: Apache-2.0
"""A kernel map in plain PyTorch, straight from the equations: what kedge is timed against. One eigendecomposition of
the support for each width serves all strengths; the whitening is given.

    build/torch-venv/bin/python bench/kernel_peer.py support.npy targets.npy
Prints JSON: the seconds of the choice and the solution, without reading, and the leave-one-out error it found.
"""
import argparse
import json
import math
import time

import numpy as np
import torch

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
STRENGTHS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def coordinates(support: torch.Tensor, whitening: float, shrinkage: float = 0.15) -> torch.Tensor:
    centred = support - support.mean(0)
    values, vectors = torch.linalg.eigh((centred.T @ centred / len(support)).double())
    values = (1 - shrinkage) * values + shrinkage * values.mean()
    whitener = ((vectors * values ** (-whitening / 2)) @ vectors.T).to(support.dtype)
    return torch.nn.functional.normalize(centred @ whitener, dim=1)


def kernel_map(support: torch.Tensor, targets: torch.Tensor, whitening: float = 0.5) -> float:
    rows = coordinates(support, whitening)
    wanted = (targets - targets.mean(0)).double()
    best = math.inf
    for width in WIDTHS:
        values, vectors = torch.linalg.eigh(torch.exp(width * (rows @ rows.T - 1)).double())
        turned = vectors.T @ wanted
        for strength in STRENGTHS:
            inverse = 1 / (values + len(support) * strength)
            solution = vectors @ (inverse[:, None] * turned)
            diagonal = ((vectors * vectors) * inverse).sum(1)
            error = float(((solution / diagonal[:, None]) ** 2).mean())
            best = min(best, error)
    return best / float((wanted**2).mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("support")
    options.add_argument("targets")
    asked = options.parse_args()
    support, targets = (torch.from_numpy(np.load(file).astype(np.float32)) for file in (asked.support, asked.targets))
    start = time.perf_counter()
    error = kernel_map(support, targets)
    print(json.dumps({"seconds": time.perf_counter() - start, "error": error}))


if __name__ == "__main__":
    main()
