# SPDX-License-Identifier: Apache-2.0
"""What a migration asks of a store, and the addresses that name one.

A Store is one set of vectors, each under an id: a column of a table, a collection, an index file. A migration reads the
old one, makes a new one beside it, and switches the two. docs/new-store.md shows how to add one.
"""
from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._address import scheme_of, without_password
from .._errors import Error, UsageError
from .._extras import what_is_missing
from .draw import keys
from .types import Id, Moment, Vectors

if TYPE_CHECKING:
    from typing import Self

BATCH_ROWS = 4096


@dataclasses.dataclass
class Rows:
    """A batch in the store's own order. Ids are int or str; vectors are float32, one row for each id, or None."""
    ids: list[Id]
    vectors: Vectors | None = None
    texts: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def matrix(self) -> Vectors:
        """The vectors of rows that were read with them."""
        assert self.vectors is not None
        return self.vectors


@dataclasses.dataclass
class Contents:
    """What is in a store. kind is how it keeps a vector; exact kinds give back the float32 or float16 they got."""
    rows: int
    width: int
    kind: str = "float32"        # or float16, or the store's own word for a form that loses more, such as PQ
    metric: str = "cosine"       # or inner, euclidean: how it compares
    texts: bool = False          # whether read(texts=True) gives any
    owner: str | None = None     # the migration that made it, if one did
    index: str | None = None     # the index on it in the store's own words, for plan
    atomic: str | None = None    # why a switch is not one step, as a sentence; None if it is
    can_switch: bool = True      # if not, 'atomic' says why, and what to do


class Store(abc.ABC):
    """One set of vectors. Making the object touches nothing; every method raises Error with a whole sentence.

    A store may be used by one thread at a time; the old and the new one are used by two threads at once.
    """

    copies_documents = False  # whether a new place has documents of its own, which write() copies from the old one

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def shown(self) -> str:
        """The address as people may see it, without a password."""
        return without_password(self.address)

    @abc.abstractmethod
    def beside(self, ending: str) -> Self:
        """The place next to this one whose name ends so, such as embedding_new; whether it exists does not matter."""

    @abc.abstractmethod
    def create(self, like: Store, width: int, owner: str) -> None:
        """Makes this place, empty, for vectors of that width, compared as in 'like', and marks it as the owner's.

        Does nothing if it is there and the owner's; refuses if it is someone else's.
        """

    @abc.abstractmethod
    def describe(self) -> Contents:
        """What is there; raises Missing if the place does not exist."""

    @abc.abstractmethod
    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        """Batches of at most 'size' rows that have a vector, in an order that stays the same; writes may come between.

        after: only rows behind this id in that order. ids: only the rows of these ids that exist, in any order.
        changed: only rows whose 'changed' column is at or above this value, if the address names one.
        """

    @abc.abstractmethod
    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """Puts vectors under ids, replacing those there; None removes them. Durable, and all or nothing, on return."""

    @abc.abstractmethod
    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        """For every query the ids of the k best, best first, and their scores (larger is better); fewer get -inf."""

    @abc.abstractmethod
    def switch(self, incoming: Self, outgoing: Self) -> None:
        """Moves what is here to the place 'outgoing', and what is in 'incoming' to here; in one step if the store can.

        Called again after a crash it completes what was begun, and does nothing if all is done.
        """

    def not_in(self, other: Store) -> Iterator[Id]:
        """The ids that have a vector here and none in the other; 8 bytes of memory for each id of the other."""
        there = sorted_keys(other)
        for batch in self.read(vectors=False):
            found = keys(batch.ids)
            place = np.minimum(np.searchsorted(there, found), max(len(there) - 1, 0))
            known = there[place] == found if len(there) else np.zeros(len(found), bool)
            yield from (key for key, is_known in zip(batch.ids, known) if not is_known)

    def switching(self, incoming: Self, outgoing: Self) -> bool:
        """Whether such a switch was begun, so that only switch() can make sense of the places, or is done."""
        try:
            outgoing.describe()
            return True
        except Missing:
            return False

    @contextlib.contextmanager
    def frozen(self, *others: Self) -> Iterator[None]:
        """If the store can: nobody else writes while this lasts, and what is done in it with this store and the
        others, which are those of switch(), is one step. Otherwise it does nothing."""
        yield

    def finish(self) -> None:  # noqa: B027  # most stores have nothing to do
        """After the last row: makes what searches need, such as an index like the old one's. Quick if it is there."""

    def drop(self) -> None:
        """Removes the place with what is in it; for places that a migration made."""
        raise Error(f"{self.address}: this kind of store is not removed by kedge-migrate; remove it by hand")

    def newest(self) -> Moment | None:
        """The largest value of the 'changed' column, as read takes it back, or None without one."""
        return None

    def close(self) -> None:  # noqa: B027  # some hold nothing
        """Lets go of connections and files."""


def sorted_keys(store: Store) -> npt.NDArray[np.uint64]:
    """64 bits for every id in a store, sorted."""
    found = [keys(batch.ids) for batch in store.read(vectors=False)]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.uint64)


class Missing(Error):
    """There is no such table, column, collection or file."""


# The scheme of an address, and the file and class behind it; the extra is what pip installs for it.
STORES = {
    "postgresql": ("postgresql", "PostgresStore"),
    "qdrant": ("qdrant", "QdrantStore"),
    "lancedb": ("lancedb", "LanceStore"),
    "chroma": ("chroma", "ChromaStore"),
    "faiss": ("faiss", "FaissStore"),
    "parquet": ("parquet", "ParquetStore"),
    "npy": ("npy", "NpyStore"),
}


def open_store(address: str) -> Store:
    """The store of an address, such as 'postgresql://host/db?table=docs&column=embedding' or 'faiss:docs.index'."""
    scheme = scheme_of(address)
    if ":" not in address or scheme not in STORES:
        raise UsageError(f"{without_password(address)!r} is not the address of a store; it begins with one of "
                         f"{', '.join(name + ':' for name in STORES)}")
    module, name = STORES[scheme]
    try:
        found = importlib.import_module(f".stores.{module}", __package__)
    except ImportError as error:
        if (error.name or "").startswith("kedge"):
            raise
        raise Error(f"{without_password(address)}: {what_is_missing(error, 'migrate')}") from None
    store: Store = getattr(found, name)(address)
    return store
