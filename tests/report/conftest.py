# SPDX-License-Identifier: Apache-2.0
"""Results as 'kedge stitch' and 'kedge sweep' write them, but made up: small, seeded, and easy to bend."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from kedge.report import geometry, style  # noqa: E402
from kedge.report.__main__ import main  # noqa: E402

TABLES_OF = os.environ.get("TABLES_OF", str(ROOT / "build/dev/tests/report/kedge_tables_of"))  # what the command does
Results = dict[str, Any]
ENCODERS = ["vit-s14", "effnet-lite0", "vgg16", "tinyvit-sam"]
METHODS = ["absolute", "random-cosine", "param-single", "param-multi", "consensus"]
QUALITY = {"absolute": 0.0, "random-cosine": 0.33, "random-wip": 0.4, "param-single": 0.11, "param-multi": 0.08,
           "consensus": 0.03}
PARTS = {"symnce": 3.0, "coverage": 1.0, "orthogonality": 0.05, "length": 0.3}


def record(rng: np.random.Generator, method: str, encoder: str, trained_on: str, seed: int, point: dict[str, Any],
           labels: bool, targets: bool, base: dict[str, float]) -> dict[str, Any]:
    own, loss = encoder == trained_on, QUALITY.get(method, 0.2)
    reach = 1 - np.exp(-(point["anchors"] or 300) / 90)
    f1 = base[encoder] - (0.3 * loss if own else loss) - 0.1 * (1 - reach) + rng.normal(0, 0.004)
    mrr = float(np.clip((0.85 - 2.4 * loss) * reach, 0.004, 1) + rng.uniform(0, 0.003))
    rr = {"mrr": mrr, "recall@1": 0.9 * mrr, "recall@5": min(1, 1.15 * mrr), "recall@10": min(1, 1.2 * mrr),
          "nmse": 0.3 + 2 * loss, "paired_cosine": 1 - loss}
    mse = 0.01 + 0.1 * loss + 0.005 * (not own) * (method != "absolute") + rng.uniform(0, 0.001)
    return {"method": method, "encoder": encoder, "trained_on": trained_on, "zero_shot": not own, "seed": seed, **point,
            "weighted_f1": f1 if labels else None, "accuracy": f1 + 0.002 if labels else None,
            "macro_f1": f1 - 0.004 if labels else None, **{k: None if own else v for k, v in rr.items()},
            "rr_std": None if method == "absolute" else 0.6 + loss,
            "mse": mse if targets else None, "psnr": -10 * np.log10(mse) if targets else None}


def history(rng: np.random.Generator, method: str, epochs: int = 30) -> list[dict[str, float]]:
    if not method.startswith("param"):
        return []
    decay = np.exp(-np.arange(epochs) / 8) + 0.4
    losses = [{part: scale * d + rng.normal(0, 0.01 * scale) for part, scale in PARTS.items()} for d in decay]
    return [{"total": sum(parts.values()), **parts} for parts in losses]


def fake_results(encoders: list[str] = ENCODERS, methods: list[str] = METHODS, seeds: int = 3, labels: bool = True,
                 targets: bool = False, sweep: dict[str, list[Any]] | None = None, seed: int = 0) -> Results:
    """'sweep' maps axes to their values, e.g. {"anchors": [50, 100]}; then every combination is measured."""
    rng = np.random.default_rng(seed)
    base = {name: 0.82 - 0.06 * (i % 4) for i, name in enumerate(encoders)}
    fixed = {"anchors": 300, "support": 5000, "shrinkage": 0.15}
    points = [fixed]
    for axis, values in (sweep or {}).items():
        points = [{**point, axis: value} for point in points for value in values]
    records, runs = [], []
    for number in range(seeds):
        for method in methods:
            if method == "absolute":
                empty = dict.fromkeys(fixed)
                records += [record(rng, method, e, e, number, empty, labels, targets, base) for e in encoders]
                continue
            for point in points:
                for encoder in encoders:
                    records += [record(rng, method, encoder, source, number, point, labels, targets, base)
                                for source in encoders]
                    runs.append({"method": method, "sources": [e for e in encoders if e != encoder], "seed": number,
                                 **point, "seconds": 40.0 if method.startswith("param") else 0.12,
                                 "history": history(rng, method)})
    return {"format": "kedge results", "format_version": 1, "kedge_version": "0.1.0",
            "command": "sweep" if sweep else "stitch",
            "settings": {"spaces": [{"name": e, "dim": 384, "fingerprint": "00ff" * 4} for e in encoders],
                         "train": [0, 6500], "test": [6500, 8000],
                         "labels": {"classes": 10, "fingerprint": "ab" * 8} if labels else None,
                         "targets": {"dim": 784, "shape": [28, 28], "fingerprint": "cd" * 8} if targets else None,
                         "head": {"kind": "mlp", "epochs": 9, "batch": 256}, "fit": {"lr": 0.03, "tau": 0.1}},
            "records": records, "runs": runs}


def fake_figures(encoders: list[str] = ENCODERS, methods: list[str] = METHODS, classes: int = 10, rows: int = 300,
                 pictures: bool = False, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows) if classes else np.zeros(rows, int)
    centres = rng.normal(size=(max(classes, 6), 2))
    cloud = centres[labels if classes else rng.integers(0, 6, rows)] + 0.25 * rng.normal(size=(rows, 2))

    def turned(amount: float) -> list[list[float]]:
        angle = amount * rng.uniform(1, 5)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        moved = cloud @ turn * (1 + amount * rng.uniform(0, 2, 2)) + 0.1 * rng.normal(size=(rows, 2))
        points: list[list[float]] = np.round(moved, 4).tolist()
        return points

    relative = [{"method": m, "held_out": encoders[-1] if m != "random-cosine" else None, "seed": 0,
                 "points": {e: turned(3 * QUALITY.get(m, 0.2)) for e in encoders},
                 "centred_cosine": 1 - 2 * QUALITY.get(m, 0.2)} for m in methods if m != "absolute"]
    similarities = [{"similarity": s, "points": {e: turned(a) for e in encoders}, "centred_cosine": 1 - a,
                     "found_first": 1 - a}
                    for s, a in (("wip", 0.1), ("cosine", 0.5), ("euclidean", 0.7), ("inner", 0.9))]
    images = None
    if pictures:
        y, x = np.mgrid[:28, :28]
        rings = [np.hypot(x - 14 - 3 * np.cos(i), y - 14) - 4 - 0.6 * i for i in range(10)]
        originals = [np.exp(-(ring ** 2) / 3).ravel() for ring in rings]
        decoded = {m: [(1 - q) * o + q * rng.uniform(size=784) for o in originals]
                for m, q in QUALITY.items() if m in methods}
        images = {"shape": [28, 28], "trained_on": encoders[0], "encoder": encoders[-1],
                  "original": [o.tolist() for o in originals],
                  "methods": {m: [np.round(o, 4).tolist() for o in rows] for m, rows in decoded.items()}}
    return {"labels": labels.tolist() if classes else None, "raw": {e: turned(1) for e in encoders},
            "relative": relative, "similarities": similarities, "reconstructions": images}


class Report:
    """Makes reports in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.page = folder / "report.html"

    def write(self, results: object = None, figures: object = None) -> None:
        if results is not None:
            text = results if isinstance(results, str) else json.dumps(results)
            (self.folder / "results.json").write_text(text)
            (self.folder / "tables.json").unlink(missing_ok=True)
            completed = subprocess.run([TABLES_OF, str(self.folder)], capture_output=True, text=True, timeout=600)
            self.refusal = completed.stderr if completed.returncode else ""
        if figures is not None:
            text = figures if isinstance(figures, str) else json.dumps(figures)
            (self.folder / "figures.json").write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As a user does it."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        return subprocess.run([sys.executable, "-m", "kedge.report", str(self.folder), *map(str, arguments)],
                              capture_output=True, text=True, timeout=1800, env=environment)

    def here(self, *arguments: str) -> tuple[int, str]:
        """The same without a new process, which is quicker; warnings are failures."""
        with contextlib.redirect_stderr(io.StringIO()) as said, warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("error", category=UserWarning, module="kedge")
            return main([str(self.folder), *arguments]), said.getvalue()

    def page_of(self, results: Results, figures: object = None) -> str:
        """The page's text; the run must succeed and say nothing with --quiet."""
        self.write(results, figures)
        assert not self.refusal, self.refusal
        assert self.here("--quiet") == (0, "")
        return self.page.read_text()

    def refused(self, says: list[str]) -> None:
        """Exit code 3, one sentence with all these words, and no file."""
        code, said = self.here()
        assert code == 3, (code, said)
        for word in says:
            assert word in said, said
        assert said.count("\n") == 1 and said.startswith("report: "), said
        assert not self.page.exists() and not list(self.folder.glob("*.partial"))


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that a page would have drawn, which takes most of its time: the page has empty frames instead."""
    figures = []

    def frame(figure: Figure, **_: Any) -> bytes:
        figures.append(figure)
        return b'<svg viewBox="0 0 1 1"></svg>'

    monkeypatch.setattr(style, "bytes_of", frame)
    monkeypatch.setattr(geometry.Easel, "cloud", lambda self, points, limits, says: style.png(b"", says))
    return figures
