# SPDX-License-Identifier: Apache-2.0
"""Triggers that others have on the table: plan names them, and they run or are skipped as the user says."""
import pathlib
from collections.abc import Iterator

import psycopg
import pytest
from kedge.migrate import Error
from kedge.migrate.store import Store, open_store
from made_up import spaces
from postgres_tables import columns, everything, rows_of, value
from require import require_errors
from steps import facts, run

pytestmark = pytest.mark.long

COUNT = 120
TRIGGERS = """CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
              $$ BEGIN NEW.changed := 'infinity'; RETURN NEW; END $$;
              CREATE TRIGGER touched BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION touch();
              CREATE TABLE outbox (id int);
              CREATE FUNCTION send() RETURNS trigger LANGUAGE plpgsql AS
              $$ BEGIN INSERT INTO outbox VALUES (NEW.id); RETURN NULL; END $$;
              CREATE TRIGGER sent AFTER UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION send();
              CREATE TRIGGER of_another_column BEFORE UPDATE OF body ON docs FOR EACH ROW EXECUTE FUNCTION touch();
              CREATE TRIGGER inserted AFTER INSERT ON docs FOR EACH ROW EXECUTE FUNCTION send()"""


@pytest.fixture
def fitted(folder: pathlib.Path, sql: psycopg.Connection, address: str,
           capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """A table with triggers, and a map; returns what plan said."""
    old, _ = spaces()
    sql.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, changed timestamptz DEFAULT now(), embedding "
                f"vector({old.shape[1]}))")
    sql.cursor().executemany("INSERT INTO docs VALUES (%s, %s, now(), %s)",
                             [(n, str(n), str(row.tolist())) for n, row in enumerate(old[:COUNT])])
    sql.execute(TRIGGERS)
    assert run("plan", "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new",
               "--sample", 60, "--into", "column") == 0
    said = capsys.readouterr().out
    assert run("sample", "-q") == 0 and run("fit", "-q") == 0
    yield said


def fired(sql: psycopg.Connection) -> tuple[int, int]:
    """Rows that the one trigger has touched, and that the other has sent."""
    touched = value(sql, "SELECT count(*) FROM docs WHERE changed = 'infinity'")
    return touched, value(sql, "SELECT count(*) FROM outbox")


def test_plan_names_the_triggers_and_apply_asks_what_to_do(
        fitted: str, sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    assert "sent AFTER UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION send()" in fitted and "touched BEFORE" in fitted
    assert "of_another_column" not in fitted and "inserted" not in fitted
    before = columns(sql)
    assert run("apply") == 2
    said = capsys.readouterr().err
    assert "would run sent AFTER UPDATE" in said and "--fire-triggers" in said and "nothing was changed" in said
    assert columns(sql) == before and fired(sql) == (0, 0)


@pytest.mark.parametrize("choice", ["--skip-triggers", "--fire-triggers"])
def test_what_the_user_says_holds_for_every_later_step(fitted: str, sql: psycopg.Connection, choice: str,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    assert run("apply", "-q", choice) == 0
    assert fired(sql) == ((0, 0) if choice == "--skip-triggers" else (COUNT, COUNT))
    assert run("verify", "-q") == 0 and run("cutover", "-q") == 0 and run("top-up", "--json") == 0
    assert facts(capsys)["real"] == COUNT
    assert fired(sql)[1] == (0 if choice == "--skip-triggers" else 2 * COUNT - 60)
    with pytest.raises(SystemExit):
        run("apply", "--skip-triggers", "--fire-triggers")


def test_triggers_that_fire_and_a_column_that_says_what_changed_do_not_go_together(
        folder: pathlib.Path, fitted: str, sql: psycopg.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    with open("migrate.toml") as file:
        text = file.read()
    (folder / "other.toml").write_text(text.replace("text=body", "text=body&changed=changed"))
    for step in ("sample", "fit"):
        assert run(step, "-q", "--config", "other.toml") == 0
    assert run("apply", "--config", "other.toml", "--fire-triggers") == 2
    assert "every row would look changed" in capsys.readouterr().err and fired(sql) == (0, 0)
    assert run("apply", "-q", "--config", "other.toml", "--skip-triggers") == 0 and fired(sql) == (0, 0)


def new_column(store: Store) -> Store:
    new = store.beside("_new")
    new.fire_triggers = False
    return new


def test_rows_that_others_touch_are_told_from_those_of_the_migration(sql: psycopg.Connection, address: str,
                                                                     docs: Store) -> None:
    sql.execute(TRIGGERS)
    old = open_store(f"{address}&table=docs&column=embedding&changed=changed")
    new = new_column(old)
    new.create(old, 4, "one")
    new.write([1, 2], rows_of(2, 4))
    assert everything(old, changed="2300-01-01").ids == []
    sql.execute("UPDATE docs SET body = 'new' WHERE id = 6")
    assert everything(old, changed="2300-01-01").ids == [6]


def test_a_user_who_may_not_skip_triggers(sql: psycopg.Connection, address: str, docs: Store) -> None:
    sql.execute(TRIGGERS)
    sql.execute("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN; GRANT ALL ON docs, outbox TO writer; ALTER "
                "TABLE docs OWNER TO writer; GRANT CREATE, USAGE ON SCHEMA public TO writer")
    old = open_store(address.replace("//postgres:@", "//writer@") + "&table=docs&column=embedding")
    new, before = new_column(old), columns(sql)
    old.fire_triggers = False
    require_errors("may not skip the triggers sent, touched; nothing was changed; a superuser can allow it",
                   lambda: new.create(old, 3, "one"), lambda: old.write([1], rows_of(1)))
    assert columns(sql) == before and fired(sql) == (0, 0)
    sql.execute("GRANT SET ON PARAMETER session_replication_role TO writer")
    new.create(old, 3, "one")
    new.write([1], rows_of(1, 3))
    assert new.describe().rows == 1 and fired(sql) == (0, 0)
    sql.execute("REVOKE SET ON PARAMETER session_replication_role FROM writer; ALTER TABLE docs OWNER TO postgres")


def test_a_trigger_that_runs_in_spite_of_it_is_named(sql: psycopg.Connection, docs: Store) -> None:
    sql.execute(TRIGGERS + "; ALTER TABLE docs ENABLE ALWAYS TRIGGER sent")
    with pytest.raises(Error, match="sent is enabled as ALWAYS or REPLICA"):
        new_column(docs).create(docs, 3, "one")
