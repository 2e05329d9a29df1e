# SPDX-License-Identifier: Apache-2.0
"""A random sample that depends on ids and a seed alone, not on the order of rows; a larger one contains a smaller."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .types import Id


def keys(ids: Sequence[Id], seed: int = 0) -> npt.NDArray[np.uint64]:
    """A number for every id, spread evenly over 64 bits; the smallest are the sample. 7 and '7' are alike."""
    begun = hashlib.blake2b(f"{seed}:".encode(), digest_size=8)
    found = np.empty(len(ids), np.uint64)
    for n, key in enumerate(ids):
        one = begun.copy()
        one.update(str(key).encode("utf-8", "surrogatepass"))
        found[n] = int.from_bytes(one.digest(), "little")
    return found


def as_key(key: Id) -> int | str | bytes:
    """An id as SQLite keeps it: its integers end at 2**63, while some stores' go up to 2**64, and it has no tuples."""
    return as_text(key).encode() if isinstance(key, tuple) or isinstance(key, int) and key >= 2**63 else key


def as_id(key: Any) -> Id:
    """What as_key was given, or what JSON has made of an id."""
    if isinstance(key, bytes):
        key = json.loads(key)
    found: Id = tuple(key) if isinstance(key, list) else key
    return found


def as_text(key: Any) -> str:
    """An id as files have it where all is text: 7, or [7, "a"] if it has several parts."""
    return json.dumps(key, ensure_ascii=False) if isinstance(key, (tuple, list)) else str(key)


def text_version(text: str) -> str:
    """Tells a text from what it becomes when it is edited; in SQL it is 'text ' || encode(sha256(...), 'hex')."""
    return "text " + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Smallest:
    """The ids with the 'count' smallest keys of all that were added, in memory that does not grow with them.

    They are sorted whenever twice as many are there, so that the work for each id does not grow with 'count'.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        self.count, self.seed = count, seed
        self._limit: np.uint64 | None = None  # a key above it is too large
        self._keys: list[npt.NDArray[np.uint64]] = []
        self._ids: list[Id] = []

    def add(self, ids: Sequence[Id]) -> None:
        found = keys(ids, self.seed)
        if self._limit is not None:
            near = np.flatnonzero(found <= self._limit)
            ids, found = [ids[int(n)] for n in near], found[near]
        self._keys.append(found)
        self._ids += ids
        if len(self._ids) > 2 * self.count:
            self._sort()

    def _sort(self) -> None:
        together = np.concatenate([np.empty(0, np.uint64), *self._keys])
        order = np.argsort(together, kind="stable")[:self.count]
        self._keys, self._ids = [together[order]], [self._ids[int(n)] for n in order]
        if 0 < self.count <= len(order):
            self._limit = together[order[-1]]

    @property
    def ids(self) -> list[Id]:
        self._sort()
        return self._ids


def fingerprints(vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """A number for every row that tells rows apart without keeping them; signed, as SQLite has it."""
    words = np.ascontiguousarray(vectors, np.float32).view(np.uint32).astype(np.uint64)
    odd = np.random.default_rng(1).integers(0, 2**64, words.shape[1], np.uint64) | np.uint64(1)
    mixed = words * odd
    found: npt.NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return found.view(np.int64)
