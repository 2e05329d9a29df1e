# SPDX-License-Identifier: Apache-2.0
"""apply: every old vector translated into the new place, beside the old one, which stays as it is."""
from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from .._errors import Error
from .._progress import command_progress
from . import draw, pipeline
from .migration import Migration, usable
from .store import BATCH_ROWS, Missing, Rows, Store
from .types import Found, Id, Moment, Vectors


def apply(migration: Migration, quiet: bool = True) -> Found:
    """Translates what is not translated yet, then what arrived meanwhile, then makes the index. Can be run again."""
    journal = migration.journal
    if migration.switched:
        raise Error("this migration is cut over, so that new vectors come from the new model; 'top-up' replaces "
                    "translated ones, 'rollback' goes back")
    migration.translator()  # says at once if there is none
    begin(migration)
    began, before = time.monotonic(), journal.fact("apply_rows", 0)
    if journal.fact("applied") is None:
        first_pass(migration, quiet)
    rows, seconds = journal.fact("apply_rows", 0), max(time.monotonic() - began, 1e-9)
    write_real(migration)
    caught = catch_up(migration)
    began = time.monotonic()
    migration.new.finish()
    index_seconds = time.monotonic() - began
    journal.note(applied=True, verified=None)
    found = {"rows": rows, "skipped": journal.fact("apply_skipped", 0), "real": journal.count_real(), **caught,
             "seconds": seconds, "index_seconds": index_seconds, "rows_per_second": (rows - before) / seconds,
             "into": migration.new.shown}
    journal.log("apply", found)
    return found


def begin(migration: Migration) -> None:
    """Makes the new place; refuses what is not this migration's, and a map of another width than what is there."""
    journal = migration.journal
    width = journal.fact("new_width")
    if journal.fact("apply_map") is not None and is_missing(migration.new):
        journal.start_over()  # someone removed it
    migration.new.create(migration.old, width, journal.owner)
    there = migration.new.describe()
    if there.width != width:
        raise Error(f"{migration.new.shown} is for vectors of {there.width} values, but the new model's have {width}; "
                    "'rollback --drop' removes it, then run apply again")
    if journal.fact("apply_map") is None:
        journal.note(apply_map=journal.fact("fitted"), changed_from=migration.old.newest(), apply_after=None)
    elif journal.fact("apply_map") != journal.fact("fitted"):
        raise Error("the map was fitted again after apply had begun, and one place cannot hold rows of two maps; "
                    "'rollback --drop' removes the new vectors, then run apply again")


def is_missing(store: Store) -> bool:
    try:
        store.describe()
        return False
    except Missing:
        return True


def first_pass(migration: Migration, quiet: bool) -> None:
    """All rows in the store's order, from where the last run was stopped."""
    journal = migration.journal
    after = journal.fact("apply_after")
    if after is not None and not list(migration.old.read(ids=[after], vectors=False)):
        # Not every store knows what comes behind a row that is gone. Writing rows again changes nothing.
        after = None
        journal.note(apply_after=None, apply_rows=None, apply_skipped=None)
    progress = command_progress("kedge-migrate apply", migration.old.describe().rows, quiet,
                                journal.fact("apply_rows", 0))
    translator, real = migration.translator(), journal.real()

    def translate(batch: Rows) -> tuple[Rows, Id, int, int]:
        good = usable(batch.matrix)
        skipped = int((~good).sum())
        good &= np.array([key not in real for key in batch.ids], bool)
        return Rows([key for key, use in zip(batch.ids, good) if use],
                    migration.translate(translator, batch.matrix[good])), batch.ids[-1], len(batch), skipped

    def write(item: tuple[Rows, Id, int, int]) -> None:
        rows, last, seen, skipped = item
        if len(rows):
            migration.new.write(rows.ids, rows.matrix)
        journal.note(apply_after=last, apply_rows=journal.fact("apply_rows", 0) + seen,
                     apply_skipped=journal.fact("apply_skipped", 0) + skipped)
        progress.advance(seen)

    batches = migration.old.read(after=after)
    pipeline.run((batch for batch in batches if len(batch)), translate, write)
    progress.close()


def write_real(migration: Migration) -> None:
    """Puts vectors that the new model made, and that wait in the journal, into the new place."""
    journal = migration.journal
    ids, vectors = journal.waiting()
    if not ids:
        return
    current = still_as_embedded(migration, ids)
    wanted = [n for n, key in enumerate(ids) if key in current]
    for first in range(0, len(wanted), BATCH_ROWS):
        some = wanted[first:first + BATCH_ROWS]
        migration.new.write([ids[n] for n in some], migration.as_new(vectors[some]))
    with journal.together():
        journal.written([ids[n] for n in wanted])
        journal.forget([key for key in ids if key not in current])


