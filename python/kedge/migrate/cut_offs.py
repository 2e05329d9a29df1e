# SPDX-License-Identifier: Apache-2.0
"""Cut-offs: programs that keep what is "similar above .75" need another number for another model.

The new cut-off lets as many documents through as the old one did. The number with the fewest different decisions would
be another one, but a bad one where few documents pass: the fewest mistakes are then made by refusing everything.
"""
from __future__ import annotations

import dataclasses
import os

import numpy as np
import numpy.typing as npt

from .._errors import Error
from .fused import CANDIDATES
from .migration import Migration
from .quality import Bench, interval
from .stores.scores import fuse
from .types import Floats, Found

K = 10
COSINES = (.3, .4, .5, .6, .7, .8, .9)
SHARES = (.9, .75, .5, .25, .1)  # of pairs above it, for metrics without round numbers
LEAST_PAIRS = 20  # on either side of a cut-off
# Close together where few pairs are above: that is where cut-offs are.
LEVELS = np.unique(np.concatenate([np.linspace(0, 1, 101), 1 - np.geomspace(1e-4, .01, 20)]))


@dataclasses.dataclass(frozen=True)
class CutOffs:
    """A map from cut-offs of the old model to those of another score that let as many documents through. It grows, and
    stays what it is beyond what was seen."""
    old: list[float]
    new: list[float]

    def __call__(self, cut_off: npt.ArrayLike) -> Floats:
        return np.asarray(np.interp(np.asarray(cut_off, np.float64), self.old, self.new))

    @classmethod
    def between(cls, old: Floats, new: Floats) -> CutOffs:
        """From the scores of the same pairs of query and document."""
        return cls(np.quantile(old, LEVELS).tolist(), np.quantile(new, LEVELS).tolist())


def thresholds(migration: Migration | str | os.PathLike[str]) -> dict[str, CutOffs]:
    """The maps from the old model's cut-offs to those of the new model ("new"), of the translated vectors
    ("translated") and of the fused score ("fused"), as 'check' found them on the sample. Scores are those that
    Store.search and kedge.migrate.search return: larger is nearer, a distance is negative."""
    if not isinstance(migration, Migration):
        with Migration(migration, alone=False) as opened:
            return thresholds(opened)
    found = migration.journal.fact("thresholds")
    if not found:
        raise Error("there are no cut-offs yet; run 'kedge-migrate check', with queries that the old model has "
                    "embedded too")
    return {way: CutOffs(**knots) for way, knots in found.items()}


class Pairs:
    """The scores of what programs look at: the documents of the sample that are among the K best by either score."""

    def __init__(self, bench: Bench, metric: str) -> None:
        assert bench.by_old is not None
        self.metric, self.scores = metric, {}
        for way, other in (("new", bench.by_new), ("translated", bench.by_translated), ("fused", None)):
            self.scores[way] = [self._of(old, new, None if other is None else other[query])
                                for query, (old, new) in enumerate(zip(bench.by_old, bench.by_translated))]

    def _of(self, old: Floats, translated: Floats, other: Floats | None) -> tuple[Floats, Floats]:
        """(old, other) scores of a query's pairs; the fused score if there is no other."""
        best = [np.argsort(-scores, kind="stable")[:CANDIDATES] for scores in (old, translated)]
        ids = np.union1d(*best)
        ids = ids[np.isfinite(old[ids])]
        if other is None:
            scores: Floats = fuse(old[ids], translated[ids])
        else:
            ids = np.union1d(ids, np.argsort(-other, kind="stable")[:K])
            ids = ids[np.isfinite(old[ids])]
            scores = self._shown(other[ids])
        near = np.union1d(np.argsort(-old[ids], kind="stable")[:K], np.argsort(-scores, kind="stable")[:K])
        return self._shown(old[ids][near]), scores[near]

    def _shown(self, closeness: Floats) -> Floats:
        """As a store's search gives it: Bench has halved squares of distances."""
        return np.negative(np.sqrt(np.maximum(-2 * closeness, 0))) if self.metric == "euclidean" else closeness

    def together(self, way: str) -> tuple[Floats, Floats]:
        old, new = zip(*self.scores[way])
        return np.concatenate(old), np.concatenate(new)


def measure(bench: Bench, metric: str) -> tuple[dict[str, CutOffs], list[Found]]:
    """The maps of all ways; and for some cut-offs what each way has instead, and how often it decides the same, on
    queries that the map has not seen. Nothing if the old model is gone."""
    if bench.by_old is None:
        return {}, []
    pairs = Pairs(bench, metric)
    maps = {way: CutOffs.between(*pairs.together(way)) for way in pairs.scores}
    old = pairs.together("new")[0]
    cut_offs = [cut for cut in (COSINES if metric == "cosine" else np.quantile(old, 1 - np.array(SHARES)).tolist())
                if min((old >= cut).sum(), (old < cut).sum()) >= LEAST_PAIRS]
    halves = {way: [CutOffs.between(*map(np.concatenate, zip(*scores[n::2]))) for n in (1, 0)]
              for way, scores in pairs.scores.items() if len(scores) > 1}
    return maps, [{"old": float(cut), "share": float((old >= cut).mean()),
                   "ways": {way: {"at": float(maps[way](cut)), **_decisions(pairs.scores[way], halves[way], cut)}
                            for way in halves}} for cut in cut_offs]


def _decisions(scores: list[tuple[Floats, Floats]], halves: list[CutOffs], cut: float) -> Found:
    """agreement: the share of pairs that are decided alike, with its interval over queries. kept: of what passes the
    old cut-off, the share that passes the new one too."""
    alike, passed, kept = [], 0, 0
    for query, (old, new) in enumerate(scores):
        before, after = old >= cut, new >= halves[query % 2](cut)
        alike.append(float((before == after).mean()))
        passed, kept = passed + int(before.sum()), kept + int((before & after).sum())
    return {"agreement": interval(alike), "kept": kept / max(passed, 1)}
