#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often kedge.match finds which row belongs to which: the table and the picture of docs/match.md.

    experiments/match/run.py --data data --draws 0 -o out/match
    experiments/match/run.py --data PATH --settings 'captions, English - German' --pairs 0,5,10,20,50,100 -o out/curve
    experiments/match/run.py --data PATH --unrelated --pairs 0,5,20 -o out/unrelated

A folder of --data holds embeddings, the same input in the same row of all its files. A fifth of the rows, 2000 at most,
is held out. The others are given to match in two shuffled piles, with so many known pairs, and held-out rows look for
themselves among each other through the rotation that it finds: mean reciprocal rank, and the share found first, both
ways. Beside it: a rotation and a ridge regression by the known pairs alone, and a rotation by all pairs (Procrustes). A
result that match itself does not trust is in brackets. With --unrelated, nothing in one pile belongs to anything in the
other, and known pairs are drawn by chance. Writes results.csv, table.md and curve.svg, the last from all numbers of
pairs that were run; what is in results.csv already is not measured again.
"""
import argparse
import csv
import dataclasses
import itertools
import pathlib
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import kedge
import numpy as np

# Files of several folders are one setting; those that are not there are left out.
DOCUMENTS = ("retrieval/scifact", "retrieval/cranfield", "cranfield")
SETTINGS = {
    "documents, minilm - mpnet": (DOCUMENTS, "minilm-l6-docs", "mpnet-base-docs"),
    "documents, wordllama - minilm": (DOCUMENTS, "wordllama-docs", "minilm-l6-docs"),
    "documents, wordllama - mpnet": (DOCUMENTS, "wordllama-docs", "mpnet-base-docs"),
    "documents, use - minilm": (DOCUMENTS, "use-multilingual-docs", "minilm-l6-docs"),
    "documents, use - mpnet": (DOCUMENTS, "use-multilingual-docs", "mpnet-base-docs"),
    "captions, English - German": (("captions",), "en-minilm-l6", "de-use"),
    "captions, English - Czech": (("captions",), "en-minilm-l6", "cs-lsa"),
    "captions, English - French": (("captions",), "en-minilm-l6", "fr-spacy-md"),
    "sentences, minilm - use": (("slm",), "minilm-l6", "use-multilingual"),
    "sentences, minilm - smollm2": (("slm",), "minilm-l6", "smollm2-135m"),
    "sentences, smollm2 - gemma3": (("slm",), "smollm2-135m", "gemma3-270m"),
    "images, vit - effnet": (("cifar10",), "vit-s14", "effnet-lite0"),
}
# Two piles that have nothing to do with each other; 'random' has normal rows with the covariance of the other side.
UNRELATED = {
    "images - sentences": ("cifar10/vit-s14", "slm/minilm-l6"),
    "images - captions": ("cifar10/effnet-lite0", "captions/de-use"),
    "captions - sentences, two encoders": ("captions/en-minilm-l6", "slm/use-multilingual"),
    "documents - documents of another field": ("retrieval/scifact/minilm-l6-docs",
                                               "retrieval/cranfield/mpnet-base-docs"),
    "documents - captions": ("retrieval/scifact/wordllama-docs", "captions/cs-lsa"),
    "documents - random": ("retrieval/scifact/minilm-l6-docs", "random"),
    "captions - random": ("captions/en-minilm-l6", "random"),
    "sentences - random": ("slm/smollm2-135m", "random"),
}
Map = tuple[np.ndarray, np.ndarray, np.ndarray]  # weight, mean of the first, mean of the second


@dataclasses.dataclass
class Result:
    setting: str
    disjoint: bool
    most_rows: int  # asked for
    rows: int  # of each pile
    pairs: int  # known
    draw: int
    verdict: str
    trusted: bool
    agreement: float
    mutual: float
    found: int  # pairs
    right: float  # share of them
    seconds: float  # of processors
    mrr: float
    recall: float
    mrr_alone: float
    recall_alone: float
    mrr_ridge: float  # by the known pairs alone
    mrr_all: float
    recall_all: float

    @property
    def group(self) -> str:
        """What the lines of the table and of the picture stand for."""
        parts = [self.setting, f"{self.rows:,} rows" if self.most_rows else "", "other items" if self.disjoint else ""]
        return ", ".join(filter(None, parts))

    @property
    def good(self) -> bool:
        """Half the MRR of all pairs, more than the known pairs alone, and more than two spaces have by chance."""
        return self.mrr > max(.5 * self.mrr_all, self.mrr_alone, .2)


def load_unrelated(data: pathlib.Path, setting: str) -> tuple[np.ndarray, np.ndarray] | None:
    one, other = (data / f"{name}.npy" for name in UNRELATED[setting])
    if not one.exists() or not (other.exists() or other.stem == "random"):
        return None
    first = np.load(one).astype(np.float32)
    if other.exists():
        second = np.load(other).astype(np.float32)
    else:
        rng = np.random.default_rng(0)
        second = rng.standard_normal((len(first),) * 2, dtype=np.float32) @ (first - first.mean(0)) / len(first) ** .5
    rows = min(len(first), len(second))
    return first[:rows], second[:rows]


def load(data: pathlib.Path, setting: str) -> tuple[np.ndarray, np.ndarray] | None:
    if setting in UNRELATED:
        return load_unrelated(data, setting)
    folders, *names = SETTINGS[setting]
    there = [data / folder for folder in folders if all((data / folder / f"{name}.npy").exists() for name in names)]
    if not there:
        return None
    first, second = (np.concatenate([np.load(folder / f"{name}.npy").astype(np.float32) for folder in there])
                     for name in names)
    return first, second


def unit(rows: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled


def procrustes(first: np.ndarray, second: np.ndarray, pairs: np.ndarray) -> Map:
    """The rotation between rows of unit length around the means of all rows, in as many directions as pairs span."""
    means = first.mean(0), second.mean(0)
    a, b = unit(first - means[0])[pairs[:, 0]], unit(second - means[1])[pairs[:, 1]]
    u, s, v = np.linalg.svd(b.T @ a, full_matrices=False)
    kept = s > 1e-6 * s[0]
    return u[:, kept] @ v[kept], *means


def ridge(first: np.ndarray, second: np.ndarray, pairs: np.ndarray, strength: float) -> Map:
    """From rows of unit length around the mean to the second's; at strength 1 it halves the mean direction of pairs."""
    means = first.mean(0), second.mean(0)
    a, b = unit(first - means[0])[pairs[:, 0]], unit(second - means[1])[pairs[:, 1]]
    gram = a @ a.T
    solved = np.linalg.solve(gram + strength * np.trace(gram) / len(gram) * np.eye(len(gram), dtype=a.dtype), b)
    return solved.T @ a, *means


