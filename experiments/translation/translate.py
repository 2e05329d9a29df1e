#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Old documents searched with a new encoder's queries, once they are translated: the table of docs/search-scores.md.

    experiments/translation/translate.py PATH/scifact --support 3000 --pairs use-multilingual:mpnet-base

A folder holds ENCODER-docs.npy and ENCODER-queries.npy for every encoder, and qrels.npy: rows of query, document,
grade. Of the documents, --support are drawn at random: both encoders have embedded these. A map is fitted on them, the
other documents are translated and searched. Scores are means over the seeds. Seconds are those of a processor, for
kedge.fit, which makes the maps of both directions; set OMP_NUM_THREADS=1, as threads that wait are counted too.
"""
import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import kedge
from collection import Collection, Pair, Scores, head, line, mean, short

# Raw rows make the better index with these two; cca has no raw form, and a kernel does not care.
METHODS: dict[str, dict[str, Any]] = {
    "procrustes": {"method": "procrustes", "similarity": "inner"},
    "ridge": {"method": "ridge", "similarity": "inner"},
    "whitened ridge": {"method": "ridge"},
    "cca": {"method": "cca"},
    "consensus": {"method": "consensus"},
    "kernel": {"method": "kernel"},
}
TITLES = ("collection", "pair", "K", "", "nDCG@10", "of the new one's", "recall@100", "MRR@10", "fused, nDCG@10",
          "fused, of the new one's", "fit, s")


def translate(pair: Pair, options: dict[str, Any]) -> tuple[Scores, float]:
    """The scores of one method, and the seconds that its fit takes."""
    spaces = {"old": pair.old_docs[pair.support], "new": pair.new_docs[pair.support]}
    began = time.process_time()
    bundle = kedge.fit(spaces, support=len(pair.support), **options)
    seconds = time.process_time() - began
    return pair.translated(bundle.translator("old", "new").transform(pair.old_docs)), seconds


def measure(collection: Collection, names: Sequence[str], support: int, seeds: Sequence[int],
            methods: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """(label, mean scores, median seconds) of every line."""
    old, new = names
    pairs = [Pair(collection, old, new, support, seed) for seed in seeds]
    yield "old encoder alone", mean([pair.old() for pair in pairs]), None
    for method in methods:
        runs = [translate(pair, METHODS[method]) for pair in pairs]
        yield method, mean([scores for scores, _ in runs]), statistics.median(seconds for _, seconds in runs)
    yield "all embedded again", mean([pair.new() for pair in pairs]), None


def print_lines(collection: Collection, names: Sequence[str], support: int, seeds: Sequence[int],
                methods: Sequence[str]) -> None:
    measured = list(measure(collection, names, support, seeds, methods))
    best = measured[-1][1].ndcg
    for label, scores, seconds in measured:
        fused = None if scores.fused is None else scores.fused / best
        print(line([collection.name, " to ".join(names), support, label, short(scores.ndcg), short(scores.ndcg / best),
                    short(scores.recall), short(scores.mrr), short(scores.fused), short(fused),
                    "" if seconds is None else f"{seconds:.2f}"]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--join", action="store_true", help="search the folders as one store")
    parser.add_argument("--pairs", default="use-multilingual:mpnet-base,wordllama:mpnet-base,minilm-l6:mpnet-base",
                        help="old:new, comma separated")
    parser.add_argument("--support", default="3000", help="documents to fit on, comma separated")
    parser.add_argument("--seeds", default="0,1,2,3", help="comma separated")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma separated")
    parser.add_argument("--raw", action="store_true", help="fit on rows as they are, instead of those of length 1")
    asked = parser.parse_args()
    methods, seeds = asked.methods.split(","), [int(seed) for seed in asked.seeds.split(",")]
    if not set(methods) <= set(METHODS):
        parser.error(f"the methods are {', '.join(METHODS)}")
    print(head(TITLES))
    for folders in [asked.folders] if asked.join else [[folder] for folder in asked.folders]:
        collection = Collection(folders, scale=not asked.raw)
        for names in asked.pairs.split(","):
            for support in asked.support.split(","):
                print_lines(collection, names.split(":"), int(support), seeds, methods)


if __name__ == "__main__":
    main()
