# SPDX-License-Identifier: Apache-2.0
"""Where vectors are in LanceDB, and the index on them: which one there is, and how one like it is made."""
from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import lancedb.index
from lancedb.table import Table

from ..._errors import Error

MARK = "kedge-migrate"
METRICS = {"cosine": "cosine", "dot": "inner", "l2": "euclidean"}
INDEXES = {
    "IVF_FLAT": lancedb.index.IvfFlat,
    "IVF_SQ": lancedb.index.IvfSq,
    "IVF_PQ": lancedb.index.IvfPq,
    "IVF_RQ": lancedb.index.IvfRq,
    "IVF_HNSW_FLAT": lancedb.index.HnswFlat,
    "IVF_HNSW_SQ": lancedb.index.HnswSq,
    "IVF_HNSW_PQ": lancedb.index.HnswPq,
}


@dataclasses.dataclass
class Place:
    """Where vectors are: the column of the table, or while they are new, the one of a table of their own."""
    table: Table
    column: str
    apart: bool

    @property
    def field(self) -> Any:
        return self.table.schema.field(self.column)

    @property
    def width(self) -> int:
        return int(self.field.type.list_size)

    @property
    def kind(self) -> str:
        return {2: "float16", 4: "float32"}.get(self.field.type.value_type.byte_width, "float64")

    @property
    def mark(self) -> dict[str, Any]:
        """What create() noted: owner, metric, and the kind and settings of the index that the old column has."""
        mark: dict[str, Any] = json.loads((self.field.metadata or {}).get(MARK.encode(), b"{}"))
        return mark

    def index(self) -> tuple[str, str, str] | None:
        """(name, kind, metric) of the index on the column, or None."""
        for found in self.table.list_indices():
            stats = self.table.index_stats(found.name) if found.columns == [self.column] else None
            if stats is not None:
                return found.name, stats.index_type, stats.distance_type or "l2"
        return None

    def settings(self, name: str) -> dict[str, int]:
        """Of an index, those that one of another width can have too, as LanceDB's classes of indexes call them."""
        found = self.table.to_lance().stats.index_stats(name)["indices"][0]  # type: ignore[attr-defined]
        inner = found.get("sub_index", {})
        known = {"num_partitions": found.get("num_partitions"), "num_sub_vectors": inner.get("num_sub_vectors"),
                 "num_bits": inner.get("nbits", inner.get("num_bits")), **inner.get("params", {})}
        return {name: int(value) for name, value in known.items() if isinstance(value, int)}

    def make_index(self, address: str) -> None:
        """An index of the kind that the old column has, with its settings as far as this width allows."""
        kind = self.mark.get("index")
        if kind is None or self.index() is not None:
            return
        if kind not in INDEXES:
            raise Error(f"{address}: the old column has an index of the kind {kind}, which kedge-migrate does not "
                        "know how to make; drop that index first and make it by hand after the cutover")
        word = {name: word for word, name in METRICS.items()}[self.mark["metric"]]
        settings = {name: value for name, value in self.mark.get("settings", {}).items()
                    if name in inspect.signature(INDEXES[kind]).parameters}
        if "num_sub_vectors" in settings:
            settings["num_sub_vectors"] = nearest_divisor(self.width, settings["num_sub_vectors"])
        self.table.create_index(self.column, config=INDEXES[kind](distance_type=word, **settings))


def nearest_divisor(width: int, wanted: int) -> int:
    """A product quantizer has parts of equal widths."""
    return min((number for number in range(1, width + 1) if width % number == 0),
               key=lambda number: abs(number - wanted))
