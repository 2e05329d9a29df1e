# SPDX-License-Identifier: Apache-2.0
"""Tables with vectors in a PostgreSQL server, for the tests of the store."""
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import psycopg
from kedge.migrate.store import Store
from kedge.migrate.stores.postgres_link import Link
from kedge.migrate.stores.postgresql import PostgresStore
from require import of_kind, vectors_of

ROWS, WIDTH = 60, 12


def rows_of(count: int = ROWS, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def ones(*shape: int) -> np.ndarray:
    """In double precision, which a store takes as well."""
    return np.ones(shape)


def fill(sql: psycopg.Connection, ids: Iterable[Any], vectors: np.ndarray, kind: str = "integer",
         vector_type: str = "vector", table: str = "docs") -> None:
    sql.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, body text, changed timestamptz DEFAULT now(), "
                f"embedding {vector_type}({vectors.shape[1]}))")
    with sql.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} (id, body, embedding) VALUES (%s, %s, %s)",
                           [(one, f"text {one}", str(row.tolist())) for one, row in zip(ids, vectors)])


class Everything(NamedTuple):
    """All that a store has, in its order."""
    ids: list[Any]
    vectors: np.ndarray
    texts: list[str | None]


def everything(store: Store, **asked: Any) -> Everything:
    batches = list(store.read(**asked))
    return Everything([one for batch in batches for one in batch.ids],
                      np.concatenate([vectors_of(batch) for batch in batches] or [np.empty((0, 0), np.float32)]),
                      [text for batch in batches for text in batch.texts or []])


def link_of(store: Store) -> Link:
    return of_kind(PostgresStore, store)._link


def value(sql: psycopg.Connection, query: str, *parameters: object) -> Any:
    """Of a query that gives one row of one column."""
    row = sql.execute(query, parameters or None).fetchone()
    assert row is not None
    return row[0]


def columns(sql: psycopg.Connection, table: str = "docs") -> list[str]:
    return [name for name, in sql.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND "
                                          "attnum > 0 AND NOT attisdropped ORDER BY attnum", [table])]
