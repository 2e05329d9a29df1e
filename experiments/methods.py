#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the methods of kedge on a folder of parallel embeddings and prints the tables of docs/scores.md.

    experiments/methods.py methods support shrinkage --data PATH/cifar10 \\
        --encoders vit-s14,effnet-lite0,vgg16,tinyvit-sam --train 0:6500 --test 6500:8000 --labels labels.npy

The folder holds ENCODER.npy for each encoder, the same input in the same row of every file, and the labels.

Each encoder is held out in turn: a bundle is fitted on the others' train rows, the held-out encoder is attached, and
all are transformed. Scores are means over the sources, on the test rows: MRR and R@1 of finding a source's row among
the held-out encoder's (kedge compare), and weighted F1 of a logistic head that was trained on the source's train rows
and reads the held-out encoder's. Seconds are medians of the whole command. PARAM runs with the first seed only.

Needs numpy and scikit-learn. Runs one command at a time; other work on the same cores distorts the seconds.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

ROOT = pathlib.Path(__file__).resolve().parents[1]

# One line of a held-out table. `fit`, `attach`: options of these commands. `again`: options with which the sources are
# attached once more; the same as giving them to fit, without learning twice. `support_only`: attach sees no other rows.
# `pairs`: nothing is attached, the held-out encoder is fitted together with each source alone.
Setup = collections.namedtuple("Setup", "label fit attach again support_only pairs", defaults=((), (), False, False))
Score = collections.namedtuple("Score", "mrr r1 f1 fit_s attach_s fitted")


def rows_of(text: str) -> slice:
    first, end = text.split(":")
    return slice(int(first), int(end))


def support_ids(bundle: str) -> np.ndarray:
    """A bundle is a safetensors file: the length of a JSON header, the header, the tensors."""
    blob = pathlib.Path(bundle).read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    begin, end = json.loads(blob[8:8 + size])["support_ids"]["data_offsets"]
    return np.frombuffer(blob[8 + size + begin:8 + size + end], dtype="<i8")


