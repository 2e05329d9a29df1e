# SPDX-License-Identifier: Apache-2.0
"""chroma:path#collection?changed=field and chroma://host:8000/collection: a collection of Chroma.

Its documents are the texts. New vectors are a collection of their own with the old one's settings, documents and
metadata, but without its embedding function, which belongs to the old model.
"""
from __future__ import annotations

import bisect
import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import chromadb
import httpx
import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.types import Include
from chromadb.config import Settings
from chromadb.errors import ChromaError, NotFoundError

from ..._address import join_address, secret, split_address, uses_https
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from .files import reason_for
from .require import require_free, require_same_place, require_switchable, require_width

OPTIONS = ("changed", "https", "token_env", "tenant", "database")
OWNER, NAME, SOURCE, WIDTH = (f"kedge-migrate:{word}" for word in ("owner", "name", "source", "width"))
METRICS = {"cosine": "cosine", "ip": "inner", "l2": "euclidean"}
WIDER = 4  # Chroma looks at as many neighbours as it is asked for, and the best hundred of so many are nearly exact


class ChromaStore(Store):
    copies_documents = True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.place, self.name, self.options, self.remote = split_address(address, OPTIONS)
        self._client: ClientAPI | None = None
        self._known: tuple[chromadb.Collection, Contents] | None = None

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turns what Chroma raises into a sentence."""
        try:
            yield
        except (httpx.HTTPError, ConnectionError) as error:
            raise Error(f"{self.address}: cannot {doing} it: no answer from {self.place} ({error}); is the server "
                        "running?") from None
        except (ChromaError, ValueError, TypeError, OSError, RuntimeError) as error:
            text = str(error) or type(error).__name__
            if "Could not connect" in text:
                text = f"no answer from {self.place}; is the server running?"
            raise Error(f"{self.address}: cannot {doing} it: {reason_for(text) or text}") from None

    def _open(self) -> ClientAPI:
        if self._client is None:
            # Chroma's authors learn nothing of what is stored here, nor that it is used.
            quiet = Settings(anonymized_telemetry=False)
            where: dict[str, Any] = {key: self.options[key] for key in ("tenant", "database") if key in self.options}
            if self.remote:
                host, _, port = self.place.partition(":")
                token = secret(self.address, self.options, "token_env", "token")
                with self._errors("open"):
                    self._client = chromadb.HttpClient(
                        host=host, port=int(port or 8000), ssl=uses_https(self.options),
                        headers={"x-chroma-token": token} if token else None, settings=quiet, **where)
            else:
                self._require_writable(pathlib.Path(self.place, "chroma.sqlite3"))
                with self._errors("open"):
                    self._client = self._persistent(quiet, where)
        return self._client

    def _require_writable(self, file: pathlib.Path) -> None:
        """Chroma writes even to open a folder; if it cannot, this process is unable to try again."""
        if not file.is_file():
            raise Missing(f"{self.address}: there is no Chroma database in the folder {self.place}")
        if not all(os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
                   for path in (file, file.parent)):
            raise Error(f"{self.address}: cannot open it: this user may not write to the folder {self.place}, which "
                        "Chroma needs even to read; change its permissions, or run as a user who may")

    def _persistent(self, settings: Settings, where: dict[str, Any]) -> ClientAPI:
        try:
            return chromadb.PersistentClient(self.place, settings=settings, **where)
        except ValueError as error:
            if "different settings" not in str(error):
                raise
            # The application has this folder open in the same process, and Chroma allows one set of settings for it.
            return chromadb.PersistentClient(self.place, **where)

    def _collection(self, name: str | None = None) -> chromadb.Collection | None:
        """The collection as it is now, or None; it is never asked to embed anything."""
        client = self._open()
        with self._errors("read"):
            try:
                found: chromadb.Collection = client.get_collection(name or self.name, embedding_function=None)
                return found
            except NotFoundError:
                return None

    def _there(self) -> chromadb.Collection:
        found = self._collection()
        if found is None:
            raise Missing(f"{self.address}: there is no collection {self.name!r}")
        return found

    def beside(self, ending: str) -> ChromaStore:
        return ChromaStore(join_address("chroma", self.place, self.name + ending, self.options, self.remote))

    def create(self, like: Store, width: int, owner: str) -> None:
        found = self._collection()
        if require_free(self.address, found is not None, self._owner(found), owner):
            return
        old = require_same_place(self, like)._there()
        # Settings in metadata are an older way to say what is in the configuration.
        metadata = {key: value for key, value in (old.metadata or {}).items() if not key.startswith("hnsw:")}
        metadata.update({OWNER: owner, NAME: self.name, SOURCE: str(old.id), WIDTH: width})
        kind, settings = self._index(old)
        configuration: Any = {kind: settings}
        with self._errors("create"):
            self._open().create_collection(self.name, configuration=configuration, metadata=metadata,
                                           embedding_function=None)

    @staticmethod
    def _owner(found: chromadb.Collection | None) -> str | None:
        return cast("str | None", (found.metadata or {}).get(OWNER)) if found is not None else None

    def _index(self, found: chromadb.Collection) -> tuple[str, dict[str, Any]]:
        """(kind, settings) of the index."""
        for kind in ("hnsw", "spann"):
            if found.configuration_json.get(kind):
                return kind, found.configuration_json[kind]
        return "hnsw", {}

    def _width(self, found: chromadb.Collection) -> int:
        metadata = found.metadata or {}
        if WIDTH in metadata:
            return cast(int, metadata[WIDTH])
        with self._errors("read"):
            some: Any = found.get(limit=1, include=["embeddings"])["embeddings"]
        return len(some[0]) if len(some) else 0

    def describe(self) -> Contents:
        self._known = None
        found, facts = self._look()
        with self._errors("read"):
            return dataclasses.replace(facts, rows=found.count())

    def facts(self) -> Contents:
        return self._look()[1]

    def _look(self) -> tuple[chromadb.Collection, Contents]:
        """The collection and what is known of it without counting, until it is switched."""
        if self._known is None:
            found = self._there()
            self._known = found, self._facts(found)
        return self._known

    def _facts(self, found: chromadb.Collection) -> Contents:
        kind, settings = self._index(found)
        metric = METRICS[settings.get("space", "l2")]
        with self._errors("read"):
            # Compared by cosine, Chroma keeps directions and lengths apart: what comes back differs in the last bits.
            return Contents(
                0, self._width(found), "float32 with rounding" if metric == "cosine" else "float32", metric,
                texts=any(found.get(limit=1, include=["documents"])["documents"] or []),
                owner=self._owner(found), index=f"{kind.upper()}, {settings.get('space', 'l2')}",
                atomic="two collections change names one after the other; for an instant there is none of that name")

    def _ids(self, found: chromadb.Collection, where: Any = None) -> list[str]:
        """All ids in their order; Chroma has no order of its own that stays when documents are replaced."""
        with self._errors("read"):
            return sorted(found.get(include=[], where=where)["ids"])

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        found = self._there()
        if ids is not None:
            keys = cast(list[str], list(dict.fromkeys(ids)))
        elif changed is not None and "changed" in self.options:
            keys = self._changed(found, changed)
        else:
            keys = self._ids(found)
        if after is not None:
            keys = keys[bisect.bisect_right(keys, after):]
        include = cast(Include, ["embeddings"] * vectors + ["documents"] * texts)
        for first in range(0, len(keys), size):
            batch = self._batch(found, keys[first:first + size], include)
            if len(batch):
                yield batch

    def _batch(self, found: chromadb.Collection, keys: list[str], include: Include) -> Rows:
        with self._errors("read"):
            got: Any = found.get(ids=keys, include=include)
        rank = {key: number for number, key in enumerate(got["ids"])}
        order = [rank[key] for key in keys if key in rank]
        vectors = np.asarray(got["embeddings"], np.float32)[order] if "embeddings" in include and order else None
        texts = [got["documents"][number] for number in order] if "documents" in include else None
        return Rows([got["ids"][number] for number in order], vectors, texts)

    def _changed(self, found: chromadb.Collection, since: Moment) -> list[str]:
        """The ids of documents whose field is not below this value; Chroma itself compares only numbers."""
        field = self.options["changed"]
        if isinstance(since, (int, float)):
            return self._ids(found, {field: {"$gte": since}})
        return sorted(key for key, value in self._values(found, field) if isinstance(value, str) and value >= since)

    def _values(self, found: chromadb.Collection, field: str) -> Iterator[tuple[str, Any]]:
        keys = self._ids(found)
        for first in range(0, len(keys), BATCH_ROWS):
            with self._errors("read"):
                got: Any = found.get(ids=keys[first:first + BATCH_ROWS], include=["metadatas"])
            for key, metadata in zip(got["ids"], got["metadatas"]):
                if (metadata or {}).get(field) is not None:
                    yield key, metadata[field]

    def newest(self) -> Moment | None:
        field = self.options.get("changed")
        if field is None:
            return None
        best = None
        for key, value in self._values(self._there(), field):
            if best is not None and isinstance(value, str) != isinstance(best, str):
                raise UsageError(f"{self.address}: {field!r} holds {value!r} in {key!r} and {best!r} elsewhere; "
                                 "expected only numbers, or only texts that sort by time")
            best = value if best is None or value > best else best
        return best

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        found = self._there()
        width, metadata = self._width(found), found.metadata or {}
        if not len(ids):
            return
        require_width(self, ids, vectors, width)
        in_use = metadata.get(NAME) != self.name
        if vectors is None and in_use:
            raise Error(f"{self.address}: a document in Chroma cannot be without a vector, and this collection is in "
                        "use; delete documents in the application")
        with self._errors("write"):
            size = self._open().get_max_batch_size()
        for first in range(0, len(ids), size):
            part = cast(list[str], list(ids[first:first + size]))
            with self._errors("write"):
                if vectors is None:
                    found.delete(ids=part)
                elif in_use:
                    found.update(ids=part, embeddings=np.asarray(vectors[first:first + size], np.float32))
                else:
                    self._copy(found, part, vectors[first:first + size])

    def _copy(self, found: chromadb.Collection, ids: list[str], vectors: Vectors) -> None:
        """Writes vectors with the old collection's documents; those that are no longer there stay away."""
        try:
            source = self._open().get_collection_by_id(found.metadata[SOURCE], embedding_function=None)
        except NotFoundError:
            raise Missing(f"{self.address}: the collection it was made from is gone, with the documents") from None
        got: Any = source.get(ids=ids, include=["documents", "metadatas", "uris"])
        if not got["ids"]:
            return
        row = {key: number for number, key in enumerate(ids)}
        rows = np.asarray(vectors, np.float32)[[row[key] for key in got["ids"]]]
        found.upsert(ids=got["ids"], embeddings=rows, documents=got["documents"], metadatas=got["metadatas"],
                     uris=got["uris"] if any(got["uris"]) else None)

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        found, facts = self._look()
        with self._errors("search"):
            got: Any = found.query(query_embeddings=np.asarray(queries, np.float32), n_results=WIDER * k,
                                   include=["distances"])
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, distances in zip(scores, got["distances"]):
            far = np.asarray(distances[:k], np.float32)
            row[:len(far)] = -np.sqrt(np.maximum(far, 0)) if facts.metric == "euclidean" else 1 - far
        return [ids[:k] for ids in got["ids"]], scores

    def switch(self, incoming: ChromaStore, outgoing: ChromaStore) -> None:
        self._known = incoming._known = outgoing._known = None
        old, new, kept = self._collection(), self._collection(incoming.name), self._collection(outgoing.name)
        require_switchable(self, incoming, outgoing, [one is not None for one in (old, new, kept)])
        if new is None:
            return
        if old is not None:
            self._copy_again(old, new)
        with self._errors("switch"):
            if old is not None:
                old.modify(name=outgoing.name)
            new.modify(name=self.name)

    def _copy_again(self, source: chromadb.Collection, target: chromadb.Collection) -> None:
        """Documents that differ from those in use: applications may have changed them since they were copied."""
        keys = self._ids(source)
        for first in range(0, len(keys), BATCH_ROWS):
            with self._errors("switch"):
                now = by_id(source.get(ids=keys[first:first + BATCH_ROWS], include=["documents", "metadatas"]))
                then = by_id(target.get(ids=list(now), include=["documents", "metadatas"]))
                other = [key for key in then if then[key] != now[key]]
                if not other:
                    continue
                got: Any = target.get(ids=other, include=["embeddings"])  # without them Chroma would embed the texts
                target.update(ids=got["ids"], embeddings=got["embeddings"],
                              documents=[now[key][0] for key in got["ids"]],
                              metadatas=[merged(then[key][1], now[key][1]) for key in got["ids"]])

    def drop(self) -> None:
        self._there()
        with self._errors("drop"):
            self._open().delete_collection(self.name)
        self._known = None

    def close(self) -> None:
        client: Any = self._client
        self._client = self._known = None
        if client is not None:
            client.close()


def by_id(got: Any) -> dict[str, tuple[Any, Any]]:
    """{id: (document, metadata)}."""
    return {key: (document, metadata) for key, document, metadata in
            zip(got["ids"], got["documents"], got["metadatas"])}


def merged(then: Any, now: Any) -> Any:
    """Metadata that make the one into the other: what is to go is None."""
    return {**dict.fromkeys(then or {}), **(now or {})} or None
