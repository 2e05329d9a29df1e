# SPDX-License-Identifier: Apache-2.0
"""Tables with vectors in a PostgreSQL server, for the tests of the store. Its fixtures are imported by name."""
import numpy as np
import psycopg
import pytest

from kedge.migrate.store import Rows, open_store
from postgres_server import server

ROWS, WIDTH = 60, 12


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with server(tmp_path_factory.mktemp("postgres") / "data") as made:
        yield made


@pytest.fixture
def sql(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public; CREATE EXTENSION vector")
        yield connection


def rows_of(count=ROWS, width=WIDTH, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fill(sql, ids, vectors, kind="integer", type="vector", table="docs"):
    sql.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, body text, changed timestamptz DEFAULT now(), "
                f"embedding {type}({vectors.shape[1]}))")
    with sql.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} (id, body, embedding) VALUES (%s, %s, %s)",
                           [(one, f"text {one}", str(row.tolist())) for one, row in zip(ids, vectors)])


@pytest.fixture
def docs(sql, address):
    """A table of numbered documents, and its store."""
    fill(sql, range(ROWS), rows_of())
    store = open_store(f"{address}&table=docs&column=embedding&text=body")
    yield store
    store.close()


@pytest.fixture
def new(docs):
    """An empty column beside the old one."""
    store = docs.beside("_new")
    store.create(docs, WIDTH + 4, "one")
    yield store
    store.close()


def everything(store, **asked):
    batches = list(store.read(**asked))
    return Rows([one for batch in batches for one in batch.ids],
                np.concatenate([batch.vectors for batch in batches]) if batches else None,
                [text for batch in batches for text in batch.texts or []])


def columns(sql, table="docs"):
    return [name for name, in sql.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND "
                                          "attnum > 0 AND NOT attisdropped ORDER BY attnum", [table])]
