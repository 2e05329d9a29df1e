#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the spaces of the paper's geometry figure: a clustered one and two deformed versions of it.

    experiments/geometry/make_spaces.py --out embeddings/geometry

original.npy has Gaussian clusters around the origin. deformed1.npy and deformed2.npy are the same rows rotated, scaled
differently along each axis, rotated again and moved away from the origin. Nothing else changes, so any difference a
similarity sees is its own doing. labels.npy has the cluster of each row. Rows are shuffled, so any range of them holds
all clusters. Needs numpy.
"""
import argparse
import pathlib

import numpy as np


def rotation(rng: np.random.Generator, dim: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(dim, dim)))[0]


def clusters(rng: np.random.Generator, rows: int, count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres at about unit distance from the origin, clusters a sixth as wide."""
    centres = rng.normal(size=(count, dim))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    labels = rng.permutation(np.arange(rows) % count)
    return centres[labels] + rng.normal(size=(rows, dim)) / 6, labels


def deform(rng: np.random.Generator, rows: np.ndarray, stretch: float, shift: float) -> np.ndarray:
    """Scales from 1 to `stretch`, and a translation of `shift` times the rows' own size."""
    dim = rows.shape[1]
    away = rng.normal(size=dim)
    away *= shift * np.sqrt(np.mean(np.sum(rows**2, axis=1))) / np.linalg.norm(away)
    deformed: np.ndarray = rows @ (rotation(rng, dim) * np.geomspace(1, stretch, dim)) @ rotation(rng, dim) + away
    return deformed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--clusters", type=int, default=6)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("embeddings/geometry"))
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    original, labels = clusters(rng, asked.rows, asked.clusters, asked.dim)
    spaces = {"original": original, "deformed1": deform(rng, original, 5, 1), "deformed2": deform(rng, original, 10, 4)}
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, rows in spaces.items():
        np.save(asked.out / f"{name}.npy", rows.astype(np.float32))
    np.save(asked.out / "labels.npy", labels.astype(np.int64))
    print(f"wrote {', '.join(f'{name}.npy' for name in spaces)} and labels.npy to {asked.out}")


if __name__ == "__main__":
    main()
