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
import itertools
from collections.abc import Collection, Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from .._address import scheme_of, without_password
from .._errors import Error, UsageError
from .._extras import PACKAGES, what_is_missing
from .draw import fingerprints, keys, text_version
from .types import Id, Moment, Vectors

if TYPE_CHECKING:
    from typing import Self

BATCH_ROWS = 4096


@dataclasses.dataclass
class Rows:
    """A batch in the store's own order. Ids are int or str, or tuples of these; vectors are float32, one row for
    each id, or None."""
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


class Document(NamedTuple):
    """A text, and what tells it from what it becomes when someone edits it: a fingerprint of the text, or of the vector
    where there is no text."""
    text: str | None
    version: str


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


class Glance(NamedTuple):
    """What plan looks at: how many rows have a vector and how many have none, and some of the first."""
    rows: int
    without_vector: int
    counted: bool             # or a good guess
    batches: Iterator[Rows]


@dataclasses.dataclass
class Room:
    """Bytes that new vectors take: they themselves, their index, and what the server writes to its log for both; None
    if the store cannot tell."""
    vectors: int
    index: int | None = None
    log: int | None = None


class Note(NamedTuple):
    """One change that others made, as the store noted it when it happened."""
    mark: int        # tells notes apart, for forget()
    id: Id | None    # None: every row may have changed
    # old, new: that vector came or changed; text: the text did; gone: nobody has this id now; key: a document got this
    # id, and its vectors came along; its transaction's next note has its former id; left: as gone, but another document
    # has it by the end of the same statement.
    what: str
    by: int = 0      # the transaction: what one wrote belongs together, whichever of it came first