class Lab:
    """Runs kedge on the folder's encoders, and keeps the last fit for setups that share it."""

    def __init__(self, asked: argparse.Namespace, folder: str) -> None:
        self.asked, self.folder = asked, folder
        self.encoders = asked.encoders.split(",")
        self.seeds = [int(seed) for seed in asked.seeds.split(",")]
        self.labels = np.load(asked.data / asked.labels)
        self.train, self.test = rows_of(asked.train), rows_of(asked.test)
        self.last_fit: tuple[Any, Any] = (None, None)  # what it was of, and what it gave
        self.last_sources: tuple[Any, Any] = (None, None)

    def file(self, encoder: str) -> pathlib.Path:
        return pathlib.Path(self.asked.data, f"{encoder}.npy")

    def space(self, encoder: str, file: object = None) -> list[str]:
        return ["--space", f"{encoder}={file or self.file(encoder)}"]

    def run(self, command: str, *words: object) -> tuple[Any, float]:
        """What the command says as JSON, and its seconds."""
        line = [self.asked.kedge, command, *words, "--threads", self.asked.threads, "--json", "--quiet"]
        start = time.perf_counter()
        said = subprocess.run([str(word) for word in line], stdout=subprocess.PIPE, check=True).stdout
        return json.loads(said), time.perf_counter() - start

    def fit(self, encoders: Sequence[str], options: Sequence[str], seed: int) -> tuple[str, float, Any]:
        """The bundle, the seconds and what fit said. The options win over --support and --anchors."""
        key = (tuple(encoders), tuple(options), seed)
        if self.last_fit[0] != key:
            sizes = {"--support": self.asked.support, "--anchors": self.asked.anchors}
            common = [word for name, value in sizes.items() if name not in options for word in (name, value)]
            spaces = [word for encoder in encoders for word in self.space(encoder)]
            bundle = f"{self.folder}/fit.kedge"
            said, seconds = self.run("fit", *spaces, "--rows", self.asked.train, "--seed", seed, *common, *options,
                                     "-o", bundle)
            self.last_fit = key, (bundle, seconds, said)
        cached: tuple[str, float, Any] = self.last_fit[1]
        return cached

    def attach(self, bundle: str, encoder: str, setup: Setup) -> tuple[str, float]:
        out, options = f"{self.folder}/attached.kedge", ["--rows", self.asked.train]
        file = str(self.file(encoder))
        if setup.support_only:
            file, options = f"{self.folder}/support.npy", ["--support-rows"]
            np.save(file, np.load(self.file(encoder))[support_ids(bundle)])
        _, seconds = self.run("attach", bundle, *self.space(encoder, file), *options, *setup.attach, "-o", out)
        return out, seconds

    def transform(self, bundle: str, encoder: str) -> str:
        out = f"{self.folder}/{encoder}.rr.npy"
        self.run("transform", bundle, "--space", encoder, "-i", self.file(encoder), "-o", out)
        return out

    def head(self, rows: np.ndarray) -> Any:
        """A logistic head on the train rows. One thread: more only wait for each other at this size."""
        with threadpool_limits(1):
            head = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=300))
            return head.fit(np.asarray(rows[self.train], np.float32), self.labels[self.train])

    def f1(self, head: Any, rows: np.ndarray) -> float:
        with threadpool_limits(1):
            return float(f1_score(self.labels[self.test], head.predict(rows), average="weighted"))

    def source_heads(self, key: Any, bundle: str, sources: Sequence[str]) -> dict[str, tuple[str, Any]]:
        """A transformed file and a head for each source."""
        if self.last_sources[0] != key:
            files = {name: self.transform(bundle, name) for name in sources}
            self.last_sources = key, {name: (file, self.head(np.load(file))) for name, file in files.items()}
        cached: dict[str, tuple[str, Any]] = self.last_sources[1]
        return cached

    def pair_scores(self, heads: dict[str, tuple[str, Any]], held_out_file: str) -> list[float]:
        """Means over the sources of MRR, R@1 and F1."""
        held_out, scores = np.load(held_out_file)[self.test], []
        for file, head in heads.values():
            found, _ = self.run("compare", file, held_out_file, "--rows", self.asked.test)
            scores.append((found["mrr"], found["recall@1"], self.f1(head, held_out)))
        return [float(value) for value in np.mean(scores, axis=0)]

    def score_pairs(self, setup: Setup, held_out: str, sources: Sequence[str], seed: int) -> Score:
        scores = []
        for source in sources:
            bundle, *_ = self.fit([held_out, source], setup.fit, seed)
            heads = self.source_heads(self.last_fit[0], bundle, [source])
            scores.append(self.pair_scores(heads, self.transform(bundle, held_out)))
        mrr, r1, f1 = np.mean(scores, axis=0).tolist()
        return Score(mrr, r1, f1, None, None, None)

    def score(self, setup: Setup, held_out: str, seed: int) -> Score:
        sources = [name for name in self.encoders if name != held_out]
        if setup.pairs:
            return self.score_pairs(setup, held_out, sources, seed)
        bundle, fit_s, fitted = self.fit(sources, setup.fit, seed)
        attached, attach_s = self.attach(bundle, held_out, setup)
        for name in sources if setup.again else ():
            self.run("attach", attached, *self.space(name), "--rows", self.asked.train, "--replace", *setup.again, "-o",
                     attached)
        heads = self.source_heads((self.last_fit[0], setup.again), attached, sources)
        mrr, r1, f1 = self.pair_scores(heads, self.transform(attached, held_out))
        return Score(mrr, r1, f1, fit_s, attach_s, fitted)

    def record(self, **values: object) -> None:
        if self.asked.out:
            with open(self.asked.out, "a", encoding="utf-8") as out:
                out.write(json.dumps({"data": self.asked.data.name, **values}) + "\n")


