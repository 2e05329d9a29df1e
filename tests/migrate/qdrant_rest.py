# SPDX-License-Identifier: Apache-2.0
"""The part of Qdrant's HTTP API that a migration uses, over Qdrant's own engine as qdrant-edge-py brings it.

Points, filters, orders and searches are the engine's; names of collections, aliases and metadata are kept here.
"""
from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import qdrant_edge as edge

SPARSE = {"indices", "values"}


def key(value: Any) -> Any:
    return uuid.UUID(value) if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """What the engine gives, as JSON."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, edge.SparseVector):
        return {"indices": value.indices, "values": value.values}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value


def vector(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == SPARSE:
        return edge.SparseVector(value["indices"], value["values"])
    return {name: vector(part) for name, part in value.items()} if isinstance(value, dict) else value


def condition(given: dict[str, Any]) -> edge.HasVectorCondition | edge.FieldCondition:
    if "has_vector" in given:
        return edge.HasVectorCondition(given["has_vector"])
    since = given["range"]["gte"]
    return edge.FieldCondition(given["key"], range=(
        edge.RangeDateTime(gte=since) if isinstance(since, str) else edge.RangeFloat(gte=since)))


def filter_of(given: dict[str, Any] | None) -> edge.Filter | None:
    return edge.Filter(must=[condition(part) for part in given["must"]]) if given else None


def record(found: Any) -> dict[str, Any]:
    return {"id": plain(found.id), "payload": found.payload, "vector": plain(found.vector)}


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Collection:
    def __init__(self, folder: pathlib.Path, config: dict[str, Any]) -> None:
        self.config = config
        vectors = config["vectors"]
        params = {name: edge.EdgeVectorParams(size=given["size"], distance=getattr(edge.Distance, given["distance"]))
                  for name, given in ({"": vectors} if "size" in vectors else vectors).items()}
        sparse = {name: edge.EdgeSparseVectorParams() for name in config.get("sparse_vectors") or {}}
        self.shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=params, sparse_vectors=sparse or None))
        self.indexes: dict[str, dict[str, Any]] = {}

    def info(self) -> dict[str, Any]:
        given = self.config
        params = {name: given[name] for name in ("vectors", "sparse_vectors", "shard_number", "replication_factor",
                                                 "write_consistency_factor", "on_disk_payload") if name in given}
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, **(given.get("hnsw_config") or {})}
        optimizers = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0,
                      "flush_interval_sec": 5, **(given.get("optimizers_config") or {})}
        return {"status": "green", "optimizer_status": "ok", "segments_count": 1, "payload_schema": self.indexes,
                "config": {"params": params, "hnsw_config": hnsw, "optimizer_config": optimizers,
                           "quantization_config": given.get("quantization_config"), "metadata": given.get("metadata")}}

    def update(self, operation: edge.UpdateOperation) -> dict[str, Any]:
        self.shard.update(operation)
        return {"operation_id": 1, "status": "completed"}

    def put_points(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.update(edge.UpdateOperation.upsert_points([
            edge.Point(key(point["id"]), vector(point["vector"]), point.get("payload")) for point in body["points"]]))

    def put_points_vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.update(edge.UpdateOperation.update_vectors([
            edge.PointVectors(key(point["id"]), vector(point["vector"])) for point in body["points"]]))

    def post_points_delete(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.update(edge.UpdateOperation.delete_points([key(point) for point in body["points"]]))

    def post_points_vectors_delete(self, body: dict[str, Any]) -> dict[str, Any]:
        points = [key(point) for point in body["points"]]
        return self.update(edge.UpdateOperation.delete_vectors(points, body["vector"]))

    def post_points_payload(self, body: dict[str, Any]) -> dict[str, Any]:
        return self.update(edge.UpdateOperation.set_payload([key(point) for point in body["points"]], body["payload"]))

    def put_points_payload(self, body: dict[str, Any]) -> dict[str, Any]:
        points = [key(point) for point in body["points"]]
        return self.update(edge.UpdateOperation.overwrite_payload(points, body["payload"]))

    def put_vectors(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        given, old = body["dense"], self.config["vectors"]
        self.config["vectors"] = {**({"": old} if "size" in old else old), name: given}
        return self.update(edge.UpdateOperation.create_dense_vector(
            name, given["size"], getattr(edge.Distance, given["distance"])))

    def delete_vectors(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        del self.config["vectors"][name]
        return self.update(edge.UpdateOperation.delete_vector_name(name))

    def put_index(self, body: dict[str, Any]) -> dict[str, Any]:
        self.indexes[body["field_name"]] = {"data_type": body["field_schema"], "points": 0}
        return {"operation_id": 1, "status": "completed"}

    def post_points(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        found = self.shard.retrieve([key(point) for point in body["ids"]], body.get("with_payload"),
                                    body.get("with_vector"))
        return [record(point) for point in found]

    def post_points_scroll(self, body: dict[str, Any]) -> dict[str, Any]:
        found, more = self.shard.scroll(edge.ScrollRequest(
            offset=key(body.get("offset")), limit=body["limit"], filter=filter_of(body.get("filter")),
            with_payload=body.get("with_payload"), with_vector=body.get("with_vector")))
        return {"points": [record(point) for point in found], "next_page_offset": plain(more)}

    def post_points_count(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"count": self.shard.count(edge.CountRequest(exact=body["exact"], filter=filter_of(body.get("filter"))))}

    def post_points_query_batch(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        answers = []
        for given in body["searches"]:
            query = edge.Query.Nearest(given["query"]["nearest"], using=given.get("using"))
            found = self.shard.query(edge.QueryRequest(limit=given["limit"], query=query))
            answers.append({"points": [{"id": plain(point.id), "version": 0, "score": point.score} for point in found]})
        return answers


class Collections:
    """All of a server: its collections, its aliases, and what it was asked, as (method, path) with the query."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = pathlib.Path(folder)
        self.collections: dict[str, Collection] = {}
        self.aliases: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.port = 0
        self.metadata = True       # False as on servers before 1.16
        self.named_vectors = True  # False as on servers before 1.18
        self.api_key: str | None = None

    def answer(self, method: str, path: str, query: str, body: dict[str, Any]) -> Any:
        parts = path.strip("/").split("/")
        if parts == ["aliases"]:
            return {"aliases": [{"alias_name": alias, "collection_name": name} for alias, name in self.aliases.items()]}
        if parts == ["collections", "aliases"]:
            return self.change_aliases(body["actions"])
        name = self.aliases.get(parts[1], parts[1])
        if parts[2:] == ["exists"]:
            return {"exists": name in self.collections}
        if len(parts) == 2 and method == "PUT":
            return self.create(name, body)
        if name not in self.collections:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        if len(parts) == 2 and method == "DELETE":
            self.collections.pop(name).shard.close()
            self.aliases = {alias: other for alias, other in self.aliases.items() if other != name}
            return True
        if len(parts) == 2 and method == "PATCH":
            self.collections[name].config.setdefault("metadata", {}).update(body["metadata"] if self.metadata else {})
            return True
        if len(parts) == 2:
            return self.collections[name].info()
        if method == "PUT" or parts[-1] == "delete":
            assert "wait=true" in query, "a write that does not wait may be lost"
        if parts[2] == "vectors":
            if not self.named_vectors:
                raise Refused(404, "")
            return getattr(self.collections[name], f"{method.lower()}_vectors")(parts[3], body)
        return getattr(self.collections[name], "_".join([method.lower(), *parts[2:]]))(body)

    def create(self, name: str, body: dict[str, Any]) -> bool:
        if name in self.collections or name in self.aliases:
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        if not self.metadata:
            body.pop("metadata", None)
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir(parents=True)
        self.collections[name] = Collection(folder, body)
        return True

    def change_aliases(self, actions: list[dict[str, Any]]) -> bool:
        changed = dict(self.aliases)
        for action in actions:
            if "delete_alias" in action:
                changed.pop(action["delete_alias"]["alias_name"], None)
                continue
            alias = action["create_alias"]
            if alias["collection_name"] not in self.collections or alias["alias_name"] in self.collections:
                raise Refused(400, f"Wrong input: no alias {alias['alias_name']} of {alias['collection_name']}")
            changed[alias["alias_name"]] = alias["collection_name"]
        self.aliases = changed
        return True


@contextlib.contextmanager
def qdrant_server(folder: pathlib.Path) -> Iterator[tuple[Collections, int]]:
    """(the collections, the port) of a server on the loopback."""
    served, lock = Collections(folder), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            path, _, query = self.path.partition("?")
            status, found = 200, None
            said: str | dict[str, str] = "ok"
            with lock:
                served.asked.append((self.command, path))
                try:
                    if served.api_key is not None and self.headers.get("api-key") != served.api_key:
                        raise Refused(401, "Must provide an API key or an Authorization bearer token")
                    found = served.answer(self.command, path, query, body)
                except Refused as error:
                    status, said = error.status, {"error": str(error)}
                except Exception as error:
                    status, said = 400, {"error": f"{type(error).__name__}: {error}"}
            text = json.dumps({"result": found, "status": said, "time": 0.0}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served, served.port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        for collection in served.collections.values():
            collection.shard.close()
