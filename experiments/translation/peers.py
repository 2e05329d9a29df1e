#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other packages that move embeddings from one encoder to another, on the same rows: a table of docs/search-scores.md.

    pip install latentis embspec vectormigrate drift-spark
    experiments/translation/peers.py PATH/scifact --support 3000 --pairs minilm-l6:mpnet-base

Data, support and scores are those of translate.py. Documents are translated into the new encoder's space or, as some of
these packages mean it, queries into the old one's. Seconds are those of a processor, for fitting both ways and for
translating all documents; set OMP_NUM_THREADS=1, as threads that wait are counted too. A package that is not installed,
or that takes no two encoders of different width, gets a line that says so.
"""
import argparse
import collections
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import kedge
import numpy as np
from collection import Collection, Pair, head, line, mean, short

Translate = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Translate]
BothWays = Callable[[np.ndarray, np.ndarray], Sequence[Translate]]  # fits a way to the new encoder, and one back
Measured = collections.namedtuple("Measured", "documents queries fit_s translate_s")


def by_kedge(**options: Any) -> BothWays:
    def fit(old: np.ndarray, new: np.ndarray) -> Any:
        bundle = kedge.fit({"old": old, "new": new}, support=len(old), **options)
        return [bundle.translator(*names).transform for names in (("old", "new"), ("new", "old"))]
    return fit


def both_ways(fit: Fit) -> BothWays:
    return lambda old, new: [fit(old, new), fit(new, old)]


def by_latentis(make: Callable[[], Any]) -> BothWays:
    """Its translators take and give tensors, and pairs of them."""
    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        import torch
        translator = make()
        translator.fit(torch.from_numpy(x), torch.from_numpy(y))

        def transform(rows: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                result: np.ndarray = translator.transform(torch.from_numpy(rows))[0].numpy()
            return result
        return transform
    return both_ways(fit)


def latentis_procrustes() -> Any:
    from latentis.transform.translate.aligner import Procrustes
    return Procrustes()


def latentis_scaled(make_aligner: Callable[[Any], Any]) -> Callable[[], Any]:
    """Rows are scaled as its Procrustes does."""
    def make() -> Any:
        from latentis.transform.base import StandardScaling
        from latentis.transform.translate import aligner
        return aligner.Translator(make_aligner(aligner), x_transform=StandardScaling(), y_transform=StandardScaling())
    return make


def least_squares(aligner: Any) -> Any:
    from latentis.transform.translate.functional import lstsq_align_state
    return aligner.MatrixAligner("lstsq_aligner", lstsq_align_state)


def gradient_descent(aligner: Any) -> Any:
    return aligner.SGDAffineAligner(num_steps=300, lr=1e-3, random_seed=0)


def by_embspec(x: np.ndarray, y: np.ndarray) -> Translate:
    from embspec import DriftAdapter
    transform: Translate = DriftAdapter.fit(x, y).transform
    return transform


def by_vectormigrate(name: str) -> BothWays:
    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        from vectormigrate import compat
        return getattr(compat, name)().fit(x.astype(np.float64), y.astype(np.float64)).transform
    return both_ways(fit)


def by_drift_spark(x: np.ndarray, y: np.ndarray) -> Translate:
    """It calls the space it maps to old, and the one it maps from new."""
    from drift.adapter import DriftAdapter
    predict: Translate = DriftAdapter().fit(y, x).predict
    return predict


# What each is called, its package and module, and a function that fits a way to translate documents and one for
# queries.
Peer = collections.namedtuple("Peer", "label package module fit")
LATENTIS = "latentis", "latentis.transform.translate.aligner"
VECTORMIGRATE = "vectormigrate", "vectormigrate"
PEERS = (
    Peer("kedge, kernel", "kedge", "kedge", by_kedge(method="kernel")),
    Peer("kedge, ridge", "kedge", "kedge", by_kedge(method="ridge", similarity="inner")),
    Peer("kedge, procrustes", "kedge", "kedge", by_kedge(method="procrustes", similarity="inner")),
    Peer("latentis, Procrustes", *LATENTIS, by_latentis(latentis_procrustes)),
    Peer("latentis, least squares", *LATENTIS, by_latentis(latentis_scaled(least_squares))),
    Peer("latentis, SGDAffineAligner", *LATENTIS, by_latentis(latentis_scaled(gradient_descent))),
    Peer("embspec, DriftAdapter", "embspec", "embspec", both_ways(by_embspec)),
    *(Peer(f"vectormigrate, {name}", *VECTORMIGRATE, by_vectormigrate(name))
      for name in ("OrthogonalProcrustesAdapter", "LowRankAffineAdapter", "ResidualMLPAdapter")),
    Peer("drift-spark, DriftAdapter", "drift-spark", "drift.adapter", both_ways(by_drift_spark)),
)


def measure(pair: Pair, fit: BothWays) -> Measured:
    began = time.process_time()
    to_new, to_old = fit(pair.old_docs[pair.support], pair.new_docs[pair.support])
    fitted = time.process_time()
    documents = to_new(pair.old_docs)
    done = time.process_time()
    queries = to_old(pair.new_queries)
    return Measured(pair.search(pair.new_queries, documents.astype(np.float32)).ndcg,
                    pair.search(queries.astype(np.float32), pair.old_docs).ndcg, fitted - began, done - fitted)


def cells(pairs: Sequence[Pair], peer: Peer, best: float) -> list[str]:
    try:
        importlib.import_module(peer.module)  # so that no import is timed
        runs = [measure(pair, peer.fit) for pair in pairs]
    except ImportError as error:
        return [f"not measured: {error}; pip install {peer.package}", "", "", "", ""]
    except ValueError as error:
        return [f"refused: {error}", "", "", "", ""]
    documents, queries = (float(np.mean(column)) for column in list(zip(*runs))[:2])
    seconds = [f"{statistics.median(column):.2f}" for column in list(zip(*runs))[2:]]
    return [short(documents), short(documents / best), short(queries), *seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--pairs", default="minilm-l6:mpnet-base,wordllama:mpnet-base", help="old:new, comma separated")
    parser.add_argument("--support", type=int, default=3000, help="documents to fit on")
    parser.add_argument("--seeds", default="0,1,2,3", help="comma separated")
    parser.add_argument("--without", default="", help="labels to leave out, semicolon separated")
    asked = parser.parse_args()
    peers = [peer for peer in PEERS if peer.label not in asked.without.split(";")]
    collection = Collection([asked.folder])
    print(head(("pair", "", "documents translated, nDCG@10", "of the new one's", "queries translated, nDCG@10",
                "fit, s",
                "translate, s")))
    for names in asked.pairs.split(","):
        title = " to ".join(names.split(":"))
        source, target = names.split(":")
        pairs = [Pair(collection, source, target, asked.support, int(seed)) for seed in asked.seeds.split(",")]
        old, new = (mean([search(pair) for pair in pairs]).ndcg for search in (Pair.old, Pair.new))
        print(line([title, "old encoder alone", short(old), short(old / new), "", "", ""]), flush=True)
        for peer in peers:
            print(line([title, peer.label, *cells(pairs, peer, new)]), flush=True)
        print(line([title, "all embedded again", short(new), short(1.0), "", "", ""]), flush=True)


if __name__ == "__main__":
    main()
