# SPDX-License-Identifier: Apache-2.0
"""into = "vector", or "vector=NAME": new vectors of a Qdrant collection are another named vector of the same points.

Nothing is copied, so what applications change in a payload cannot be lost. Qdrant cannot rename a vector: a cutover
notes in the collection's metadata that the new one is in use, and applications ask for it by its name. It needs Qdrant
1.18 or newer.
"""
from __future__ import annotations

from typing import Any

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from ..._errors import Error, UsageError
from ..store import Contents, Missing, Store
from .qdrant import QdrantStore
from .require import require_free

VECTORS = "kedge-migrate-vectors"  # in the collection's metadata: {name of a vector: {owner, in_use}}


class QdrantVectorStore(QdrantStore):
    copies_documents = False
    shares_documents = True
    stays = True

    def _vectors(self) -> tuple[str, models.CollectionInfo, dict[str, Any]]:
        """(collection, what Qdrant says, what is noted of this vector)."""
        name, found = self._collection()
        return name, found, (found.config.metadata or {}).get(VECTORS, {}).get(self.vector) or {}

    def _is_there(self, found: models.CollectionInfo) -> bool:
        vectors = found.config.params.vectors
        return isinstance(vectors, dict) and self.vector in vectors

    @property
    def in_use(self) -> bool:
        """Whether a cutover has said that applications ask for this vector."""
        return bool(self._vectors()[2].get("in_use"))

    def note(self, **facts: Any) -> None:
        """Qdrant merges metadata by their first names alone."""
        name, found, known = self._vectors()
        noted = (found.config.metadata or {}).get(VECTORS, {})
        with self.link.asking("write") as client:
            client.update_collection(name, metadata={VECTORS: {**noted, self.vector: {**known, **facts}}})

    def create(self, like: Store, width: int, owner: str) -> None:
        if not isinstance(like, QdrantStore) or (like.place, like.name) != (self.place, self.name):
            raise UsageError(f"{self.address}: the new vectors are of the same points as the old ones; {like.shown} is "
                             "somewhere else")
        name, found, known = self._vectors()
        if require_free(self.address, self._is_there(found), known.get("owner"), owner):
            return
        params = like._params(found)
        kind = models.VectorStorageDatatype.FLOAT16 if params.datatype == models.Datatype.FLOAT16 else None
        self.note(owner=owner, in_use=False)
        if self._vectors()[2].get("owner") != owner:
            raise Error(f"{self.address}: this server keeps no metadata of collections, so a migration cannot mark "
                        "what it made; it needs Qdrant 1.18 or newer")
        with self.link.asking("create") as client:
            try:
                client.create_vector_name(name, self.vector, models.DenseVectorNameConfig(
                    dense=models.DenseVectorConfig(size=width, distance=params.distance, datatype=kind)), wait=True)
            except UnexpectedResponse as error:
                if error.status_code not in (404, 405):
                    raise
                raise Error(f"{self.address}: this server cannot add a vector to a collection; it needs Qdrant 1.18 or "
                            "newer, or no 'into', which makes a collection of its own") from None

    def _look(self) -> Contents:
        _, found, known = self._vectors()
        if not self._is_there(found):
            raise Missing(f"{self.address}: the collection has no vector {self.vector!r}")
        contents = super()._look()
        contents.owner, contents.atomic, contents.can_switch = known.get("owner"), None, True
        return contents

    def drop(self) -> None:
        name, found, _ = self._vectors()
        if not self._is_there(found):
            raise Missing(f"{self.address}: the collection has no vector {self.vector!r}")
        with self.link.asking("drop") as client:
            client.delete_vector_name(name, self.vector, wait=True)
        self._facts = None
