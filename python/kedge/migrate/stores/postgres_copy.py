# SPDX-License-Identifier: Apache-2.0
"""Rows of a side table by binary COPY, the fastest way into PostgreSQL."""
from __future__ import annotations

import itertools
import struct
import uuid
from collections.abc import Sequence

import numpy as np
from psycopg import sql

from ..types import Id, Vectors
from .postgres_link import Connection
from .postgres_table import Column, Table

HEADER, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_INTEGERS = {"smallint": "h", "integer": "i", "bigint": "q"}  # in the words of struct
_TIMES = {"timestamp with time zone": ("us", "q"), "timestamp without time zone": ("us", "q"), "date": ("D", "i")}
_PIECE = 1 << 20


def copyable(table: Table) -> bool:
    """Whether ids of these types are written here as the server reads them in binary; others travel as text."""
    return all(kind in _INTEGERS or kind in _TIMES or kind in ("text", "character varying", "uuid")
               for kind in table.key.types)


def copy_rows(connection: Connection, table: Table, column: Column, ids: Sequence[Id], vectors: Vectors) -> None:
    """Ids, vectors and 'theirs = false'; fails if one of the ids is there, and, with ValueError and before anything is
    sent, if one is a time that only the server understands, such as infinity."""
    width, values, key = vectors.shape[1], ">f2" if column.half else ">f4", table.key
    parts, numbers = key.given(ids), all(kind in _INTEGERS for kind in key.types)
    tail = [("size", ">i4"), ("width", ">u2"), ("unused", ">u2"), ("values", values, (width,)), ("one", ">i4"),
            ("theirs", "u1")]
    if numbers:
        kinds = [np.dtype(">" + _INTEGERS[kind]) for kind in key.types]
        head = [("fields", ">i2")]
        for n, kind in enumerate(kinds):
            head += [(f"id_size{n}", ">i4"), (f"id{n}", kind.str)]
        rows = np.zeros(len(ids), [*head, *tail])
        rows["fields"] = len(kinds) + 2
        for n, kind in enumerate(kinds):
            rows[f"id_size{n}"], rows[f"id{n}"] = kind.itemsize, parts[n]
    else:
        rows = np.zeros(len(ids), tail)
    rows["size"], rows["width"], rows["one"] = 4 + width * np.dtype(values).itemsize, width, 1
    with np.errstate(over="ignore"):  # the server refuses the infinity, and says so
        rows["values"] = vectors
    if numbers:
        data = rows.tobytes()
    else:
        fields = struct.pack(">h", len(parts) + 2)
        cells = [map(_cell, itertools.repeat(kind), some) for kind, some in zip(key.types, parts)]
        data = b"".join(b"".join((fields, *key_cells, row.tobytes())) for *key_cells, row in zip(*cells, rows))
    statement = sql.SQL("COPY {} ({}, {}, theirs) FROM STDIN (FORMAT BINARY)").format(
        table.name, key.columns(), sql.Identifier("embedding"))
    with connection.cursor().copy(statement) as copy:
        copy.write(HEADER)
        for first in range(0, len(data), _PIECE):
            copy.write(data[first:first + _PIECE])
        copy.write(END)


def _cell(kind: str, part: int | str) -> bytes:
    """A value of a key, with its length."""
    if kind in _INTEGERS:
        return struct.pack(">i" + _INTEGERS[kind], struct.calcsize(">" + _INTEGERS[kind]), part)
    if kind in _TIMES:  # counted from 2000
        unit, code = _TIMES[kind]
        moment, first = (np.array(text, f"datetime64[{unit}]").astype(np.int64)
                         for text in (str(part).removesuffix("+00"), "2000-01-01"))
        return struct.pack(">i" + code, struct.calcsize(">" + code), int(moment - first))
    found = uuid.UUID(str(part)).bytes if kind == "uuid" else str(part).encode()
    return struct.pack(">i", len(found)) + found
