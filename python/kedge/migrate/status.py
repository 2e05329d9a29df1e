# SPDX-License-Identifier: Apache-2.0
"""status: where a migration stands, from its journal; asks the store only for numbers of rows."""
from __future__ import annotations

from .._errors import Error
from .journal import Journal
from .migration import Migration
from .store import Missing, Store
from .types import Found


def status(migration: Migration) -> Found:
    journal = migration.journal
    state, following = state_and_next(journal, migration.switched)
    try:
        old, new = migration.old.shown, migration.new.shown
        counts = {"old_rows": count(migration.old),
                  "rows": count(migration.new if migration.switched else migration.old)}
    except Error:  # a store that does not answer, not even by the names of its columns, must not hide what is known
        old, new = migration.place.shown, "beside it; the store does not answer"
        counts = {"old_rows": None, "rows": None}
    if following == "top-up" and counts["rows"] is not None and journal.count_real() >= counts["rows"]:
        state, following = "cut over, and every document has a real vector; the old vectors are kept", "finish"
    return {"config": str(migration.path), "state": state, "next": following, "old": old, "new": new, **counts,
            "apply_rows": journal.fact("apply_rows", 0), "applied": journal.fact("applied", False),
            "switched": migration.switched, "since": journal.when("cutover") if migration.switched else None,
            "real": journal.count_real(), "sample": journal.drawn(),
            "map": journal.fact("map"), "error": journal.fact("error"), "verified": journal.fact("verified"),
            "steps": [(at, step) for at, step, _ in journal.steps()]}


def count(store: Store) -> int | None:
    """None if the place is gone, as old vectors may be in the end."""
    try:
        return store.describe().rows
    except Missing:
        return None


def state_and_next(journal: Journal, switched: bool) -> tuple[str, str | None]:
    """(a sentence, the next command)."""
    if journal.fact("switching") is not None:
        return "a cutover was interrupted", "cutover"
    if journal.fact("switching_back") is not None:
        return "a rollback was interrupted", "rollback"
    if switched and journal.fact("finished"):
        return f"finished {journal.when('finish')}: others' changes are no longer noted, and there is no way back", None
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
