# SPDX-License-Identifier: Apache-2.0
"""Documents that come, change and go while a migration is under way, and commands that are run in an unusual order: no
document is lost, and what counts as real is real."""
import os

import numpy as np
from test_steps import facts, folder, migration, run, until  # noqa: F401, fixtures among them
from made_up import ROWS, spaces

from kedge import migrate
from kedge.migrate.stores.scores import unit


def change_old(change):
    rows = np.load("docs.npy")
    change(rows)
    np.save("docs.npy", rows)


def test_documents_that_go_and_come_back_are_not_taken_for_real(folder, migration):
    old, new = spaces()
    until("apply")
    with migrate.Migration() as one:
        gone = one.journal.sample()[0][0]
    change_old(lambda rows: rows.__setitem__(gone, np.nan))
    assert run("apply", "-q") == 0
    with migrate.Migration() as one:
        assert one.journal.count_real() == 119 and gone not in one.journal.real()
    change_old(lambda rows: rows.__setitem__(gone, old[gone]))
    assert run("apply", "-q") == 0
    with migrate.Migration() as one:
        assert gone not in one.journal.real(), "it came back translated"
    assert run("verify", "-q", "--rows", ROWS) == 0
    assert run("top-up", "-q") == 0
    np.testing.assert_allclose(np.load("docs_new.npy")[gone], unit(new)[gone], atol=1e-6)


def test_real_vectors_of_documents_that_changed_or_went_since_the_sample_are_not_written(folder, migration, capsys):
    old, _ = spaces()
    until("fit")
    with migrate.Migration() as one:
        changed, gone = one.journal.sample()[0][:2]

    def change(rows):
        rows[changed], rows[gone] = -old[changed], np.nan
    change_old(change)
    assert run("apply", "--json") == 0
    assert facts(capsys)["real"] == 118
    one = migration()
    expected = one.translate(one.translator(), -old[[changed]])[0]
    np.testing.assert_allclose(np.load("docs_new.npy")[changed], expected, atol=1e-6)
    assert np.isnan(np.load("docs_new.npy")[gone]).all()


def test_only_what_this_migration_made_is_removed(folder, capsys):
    np.save("docs_new.npy", np.ones((3, 4), np.float32))
    until("fit")
    assert run("apply") == 1
    assert run("rollback", "--drop") == 1
    assert "not made by this migration" in capsys.readouterr().err
    assert np.load("docs_new.npy").shape == (3, 4)
    os.unlink("docs_new.npy")
    assert run("apply", "-q") == 0
    assert run("rollback", "-q", "--drop") == 0 and not os.path.exists("docs_new.npy")
