#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds kedge against what else does its job, on the same rows, and writes the table bench/results/rivals.md.

    make rivals                                     # on the data that come with kedge
    bench/rivals/run.py --data FOLDER -o TABLE.md   # on yours; with the Python of build/rivals-venv

FOLDER holds ENCODER.npy for each encoder (row n of all is the same input), or ENCODER-docs.npy, ENCODER-queries.npy and
qrels.npy; or folders of the latter, which are searched as one store. Every result is kept in a file as soon as it is
there, by rival, version, task and draw, so that a run that is stopped goes on. A rival that is not installed gets a
sentence. Everything runs on one thread; seconds are those of a processor.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import functools  # noqa: E402
import hashlib  # noqa: E402
import importlib  # noqa: E402
import importlib.metadata  # noqa: E402
import json  # noqa: E402
import pathlib  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import kedge  # noqa: E402
import table  # noqa: E402
from protocol import ROOT, Collection, HeldOut, Outcome, Translation  # noqa: E402

HERE = pathlib.Path(__file__).parent
MODULES = ("by_kedge", "by_sklearn", "by_hand", "by_isotrieve", "by_latentis", "by_drift_spark", "by_vectormigrate",
           "by_embspec", "by_cca_zoo", "by_mvlearn")
PAIRS = "minilm-l6:mpnet-base,wordllama:mpnet-base,mpnet-base:minilm-l6"


@dataclasses.dataclass
class Rival:
    name: str
    ways: dict[str, Any]  # of translating, or of joining, by label
    joins: dict[str, Any]
    stamp: str            # what its results depend on


def digest(*files: pathlib.Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def load(module: str) -> Rival:
    """Throws ImportError if its package is not installed."""
    code = [HERE / f"{name}.py" for name in (module, "adapt", "protocol")]
    found = importlib.import_module(module)
    if found.PACKAGE == "kedge":
        package = pathlib.Path(kedge.__file__).parent
        return Rival("kedge", found.TRANSLATE, found.JOIN, f"kedge {digest(*package.glob('_core*.so'), *code)}")
    name = "by hand" if found.PACKAGE == "numpy" else f"{found.PACKAGE} {importlib.metadata.version(found.PACKAGE)}"
    return Rival(name, getattr(found, "TRANSLATE", {}), getattr(found, "JOIN", {}), f"{name} {digest(*code)}")


def rivals() -> tuple[list[Rival], list[str]]:
    """Those that are installed, and a sentence for each that is not."""
    there, missing = [], []
    for module in MODULES:
        try:
            there.append(load(module))
        except ImportError as error:
            name = module.removeprefix("by_").replace("_", "-")
            missing.append(f"{name} was not measured, as it is not installed here: {error}.")
    return there, missing


class Kept:
    """Results by what they depend on, in a file with a line for each."""

    def __init__(self, file: pathlib.Path) -> None:
        self.file, self.known = file, {}
        if file.exists():
            for line in file.read_text().splitlines():
                key, outcome = json.loads(line)
                self.known[tuple(key)] = outcome

    def get(self, key: tuple[str, ...], make: Any) -> Outcome | str:
        """What a rival made of a draw, or why it refused."""
        if key not in self.known:
            made: dict[str, Any] | str
            try:
                made = dataclasses.asdict(make())
            except Exception as error:  # whatever a rival throws
                made = str(error)
            self.known[key] = made
            with self.file.open("a") as out:
                out.write(json.dumps([key, made]) + "\n")
        found = self.known[key]
        return found if isinstance(found, str) else Outcome(**found)


def tasks_of(folder: pathlib.Path, asked: argparse.Namespace) -> Iterator[Translation | HeldOut]:
    supports = [int(rows) for rows in asked.support.split(",")]
    wrong = [float(share) for share in asked.wrong.split(",") if share]
    judged = sorted(file.parent for file in (*folder.glob("qrels.npy"), *folder.glob("*/qrels.npy")))
    if judged:
        collection = Collection(judged)
        pairs = [pair.split(":") for pair in asked.pairs.split(",")]
        pairs = [pair for pair in pairs if all((judged[0] / f"{name}-docs.npy").exists() for name in pair)]
        for old, new in pairs:
            yield from (Translation(collection, old, new, rows) for rows in supports)
            if [old, new] == pairs[0]:
                yield from (Translation(collection, old, new, supports[-1], share) for share in wrong)
        return
    encoders = sorted(file.stem for file in folder.glob("*.npy") if not file.stem.startswith("labels"))
    for support in supports:
        yield HeldOut(folder, encoders, support)
    for share in wrong:
        yield HeldOut(folder, encoders, supports[-1], share)


def measure(tasks: Sequence[Any], there: Sequence[Rival], kept: Kept, draws: int) -> table.Results:
    """{group: {way: {title: results of the draws}}}"""
    results: table.Results = {}
    for task in tasks:
        group = results.setdefault((task.group, task.measure), {})
        for rival in there:
            ways = rival.ways if isinstance(task, Translation) else rival.joins
            for label, fit in ways.items():
                print(f"{task.group}; {task.title}; {rival.name}, {label}", flush=True)
                found = [kept.get((rival.stamp, label, task.key, str(draw)), functools.partial(task.run, fit, draw))
                         for draw in range(draws)]
                group.setdefault((rival.name, label), {})[task.title] = found
        if isinstance(task, Translation):
            for label, encoder in (("the old model alone", task.old), (table.NEW, task.new)):
                group.setdefault(("", label), {})[task.title] = [task.whole(encoder, draw) for draw in range(draws)]
    return results


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", type=pathlib.Path, metavar="FOLDER",
                        help="instead of data/cranfield and data/slm; repeat for more")
    parser.add_argument("--pairs", default=PAIRS, help="old:new, comma separated [%(default)s]")
    parser.add_argument("--support", default="200,500", help="rows to fit on, comma separated [%(default)s]")
    parser.add_argument("--wrong", default=".5",
                        help="shares of wrong pairs, with the first encoders and the most rows [%(default)s]")
    parser.add_argument("--draws", type=int, default=3, help="of the rows to fit on [%(default)s]")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/rivals-results.jsonl",
                        help="file for results [%(default)s]")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="file for the table; it is printed too")
    return parser.parse_args()


def main() -> None:
    warnings.filterwarnings("ignore")
    asked = arguments()
    folders = asked.data or [ROOT / "data/cranfield", ROOT / "data/slm"]
    there, missing = rivals()
    tasks = [task for folder in folders for task in tasks_of(folder, asked)]
    asked.keep.parent.mkdir(exist_ok=True)
    results = measure(tasks, there, Kept(asked.keep), asked.draws)
    made_by = "make rivals"
    if asked.data:
        made_by = (f"bench/rivals/run.py {' '.join(f'--data {folder.name}' for folder in folders)} --support "
                   f"{asked.support} --draws {asked.draws}")
    text = table.page(results, missing, asked.draws, made_by)
    print(text)
    if asked.out:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
