# SPDX-License-Identifier: Apache-2.0
"""How much room new vectors take in PostgreSQL, from how it lays out its pages."""
from __future__ import annotations

import re
from collections.abc import Sequence

from ..store import Room
from .postgres_index import WIDEST_INDEXED, Index
from .postgres_link import Connection
from .postgres_table import Table

PAGE, PAGE_HEAD, ROW_HEAD, POINTER = 8192, 24, 24, 4
MOST_IN_ROW = 2000  # a larger row has its vector in the table's TOAST
CHUNK, CHUNK_HEAD = 1996, 40
KEY_BYTES = 22  # of the primary key's index, a row
ELEMENT_HEAD, NEIGHBOUR_HEAD, NEIGHBOUR = 72, 4, 6  # of an HNSW index


def _aligned(size: float) -> int:
    return -(-int(size) // 8) * 8


def _pages(rows: int, size: int, special: int = 0) -> int:
    """Bytes of the pages for rows of that size, which does not exceed a page."""
    fit = max(1, (PAGE - PAGE_HEAD - special) // size)
    return -(-rows // fit) * PAGE


def table_bytes(rows: int, value: int) -> int:
    """A key and a vector for each row, and the key's index."""
    inside = _aligned(ROW_HEAD + 16 + value) + POINTER
    if inside <= MOST_IN_ROW:
        return _pages(rows, inside) + KEY_BYTES * rows
    whole, rest = divmod(value, CHUNK)
    last = _aligned(rest + CHUNK_HEAD) + POINTER if rest else 0
    toast = rows * (whole * PAGE // 4 + last + KEY_BYTES * (whole + 1))
    return _pages(rows, _aligned(ROW_HEAD + 16 + 18) + POINTER) + toast + KEY_BYTES * rows


def index_bytes(index: Index, rows: int, width: int) -> int:
    """An index like this one over so many vectors of that width; 0 for kinds that hold no vectors."""
    kind = index.operators.split("_")[0]
    full = 4 if width <= WIDEST_INDEXED["vector"] else 2
    value = {"vector": full * width, "halfvec": 2 * width, "bit": width // 8}.get(kind)
    if value is None or index.method not in ("hnsw", "ivfflat"):
        return 0
    if index.method == "ivfflat":
        return _pages(rows, _aligned(16 + value) + POINTER, 8)
    found = re.search(r"\bm='?(\d+)", index.tail)
    neighbours = NEIGHBOUR_HEAD + NEIGHBOUR * 2 * (int(found[1]) if found else 16)
    return _pages(rows, _aligned(ELEMENT_HEAD + 8 + value) + _aligned(neighbours) + 2 * POINTER, 8)


def room(connection: Connection, table: Table, indexes: Sequence[Index], rows: int, width: int, half: bool,
         in_column: bool) -> Room:
    """indexes: those of the old vectors, which the new ones get too. in_column: the new vectors are a column of the
    table, so that every row is written anew, and what it was stays until VACUUM."""
    vectors = table_bytes(rows, width * (2 if half else 4) + 8)
    index = sum(index_bytes(one, rows, width) for one in indexes)
    again = churned = 0
    if in_column:
        again, churned = connection.execute(
            "SELECT coalesce(sum(pg_relation_size(t)), 0)::bigint, coalesce(sum(pg_indexes_size(t)), 0)::bigint FROM "
            "(SELECT %s::oid::regclass t UNION SELECT relid FROM pg_partition_tree(%s::oid::regclass)) parts",
            [table.oid, table.oid]).fetchall()[0]
    # What is changed first after a checkpoint is logged as a whole page.
    return Room(vectors + again, index or None, vectors + index + 2 * (again + churned))
