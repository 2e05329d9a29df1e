# SPDX-License-Identifier: Apache-2.0
"""milvus:docs.db#collection.field?text=body&changed=stamp and milvus://host:19530/collection: a collection of Milvus.

New vectors are a collection of their own with the old one's fields, indexes and documents. What applications change in
a document meanwhile is copied once more at the switch.
"""
from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import grpc
import numpy as np
from pymilvus import DataType, MilvusClient
from pymilvus.exceptions import MilvusException

from ..._address import join_address, secret, split_address, uses_https
from ..._errors import Error, UsageError
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Vectors
from .files import reason_for
from .require import require_free, require_same_place, require_switchable, require_width

OPTIONS = ("text", "changed", "https", "token_env", "database")
OWNER, MADE, SOURCE = (f"kedge-migrate.{word}" for word in ("owner", "name", "source"))
METRICS = {"COSINE": "cosine", "IP": "inner", "L2": "euclidean"}
MOST_NEIGHBOURS = 16384        # more than these Milvus does not give
STRONG = {"consistency_level": "Strong"}  # reads see what was written before
# What describe_index says beside the settings of the index.
NO_SETTINGS = {"index_type", "metric_type", "field_name", "index_name", "total_rows", "indexed_rows",
               "pending_index_rows", "state"}


