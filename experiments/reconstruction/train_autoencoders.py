#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains four small autoencoders whose latent spaces are cigars, and writes what experiments/reconstruction.toml reads.

    experiments/reconstruction/train_autoencoders.py --out embeddings/fashion-mnist

The paper trains four autoencoders on MNIST with distinct seeds and induces anisotropic scaling during training, so that
the latent spaces get very different shapes although each holds what its decoder needs. It does not say how. Here the
code passes through a fixed linear map, drawn anew for each seed, on its way to the decoder: a rotation, scales (one
long axis, the others 5 to 100 times shorter) and another rotation. Encoder and decoder learn around that map, so the
latent, which is what is written, is a cigar that points elsewhere in every autoencoder.

Writes ae1.npy ... ae4.npy (rows x 64), pixels.npy (rows x 784, 0 to 1) and labels.npy: training rows first, then test
rows. Images are Fashion-MNIST from the Debian package dataset-fashion-mnist, or MNIST's or any other idx files in
--data FOLDER. The same seed and threads give the same files. Needs numpy and torch.
"""
import argparse
import gzip
import math
import pathlib
import sys
import time

import numpy as np
import torch

AUTOENCODERS = 4
DIM, HIDDEN = 64, 256
BATCH, RATE = 128, 1e-3
SHORT_AXES = (1 / 100, 1 / 5)  # lengths relative to the long axis


def read_idx(folder: pathlib.Path, name: str) -> np.ndarray:
    """An idx file of bytes: two zeros, the type 8, the number of dimensions, each as 4 big-endian bytes, the values."""
    for path in (folder / f"{name}.gz", folder / name, folder / name.replace("-idx", ".idx")):
        if path.exists():
            blob = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
            break
    else:
        sys.exit(f"no {name} or {name}.gz in {folder}; give --data, or run: scripts/setup experiments")
    if blob[:3] != b"\0\0\x08":
        sys.exit(f"{path} is not an idx file of bytes")
    shape = np.frombuffer(blob, ">u4", count=blob[3], offset=4)
    return np.frombuffer(blob, np.uint8, offset=4 + 4 * blob[3]).reshape(shape)


def read_rows(folder: pathlib.Path, train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels as float32 from 0 to 1, and labels: `train` rows of the training files, then `test` of the test files."""
    pixels, labels = [], []
    for part, count in (("train", train), ("t10k", test)):
        images = read_idx(folder, f"{part}-images-idx3-ubyte")
        if len(images) < count:
            sys.exit(f"{count} rows were asked for, but {folder} has only {len(images)} of {part}")
        pixels.append(images[:count].reshape(count, -1))
        labels.append(read_idx(folder, f"{part}-labels-idx1-ubyte")[:count])
    return np.concatenate(pixels).astype(np.float32) / 255, np.concatenate(labels).astype(np.int64)


def rotation(generator: torch.Generator) -> torch.Tensor:
    orthogonal: torch.Tensor = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator))[0]
    return orthogonal


def cigar(generator: torch.Generator) -> torch.Tensor:
    """The fixed map of one autoencoder. Its mean square is 1, so that only the shape differs from an identity."""
    shortest, longest = (math.log(length) for length in SHORT_AXES)
    lengths = torch.exp(shortest + (longest - shortest) * torch.rand(DIM, generator=generator))
    lengths[0], lengths[1] = 1, SHORT_AXES[0]
    return rotation(generator) * (lengths / lengths.square().mean().sqrt()) @ rotation(generator)


class Autoencoder(torch.nn.Module):
    def __init__(self, pixels: int, generator: torch.Generator) -> None:
        super().__init__()
        # Batch normalisation holds every value of the code at variance 1: the encoder cannot undo the scales.
        self.encoder = torch.nn.Sequential(torch.nn.Linear(pixels, HIDDEN), torch.nn.ReLU(),
                                           torch.nn.Linear(HIDDEN, DIM), torch.nn.BatchNorm1d(DIM, affine=False))
        self.decoder = torch.nn.Sequential(torch.nn.Linear(DIM, HIDDEN), torch.nn.ReLU(),
                                           torch.nn.Linear(HIDDEN, pixels), torch.nn.Sigmoid())
        self.register_buffer("cigar", cigar(generator))

    def latent(self, rows: torch.Tensor) -> torch.Tensor:
        latents: torch.Tensor = self.encoder(rows) @ self.cigar
        return latents


def train(pixels: torch.Tensor, epochs: int, seed: int) -> Autoencoder:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Autoencoder(pixels.shape[1], generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        order = torch.randperm(len(pixels), generator=generator)
        for rows in order[:len(order) // BATCH * BATCH].split(BATCH):
            batch = pixels[rows]
            loss = torch.nn.functional.mse_loss(model.decoder(model.latent(batch)), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"),
                        help="folder of {train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz")
    parser.add_argument("--rows", type=int, nargs=2, default=(10000, 2000), metavar=("TRAIN", "TEST"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0, help="autoencoder i has the seed 100 SEED + i")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("embeddings/fashion-mnist"))
    asked = parser.parse_args()
    if min(asked.rows) < 1 or asked.rows[0] < BATCH:
        parser.error(f"--rows: at least {BATCH} to train on and 1 to test on")
    torch.set_num_threads(asked.threads)
    torch.use_deterministic_algorithms(True)

    images, labels = read_rows(asked.data, *asked.rows)
    asked.out.mkdir(parents=True, exist_ok=True)
    np.save(asked.out / "pixels.npy", images.astype(np.float16))
    np.save(asked.out / "labels.npy", labels)
    pixels, rows = torch.from_numpy(images), asked.rows[0]
    mean_image = (pixels[rows:] - pixels[:rows].mean(0)).square().mean()
    print(f"{rows} rows to train on, {asked.rows[1]} to test on; MSE of the mean image {mean_image:.5f}")
    for i in range(1, AUTOENCODERS + 1):
        start = time.perf_counter()
        model = train(pixels[:rows], asked.epochs, 100 * asked.seed + i)
        with torch.no_grad():
            latent = model.latent(pixels)
            error = (model.decoder(latent[rows:]) - pixels[rows:]).square().mean()
        np.save(asked.out / f"ae{i}.npy", latent.numpy())
        spread = np.sqrt(np.linalg.eigvalsh(np.cov(latent[:rows].numpy().astype(np.float64).T)))
        print(f"ae{i}: MSE of its own decoder {error:.5f}; standard deviation along the latent's longest axis over the "
              f"next {spread[-1] / spread[-2]:.1f}, over the shortest {spread[-1] / spread[0]:.0f}; "
              f"{time.perf_counter() - start:.0f} s", flush=True)
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()
