# SPDX-License-Identifier: Apache-2.0
"""qdrant://host:6333/name?vector=&text=&changed= and qdrant:path#name: points of a Qdrant collection.

New vectors are a collection of their own with the old one's settings, payloads and other vectors, or with into =
"vector" another vector of the same points (qdrant_vector.py). Qdrant cannot rename a collection, so its place, such as
docs_new, is an alias, and so must the place be that is switched.
"""
from __future__ import annotations

import dataclasses
import datetime
import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from qdrant_client import QdrantClient, models

from ..._address import join_address, split_address
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from .qdrant_link import Link
from .qdrant_points import creating, deleting, parts, text_of, value_of
from .require import require_free, require_same_place, require_width

if TYPE_CHECKING:
    from .qdrant_vector import QdrantVectorStore

OPTIONS = ("vector", "text", "changed", "https", "api_key_env")
MARK = "kedge-migrate"
METRICS = {models.Distance.COSINE: "cosine", models.Distance.DOT: "inner", models.Distance.EUCLID: "euclidean"}


class QdrantStore(Store):
    copies_documents = True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.place, self.name, self.options, self.remote = split_address(address, OPTIONS)
        self.vector = self.options.get("vector", "")
        self.link = Link(address, self.place, self.remote, self.options)
        self._facts: Contents | None = None

    def beside(self, ending: str) -> QdrantStore:
        return QdrantStore(join_address("qdrant", self.place, self.name + ending, self.options, self.remote))

    def new_place(self, into: str = "") -> Store:
        from .qdrant_vector import QdrantVectorStore

        word, _, name = into.partition("=")
        if word != "vector":
            return super().new_place(into)
        self.shares_documents, self._facts = True, None
        return QdrantVectorStore(join_address("qdrant", self.place, self.name, {
            **self.options, "vector": name or (self.vector or "default") + "_new"}, self.remote))

    def _aliases(self) -> dict[str, str]:
        with self.link.asking("read") as client:
            return {found.alias_name: found.collection_name for found in client.get_aliases().aliases}

    def _collection(self) -> tuple[str, models.CollectionInfo]:
        """(name, what Qdrant says) of the collection that this name leads to."""
        name = self._aliases().get(self.name, self.name)
        with self.link.asking("read") as client:
            if not client.collection_exists(name):
                raise Missing(f"{self.address}: there is no collection or alias {self.name!r}")
            return name, client.get_collection(name)

    def _params(self, found: models.CollectionInfo) -> models.VectorParams:
        """The settings of the vector that this address names."""
        vectors = found.config.params.vectors
        vectors = vectors if isinstance(vectors, dict) else {"": vectors} if vectors else {}
        if self.vector not in vectors:
            names = ", ".join(name for name in vectors if name) or "only one without a name"
            raise UsageError(f"{self.address}: the collection has no vector {self.vector!r}; it has {names}; say which "
                             "with ?vector=")
        params = vectors[self.vector]
        if params.multivector_config is not None:
            raise UsageError(f"{self.address}: each point has many vectors there, which a map from one to one does not "
                             "change")
        if params.distance not in METRICS:
            raise UsageError(f"{self.address}: compares by {params.distance.value}; expected cosine, dot or euclid")
        return params

    @staticmethod
    def _mark(found: models.CollectionInfo) -> dict[str, Any]:
        """What create() noted: the owner, the name it was made under, and the collection that payloads come from."""
        mark: dict[str, Any] = (found.config.metadata or {}).get(MARK, {})
        return mark

    def create(self, like: Store, width: int, owner: str) -> None:
        aliases = self._aliases()
        name = aliases.get(self.name) or self.name
        with self.link.asking("create") as client:
            there = client.collection_exists(name)
            mark = self._mark(client.get_collection(name)) if there else {}
        if require_free(self.address, there, mark.get("owner"), owner):
            return
        old = require_same_place(self, like)
        source, found = old._collection()
        name = f"{source.split('.')[0]}.{hashlib.sha256((owner + self.name).encode()).hexdigest()[:8]}"
        with self.link.asking("create") as client:
            if not client.collection_exists(name):
                mark = {"owner": owner, "name": self.name, "source": source}
                client.create_collection(name, metadata={MARK: mark}, **self._settings(old, found, width))
                self._require_mark(client, name)
            for field, schema in (found.payload_schema or {}).items():
                client.create_payload_index(name, field, field_schema=schema.params or schema.data_type, wait=True)
            # The alias comes last: a place that has a name is complete.
            client.update_collection_aliases([creating(self.name, name)])

    def _settings(self, like: QdrantStore, found: models.CollectionInfo, width: int) -> dict[str, Any]:
        """The old collection's, but for the width of one vector."""
        params, config = found.config.params, found.config
        if params.sharding_method == models.ShardingMethod.CUSTOM:
            raise UsageError(f"{like.address}: its shards have keys of their own, which kedge-migrate cannot copy")
        old = like._params(found)
        kind = old.datatype if old.datatype == models.Datatype.FLOAT16 else None
        new = old.model_copy(update={"size": width, "datatype": kind})
        diff: dict[str, tuple[Any, Any]] = {"hnsw_config": (config.hnsw_config, models.HnswConfigDiff),
                "optimizers_config": (config.optimizer_config, models.OptimizersConfigDiff)}
        return {"vectors_config": {**params.vectors, self.vector: new} if isinstance(params.vectors, dict) else new,
                "sparse_vectors_config": params.sparse_vectors, "shard_number": params.shard_number,
                "replication_factor": params.replication_factor, "on_disk_payload": params.on_disk_payload,
                "write_consistency_factor": params.write_consistency_factor,
                "quantization_config": config.quantization_config,
                **{name: kind(**value.model_dump(include=set(kind.model_fields), exclude_none=True))
                   for name, (value, kind) in diff.items() if value is not None}}

    def _require_mark(self, client: QdrantClient, name: str) -> None:
        if not self._mark(client.get_collection(name)):
            client.delete_collection(name)
            raise Error(f"{self.address}: this server keeps no metadata of collections, so a migration cannot mark "
                        "what it made; it needs Qdrant 1.16 or newer")

    def describe(self) -> Contents:
        self._facts = None
        found = self.facts()
        with self.link.asking("read") as client:
            rows = client.count(self.name, count_filter=self._having(), exact=True).count
        return dataclasses.replace(found, rows=rows)

    def facts(self) -> Contents:
        if self._facts is None:
            self._facts = self._look()
        return self._facts

    def _look(self) -> Contents:
        name, found = self._collection()
        params = self._params(found)
        kind = "float16" if params.datatype == models.Datatype.FLOAT16 else "float32"
        if params.datatype == models.Datatype.UINT8:
            kind = "uint8"
        # Qdrant keeps vectors that it compares by cosine at length 1, so they do not come back bit for bit.
        kind += " of length 1" if params.distance == models.Distance.COSINE else ""
        hnsw = params.hnsw_config or found.config.hnsw_config
        quantized = params.quantization_config or found.config.quantization_config
        atomic = None if name != self.name or self.shares_documents else (
            f"{self.name} is a collection, which Qdrant cannot rename, so there is no cutover of it: make an alias "
            "that leads to it, let applications and kedge-migrate use the alias, and the cutover is one step")
        return Contents(found.points_count or 0, params.size, kind, METRICS[params.distance],
                        texts="text" in self.options, owner=self._mark(found).get("owner"), atomic=atomic,
                        can_switch=atomic is None,
                        index=f"HNSW, m={(hnsw and hnsw.m) or 16}" + (", quantized" if quantized else ""))

    def _having(self, *conditions: models.Condition) -> models.Filter:
        return models.Filter(must=[models.HasVectorCondition(has_vector=self.vector), *conditions])

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        self.facts()
        name = self.name
        fields = [self.options["text"]] if texts and "text" in self.options else False
        asked = {"with_vectors": [self.vector] if vectors and self.vector else vectors, "with_payload": fields}
        if ids is not None:
            return self._retrieve(name, list(ids), asked, size)
        conditions = [self._since(changed)] if changed is not None and "changed" in self.options else []
        return self._scroll(name, after, self._having(*conditions), asked, size)

    def _scroll(self, name: str, after: Id | None, having: models.Filter, asked: dict[str, Any],
                size: int) -> Iterator[Rows]:
        """Qdrant gives points in the order of their ids, numbers before UUIDs, from a given one on."""
        start: Any = after
        more = True
        while more:
            with self.link.asking("read") as client:
                found, start = client.scroll(name, scroll_filter=having, limit=size, offset=start, **asked)
            more = start is not None
            batch = self._rows([point for point in found if point.id != after], asked)
            if len(batch):
                yield batch

    def _retrieve(self, name: str, ids: list[Any], asked: dict[str, Any], size: int) -> Iterator[Rows]:
        for first in range(0, len(ids), size):
            with self.link.asking("read") as client:
                found = client.retrieve(name, ids[first:first + size], **{**asked, "with_vectors": True})
            batch = self._rows([point for point in found if self._values(point) is not None], asked)
            if len(batch):
                yield batch

    def _values(self, point: models.Record) -> Any:
        """The vector of this name; Qdrant names none if the point has only the one without a name."""
        if isinstance(point.vector, dict):
            return point.vector.get(self.vector)
        return None if self.vector else point.vector

    def _rows(self, points: list[models.Record], asked: dict[str, Any]) -> Rows:
        ids: list[Any] = [point.id for point in points]
        vectors = np.array([self._values(point) for point in points], np.float32) if asked["with_vectors"] else None
        field = asked["with_payload"] and asked["with_payload"][0]
        return Rows(ids, vectors, [text_of(point.payload, field) for point in points] if field else None)

    def _since(self, value: Moment) -> models.FieldCondition:
        wanted = (models.DatetimeRange.model_validate({"gte": value}) if isinstance(value, str)
                  else models.Range(gte=value))
        return models.FieldCondition(key=self.options["changed"], range=wanted)

    def newest(self) -> Moment | None:
        field = self.options.get("changed")
        if field is None:
            return None
        name, _ = self._collection()
        best, start, more = None, None, True
        while more:
            with self.link.asking("read") as client:
                found, start = client.scroll(name, limit=BATCH_ROWS, offset=start, with_payload=[field])
            more = start is not None
            values = [value for value in (value_of(point.payload, field) for point in found) if value is not None]
            best = max(values + ([] if best is None else [best]), key=self._moment, default=None)
        return best

    def _moment(self, value: Any) -> Any:
        if isinstance(value, (int, float)):
            return value
        try:
            moment = datetime.datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)
        except (TypeError, ValueError):
            raise UsageError(f"{self.address}: {self.options['changed']!r} holds {value!r}; expected numbers, or times "
                             "such as 2026-01-31T12:00:00Z") from None

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        name, found = self._collection()
        width, mark = self._params(found).size, self._mark(found)
        if not len(ids):
            return
        require_width(self, ids, vectors, width)
        named: list[Any] = list(ids)
        in_use = mark.get("name") != self.name
        if vectors is None:
            with self.link.asking("write") as client:
                if in_use:
                    client.delete_vectors(name, vectors=[self.vector], points=named, wait=True)
                else:
                    client.delete(name, points_selector=named, wait=True)
            return
        others = [] if in_use else self._others(found)
        points = self._points(name if in_use else mark["source"], named, vectors, others, in_use)
        for part in parts(points):
            with self.link.asking("write") as client:
                (client.update_vectors if in_use else client.upsert)(name, points=part, wait=True)

    def _others(self, found: models.CollectionInfo) -> list[str]:
        params = found.config.params
        names = list(params.vectors) if isinstance(params.vectors, dict) else []
        return [name for name in names + list(params.sparse_vectors or {}) if name != self.vector]

    def _points(self, source: str, ids: list[Any], vectors: Vectors, others: list[str], in_use: bool) -> Iterator[Any]:
        """Points as they are to be written. Payloads and other vectors come from the old collection; a collection in
        use keeps its own. Documents that are no longer there stay away."""
        with self.link.asking("read") as client:
            found = {point.id: point for point in client.retrieve(source, ids, with_payload=not in_use,
                                                                  with_vectors=others or False)}
        for key, vector in zip(ids, np.asarray(vectors, np.float32).tolist()):
            if key not in found:
                continue
            old: Any = found[key].vector
            if in_use:
                yield models.PointVectors(id=key, vector={self.vector: vector} if self.vector else vector)
            elif self.vector or others:
                yield models.PointStruct(id=key, vector={**(old or {}), self.vector: vector},
                                         payload=found[key].payload)
            else:
                yield models.PointStruct(id=key, vector=vector, payload=found[key].payload)

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        metric = self.facts().metric
        asked = [models.QueryRequest(query=query, using=self.vector or None, limit=k)
                 for query in np.asarray(queries, np.float32).tolist()]
        with self.link.asking("search") as client:
            answers = client.query_batch_points(self.name, requests=asked)
        scores = np.full((len(asked), k), -np.inf, np.float32)
        for row, answered in zip(scores, answers):
            row[:len(answered.points)] = [point.score for point in answered.points]
        if metric == "euclidean":
            scores = np.where(np.isfinite(scores), -scores, -np.inf)
        ids: list[list[Any]] = [[point.id for point in answered.points] for answered in answers]
        return ids, scores

    def finish(self) -> None:
        """Waits until the server has built its index."""
        name, found = self._collection()
        while found.status == models.CollectionStatus.YELLOW:
            time.sleep(0.5)
            name, found = self._collection()
        if found.status == models.CollectionStatus.RED:
            raise Error(f"{self.address}: the server cannot index the collection {name}; its log says why")

    def switch(self, incoming: QdrantStore, outgoing: QdrantStore) -> None:
        self._facts = incoming._facts = outgoing._facts = None
        if side := self._side(incoming, outgoing):
            side.note(in_use=incoming.stays)
            return
        aliases = self._aliases()
        if self.name not in aliases:
            raise Error(f"{self.address}: {self.describe().atomic}")
        if incoming.name not in aliases:
            if outgoing.name in aliases:
                return
            raise Missing(f"{incoming.address}: there is no such alias, so nothing can take the place of "
                          f"{self.address}")
        if outgoing.name in aliases and aliases[outgoing.name] != aliases[self.name]:
            raise Error(f"{outgoing.address} is taken, and would hold what is now in {self.address}; delete it")
        self._copy_again(aliases[self.name], aliases[incoming.name])
        with self.link.asking("switch") as client:
            client.update_collection_aliases([
                deleting(self.name), deleting(incoming.name),
                creating(outgoing.name, aliases[self.name]), creating(self.name, aliases[incoming.name])])

    @staticmethod
    def _side(*places: QdrantStore) -> QdrantVectorStore | None:
        """The one that is another vector of the same points."""
        from .qdrant_vector import QdrantVectorStore

        return next((place for place in places if isinstance(place, QdrantVectorStore)), None)

    def switching(self, incoming: QdrantStore, outgoing: QdrantStore) -> bool:
        side = self._side(incoming, outgoing)
        return side.in_use if side else super().switching(incoming, outgoing)

    def _copy_again(self, source: str, target: str) -> None:
        """Payloads and other vectors that differ from those in use: applications may have changed them since they were
        copied."""
        others = self._others(self._collection()[1])
        asked: dict[str, Any] = {"with_payload": True, "with_vectors": others or False}
        start: Any = None
        more = True
        while more:
            with self.link.asking("switch") as client:
                now, start = client.scroll(source, limit=BATCH_ROWS, offset=start, **asked)
                then = {point.id: point for point in client.retrieve(target, [point.id for point in now], **asked)}
                for point in (point for point in now if point.id in then):
                    if (point.payload or {}) != (then[point.id].payload or {}):
                        client.overwrite_payload(target, point.payload or {}, points=[point.id], wait=True)
                    if point.vector and point.vector != then[point.id].vector:
                        vector: Any = point.vector
                        client.update_vectors(target, [models.PointVectors(id=point.id, vector=vector)], wait=True)
            more = start is not None

    def drop(self) -> None:
        name, _ = self._collection()
        with self.link.asking("drop") as client:
            client.delete_collection(name)
        self._facts = None

    def close(self) -> None:
        self._facts = None
        self.link.close()