class MilvusStore(Store):
    copies_documents = True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.place, name, self.options, self.remote = split_address(address, OPTIONS)
        self.name, _, self.field = name.partition(".")
        self._client: MilvusClient | None = None
        self._known: tuple[dict[str, Any], Contents] | None = None  # what Milvus says of the collection, for searches

    def beside(self, ending: str) -> MilvusStore:
        name = self.name + ending + ("." + self.field if self.field else "")
        return MilvusStore(join_address("milvus", self.place, name, self.options, self.remote))

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[MilvusClient]:
        """The client; what it raises becomes a sentence."""
        try:
            yield self._open()
        except (MilvusException, grpc.RpcError, OSError, ValueError) as error:
            said = str(getattr(error, "message", None) or error).strip().split("\n")[0]
            if self.remote and ("connect" in said or "UNAVAILABLE" in said):
                said = f"no answer from {self.place}; is the server running?"
            raise Error(f"{self.address}: cannot {doing} it: {reason_for(said) or said}") from None

    def _open(self) -> MilvusClient:
        if self._client is None:
            if not self.remote and not pathlib.Path(self.place).exists():
                raise Missing(f"{self.address}: there is no database of Milvus Lite at {self.place}")
            scheme = "https" if uses_https(self.options) else "http"
            place = f"{scheme}://{self.place if ':' in self.place else self.place + ':19530'}"
            self._client = MilvusClient(place if self.remote else self.place,
                                        token=secret(self.address, self.options, "token_env", "token") or "",
                                        db_name=self.options.get("database", ""), timeout=30 if self.remote else None)
        return self._client

    def _collection(self, name: str | None = None) -> dict[str, Any] | None:
        """What Milvus says of a collection, with its vector's field as 'vector' and its key as 'key', or None."""
        with self._errors("read") as client:
            if not client.has_collection(name or self.name):
                return None
            found: dict[str, Any] = client.describe_collection(name or self.name)
        if found["collection_name"] != (name or self.name):
            raise UsageError(f"{self.address}: {self.name} is an alias, which is not switched; name the collection "
                             f"{found['collection_name']} itself")
        vectors = [field for field in found["fields"] if field["type"] == DataType.FLOAT_VECTOR
                   and self.field in ("", field["name"])]
        if len(vectors) != 1:
            raise UsageError(f"{self.address}: the collection has {len(vectors)} fields of float vectors that this may "
                             f"mean; say which one, as in {self.name}.FIELD")
        found["vector"], found["width"] = vectors[0]["name"], int(vectors[0]["params"]["dim"])
        found["key"] = next(field["name"] for field in found["fields"] if field.get("is_primary"))
        return found

    def _there(self) -> dict[str, Any]:
        found = self._collection()
        if found is None:
            raise Missing(f"{self.address}: there is no collection {self.name!r}")
        return found

    def _indexes(self) -> list[dict[str, Any]]:
        with self._errors("read") as client:
            return [client.describe_index(self.name, name) for name in client.list_indexes(self.name)]

    def _index(self, found: dict[str, Any]) -> dict[str, Any]:
        return next((index for index in self._indexes() if index["field_name"] == found["vector"]), {})

    def create(self, like: Store, width: int, owner: str) -> None:
        found = self._collection()
        if require_free(self.address, found is not None, (found or {}).get("properties", {}).get(OWNER), owner):
            return
        old = require_same_place(self, like)
        source = old._there()
        with self._errors("create") as client:
            schema = client.create_schema(auto_id=False, enable_dynamic_field=source["enable_dynamic_field"],
                                          description=source["description"])
            for field in source["fields"]:
                params = {**field["params"], "dim": width} if field["name"] == source["vector"] else field["params"]
                schema.add_field(field["name"], field["type"], is_primary=field.get("is_primary", False),
                                 nullable=field.get("nullable", False), description=field.get("description", ""),
                                 is_partition_key=field.get("is_partition_key", False),
                                 element_type=field.get("element_type"), **params)
            indexes = client.prepare_index_params()
            for index in old._indexes():
                indexes.add_index(index["field_name"], index_type=index["index_type"],
                                  metric_type=index.get("metric_type", ""),
                                  params={name: value for name, value in index.items() if name not in NO_SETTINGS})
            parts = {"num_partitions": source["num_partitions"]} if schema.partition_key_field else {}
            client.create_collection(self.name, schema=schema, index_params=indexes, **parts, properties={
                **source.get("properties", {}), OWNER: owner, MADE: self.name, SOURCE: old.name})
        self._known = None

    def describe(self) -> Contents:
        self._known = None
        found = self.facts()
        with self._errors("read") as client:
            rows = client.query(self.name, filter="", output_fields=["count(*)"], **STRONG)[0]["count(*)"]
        return dataclasses.replace(found, rows=rows)

    def facts(self) -> Contents:
        if self._known is None:
            found = self._there()
            self._require_copyable(found)
            self._known = found, self._contents(found)
        return self._known[1]

    def _require_copyable(self, found: dict[str, Any]) -> None:
        """Before any work: a collection of the same shape can be made, with the same ids."""
        if found.get("auto_id") or any(field.get("auto_id") for field in found["fields"]):
            raise UsageError(f"{self.address}: Milvus makes the ids of this collection (auto_id), so a copy would have "
                             "others; migrate a collection whose ids the application gives")
        with self._errors("read") as client:
            partitions = client.list_partitions(self.name)
        if len(partitions) > 1 and not any(field.get("is_partition_key") for field in found["fields"]):
            raise UsageError(f"{self.address}: the collection has partitions of its own ({', '.join(partitions)}), "
                             "which a copy would lose; use a partition key instead, or migrate a collection without")

    def _contents(self, found: dict[str, Any]) -> Contents:
        index = self._index(found)
        metric = METRICS.get(index.get("metric_type", "COSINE"))
        if metric is None:
            raise UsageError(f"{self.address}: compares by {index['metric_type']}; expected {', '.join(METRICS)}")
        return Contents(0, found["width"], metric=metric, texts="text" in self.options,
                        owner=found.get("properties", {}).get(OWNER), index=index.get("index_type"),
                        atomic="two collections change names one after the other and are loaded again; until then "
                               "there is none of that name")

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        found = self._there()
        key, text = found["key"], self.options.get("text") if texts else None
        fields = [key] + [found["vector"]] * vectors + ([text] if text else [])
        since = None
        if changed is not None and "changed" in self.options:
            since = f"{self.options['changed']} >= {literal(changed)}"
        pages = self._get(list(ids), fields, size) if ids is not None else self._pages(key, fields, size, after, since)
        for page in pages:
            if page:
                yield Rows([row[key] for row in page],
                           np.array([row[found["vector"]] for row in page], np.float32) if vectors else None,
                           [None if row.get(text) is None else str(row[text]) for row in page] if text else None)

    def _get(self, ids: list[Id], fields: list[str], size: int = BATCH_ROWS,
             name: str | None = None) -> Iterator[list[dict[str, Any]]]:
        for first in range(0, len(ids), size):
            with self._errors("read") as client:
                yield client.get(name or self.name, ids=ids[first:first + size], output_fields=fields, **STRONG)

    def _pages(self, key: str, fields: list[str], size: int = BATCH_ROWS, after: Id | None = None,
               condition: str | None = None) -> Iterator[list[dict[str, Any]]]:
        """In the order of the keys. (pymilvus has an iterator for this, which fails if an id has quotes in it.)"""
        while True:
            conditions = [f"{key} > {literal(after)}"] if after is not None else []
            with self._errors("read") as client:
                page: list[dict[str, Any]] = list(client.query(
                    self.name, filter=" and ".join(conditions + ([condition] if condition else [])), limit=size,
                    output_fields=fields, iterator="True", reduce_stop_for_best="True", **STRONG))
            if not page:
                return
            after = page[-1][key]
            yield page

    def newest(self) -> Moment | None:
        field = self.options.get("changed")
        if field is None:
            return None
        key = self._there()["key"]
        values = [row[field] for page in self._pages(key, [key, field]) for row in page if row.get(field) is not None]
        return max(values, default=None)

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        found = self._there()
        if not len(ids):
            return
        require_width(self, ids, vectors, found["width"])
        made = found.get("properties", {})
        in_use = made.get(MADE) != self.name
        if vectors is None:
            if in_use:
                raise Error(f"{self.address}: a document in Milvus cannot be without a vector, and this collection is "
                            "in use; delete documents in the application")
            with self._errors("write") as client:
                client.delete(self.name, ids=list(ids))
            return
        row = {key: number for number, key in enumerate(ids)}
        source = self.name if in_use else made[SOURCE]
        # Documents that are no longer there stay away.
        for page in self._get(list(ids), [found["key"]] if in_use else ["*"], name=source):
            rows = [{**document, found["vector"]: vectors[row[document[found["key"]]]].tolist()} for document in page]
            if rows:
                with self._errors("write") as client:
                    client.upsert(self.name, rows, partial_update=in_use)

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        metric = self.facts().metric
        assert self._known is not None
        known = self._known[0]
        asked = np.asarray(queries, np.float32).tolist()
        with self._errors("search") as client:
            answers = client.search(self.name, data=asked, anns_field=known["vector"],
                                    limit=min(k, MOST_NEIGHBOURS), output_fields=[known["key"]], **STRONG)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, answer in zip(scores, answers):
            row[:len(answer)] = [hit["distance"] for hit in answer]
            if metric == "euclidean":
                row[:len(answer)] = -np.sqrt(row[:len(answer)])
        return [[hit["entity"][known["key"]] for hit in answer] for answer in answers], scores

    def switch(self, incoming: MilvusStore, outgoing: MilvusStore) -> None:
        self._known = incoming._known = outgoing._known = None
        old, new, kept = self._collection(), self._collection(incoming.name), self._collection(outgoing.name)
        require_switchable(self, incoming, outgoing, [one is not None for one in (old, new, kept)])
        if new is not None and old is not None:
            incoming._copy_again(self, new)
        with self._errors("switch") as client:
            if new is not None:
                if old is not None:
                    client.rename_collection(self.name, outgoing.name)
                client.rename_collection(incoming.name, self.name)
            for name in (self.name, outgoing.name):  # Milvus Lite lets go of a collection that it renames
                client.load_collection(name)

    def _copy_again(self, source: MilvusStore, found: dict[str, Any]) -> None:
        """Documents whose other fields differ from those in use."""
        key, vector = found["key"], found["vector"]
        fields = [field["name"] for field in found["fields"] if field["name"] != vector]
        fields += ["$meta"] if found["enable_dynamic_field"] else []
        for page in source._pages(key, fields):
            here = {row[key]: row for row in itertools.chain(*self._get([row[key] for row in page], fields))}
            other = [row for row in page if row[key] in here and row != here[row[key]]]
            if other:
                with self._errors("switch") as client:
                    client.upsert(self.name, other, partial_update=True)

    def drop(self) -> None:
        self._there()
        self._known = None
        with self._errors("drop") as client:
            client.drop_collection(self.name)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._known = None


def literal(value: Moment | Id) -> str:
    """A value as Milvus' expressions have it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
