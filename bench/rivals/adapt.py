# SPDX-License-Identifier: Apache-2.0
"""What rivals lack that the protocol asks for; the table says who was given which."""
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from protocol import Join, Map, Translate, unit
from sklearn.linear_model import RidgeCV

STRENGTHS = np.logspace(-4, 2, 13)  # for rows of about length 1
Targets = Callable[[Sequence[np.ndarray]], list[Map]]


def padded(rows: np.ndarray, width: int) -> np.ndarray:
    """Columns of zeros, for methods that want spaces of one width; they change no product of rows."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def held_back(make: Callable[[Any], Translate], settings: Sequence[Any]) -> Translate:
    """With the setting that puts a fifth of the rows nearest to their own, by mean cosine, where it is fitted on the
    others: for rivals that leave a setting to their user."""
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        order = np.random.default_rng(0).permutation(len(old))  # files of several folders stand one after another
        old, new, cut = old[order], new[order], len(old) * 4 // 5

        def error(setting: Any) -> float:
            found = make(setting)(old[:cut], new[:cut])(old[cut:])
            return -float((unit(found) * unit(new[cut:])).sum(axis=1).mean())
        return make(min(settings, key=error))(old, new)
    return fit


def each_pair(fit: Translate) -> Join:
    """A map of the unseen encoder for every source, whose own space is where they meet: its rows less their mean."""
    def join(sources: Sequence[np.ndarray], unseen: np.ndarray) -> list[tuple[Map, Map]]:
        def pair(source: np.ndarray) -> tuple[Map, Map]:
            mean, translate = source.mean(axis=0), fit(unseen, source)
            return (lambda rows: rows - mean), (lambda rows: translate(rows) - mean)
        return [pair(source) for source in sources]
    return join


def with_ridge_attach(targets: Targets) -> Join:
    """For methods that cannot attach: the unseen encoder learns the mean of what they make of the sources."""
    def fit(sources: Sequence[np.ndarray], unseen: np.ndarray) -> list[tuple[Map, Map]]:
        maps = targets(sources)
        wanted = np.mean([one(space) for one, space in zip(maps, sources)], axis=0)
        scale = np.linalg.norm(unseen - unseen.mean(axis=0), axis=1).mean()
        ridge = RidgeCV(alphas=STRENGTHS).fit(unseen / scale, wanted)
        return [(one, lambda rows: ridge.predict(rows / scale)) for one in maps]
    return fit
