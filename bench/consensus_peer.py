# SPDX-License-Identifier: Apache-2.0
"""Consensus and ridge attach in plain PyTorch, straight from the equations: what kedge is timed against.

    build/torch-venv/bin/python bench/consensus_peer.py a.npy b.npy new.npy --rows 6500 --support 3000
The last file is attached, the others are the sources. Prints JSON: the seconds from files to maps, reading and
whitening included, but not the start of Python.
"""
import argparse
import json
import math
import time
from collections.abc import Sequence

import numpy as np
import torch

SHRINKAGE, EPSILON, POWER = 0.15, 5e-8, 0.5
STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def read(file: str, rows: int) -> torch.Tensor:
    return torch.from_numpy(np.load(file)[:rows].astype(np.float32))


def whitening(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = rows.double()
    mean = rows.mean(0)
    centred = rows - mean
    covariance = centred.T @ centred / len(rows)
    identity = torch.eye(rows.shape[1], dtype=torch.double)
    covariance = (1 - SHRINKAGE) * covariance + (SHRINKAGE * covariance.trace() / rows.shape[1] + EPSILON) * identity
    values, vectors = torch.linalg.eigh(covariance)
    whitener = (vectors * values.rsqrt()) @ vectors.T
    return mean, whitener, (centred @ whitener).float()


def consensus(spaces: Sequence[torch.Tensor], support: torch.Tensor, anchors: int) -> torch.Tensor:
    stacked = torch.cat([space.double() - space.double().mean(0) for space in spaces], 1)
    values, vectors = torch.linalg.eigh(stacked.T @ stacked / len(stacked))
    values, vectors = values.flip(0)[:anchors], vectors.flip(1)[:, :anchors]
    scores = stacked @ vectors
    agreement = ((values - 1) / (len(spaces) - 1)).clamp(min=0) ** POWER
    targets: torch.Tensor = (scores / scores.std(0, correction=0) * agreement)[support]
    return targets


def attach(support: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    support, count = support.double(), len(support)
    values, vectors = torch.linalg.eigh(support.T @ support / count)
    projected, rotated, best = vectors.T @ (support.T @ targets / count), support @ vectors, (math.inf, support)
    for strength in STRENGTHS:
        penalty = strength * values.mean()
        solution = projected / (values + penalty)[:, None]
        residual = ((targets - rotated @ solution) ** 2).mean()
        error = float(residual / (1 - (values / (values + penalty)).sum() / count) ** 2)
        if error < best[0]:
            best = error, vectors @ solution
    weight: torch.Tensor = best[1]
    return weight


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+")
    options.add_argument("--rows", type=int, required=True)
    options.add_argument("--support", type=int, required=True)
    options.add_argument("--anchors", type=int, default=300)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    support = torch.randperm(asked.rows, generator=torch.Generator().manual_seed(0))[: asked.support]
    start = time.perf_counter()
    means, whiteners, spaces = zip(*(whitening(read(file, asked.rows)) for file in asked.files))
    targets = consensus(spaces[:-1], support, asked.anchors)
    maps = []
    for mean, whitener, space in zip(means, whiteners, spaces):
        weight = (whitener @ attach(space[support], targets)).T
        maps.append((weight.float(), -(weight @ mean).float()))
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
