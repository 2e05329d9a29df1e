# SPDX-License-Identifier: Apache-2.0
"""status: where a migration stands, from its journal; asks the store only for the number of rows."""
from __future__ import annotations

from .._errors import Error
from .journal import Journal
from .migration import Migration
from .types import Found


def status(migration: Migration) -> Found:
    journal = migration.journal
    state, following = state_and_next(journal, migration.switched)
    try:
        rows, old, new = migration.old.describe().rows, migration.old.shown, migration.new.shown
    except Error:  # a store that does not answer, not even by the names of its columns, must not hide what is known
        rows, old, new = None, migration.place.shown, "beside it; the store does not answer"
    if migration.switched and rows is not None and journal.count_real() >= rows:
        state, following = "cut over, and every document has a real vector; the old vectors are kept", None
    return {"config": str(migration.path), "state": state, "next": following, "old": old,
            "new": new, "rows": rows, "apply_rows": journal.fact("apply_rows", 0),
            "applied": journal.fact("applied", False),
            "real": journal.count_real(), "sample": journal.drawn(),
            "map": journal.fact("map"), "error": journal.fact("error"), "verified": journal.fact("verified"),
            "steps": [(at, step) for at, step, _ in journal.steps()]}


def state_and_next(journal: Journal, switched: bool) -> tuple[str, str | None]:
    """(a sentence, the next command)."""
    if journal.fact("switching") is not None:
        return "a cutover was interrupted", "cutover"
    if journal.fact("switching_back") is not None:
        return "a rollback was interrupted", "rollback"
    if switched:
        return "cut over; the old vectors are kept", "top-up"
    if journal.fact("applied") is not None:
        return "applied", "cutover" if journal.fact("verified") else "verify"
    if journal.fact("apply_map") is not None:
        return "apply has begun", "apply"
    if journal.fact("map") is not None:
        return "the map is fitted", "apply" if journal.fact("check") else "check"
    if journal.drawn():
        return "the sample is drawn", "sample" if journal.unembedded() else "fit"
    return "nothing is done yet", "sample" if journal.steps() else "plan"
