# SPDX-License-Identifier: Apache-2.0
"""The options of fit, stitch and sweep as type checkers see them. Made by scripts/make-python-types."""
import os
import typing


class SharedOptions(typing.TypedDict, total=False):
    effort: typing.Literal["fast", "best"]
    support_select: typing.Literal["random", "fps", "kmeans", "leverage"]
    epsilon: float
    ridge: float | str
    device: typing.Literal["cpu", "cuda"]
    precision: typing.Literal["fp32", "tf32", "bf16"]
    kernel_width: float | str
    kernel_strength: float | str
    kernel_whitening: float | str
    robust: bool
    epochs: int
    batch: int
    lr: float
    weight_decay: float
    temperature: float
    weight_symnce: float
    tau_symnce: float
    weight_coverage: float
    tau_coverage: float
    weight_orthogonality: float
    weight_length: float
    coverage_rows: typing.Literal["batch", "all"]
    coverage_chunk: int
    power: float
    refine_epochs: int
    refine_rate: float
    refine_tau: float


class SweepOptions(SharedOptions, total=False):
    head: typing.Literal["mlp", "linear", "ridge"]
    head_epochs: int
    head_hidden: int
    head_batch: int
    head_lr: float
    head_weight_decay: float
    head_dropout: float
    head_l2: float


class StitchOptions(SweepOptions, total=False):
    anchors: int | None
    support: int | None
    shrinkage: float | str


class FitOptions(SharedOptions, total=False):
    method: typing.Literal["param", "consensus", "random", "kmeans", "fps", "procrustes", "ridge", "cca", "kernel"]
    similarity: typing.Literal["wip", "cosine", "euclidean", "inner", "angular", "manhattan"]
    anchors: int | None
    support: int | None
    keep: int
    seed: int
    shrinkage: float | str
    attach: typing.Literal["mixture", "ridge", "kernel", "auto"] | None
    keep_rows: bool
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    resume: bool