def still_as_embedded(migration: Migration, ids: Sequence[Id]) -> set[Id]:
    """The ids whose documents still exist and, as far as the sample knows, are unchanged. The vector of a document that
    was removed must not come back, and the vector of a changed one is out of date."""
    sampled, vectors, _ = migration.journal.sample()
    before = dict(zip(sampled, vectors))
    found = {key for rows in migration.old.read(ids=ids) for key, row in zip(rows.ids, rows.matrix)
             if key not in before or close(row, before[key])}
    if migration.switched:  # applications remove documents from the new place now
        found &= {key for rows in migration.new.read(ids=ids, vectors=False) for key in rows.ids}
    return found


def catch_up(migration: Migration, undoable: bool = False) -> dict[str, int]:
    """Rows that arrived, changed or went since the first pass. Returns how many there were of each.

    One thread does it all, because the store may have frozen the table in one connection. 'undoable' says that this
    may be undone, so that the next pass must look at the same changes again.
    """
    journal, old, new = migration.journal, migration.old, migration.new
    mark, since = old.newest(), journal.fact("changed_from")
    arrived = translate_ids(migration, list(old.not_in(new)))
    # What came to the new vectors alone, between a cutover and a rollback, is not gone.
    only_new = set(journal.fact("only_new", []))
    gone = [key for key in new.not_in(old) if key not in only_new]
    for first in range(0, len(gone), BATCH_ROWS):
        new.write(gone[first:first + BATCH_ROWS], None)
    journal.forget(gone)
    changed = 0 if since is None else retranslate(migration, since)
    if not undoable:
        journal.note(changed_from=mark)
    return {"arrived": arrived, "changed": changed, "removed": len(gone)}


def translate_ids(migration: Migration, ids: Sequence[Id]) -> int:
    """Translates the rows of these ids into the new place, whatever was known of them. Returns how many could be."""
    translator, written = migration.translator(), 0
    for first in range(0, len(ids), BATCH_ROWS):
        for batch in migration.old.read(ids=ids[first:first + BATCH_ROWS]):
            good = usable(batch.matrix)
            if good.any():
                some = [key for key, use in zip(batch.ids, good) if use]
                migration.new.write(some, migration.translate(translator, batch.matrix[good]))
                migration.journal.forget(some)
            written += int(good.sum())
    return written


def retranslate(migration: Migration, since: Moment) -> int:
    """Translates rows whose 'changed' column says that they may have changed. Returns how many had.

    A real vector of a document that has changed is out of date too: its translation replaces it, until it is embedded
    again.
    """
    journal, translator, different = migration.journal, migration.translator(), 0
    for batch in migration.old.read(changed=since):
        good = usable(batch.matrix)
        ids, old = [key for key, use in zip(batch.ids, good) if use], batch.matrix[good]
        different += remove_unusable(migration, [key for key, use in zip(batch.ids, good) if not use])
        if not ids:
            continue
        rows, known = migration.translate(translator, old), journal.embedded_from(ids)
        there = {key: row for found in migration.new.read(ids=ids) for key, row in zip(found.ids, found.matrix)}
        other = [n for n, (key, fingerprint) in enumerate(zip(ids, draw.fingerprints(old).tolist()))
                 if (known[key] != fingerprint if key in known else key not in there or not close(there[key], rows[n]))]
        if other:
            migration.new.write([ids[n] for n in other], rows[other])
            journal.forget([ids[n] for n in other])
        same = [key for n, key in enumerate(ids) if key in there and n not in other]
        if migration.new.copies_documents and same:  # their texts and other fields may have changed all the same
            migration.new.write(same, np.stack([there[key] for key in same]))
        different += len(other)
    return different


def remove_unusable(migration: Migration, ids: Sequence[Id]) -> int:
    """A row that has become NaN or zeros has no translation any more. Returns how many had one."""
    there = [key for batch in migration.new.read(ids=ids, vectors=False) for key in batch.ids] if ids else []
    if there:
        migration.new.write(there, None)
        migration.journal.forget(there)
    return len(there)


def close(stored: Vectors, row: Vectors) -> bool:
    """Whether a stored row is this one, as far as float16 can tell."""
    return np.allclose(stored, row, rtol=0, atol=2e-3 * max(np.abs(row).max(), 1e-30))
