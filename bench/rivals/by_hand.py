# SPDX-License-Identifier: Apache-2.0
"""What is in no package that installs, written here: a page of numpy each."""
from collections.abc import Sequence

import numpy as np
from adapt import held_back, padded
from protocol import Join, Map, Translate, unit

PACKAGE = "numpy"


def rotation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(x.T @ y, full_matrices=False)
    turned: np.ndarray = left @ right
    return turned


def procrustes(old: np.ndarray, new: np.ndarray) -> Map:
    before, after = old.mean(axis=0), new.mean(axis=0)
    turn = rotation(old - before, new - after)
    return lambda rows: (rows - before) @ turn + after


def local_procrustes(neighbours: int) -> Translate:
    """A rotation, and what it misses on the nearest rows of the support, weighted by their similarity."""
    def fit(old: np.ndarray, new: np.ndarray) -> Map:
        turned = procrustes(old, new)
        missed, known = new - turned(old), unit(old)

        def transform(rows: np.ndarray) -> np.ndarray:
            near = unit(rows) @ known.T
            best = np.argpartition(-near, neighbours - 1, axis=1)[:, :neighbours]
            close = np.take_along_axis(near, best, axis=1)
            weight = np.exp((close - close.max(axis=1, keepdims=True)) / close.std())
            weight /= weight.sum(axis=1, keepdims=True)
            found: np.ndarray = turned(rows) + np.einsum("rn,rnd->rd", weight, missed[best])
            return found
        return transform
    return fit


def centred_cosines(sources: Sequence[np.ndarray], unseen: np.ndarray) -> list[tuple[Map, Map]]:
    """Relative representations: cosines to 300 rows, of rows less their mean."""
    some = np.random.default_rng(0).permutation(len(unseen))[:300]

    def relative(space: np.ndarray) -> Map:
        mean = space.mean(axis=0)
        anchors = unit(space[some] - mean).T
        return lambda rows: unit(rows - mean) @ anchors
    return [(relative(source), relative(unseen)) for source in sources]


def generalised_procrustes(sources: Sequence[np.ndarray], unseen: np.ndarray) -> list[tuple[Map, Map]]:
    """Rotations onto the mean of all, round by round; the unseen encoder is rotated onto that mean in the end. Spaces
    are centred, scaled to one norm and padded to one width."""
    width = max(space.shape[1] for space in (*sources, unseen))

    def prepared(space: np.ndarray) -> Map:
        mean = space.mean(axis=0)
        scale = np.linalg.norm(space - mean)
        return lambda rows: padded((rows - mean) / scale, width)
    ways = [prepared(space) for space in (*sources, unseen)]
    spaces = [way(space) for way, space in zip(ways, (*sources, unseen))]
    middle, turns = spaces[0], []
    for _ in range(10):
        turns = [rotation(space, middle) for space in spaces[:-1]]
        middle = np.mean([space @ turn for space, turn in zip(spaces, turns)], axis=0)
    turns.append(rotation(spaces[-1], middle))
    maps = [lambda rows, way=way, turn=turn: way(rows) @ turn for way, turn in zip(ways, turns)]
    return [(one, maps[-1]) for one in maps[:-1]]


TRANSLATE = {"Procrustes": procrustes, "local Procrustes": held_back(local_procrustes, (5, 20, 50, 100))}
JOIN: dict[str, Join] = {"centred cosines to 300 rows": centred_cosines,
                         "generalised Procrustes": generalised_procrustes}