def score(found: Map, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """MRR and R@1 of parallel rows, both ways."""
    weight, first_mean, second_mean = found
    similar = unit((first - first_mean) @ weight.T) @ unit(second - second_mean).T
    own = np.diag(similar)
    ranks = 1 + np.concatenate([(similar > own[:, None]).sum(1), (similar > own[None]).sum(0)])
    return float((1 / ranks).mean()), float((ranks == 1).mean())


class Draw:
    """Two shuffled piles of the same inputs, or with disjoint of different ones, and rows held out."""

    def __init__(self, first: np.ndarray, second: np.ndarray, seed: int, rows: int, disjoint: bool) -> None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(first))
        held, order = np.split(order, [min(2000, len(first) // 5)])
        self.train, self.disjoint, self.rng, self.rows = order[:rows or None], disjoint, rng, rows
        self.first, self.second = first, second
        self.held = first[held], second[held]

    def piles(self, known: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of both piles, as numbers of the files, and those that are in both, as numbers of the piles; the
        known ones come first."""
        pairs, rest = np.split(self.train, [known])
        halves = np.array_split(rest, 2) if self.disjoint else (rest, rest)
        one, other = (self.rng.permutation(np.concatenate([pairs, half])) for half in halves)
        where = [np.full(len(self.first), -1) for _ in range(2)]
        for place, pile in zip(where, (one, other)):
            place[pile] = np.arange(len(pile))
        both = np.column_stack([place[self.train] for place in where])
        return one, other, both[(both >= 0).all(1)]

    def all_pairs(self) -> tuple[float, float]:
        paired = np.column_stack([self.train, self.train])
        return score(procrustes(self.first, self.second, paired), *self.held)


def measure(setting: str, draw: Draw, known: int, seed: int, best: tuple[float, float]) -> Result:
    one, other, both = draw.piles(known)
    first, second, pairs = draw.first[one], draw.second[other], both[:known]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of verdicts, which the table shows
        found = kedge.match(first, second, pairs if known else None, disjoint=draw.disjoint, force=True, seed=seed)
    seconds = time.process_time() - began
    alone = score(procrustes(first, second, pairs), *draw.held) if known else (0.0, 0.0)
    # The best of three strengths on the rows that score it, which is more than anyone could know.
    by_ridge = max(score(ridge(first, second, pairs, s), *draw.held)[0] for s in (.01, .1, 1)) if known else 0.0
    weight, means = found.rotation
    true = np.full(len(first), -1)
    true[both[:, 0]] = both[:, 1]
    right = float((true[found.pairs[:, 0]] == found.pairs[:, 1]).mean()) if len(found.pairs) else 0.0
    return Result(setting, draw.disjoint, draw.rows, len(first), known, seed, found.verdict, found.trusted,
                  found.agreement, found.mutual, len(found.pairs), right, seconds,
                  *score((weight, *means), *draw.held), *alone, by_ridge, *best)


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def cell(results: Sequence[Result]) -> str:
    """Of every draw, and before them what the pairs alone are worth on average."""
    after = " ".join(short(r.mrr) if r.trusted else f"({short(r.mrr)})" for r in results)
    if not results or not results[0].pairs:
        return after
    return f"{short(float(np.mean([r.mrr_alone for r in results])))} -> {after}"


def table(results: Sequence[Result]) -> str:
    counts = sorted({r.pairs for r in results})
    heads = ["MRR of held-out rows", "rows", "all pairs", *(f"{n} pairs" if n else "none" for n in counts)]
    lines = [heads, ["---"] * len(heads)]
    for group in dict.fromkeys(r.group for r in results):
        own = [r for r in results if r.group == group]
        best = float(np.mean([r.mrr_all for r in own]))
        cells = [cell([r for r in own if r.pairs == n]) for n in counts]
        lines.append([group, f"{own[0].rows:,}", short(best), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def errors(results: Sequence[Result]) -> str:
    """How often the verdict is wrong in each direction, by how it was reached."""
    lines = ["| verdict from | good | of them not trusted | no good | of them trusted |", "|---|---|---|---|---|"]
    for name, low, high in (("two runs", 0, 0), ("1 to 9 pairs", 1, 9), ("10 pairs and more", 10, 10**9)):
        own = [r for r in results if low <= r.pairs <= high]
        good, bad = [r for r in own if r.good], [r for r in own if not r.good]
        lines.append(f"| {name} | {len(good)} | {sum(not r.trusted for r in good)} | {len(bad)} | "
                     f"{sum(r.trusted for r in bad)} |")
    wrong = [f"- trusted, though no good: {r.group}, {r.pairs} pairs, draw {r.draw}: {r.verdict}, MRR {short(r.mrr)}"
             for r in results if r.trusted and not r.good]
    return "\n".join([*lines, "", *wrong]) + "\n"


def draw_curve(results: Sequence[Result], path: pathlib.Path) -> None:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "kedge", "svg.fonttype": "none"})  # the same bytes again, and text as text
    figure, ax = plt.subplots(figsize=(6, 3.6))
    for n, name in enumerate(dict.fromkeys(r.group for r in results)):
        own = [r for r in results if r.group == name]
        groups = {k: [r for r in own if r.pairs == k] for k in sorted({r.pairs for r in own})}
        recall = {k: 100 * float(np.mean([r.recall for r in group])) for k, group in groups.items()}
        ax.plot(list(recall), list(recall.values()), color=f"C{n}", label=name)
        ax.plot([k for k in groups if k], [100 * float(np.mean([r.recall_alone for r in group]))
                                          for k, group in groups.items() if k], color=f"C{n}", linestyle=":")
        for k, group in groups.items():
            fill = f"C{n}" if all(r.trusted for r in group) else "white"
            ax.plot(k, recall[k], "o", color=f"C{n}", markerfacecolor=fill)
    ax.set_xscale("symlog", linthresh=5)
    counts = sorted({r.pairs for r in results})
    ax.set_xticks(counts, list(map(str, counts)))
    ax.minorticks_off()
    ax.set_ylim(0, 101)
    ax.set_xlabel("known pairs (dotted: these alone; hollow: not trusted)")
    ax.set_ylabel("held-out rows found first, %")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def save(results: Sequence[Result], folder: pathlib.Path) -> None:
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Result)])
        writer.writeheader()
        writer.writerows(map(dataclasses.asdict, results))
    (folder / "table.md").write_text(table(results) + "\n" + errors(results))


def measured(path: pathlib.Path) -> list[Result]:
    if not path.exists():
        return []
    kinds: dict[object, Callable[[str], Any]] = {str: str, int: int, float: float, bool: "True".__eq__}
    with path.open(newline="") as file:
        return [Result(**{field.name: kinds[field.type](row[field.name]) for field in dataclasses.fields(Result)})
                for row in csv.DictReader(file)]


def measure_all(asked: argparse.Namespace, results: list[Result]) -> Iterable[Result]:
    there = {(r.setting, r.disjoint, r.most_rows, r.pairs, r.draw) for r in results}
    every = UNRELATED if asked.unrelated else SETTINGS
    for setting, seed, most_rows in itertools.product(asked.settings or every, asked.draws, asked.rows):
        missing = [n for n in asked.pairs if (setting, asked.disjoint, most_rows, n, seed) not in there]
        rows = load(asked.data, setting) if missing else None
        if missing and rows is None:
            print(f"{setting}: its files are not in {asked.data}", flush=True)
        if rows is None:
            continue
        draw = Draw(*rows, seed, most_rows, asked.disjoint)
        best = draw.all_pairs()
        for known in missing:
            result = measure(setting, draw, known, seed, best)
            print(f"{result.group}, {known} pairs, draw {seed}: {result.verdict}, agreement {short(result.agreement)}, "
                  f"mutual {short(result.mutual)}, MRR {short(result.mrr)} (pairs alone {short(result.mrr_alone)}, "
                  f"ridge {short(result.mrr_ridge)}, all pairs {short(result.mrr_all)}), {result.right:.1%} of "
                  f"{result.found} pairs right, {result.seconds:.1f} s", flush=True)
            yield result


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the folders of embeddings")
    parser.add_argument("--settings", nargs="+", choices=[*SETTINGS, *UNRELATED], metavar="NAME",
                        help="all that are there by default")
    parser.add_argument("--unrelated", action="store_true", help="piles that have nothing to do with each other")
    parser.add_argument("--pairs", type=numbers, default="0,5,20", help="numbers of known pairs, comma separated")
    parser.add_argument("--draws", type=numbers, default="0,1,2", help="which draws, comma separated")
    parser.add_argument("--rows", type=numbers, default="0", help="of each pile at most, comma separated; 0: all")
    parser.add_argument("--disjoint", action="store_true", help="other inputs in each pile, but for the known pairs")
    parser.add_argument("-o", "--out", type=pathlib.Path, required=True, metavar="FOLDER")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    results = measured(asked.out / "results.csv")
    for result in measure_all(asked, results):
        results.append(result)
        save(results, asked.out)
    if not results:
        parser.error(f"{asked.data} has the files of no setting: {'; '.join(asked.settings or SETTINGS)}")
    save(results, asked.out)
    draw_curve(results, asked.out / "curve.svg")
    print(f"\n{(asked.out / 'table.md').read_text()}", end="")


if __name__ == "__main__":
    main()
