# SPDX-License-Identifier: Apache-2.0
"""Points and aliases of Qdrant: fields of a payload, and requests of a size that a server takes."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from qdrant_client import models

REQUEST_BYTES = 8 << 20     # a server takes 32 MiB in one request unless told otherwise
FLOAT_BYTES = 22            # of one value as JSON


def creating(alias: str, collection: str) -> models.CreateAliasOperation:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=collection))


def deleting(alias: str) -> models.DeleteAliasOperation:
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))


def value_of(payload: Any, field: str) -> Any:
    """The value of a field; a.b is b inside a."""
    for part in field.split("."):
        payload = payload.get(part) if isinstance(payload, dict) else None
    return payload


def text_of(payload: Any, field: str) -> str | None:
    found = value_of(payload, field)
    return found if found is None else str(found)


def parts(points: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of points that fit into a request."""
    part: list[Any] = []
    filled = 0
    for point in points:
        size = len(str(getattr(point, "payload", ""))) + FLOAT_BYTES * count(point.vector)
        if part and filled + size > REQUEST_BYTES:
            yield part
            part, filled = [], 0
        part.append(point)
        filled += size
    if part:
        yield part


def count(vector: Any) -> int:
    if isinstance(vector, dict):
        return sum(count(value) for value in vector.values())
    return len(vector.values) if isinstance(vector, models.SparseVector) else np.size(vector)
