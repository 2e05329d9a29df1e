# SPDX-License-Identifier: Apache-2.0
"""Rows of a side table by binary COPY, the fastest way into PostgreSQL."""
from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

import numpy as np
from psycopg import sql

from ..types import Id, Vectors
from .postgres_link import Connection
from .postgres_table import Column, Table

HEADER, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_INTEGERS = {"smallint": ">i2", "integer": ">i4", "bigint": ">i8"}
_PIECE = 1 << 20


def copyable(table: Table) -> bool:
    """Whether ids of this type are written here as the server reads them in binary; others travel as text."""
    return table.integers or table.id_type in ("text", "character varying", "uuid")


def copy_rows(connection: Connection, table: Table, column: Column, ids: Sequence[Id], vectors: Vectors) -> None:
    """Ids, vectors and 'theirs = false'; fails if one of the ids is there."""
    width, values = vectors.shape[1], ">f2" if column.half else ">f4"
    tail = [("size", ">i4"), ("width", ">u2"), ("unused", ">u2"), ("values", values, (width,)), ("one", ">i4"),
            ("theirs", "u1")]
    if table.integers:
        kind = _INTEGERS[table.id_type]
        rows = np.zeros(len(ids), [("fields", ">i2"), ("id_size", ">i4"), ("id", kind), *tail])
        rows["fields"], rows["id_size"], rows["id"] = 3, np.dtype(kind).itemsize, ids
    else:
        rows = np.zeros(len(ids), tail)
    rows["size"], rows["width"], rows["one"] = 4 + width * np.dtype(values).itemsize, width, 1
    with np.errstate(over="ignore"):  # the server refuses the infinity, and says so
        rows["values"] = vectors
    if table.integers:
        data = rows.tobytes()
    else:
        keys = [uuid.UUID(str(key)).bytes if table.id_type == "uuid" else str(key).encode() for key in ids]
        data = b"".join(struct.pack(">hi", 3, len(key)) + key + row.tobytes() for key, row in zip(keys, rows))
    statement = sql.SQL("COPY {} ({}, {}, theirs) FROM STDIN (FORMAT BINARY)").format(
        table.name, table.id, sql.Identifier("embedding"))
    with connection.cursor().copy(statement) as copy:
        copy.write(HEADER)
        for first in range(0, len(data), _PIECE):
            copy.write(data[first:first + _PIECE])
        copy.write(END)
