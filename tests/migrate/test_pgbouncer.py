# SPDX-License-Identifier: Apache-2.0
"""A whole migration through PgBouncer in transaction mode, which gives every transaction one of three sessions, with an
application that comes the same way."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest
from kedge import migrate
from kedge._address import TableAddress
from made_up import spaces
from postgres_tables import value
from require import require_near
from steps import facts, run
from test_live_rollback import stored
from test_live_tables import PLACES, ROWS, Application, edit, require_translated, table, text_of

__all__ = ["table"]
pytestmark = pytest.mark.long
SESSIONS = 3
TRACKED = {"application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"}


def start(folder: pathlib.Path, server: str) -> tuple[subprocess.Popen[bytes], str]:
    """PgBouncer before a server whose address names the folder of its socket, and the address to come by."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if program is None:
        pytest.fail("pgbouncer is not installed; run 'scripts/setup test-all'")
    host = psycopg.conninfo.conninfo_to_dict(server)["host"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    user = f"user = {pathlib.Path(str(host)).owner()}" if os.geteuid() == 0 else ""  # root it refuses to be
    (folder / "pgbouncer.ini").write_text(f"""
[databases]
postgres = host={host} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SESSIONS}
server_reset_query =
{user}
""")
    with open(folder / "pgbouncer.log", "w") as log:
        process = subprocess.Popen([program, folder / "pgbouncer.ini"], stdout=log, stderr=log)
    return process, f"postgresql://postgres@127.0.0.1:{port}/postgres"


@pytest.fixture
def pooled(address: str, tmp_path: pathlib.Path) -> Iterator[str]:
    process, by_pool = start(tmp_path, address)
    try:
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(by_pool):
                break
            assert process.poll() is None, (tmp_path / "pgbouncer.log").read_text()
            time.sleep(.05)
        yield by_pool
    finally:
        process.terminate()
        process.wait()


def require_clean(by_pool: str) -> None:
    """Nothing that was set in one of the sessions has outlived its transaction."""
    with contextlib.ExitStack() as stack:
        pids = set[int]()
        for _ in range(SESSIONS):  # each keeps its session, as it is in a transaction
            session = stack.enter_context(psycopg.connect(by_pool, prepare_threshold=None))
            pids.add(value(session, "SELECT pg_backend_pid()"))
            found = session.execute("SELECT name FROM pg_settings WHERE source = 'session'").fetchall()
            assert {name for name, in found} <= TRACKED, found
            assert value(session, "SELECT count(*) FROM pg_prepared_statements") == 0
        assert len(pids) == SESSIONS


@pytest.mark.parametrize("into", PLACES)
def test_a_whole_migration_through_a_pool(table: str, sql: psycopg.Connection, pooled: str, into: str,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    (old, new), at = spaces(), TableAddress.parse(table)
    table = table.replace(at.conninfo + "&", pooled + "?")
    assert table.startswith(pooled)
    assert run("plan", "-q", "--store", table, "--embed", "models:new", "--sample", 80, "--map", "ridge",
               *(["--into", into] if into else [])) == 0
    with Application(pooled) as application:
        for step in ("sample", "fit", "apply", "verify"):
            assert run(step, "-q") == 0
        edit(sql, 7)
        sql.execute("INSERT INTO docs VALUES (1000, '350', %s); DELETE FROM docs WHERE id = 9".replace(
            "%s", f"'{text_of(old[350])}'"))
        for step in ("cutover", "verify"):
            assert run(step, "-q") == 0
    assert application.edited and not application.errors
    assert run("cutover", "-q") == 0
    require_translated(7, 1000)
    with migrate.Migration() as one:
        real = next(int(str(key)) for key in one.journal.real())
    assert migrate.search("migrate.toml", old[real], new[real], k=1)[0] == [real]
    assert migrate.search("migrate.toml", None, new[real], k=1, where="id = %s", params=[real])[0] == [real]
    assert run("sql", "--install", "-q") == 0
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as session:
        asked = "SELECT id FROM kedge_search_docs(%s, %s, k => 1)"
        assert value(session, asked, text_of(old[real]), text_of(new[real])) == real
    assert run("top-up", "-q") == 0
    place = "docs" if into else "kedge_docs"
    require_near(stored(sql, 1000, place), new[350])
    assert value(sql, f"SELECT count(embedding) FROM {place}") == ROWS
    require_clean(pooled)
    with Application(pooled) as application:
        capsys.readouterr()
        assert run("rollback", "--json") == 0
        assert not facts(capsys)["only_new"]
        for step in ("apply", "verify", "cutover", "finish"):
            assert run(step, "-q") == 0
    assert application.edited and not application.errors
    require_clean(pooled)
