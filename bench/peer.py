# SPDX-License-Identifier: Apache-2.0
"""PARAM in plain PyTorch, straight from the equations: eager operations, autograd and Adam.

kedge's own step is timed against it. It needs the environment that `scripts/setup bench` makes:
    build/torch-venv/bin/python bench/peer.py --steps 8
On a GPU (--device cuda, TF32 allowed) the same step runs eagerly, compiled, or captured in a CUDA graph with its Adam.
Prints JSON: milliseconds per step on random data of the given sizes. Names are those of the docs and of kedge's
options."""
import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

TEMPERATURE = 2.9
LEARNING_RATE = 0.03
WEIGHT_SYMNCE, TAU_SYMNCE = 0.70, 0.10
WEIGHT_COVERAGE, TAU_COVERAGE = 11.3, 2.7
WEIGHT_ORTHOGONALITY = 0.27
WEIGHT_LENGTH = 1.2
WARM_STEPS = {"cpu": 3, "cuda": 20}  # on the processor as many as kedge_step_bench takes


def coverage(rows: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    """Mean squared distance of the rows to their soft nearest anchors, per dimension."""
    squared = (rows * rows).sum(1, keepdim=True) + (anchors * anchors).sum(1) - 2 * rows @ anchors.T
    nearness = F.softmax(-squared / TAU_COVERAGE, dim=1)
    return (nearness * squared).sum(1).mean() / anchors.shape[1]


def orthogonality_and_length(anchors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean squared cosine between different anchors, and mean squared difference of their lengths from 1."""
    count = len(anchors)
    lengths = anchors.norm(dim=1)
    unit = anchors / lengths[:, None].clamp_min(1e-12)
    cosines = unit @ unit.T
    orthogonality = ((cosines * cosines).sum() - count) / (count * (count - 1))
    return orthogonality, ((lengths - 1) ** 2).mean()


def symnce(relative: list[torch.Tensor]) -> torch.Tensor:
    """Symmetric InfoNCE between the unit relative representations of the same batch, averaged over pairs of spaces."""
    same_row = torch.arange(len(relative[0]), device=relative[0].device)
    losses = []
    for first, second in itertools.combinations(relative, 2):
        logits = first @ second.T / TAU_SYMNCE
        losses.append((F.cross_entropy(logits, same_row) + F.cross_entropy(logits.T, same_row)) / 2)
    return sum(losses[1:], losses[0]) / len(losses)


def objective(logits: torch.Tensor, supports: list[torch.Tensor], batches: list[torch.Tensor]) -> tuple[torch.Tensor,
              ...]:
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
    nce = symnce(relative) if relative else torch.zeros((), device=logits.device)
    total = WEIGHT_COVERAGE * cov + WEIGHT_ORTHOGONALITY * orth + WEIGHT_LENGTH * length + WEIGHT_SYMNCE * nce
    return total, cov, orth, length, nce


class Trainer:
    """Learns the logits by Adam on shuffled batches of parallel rows; `spaces` are whitened, rows x dim each."""

    def __init__(self, spaces: Sequence[torch.Tensor], support_ids: torch.Tensor, anchors: int, batch: int,
                 seed: int = 0, loss: Callable[..., tuple[torch.Tensor, ...]] = objective, **adam: Any) -> None:
        self.spaces, self.batch, self.loss = spaces, min(batch, len(spaces[0])), loss
        self.device = spaces[0].device
        self.supports = [space[support_ids] for space in spaces]
        self.random = torch.Generator().manual_seed(seed)
        logits = torch.randn(anchors, len(support_ids), generator=self.random)
        self.logits = logits.to(self.device).requires_grad_()
        self.adam = torch.optim.Adam([self.logits], lr=LEARNING_RATE, **adam)
        self.batches = self.shuffled_batches()

    def shuffled_batches(self) -> Iterator[torch.Tensor]:
        """Row numbers of one batch after the other, reshuffled each epoch; what does not fill a batch is left out."""
        count = len(self.spaces[0])
        while True:
            order = torch.randperm(count, generator=self.random).to(self.device)
            yield from order[:count - count % self.batch].split(self.batch)

    def step(self) -> torch.Tensor:
        """One step on the next batch; returns its losses."""
        return self.step_on(next(self.batches))

    def step_on(self, ids: torch.Tensor) -> torch.Tensor:
        losses = self.loss(self.logits, self.supports, [space[ids] for space in self.spaces])
        self.adam.zero_grad(set_to_none=True)
        losses[0].backward()
        self.adam.step()
        return torch.stack(losses).detach()


class GraphTrainer(Trainer):
    """The eager step as one CUDA graph, which reads its row numbers from memory that is always the same."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, capturable=True, **options)
        self.ids = next(self.batches).clone()
        side = torch.cuda.Stream()  # capturing wants all lazy set-up done, on a stream of its own
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step_on(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.adam.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.losses = self.step_on(self.ids)

    def step(self) -> torch.Tensor:
        self.ids.copy_(next(self.batches))
        self.graph.replay()
        return self.losses


def make_trainer(chosen: argparse.Namespace, spaces: Sequence[torch.Tensor], support_ids: torch.Tensor) -> Trainer:
    arguments = (spaces, support_ids, chosen.anchors, chosen.batch)
    if chosen.mode == "graph":
        return GraphTrainer(*arguments)
    if chosen.mode == "compile":
        return Trainer(*arguments, loss=torch.compile(objective))
    return Trainer(*arguments)


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 50000), ("support", 5000), ("anchors", 300), ("batch", 1024), ("steps", 8)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--dims", type=int, nargs="+", default=[384, 1280, 768], help="dimension of each space")
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--mode", choices=("eager", "compile", "graph"), default="eager", help="of a step on a GPU")
    options.add_argument("--rounds", type=int, default=1, help="of so many steps each; the median counts")
    chosen = options.parse_args()
    if chosen.mode != "eager" and chosen.device != "cuda":
        options.error(f"--mode {chosen.mode} is for --device cuda")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        options.error("this PyTorch finds no GPU")
    return chosen


def wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    chosen = parse()
    torch.set_num_threads(chosen.threads)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    spaces = [torch.randn(chosen.rows, dim).to(chosen.device) for dim in chosen.dims]
    support_ids = torch.randperm(chosen.rows)[:chosen.support].to(chosen.device)
    trainer = make_trainer(chosen, spaces, support_ids)
    for _ in range(WARM_STEPS[chosen.device]):
        trainer.step()
    rounds = []
    for _ in range(chosen.rounds):
        wait_for(chosen.device)
        start = time.perf_counter()
        for _ in range(chosen.steps):
            losses = trainer.step()
        wait_for(chosen.device)
        rounds.append(1e3 * (time.perf_counter() - start) / chosen.steps)
    print(json.dumps({"ms_per_step": statistics.median(rounds), "rounds_ms": rounds, "steps": chosen.steps,
                      "threads": torch.get_num_threads(), "torch": torch.__version__, "device": chosen.device,
                      "mode": chosen.mode, "support": chosen.support, "total_loss": losses[0].item()}))


if __name__ == "__main__":
    main()
