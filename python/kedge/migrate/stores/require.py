# SPDX-License-Identifier: Apache-2.0
"""What must hold before a store changes anything."""
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from ..._errors import Error, UsageError
from ..store import Missing, Store
from ..types import Id, Vectors


class Placed(Protocol):
    """A store with many sets of vectors in one place."""
    address: str
    place: str


PlacedStore = TypeVar("PlacedStore", bound=Placed)


def require_free(path: str | os.PathLike[str], exists: bool, found_owner: str | None, owner: str) -> bool:
    """Whether the place is already this owner's; an Error if it is anyone else's."""
    if exists and found_owner != owner:
        whose = f"was made by the migration {found_owner!r}" if found_owner else "was not made by this migration"
        raise Error(f"{path} exists and {whose}; move it away, or choose another place with 'into'")
    return exists


def require_same_place(store: PlacedStore, like: Store) -> PlacedStore:
    """'like', which is a store of the same kind in the same place."""
    if not isinstance(like, type(store)) or store.place != like.place:
        raise UsageError(f"{store.address}: new vectors go beside the old ones, with the documents; {like.shown} is "
                         "somewhere else")
    return like


def require_width(store: Store, ids: Sequence[Id], vectors: Vectors | None, width: int) -> None:
    if vectors is not None and np.shape(vectors) != (len(ids), width):
        raise Error(f"{store.address} holds vectors of {width} values; found an array of shape {np.shape(vectors)} for "
                    f"{len(ids)} ids, so it was made for another model")


def require_switchable(store: Store, incoming: Store, outgoing: Store, there: Sequence[bool]) -> None:
    """Of collections that change names one after the other: a switch can begin, go on, or is done. 'there' says which
    of the three exist."""
    old, new, kept = there
    if not new and not (old and kept):
        raise Missing(f"{incoming.address}: there is no such collection, so nothing can take the place of "
                      f"{store.address}")
    if new and old and kept:
        raise Error(f"{outgoing.address} is taken, and would hold what is now in {store.address}; delete it")
    if new and not old and not kept:
        raise Missing(f"{store.address}: there is no such collection")
