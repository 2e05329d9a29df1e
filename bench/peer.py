# SPDX-License-Identifier: Apache-2.0
"""PARAM in plain PyTorch: eager operations, autograd and Adam, as one writes it down from the equations.

It is what kedge's own step is timed against. It needs the environment that `scripts/setup bench` makes:
    build/torch-venv/bin/python bench/peer.py --steps 8
Prints JSON: milliseconds per step on random data of the given sizes. Names are those of docs and kedge's options.
"""
import argparse
import itertools
import json
import time

import torch
import torch.nn.functional as F

TEMPERATURE = 2.9
LEARNING_RATE = 0.03
WEIGHT_SYMNCE, TAU_SYMNCE = 0.70, 0.10
WEIGHT_COVERAGE, TAU_COVERAGE = 11.3, 2.7
WEIGHT_ORTHOGONALITY = 0.27
WEIGHT_LENGTH = 1.2
WARM_STEPS = 3  # as many as kedge_step_bench takes


def coverage(rows, anchors):
    """Mean squared distance of the rows to their soft nearest anchors, per dimension."""
    squared = (rows * rows).sum(1, keepdim=True) + (anchors * anchors).sum(1) - 2 * rows @ anchors.T
    nearness = F.softmax(-squared / TAU_COVERAGE, dim=1)
    return (nearness * squared).sum(1).mean() / anchors.shape[1]


def orthogonality_and_length(anchors):
    """Mean squared cosine between different anchors, and mean squared difference of their lengths from 1."""
    count = len(anchors)
    lengths = anchors.norm(dim=1)
    unit = anchors / lengths[:, None].clamp_min(1e-12)
    cosines = unit @ unit.T
    orthogonality = ((cosines * cosines).sum() - count) / (count * (count - 1))
    return orthogonality, ((lengths - 1) ** 2).mean()


def symnce(relative):
    """Symmetric InfoNCE between the unit relative representations of the same batch, averaged over pairs of spaces."""
    same_row = torch.arange(len(relative[0]))
    losses = []
    for first, second in itertools.combinations(relative, 2):
        logits = first @ second.T / TAU_SYMNCE
        losses.append((F.cross_entropy(logits, same_row) + F.cross_entropy(logits.T, same_row)) / 2)
    return sum(losses) / len(losses)


def objective(logits, supports, batches):
    """The five losses of one batch: total, coverage, orthogonality, length, symnce; only the total is weighted.

    logits: anchors x support; supports and batches: the whitened rows of each space, support x dim and batch x dim.
    """
    mixture = F.softmax(logits / TEMPERATURE, dim=1)
    parts, relative = [], []
    for support, rows in zip(supports, batches):
        anchors = mixture @ support
        parts.append(torch.stack([coverage(rows, anchors), *orthogonality_and_length(anchors)]))
        if len(supports) > 1:
            relative.append(F.normalize(rows @ anchors.T, dim=1))
    cov, orth, length = torch.stack(parts).mean(0)
    nce = symnce(relative) if relative else torch.zeros(())
    total = WEIGHT_COVERAGE * cov + WEIGHT_ORTHOGONALITY * orth + WEIGHT_LENGTH * length + WEIGHT_SYMNCE * nce
    return total, cov, orth, length, nce


class Trainer:
    """Learns the logits by Adam on shuffled batches of parallel rows; `spaces` are whitened, rows x dim each."""

    def __init__(self, spaces, support_ids, anchors, batch, seed=0):
        self.spaces, self.batch = spaces, min(batch, len(spaces[0]))
        self.supports = [space[support_ids] for space in spaces]
        self.random = torch.Generator().manual_seed(seed)
        self.logits = torch.randn(anchors, len(support_ids), generator=self.random).requires_grad_()
        self.adam = torch.optim.Adam([self.logits], lr=LEARNING_RATE)
        self.batches = self.shuffled_batches()

    def shuffled_batches(self):
        """Row numbers of one batch after the other, reshuffled each epoch; what does not fill a batch is left out."""
        count = len(self.spaces[0])
        while True:
            order = torch.randperm(count, generator=self.random)
            yield from order[:count - count % self.batch].split(self.batch)

    def step(self):
        """One step on the next batch; returns its losses."""
        ids = next(self.batches)
        losses = objective(self.logits, self.supports, [space[ids] for space in self.spaces])
        self.adam.zero_grad(set_to_none=True)
        losses[0].backward()
        self.adam.step()
        return torch.stack(losses).detach()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 50000), ("support", 5000), ("anchors", 300), ("batch", 1024), ("steps", 8)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--dims", type=int, nargs="+", default=[384, 1280, 768], help="dimension of each space")
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = options.parse_args()

    torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    spaces = [torch.randn(chosen.rows, dim) for dim in chosen.dims]
    trainer = Trainer(spaces, torch.randperm(chosen.rows)[:chosen.support], chosen.anchors, chosen.batch)
    for _ in range(WARM_STEPS):
        trainer.step()
    start = time.perf_counter()
    for _ in range(chosen.steps):
        trainer.step()
    seconds = time.perf_counter() - start
    print(json.dumps({"ms_per_step": 1e3 * seconds / chosen.steps, "steps": chosen.steps,
                      "threads": torch.get_num_threads(), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