def print_line(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def print_head(*cells: object) -> None:
    print_line(*cells)
    print("|" + "---|" * len(cells))


def short(value: float | None) -> str:
    return f"{value:.3f}".removeprefix("0")


def held_out_table(lab: Lab, table: str, held_outs: Sequence[str],
                   more: Sequence[tuple[str, Callable[[Score], Any]]] = ()) -> None:
    """MRR for each held-out encoder, and means over them; over the seeds too. `more`: columns, a name and a value."""
    setups, scores = HELD_OUT_TABLES[table], collections.defaultdict(list)
    for held_out in held_outs:
        for seed in lab.seeds:
            for setup in setups:
                if "param" in setup.fit and seed != lab.seeds[0]:
                    continue
                score = lab.score(setup, held_out, seed)
                scores[setup.label, held_out].append(score)
                lab.record(table=table, label=setup.label, held_out=held_out, seed=seed,
                           **{key: value for key, value in score._asdict().items() if key != "fitted"})
    timed = {} if any(setup.pairs for setup in setups) else {"fit, s": "fit_s", "attach, s": "attach_s"}
    print_head("", *(f"MRR, {name}" for name in held_outs), "mean MRR", "R@1", "F1", *timed, *dict(more))
    for setup in setups:
        own = [scores[setup.label, held_out] for held_out in held_outs]
        flat = [score for some in own for score in some]
        mean = {key: np.mean([getattr(score, key) for score in flat]) for key in ("mrr", "r1", "f1")}
        seconds = [f"{statistics.median(getattr(score, key) for score in flat):.2f}" for key in timed.values()]
        print_line(setup.label, *(short(np.mean([score.mrr for score in some])) for some in own), short(mean["mrr"]),
                   short(mean["r1"]), f"{100 * mean['f1']:.1f}", *seconds, *(value(flat[0]) for _, value in more))


def with_support(count: int) -> tuple[str, ...]:
    """Anchors must not outnumber the support."""
    return ("--support", str(count), *(("--anchors", str(count)) if count < 300 else ()))


SUPPORTS = (200, 500, 1000, 3000)
CONSENSUS, PARAM, RANDOM, RIDGE = (("--method", name) for name in ("consensus", "param", "random", "ridge"))
BY_RIDGE = ("--attach", "ridge")

HELD_OUT_TABLES = {
    "methods": [
        Setup("random rows, cosine", (*RANDOM, "--similarity", "cosine")),
        Setup("random rows, WIP", RANDOM),
        Setup("k-means, WIP", ("--method", "kmeans")),
        Setup("PARAM", PARAM),
        Setup("PARAM, held-out encoder by ridge", PARAM, BY_RIDGE),
        Setup("PARAM, all encoders by ridge", PARAM, BY_RIDGE, BY_RIDGE),
        Setup("consensus", CONSENSUS),
    ],
    "support": [Setup(f"K {count}, {rows}", (*CONSENSUS, *with_support(count)), support_only=rows != "all rows")
                for count in SUPPORTS for rows in ("all rows", "support rows only")],
    "shrinkage": [Setup(f"{name}, {rule}", (*fit, "--shrinkage", rule))
                  for name, fit in (("consensus, K 3000", CONSENSUS),
                                    ("consensus, K 500", (*CONSENSUS, *with_support(500))),
                                    ("random rows, WIP", RANDOM))
                  for rule in ("0.05", "0.15", "0.30", "ledoit-wolf", "oas")],
    "adapters": [
        Setup("procrustes, whitened", ("--method", "procrustes"), pairs=True),
        Setup("ridge, whitened", RIDGE, pairs=True),
        Setup("cca, whitened", ("--method", "cca"), pairs=True),
        Setup("procrustes, raw", ("--method", "procrustes", "--similarity", "inner"), pairs=True),
        Setup("ridge, raw", (*RIDGE, "--similarity", "inner"), pairs=True),
        Setup("consensus", CONSENSUS),
    ],
    "power": [Setup(f"power {power}", (*CONSENSUS, "--power", power)) for power in ("0", "0.25", "0.5", "1")],
    "select": [Setup(f"K {count}, {rule}", (*CONSENSUS, *with_support(count), "--support-select", rule))
               for count in SUPPORTS for rule in ("random", "fps", "kmeans", "leverage")],
    "sparse": [Setup(f"keep {count}", (*PARAM, "--keep", str(count))) for count in (1, 3, 10, 30, 100, 300, 0)],
    "refine": [Setup(f"{epochs} epochs", (*CONSENSUS, "--refine-epochs", epochs)) for epochs in ("0", "30")],
}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean(np.sum(a * b, 1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))))