class Store(abc.ABC):
    """One set of vectors. Making the object touches nothing; every method raises Error with a whole sentence.

    A store may be used by one thread at a time; the old and the new one are used by two threads at once.
    """

    copies_documents = False  # whether a new place has documents of its own, which write() copies from the old one
    shares_documents = False  # whether both places are about the same rows, so that either takes a vector of any id
    moves_as_new = False  # whether notes of a row that moves within the store say that its new vector came with it
    stays = False  # whether new vectors stay in this place at a cutover, and switch() changes what applications see
    fire_triggers = True  # whether what triggers() names runs when vectors are written

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def shown(self) -> str:
        """The address as people may see it, without a password."""
        return without_password(self.address)

    @abc.abstractmethod
    def beside(self, ending: str) -> Self:
        """The place next to this one whose name ends so, such as embedding_new; whether it exists does not matter."""

    def new_place(self, into: str = "") -> Store:
        """Where new vectors go; 'into' is a word of the store's own for another place than its usual one."""
        if into:
            raise UsageError(f"into = {into!r} means nothing for {self.shown}; give an address, or leave it out")
        return self.beside("_new")

    def require_place(self, like: Store, owner: str) -> None:  # noqa: B027  # create() says it of most stores
        """Raises Error, before any work is paid for, if this place is taken or this user could not make it."""

    @abc.abstractmethod
    def create(self, like: Store, width: int, owner: str) -> None:
        """Makes this place, empty, for vectors of that width, compared as in 'like', and marks it as the owner's.

        Does nothing if it is there and the owner's; refuses if it is someone else's.
        """

    @abc.abstractmethod
    def describe(self) -> Contents:
        """What is there, with every row counted; raises Missing if the place does not exist."""

    def facts(self) -> Contents:
        """As describe(), at a cost that does not grow with the rows: their number is the store's own estimate, or 0.
        Every search asks for them, so a store keeps what it found until it is switched through this object."""
        return self.describe()

    @abc.abstractmethod
    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        """Batches of at most 'size' rows that have a vector, in an order that stays the same; writes may come between.

        after: only rows behind this id in that order. ids: only the rows of these ids that exist, in any order.
        changed: only rows whose 'changed' column is at or above this value, if the address names one.
        """

    def glance(self, most: int) -> Glance:
        """At most about so many rows, spread over the store if it can do that, and how many there are."""
        rows = self.describe().rows
        batches = self.read(size=min(most, BATCH_ROWS))
        return Glance(rows, 0, True, itertools.islice(batches, -(-most // min(most, BATCH_ROWS))))

    def room(self, like: Store, rows: int, width: int) -> Room:
        """What so many vectors of that width would take in this place, which need not exist; raises Error if the store
        could not make it."""
        return Room(4 * width * rows)

    @abc.abstractmethod
    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        """Puts vectors under ids, replacing those there; None removes them. Durable, and all or nothing, on return."""

    def written_by_others(self, ids: Collection[Id]) -> set[Id] | None:
        """Those of these ids whose vectors here are of others' making, not of a migration's; None if the store cannot
        tell."""
        return None

    def lag(self) -> float:
        """How many seconds the copies are behind that the store keeps on other machines."""
        raise UsageError(f"{self.shown}: this kind of store does not say how far its replicas are behind; leave "
                         "--max-lag out")

    def triggers(self) -> list[str]:
        """What the store runs for every vector that is written, such as triggers that others have put on the table."""
        return []

    def all_documents(self) -> Iterator[list[Id]]:
        """The ids of all documents that have a text or a vector, in batches; most stores have none without a vector."""
        return (rows.ids for rows in self.read(vectors=False))

    def without_vector(self) -> Iterator[Id]:
        """The ids of the documents that have a text and no vector here; most stores have none such."""
        return iter(())

    def documents_of(self, ids: Collection[Id]) -> dict[Id, Document]:
        """The documents of these ids that exist."""
        found: dict[Id, Document] = {}
        for rows in self.read(ids=ids, texts=True) if ids else ():
            texts = rows.texts or [None] * len(rows)
            for key, text, vector in zip(rows.ids, texts, fingerprints(rows.matrix).tolist()):
                found[key] = Document(text, text_version(text) if text else f"vector {vector}")
        return found

    def write_version(self, ids: Sequence[Id], vectors: Vectors, versions: Sequence[str | None],
                      documents: Store) -> list[Id]:
        """write(), but only for documents that still are, in the store 'documents', of the version that the vector was
        made of. Returns the ids that were written. Stores that can compare in the statement that writes do so; here an
        edit between the two, which follow one another at once, is not seen."""
        now = documents.documents_of(ids)
        same = [n for n, key in enumerate(ids) if key in now and now[key].version == versions[n]]
        if same:
            self.write([ids[n] for n in same], vectors[same])
        return [ids[n] for n in same]

    @abc.abstractmethod
    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        """For every query the ids of the k best, best first, and their scores (larger is better); fewer get -inf."""

    def filtered(self, where: str, params: Sequence[object] = ()) -> Self:
        """This store, for searches among the documents that meet a condition in the store's own language."""
        raise UsageError(f"{self.shown}: this kind of store takes no condition for a search; search for more, and "
                         "leave out what does not belong")

    @abc.abstractmethod
    def switch(self, incoming: Self, outgoing: Self) -> None:
        """Moves what is here to the place 'outgoing', and what is in 'incoming' to here; in one step if the store can.

        Called again after a crash it completes what was begun, and does nothing if all is done.
        """

    def lookup(self, other: Store, ids: Collection[Id]) -> tuple[dict[Id, Vectors], dict[Id, Vectors]]:
        """{id: vector} of these ids here, and in the other place; in one question where a store can."""
        first, second = ({key: row for rows in store.read(ids=ids) for key, row in zip(rows.ids, rows.matrix)}
                         for store in (self, other))
        return first, second

    def shows(self) -> str | None:
        """What applications can ask without knowing which of two places a cutover has chosen, such as a view."""
        return None

    def unseen(self) -> str | None:
        """What a migration of this place cannot see of others' changes, and why, as a sentence for plan; None if the
        store notes them all."""
        return None

    def watching(self, owner: str) -> bool:
        """Whether the store notes for this migration what others change here and in the new place."""
        return False

    def watch(self, new: Store, owner: str) -> None:  # noqa: B027  # most stores cannot
        """From now on, if the store can: notes every row that others insert, change or remove, in their transaction."""

    def notes(self, owner: str, seen: bool = False, size: int = BATCH_ROWS, after: int = 0) -> list[Note]:
        """The first of what was noted and not forgotten, by their marks above 'after'; with 'seen', also of what
        forget() kept. Whoever reads a row after its note finds it as the note says, or later."""
        return []

    def every_note(self, owner: str, seen: bool = False) -> Iterator[Note]:
        """All that notes() gives, some at a time."""
        after = 0
        while notes := self.notes(owner, seen, after=after):
            yield from notes
            after = notes[-1].mark

    def last_notes(self, owner: str, ids: Collection[Id] | None = None) -> list[Note]:
        """For each of these ids, or of all, the last of all its notes: of a text only if there is no other, for a text
        comes before the vector that is made of it, and of an old vector if one transaction wrote both."""
        return []

    def take_over(self, owner: str, notes: Collection[Note]) -> set[Id]:
        """Rows of the notes' ids may be written even if others have written them, because that is out of date by now.
        Returns the ids that others have written again since their note, which stay theirs."""
        return set()

    def forget(self, owner: str, notes: Collection[Note], keep: bool = False) -> None:  # noqa: B027
        """These are caught up. A row that changed again has another note. 'keep' leaves them to notes(seen=True)."""

    def remove_orphans(self, ids: Collection[Id] | None = None) -> list[Id]:
        """Removes the vectors, of these ids or of all, whose documents no longer exist, where a place can hold such.
        Returns their ids."""
        return []

    def unwatch(self, owner: str, last: Store | None = None) -> None:  # noqa: B027
        """Removes what watch() made, with all notes, and whatever else only a rollback would need. last: the new place,
        if the migration ends so."""

    def follow_documents(self) -> bool:
        """From now on, if the store can and where a place is apart from its documents: the vector of a document that
        goes goes too, and one whose text changes is marked. Returns whether it does."""
        return False

    def mark_stale(self, ids: Collection[Id]) -> None:  # noqa: B027
        """Marks these vectors as made of texts that have changed since, where follow_documents() does."""

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


# The scheme of an address, and the file and class behind it; what pip installs for it is the extra of that name.
STORES = {
    "postgresql": ("postgresql", "PostgresStore"),
    "qdrant": ("qdrant", "QdrantStore"),
    "lancedb": ("lancedb", "LanceStore"),
    "chroma": ("chroma", "ChromaStore"),
    "faiss": ("faiss", "FaissStore"),
    "parquet": ("parquet", "ParquetStore"),
    "npy": ("npy", "NpyStore"),
    "duckdb": ("duckdb", "DuckdbStore"),
    "milvus": ("milvus", "MilvusStore"),
    "sqlite-vec": ("sqlite_vec", "SqliteVecStore"),
}


def open_store(address: str) -> Store:
    """The store of an address, such as 'postgresql://host/db?table=docs&column=embedding' or 'faiss:docs.index'.

    Other packages add stores by entry points of the group kedge.stores, each from its scheme to its class.
    """
    scheme = scheme_of(address)
    others = {} if scheme in STORES else {point.name: point for point in metadata.entry_points(group="kedge.stores")}
    if ":" not in address or scheme not in {**STORES, **others}:
        raise UsageError(f"{without_password(address)!r} is not the address of a store; it begins with one of "
                         f"{', '.join(name + ':' for name in {**STORES, **others})}")
    try:
        if scheme in others:
            made = others[scheme].load()
        else:
            module, name = STORES[scheme]
            made = getattr(importlib.import_module(f".stores.{module}", __package__), name)
    except ImportError as error:
        if (error.name or "").startswith("kedge"):
            raise
        extra = scheme if scheme in PACKAGES else None
        raise Error(f"{without_password(address)}: {what_is_missing(error, extra)}") from None
    store: Store = made(address)
    return store
