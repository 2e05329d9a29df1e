# SPDX-License-Identifier: Apache-2.0
"""apply: every old vector translated into the new place, beside the old one, which stays as it is."""
from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Collection, Sequence

import numpy as np

from .._errors import Error, UsageError
from .._progress import command_progress
from . import draw, models, pipeline
from .migration import Migration, usable
from .moved import whole_moves, with_moves
from .pace import Pace
from .store import BATCH_ROWS, Missing, Note, Rows, Store
from .types import Found, Id, Moment, Vectors

# How far apart two processors' results may be, as a share of the largest value; kinds that compress are not here.
ROUNDING = {"float32": 1e-5, "float32 of length 1": 1e-5, "float32 with rounding": 1e-5, "float16": 1e-3}


def apply(migration: Migration, quiet: bool = True, fire_triggers: bool | None = None, rate: float | None = None,
          max_lag: float | None = None) -> Found:
    """Translates what is not translated yet, then what arrived meanwhile, then makes the index. Can be run again.
    fire_triggers: whether triggers run for the rows that it writes, if there are any; the answer is kept."""
    journal = migration.journal
    if migration.switched:
        raise Error("this migration is cut over, so that new vectors come from the new model; 'top-up' replaces "
                    "translated ones, 'rollback' goes back")
    migration.translator()  # says at once if there is none
    models.require_old(migration)
    agree_on_triggers(migration, migration.new, fire_triggers)
    pace = Pace(migration.new, rate, max_lag)
    begin(migration)
    began, before, real = time.monotonic(), journal.fact("apply_rows", 0), journal.real()
    if journal.fact("applied") is None:
        first_pass(migration, pace, quiet)
    rows, seconds = journal.fact("apply_rows", 0), max(time.monotonic() - began, 1e-9)
    write_real(migration)
    translate_ids(migration, list(real - journal.real()))  # embedded from a text that is no longer theirs
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


def agree_on_triggers(migration: Migration, store: Store, fire: bool | None) -> None:
    """Others' triggers neither run for rows that are written here, nor are kept from it, unless the user says so."""
    triggers, journal = store.triggers(), migration.journal
    fire = journal.fact("fire_triggers") if fire is None else fire
    if not triggers:
        return
    if fire is None:
        raise UsageError(f"{store.shown}: every row that is written would run {'; '.join(triggers)}. Say "
                         "whether they run, with --fire-triggers, or are kept from it, with --skip-triggers; nothing "
                         "was changed")
    if fire and migration.old.newest() is not None:
        raise UsageError(f"{store.shown}: with --fire-triggers, {'; '.join(triggers)} may touch the column "
                         "that 'changed' names, so that every row would look changed; use --skip-triggers, or leave "
                         "'changed' out of the address; nothing was changed")
    journal.note(fire_triggers=fire)


def begin(migration: Migration) -> None:
    """Makes the new place; refuses what is not this migration's, and a map of another width than what is there."""
    journal = migration.journal
    width = journal.fact("new_width")
    if journal.fact("apply_map") is not None and is_missing(migration.new):
        journal.start_over()  # someone removed it
    migration.new.create(migration.old, width, journal.owner)
    watch(migration)
    there = migration.new.facts()
    if there.width != width:
        raise Error(f"{migration.new.shown} is for vectors of {there.width} values, but the new model's have {width}; "
                    "'rollback --drop' removes it, then run apply again")
    if journal.fact("apply_map") is None:
        journal.note(apply_map=journal.fact("fitted"), changed_from=migration.old.newest(), apply_after=None)
    elif journal.fact("apply_map") != journal.fact("fitted"):
        raise Error("the map was fitted again after apply had begun, and one place cannot hold rows of two maps; "
                    "'rollback --drop' removes the new vectors, then run apply again")


def watch(migration: Migration) -> None:
    """Lets the store note what others change. If it did not do so from the start, every row is translated again."""
    journal = migration.journal
    if migration.watched:
        return
    migration.old.watch(migration.new, journal.owner)
    if journal.fact("apply_map") is not None and migration.watched:
        journal.note(applied=None, apply_after=None, apply_rows=None, apply_skipped=None)


def is_missing(store: Store) -> bool:
    try:
        store.facts()
        return False
    except Missing:
        return True