def translate(lab: Lab) -> None:
    """Every encoder's test rows in every other's space: through the consensus of all, and by a ridge for the pair."""
    seed, true = lab.seeds[0], {name: np.load(lab.file(name)).astype(np.float32) for name in lab.encoders}
    heads = {name: lab.head(rows) for name, rows in true.items()}
    pairs = [(a, b) for a in lab.encoders for b in lab.encoders if a != b]
    scores = {}
    for way, options in (("consensus", CONSENSUS), ("pairwise ridge", RIDGE)):
        for a, b in pairs:
            bundle, *_ = lab.fit(lab.encoders if way == "consensus" else [a, b], options, seed)
            out = f"{lab.folder}/translated.npy"
            lab.run("translate", bundle, "--from", a, "--to", b, "-i", lab.file(a), "--rows", lab.asked.test, "-o", out)
            rows, mean, goal = np.load(out), true[b][lab.train].mean(0), true[b][lab.test]
            scores[way, a, b] = (cosine(rows, goal), cosine(rows - mean, goal - mean),
                                 heads[b].score(rows, lab.labels[lab.test]))
            lab.record(table="translate", label=way, source=a, target=b, seed=seed,
                       **dict(zip(("cosine", "centred_cosine", "accuracy"), map(float, scores[way, a, b]))))
    own = {name: heads[name].score(true[name][lab.test], lab.labels[lab.test]) for name in lab.encoders}
    print_head("from", "to", *(f"{value}, {way}" for value in ("cosine", "centred cosine", "head's accuracy")
                               for way in ("consensus", "pairwise ridge")), "head on true rows")
    for a, b in pairs:
        print_line(a, b, *(short(x) for both in zip(scores["consensus", a, b], scores["pairwise ridge", a, b])
                           for x in both), short(own[b]))
    means = [np.mean([scores[way, a, b] for a, b in pairs], axis=0) for way in ("consensus", "pairwise ridge")]
    print_line("mean", "", *(short(x) for both in zip(*means) for x in both), short(np.mean(list(own.values()))))


def print_table(lab: Lab, name: str) -> None:
    if name == "translate":
        translate(lab)
    elif name == "sparse":  # many slow fits: the last encoder only
        held_out_table(lab, name, lab.encoders[-1:], [("support rows", lambda score: score.fitted["support"])])
    else:
        held_out_table(lab, name, lab.encoders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*HELD_OUT_TABLES, "translate"]
    parser.add_argument("tables", nargs="+", choices=names, metavar="TABLE", help=", ".join(names))
    parser.add_argument("--kedge", default=ROOT / "build" / "release" / "cli" / "kedge")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the embeddings")
    parser.add_argument("--encoders", required=True, help="their names, comma separated")
    parser.add_argument("--train", default="0:6500", help="rows to fit on")
    parser.add_argument("--test", default="6500:8000", help="rows to score")
    parser.add_argument("--labels", default="labels.npy", help="file in the folder")
    parser.add_argument("--support", default="3000")
    parser.add_argument("--anchors", default="300")
    parser.add_argument("--seeds", default="0", help="comma separated")
    parser.add_argument("--threads", default="0", help="for kedge; 0 means all")
    parser.add_argument("--out", help="file that every score is appended to, one JSON object a line")
    asked = parser.parse_args()
    for name in asked.tables:
        with tempfile.TemporaryDirectory() as folder:
            print(f"\n{name}: {asked.data.name}, seeds {asked.seeds}, {os.cpu_count()} cores\n")
            print_table(Lab(asked, folder), name)


if __name__ == "__main__":
    main()
