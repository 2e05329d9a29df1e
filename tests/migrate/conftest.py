# SPDX-License-Identifier: Apache-2.0
"""A folder with a small migration of a .npy file, and a PostgreSQL server with tables of vectors."""
import pathlib
import sys
from collections.abc import Callable, Iterator

import numpy as np
import postgres_tables
import psycopg
import pytest
from kedge import migrate
from kedge.migrate.store import Store, open_store
from made_up import ROWS, models, spaces


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    old, new = spaces()
    np.save(tmp_path / "docs.npy", old)
    (tmp_path / "texts.txt").write_text("".join(f"{n}\n" for n in range(ROWS)))
    models(tmp_path, new)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("models", None)
    return tmp_path


@pytest.fixture
def migration(folder: pathlib.Path) -> Iterator[Callable[[], migrate.Migration]]:
    opened = []

    def open_it() -> migrate.Migration:
        opened.append(migrate.Migration())
        return opened[-1]
    yield open_it
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from postgres_server import server  # imported only if needed: it takes a while

    with server() as started:
        yield started


@pytest.fixture
def sql(address: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public; CREATE EXTENSION vector")
        yield connection


@pytest.fixture
def docs(sql: psycopg.Connection, address: str) -> Iterator[Store]:
    """A table of numbered documents, and its store."""
    postgres_tables.fill(sql, range(postgres_tables.ROWS), postgres_tables.rows_of())
    store = open_store(f"{address}&table=docs&column=embedding&text=body")
    yield store
    store.close()


@pytest.fixture
def new(docs: Store) -> Iterator[Store]:
    """An empty column beside the old one."""
    store = docs.beside("_new")
    store.create(docs, postgres_tables.WIDTH + 4, "one")
    yield store
    store.close()