def first_pass(migration: Migration, pace: Pace, quiet: bool) -> None:
    """All rows in the store's order, from where the last run was stopped."""
    journal = migration.journal
    after: Id | None = draw.as_id(journal.fact("apply_after"))
    if after is not None and not list(migration.old.read(ids=[after], vectors=False)):
        # Not every store knows what comes behind a row that is gone. Writing rows again changes nothing.
        after = None
        journal.note(apply_after=None, apply_rows=None, apply_skipped=None)
    progress = command_progress("kedge-migrate apply", migration.old.facts().rows, quiet,
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
        pace.after(seen)

    batches = migration.old.read(after=after, size=pace.batch)
    pipeline.run((batch for batch in batches if len(batch)), translate, write)
    progress.close()


def write_real(migration: Migration) -> int:
    """Puts vectors that the new model made, and that wait in the journal, into the new place: those of documents that
    are still as they were embedded. Returns how many were not; these vectors are forgotten."""
    journal = migration.journal
    ids, vectors, versions = journal.waiting()
    out_of_date = 0
    for first in range(0, len(ids), BATCH_ROWS):
        some = slice(first, first + BATCH_ROWS)
        written = set(migration.new.write_version(ids[some], migration.as_new(vectors[some]), versions[some],
                                                  migration.place))
        with journal.together():
            journal.written(written)
            journal.forget(key for key in ids[some] if key not in written)
        out_of_date += len(ids[some]) - len(written)
    return out_of_date


def catch_up(migration: Migration, undoable: bool = False) -> dict[str, int]:
    """What others did since the first pass: rows that arrived, changed or went. Returns how many there were of each.

    One thread does it all, because the store may have frozen the table in one connection. 'undoable' says that this
    may be undone, so that the next pass must look at the same changes again.
    """
    journal = migration.journal
    caught = by_notes(migration) if migration.watched else by_comparing(migration, undoable)
    differ = [Note(0, key, "old") for key in journal.ids("differ")]  # as verify found
    for first in range(0, len(differ), BATCH_ROWS):
        caught = sums(caught, follow(migration, differ[first:first + BATCH_ROWS]))
    if differ and not undoable:
        journal.note(differ=None)
    return caught


def sums(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one[name] + other[name] for name in one}


def by_notes(migration: Migration) -> dict[str, int]:
    """Brings the rows up to date that the store has notes of; what that costs does not grow with the other rows."""
    old, owner, caught = migration.old, migration.journal.owner, {"arrived": 0, "changed": 0, "removed": 0}
    seen = not migration.switched  # what a cutover kept for a rollback is to be caught up after that
    notes = old.notes(owner, seen)
    while notes:
        full = len(notes) == BATCH_ROWS
        notes = whole_moves(read_on(old, owner, seen, notes) if full else notes)
        # After a cutover a document may have a new vector alone, so comparing would take it for one that is gone.
        if any(note.id is None for note in notes):
            if not migration.switched:
                caught = sums(caught, by_comparing(migration, undoable=True))
            orphans = migration.new.remove_orphans()
            migration.journal.forget(orphans)
            caught["removed"] += len(orphans)
        caught = sums(caught, follow(migration, [note for note in notes if note.id is not None]))
        old.forget(owner, notes, keep=migration.switched)
        # Others go on writing: what came after the last full batch is for the next pass, or this would never end.
        notes = old.notes(owner, seen) if full else []
    return caught


def read_on(old: Store, owner: str, seen: bool, notes: list[Note]) -> list[Note]:
    """A batch, to the end of its last transaction if that moves documents, or to as much as there is memory for: what
    one statement moves is known from all of its notes."""
    moving = {note.by for note in notes if note.what == "key"}
    while notes[-1].by in moving and len(notes) < MOST_MOVES:
        more = old.notes(owner, seen, after=notes[-1].mark)
        moving |= {note.by for note in more if note.what == "key"}
        notes = [*notes, *more]
        if len(more) < BATCH_ROWS:
            break
    return notes


MOST_MOVES = 64 * BATCH_ROWS  # notes: 120 MB with what is made of them
OLD_CAME = {"old", "gone", "key", "moved"}  # after such a note, a translation may be of an earlier vector


def follow(migration: Migration, notes: Sequence[Note]) -> dict[str, int]:
    """Translates the rows of these notes again and removes those that are gone."""
    about: dict[Id, list[Note]] = {}
    # After a cutover an old vector may be out of date, and the new one goes along where a key changes.
    for note in with_moves(notes):
        about.setdefault(require_id(note), []).append(note)
    # A row that moves to another partition is noted as one that went and one that came, with whatever vector it has.
    moves = {note.by for note in notes if note.what == "gone"} if migration.new.moves_as_new else set()
    caught, ids = {"arrived": 0, "changed": 0, "removed": 0}, iter(about)
    while some := list(itertools.islice(ids, BATCH_ROWS)):
        caught = sums(caught, follow_some(migration, {key: about[key] for key in some}, moves))
    return caught


def follow_some(migration: Migration, about: dict[Id, list[Note]], moves: Collection[int]) -> dict[str, int]:
    """The same of some documents. A vector that the application put into the new place itself is the new model's own,
    and stays. moves: the transactions that may have moved rows to other partitions."""
    journal, new = migration.journal, migration.new
    there, old = ({key: row for rows in store.read(ids=list(about)) for key, row in zip(rows.ids, rows.matrix)}
                  for store in (new, migration.old))
    whats = {key: {note.what for note in found} for key, found in about.items()}
    moved = [key for key in there if "moved" in whats[key] <= {"moved", "text"}]
    came = set(new.written_by_others(moved) or ()) if moved else set()  # others are translated again, to be sure
    journal.forget(came)  # what it knows is of who had the key before
    whole = [key for key in came if "text" not in whats[key]]
    alone = [key for key in whole if key not in old]
    journal.already_real(alone, np.zeros((len(alone), 1)))
    journal.already_real([key for key in whole if key in old], [old[key] for key in whole if key in old])
    for key in whole:
        del about[key], there[key]
        old.pop(key, None)
    theirs = {key for key, found in about.items() if key in there and wrote_new_last(found)
              and not any(note.what == "new" and note.by in moves for note in found)}
    known = [key for key in theirs if key in old]
    journal.already_real(known, [old[key] for key in known])
    real = {key for key in still_real(migration, [key for key in there if key not in theirs])
            if not {note.what for note in about[key]} & OLD_CAME or key in old and
            journal.embedded_from([key])[key] == int(draw.fingerprints(old[key][None])[0])}
    out_of_date = [found[-1] for key, found in about.items() if key not in theirs | real]
    again = new.take_over(journal.owner, out_of_date) if out_of_date and migration.watched else set()
    stay = theirs | real | again | set(journal.ids("only_new"))
    if migration.switched:  # then an old vector that did not change is no better than the new one
        stay |= {key for key in about if not whats[key] & OLD_CAME} | came
    wanted = [key for key in old if key not in stay and usable(old[key][None])[0]]
    rows = migration.translate(migration.translator(), np.stack([old[key] for key in wanted])) if wanted else (
        np.zeros((0, 0), np.float32))
    # A text that changed leaves a translation as it was, and an index takes a row that is written again anew.
    different = [n for n, key in enumerate(wanted) if key not in there or apart(there[key], rows[n]) > rounding(new)]
    if different:
        new.write([wanted[n] for n in different], rows[different])
    if migration.switched:  # then a document without an old vector is not gone
        gone = new.remove_orphans([key for key in about if any(note.what == "gone" for note in about[key])])
    else:
        gone = list(set(there).difference(stay, wanted))
        if gone:
            new.write(gone, None)
    journal.forget([key for key in about if key not in theirs | real])
    arrived = sum(key not in there for key in wanted)
    return {"arrived": arrived, "changed": len(different) - arrived, "removed": len(gone)}


def still_real(migration: Migration, ids: Sequence[Id]) -> set[Id]:
    """Those of these documents whose new vectors were made here of the texts that they have now."""
    made_of = {key: version for key in ids if (version := migration.journal.version_of(key)) is not None}
    now = migration.place.documents_of(list(made_of)) if made_of else {}
    return {key for key, version in made_of.items() if key in now and now[key].version == version}


def wrote_new_last(notes: Sequence[Note]) -> bool:
    """Whether a document's new vector came after all else that these notes, in their order, say of it, or with it."""
    last = next((note for note in reversed(notes) if note.what == "new"), None)
    return last is not None and all(
        note.mark < last.mark or note.by == last.by or note.what == "moved" for note in notes)


def apart(stored: Vectors, row: Vectors) -> float:
    """How far two rows are apart, as a share of the largest value; a stored NaN is as far as can be."""
    found = float(np.abs(stored - row).max() / max(np.abs(row).max(), 1e-30))
    return found if found >= 0 else sys.float_info.max


def rounding(store: Store) -> float:
    """How far a row in this store may be from the one that was written."""
    return ROUNDING.get(store.facts().kind, 0)


def require_id(note: Note) -> Id:
    assert note.id is not None
    return note.id


def by_comparing(migration: Migration, undoable: bool = False) -> dict[str, int]:
    """Looks at every row for what arrived and went; what changed is seen only by a column that says so."""
    journal, old, new = migration.journal, migration.old, migration.new
    mark, since = old.newest(), journal.fact("changed_from")
    arrived = translate_ids(migration, list(old.not_in(new)))
    # What came to the new vectors alone, between a cutover and a rollback, is not gone.
    only_new = set(journal.ids("only_new"))
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
