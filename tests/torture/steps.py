# SPDX-License-Identifier: Apache-2.0
"""One step at a time: it ends in finite numbers or is refused with a sentence that a user can act on."""
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import kedge
import numpy as np

T = TypeVar("T")

# What may be refused, and what the sentence then must say. Anything else is a fault of kedge.
REFUSALS = {
    "rows all the same": r"space '.+': rows \d+:\d+ of .+ are all the same.*; is it the right file\?",
    "NaN or infinity": r"space '.+': row \d+ of .+ NaN or infinite; remove that input from every space, or encode it "
                       "again",
    "too large for float32": r"space '.+': the values of .+ are too large for float32; rescale the embeddings",
    "too small for float32": r"space '.+': the values of .+ are too small for float32; rescale the embeddings",
    "drowns in epsilon": r"space '.+': its values vary by .+; rescale the embeddings, .+, or lower epsilon",
    "map leaves float32": r"space '.+': its values are so large or so small .+; rescale the embeddings",
    "row too large for the map": r"row \d+ of .+ is too large for the map of '.+': .+; is it scaled like",
    "scales differ too much": r"the values of '.+' and '.+' differ so much in scale .+; rescale one space",
    "nothing agreed on": r"the spaces agree on no direction at all; are their rows the same inputs .+ lower the "
                         "shrinkage",
    "nothing to whiten by": r"the covariance is singular.+; raise the shrinkage or epsilon above 0",
    "one feature for an mlp": r"an mlp head standardises its features .+; use a linear head",
    "linear head undecided": r"logistic regression.+(an l2 other than|give a larger one)",
    "mlp head diverged": r"training an mlp head: the loss is not finite .+; a lower learning rate may help",
    "product leaves float32": r"rows of length .+ in .+ have inner products that float32 cannot hold; scale them, or "
                              "use",
    "too few rows": r"the test rows \d+:\d+ are not in the files|\d+ rows are too few .+ needs \d+ or more|"
                    r"one test row cannot be told from others; give two or more",
}


def kind_of(sentence: str) -> str:
    found = [name for name, pattern in REFUSALS.items() if re.search(pattern, sentence)]
    assert len(found) == 1, f"not one of the known refusals: {sentence}"
    return found[0]


class Steps:
    def __init__(self, record: Callable[[str], None], may_be_refused: bool = True) -> None:
        self.record, self.may_be_refused = record, may_be_refused

    def take(self, work: Callable[[], T], values: Callable[[T], Iterable[Any]],
             failures: type[Exception] | tuple[type[Exception], ...] = ValueError) -> T | None:
        """The result of work(), whose `values` are finite; or None if it was refused."""
        try:
            result = work()
        except failures as problem:
            assert self.may_be_refused, f"there is nothing hard about it: {problem}"
            self.record(f"refused, {kind_of(str(problem))}")
            return None
        for found in values(result):
            assert np.isfinite(np.asarray(found, dtype=np.float64)).all()
        self.record("finite")
        return result

    def fit(self, spaces: dict[str, np.ndarray], **options: Any) -> kedge.Bundle | None:
        return self.take(lambda: kedge.fit(spaces, **options), bundle_values)

    def attach(self, bundle: kedge.Bundle, name: str, rows: np.ndarray,
               by: str | None = None) -> kedge.RelativeMap | None:
        return self.take(lambda: bundle.attach(name, rows, attach=by), map_values)

    def transform(self, rr_map: kedge.RelativeMap, rows: np.ndarray) -> np.ndarray | None:
        return self.take(lambda: rr_map.transform(rows), lambda rr: [rr])

    def compare(self, a: np.ndarray, b: np.ndarray) -> dict[str, Any] | None:
        return self.take(lambda: kedge.compare(a, b), comparison_values)

    def retrieve(self, rows: np.ndarray, **options: Any) -> dict[str, Any] | None:
        """Every row looks for itself."""
        qrels = [(row, row, 1) for row in range(len(rows))]
        return self.take(lambda: kedge.retrieve(rows, rows, qrels, **options), retrieval_values)

    def translate(self, bundle: kedge.Bundle, source: str, target: str, rows: np.ndarray) -> None:
        translator = self.take(lambda: bundle.translator(source, target), lambda found: [found.weight, found.bias])
        if translator is not None:
            self.take(lambda: translator.transform(rows), lambda translated: [translated])

    def use(self, bundle: kedge.Bundle, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Everything a bundle is for, with these rows by the name of their space; the RR that could be made."""
        tried = {name: self.transform(bundle[name], own) for name, own in rows.items()}
        rr = {name: found for name, found in tried.items() if found is not None}
        for a, b in itertools.combinations(rr, 2):
            self.compare(rr[a], rr[b])
        if bundle.similarity == "wip":
            for source, target in itertools.permutations(rows, 2):
                self.translate(bundle, source, target, rows[source])
        return rr


TakeSteps = Callable[[str, str], Steps]  # with a section and a case of it


def bundle_values(bundle: kedge.Bundle) -> Iterator[Any]:
    yield bundle.mixture
    if bundle.targets is not None:
        yield bundle.targets
    yield from bundle.history.values()
    for name in bundle.spaces:
        yield from map_values(bundle[name])


def map_values(rr_map: kedge.RelativeMap) -> Iterator[Any]:
    yield from (rr_map.weight, rr_map.bias, rr_map.mean)
    yield [value for value in (rr_map.r2, rr_map.ridge) if value is not None]


def retrieval_values(scores: dict[str, Any]) -> list[list[float]]:
    shares = [value for name, value in scores.items() if "@" in name]
    assert all(0 <= share <= 1 + 1e-12 for share in shares), scores
    return [shares]


def comparison_values(scores: dict[str, Any]) -> list[list[float]]:
    found = {name: value for name, value in scores.items() if value is not None}
    for name in ("mrr", *(name for name in found if name.startswith("recall"))):
        assert 0 <= found[name] <= 1 + 1e-12, scores
    return [list(found.values())]
