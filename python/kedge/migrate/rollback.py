# SPDX-License-Identifier: Apache-2.0
"""rollback: the old vectors where they were, with the documents that came or changed since the cutover."""
from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from .._errors import BadFile, Error
from .apply import agree_on_triggers, close, require_id, still_real
from .migration import Migration, usable
from .moved import FORMER
from .sample import write_waiting
from .store import BATCH_ROWS, Missing, Note
from .texts import Texts
from .types import Found, Id
from .verify import read_ids


def rollback(migration: Migration, drop: bool = False, yes: bool = False, fire_triggers: bool | None = None) -> Found:
    """Puts the old vectors back; with 'drop', also removes the new ones and forgets that they were made.
    fire_triggers: whether triggers run for documents that get old vectors, if there are any."""
    journal = migration.journal
    if journal.fact("switching") is not None:
        migration.require_settled()
    if not migration.switched and not drop:
        raise Error("nothing was cut over, so there is nothing to roll back; --drop removes the new vectors")
    if migration.switched and journal.fact("finished"):
        raise Error("this migration is finished: nothing has noted since what others changed, so that a rollback would "
                    "lose it; begin another migration instead")
    require_kept(migration, drop, yes)
    found: Found = {"switched_back": migration.switched, "dropped": drop}
    if migration.switched:
        if migration.place.shares_documents:
            agree_on_triggers(migration, migration.old, fire_triggers)
        switch_back(migration)
    lists = {name: journal.listed(name) for name in ("translated_back", "old_text", "without_vector")}
    found.update(only_new=len(journal.fact("only_new", [])), **lists)
    found["to_embed"] = list_ids(migration, [key for ids in lists.values() for key in ids])
    if drop:
        found["removed"] = remove(migration)
        journal.start_over()
    journal.log("rollback", found)
    return found


def require_kept(migration: Migration, drop: bool, yes: bool) -> None:
    """Refuses what would lose documents or money, unless told to."""
    journal = migration.journal
    if migration.switched and not journal.fact("switching_back"):
        if not migration.place.shares_documents:
            journal.note(only_new=list(migration.new.not_in(migration.old)))
        note_written(migration)
        atomic = migration.place.facts().atomic
        if atomic and not yes:
            raise Error(f"here a rollback is not one step: {atomic}. Stop what searches, and run it with --yes")
    only_new = journal.fact("only_new", [])
    if drop and only_new and (migration.switched or not yes):
        raise Error(f"{len(only_new)} documents have arrived since the cutover and are only in {migration.new.shown}, "
                    "so that --drop would remove them for good; roll back without it, give the old model these "
                    "documents, then drop with --yes")
    paid = journal.count_real() - len(journal.sample()[0])
    if drop and paid > 0 and not yes:
        raise Error(f"{paid} documents that top-up or the application has embedded would have to be embedded again; "
                    "drop with --yes if that is what you want")


def switch_back(migration: Migration) -> None:
    """What others wrote since the cutover is given old vectors, before the switch and once more in it."""
    journal, place = migration.journal, migration.place
    if place.shares_documents and not journal.fact("switching_back"):
        translate_back(migration, everything=True)
    try:
        with place.frozen(migration.kept, migration.beside):
            if place.shares_documents:
                translate_back(migration)
            journal.note(switching_back=True)
            place.switch(migration.kept, migration.beside)
    except Error:
        if journal.fact("switching_back") and migration.never_began("rollback"):
            journal.note(switching_back=None)
        raise
    if migration.beside.stays:  # where nobody is kept out, the last few come after the switch
        translate_back(migration)
    journal.add_to("without_vector", place.without_vector())
    journal.note(switched=None, switching_back=None, verified=None)


def translate_back(migration: Migration, everything: bool = False) -> None:
    """Gives documents that were embedded with the new model since the cutover old vectors, translated from the new
    ones, and lists them: those that were noted since this was done last, or all. What has only a new text keeps its old
    vector, and is listed too. No note is forgotten, for the next apply catches up with them."""
    old, new, owner = migration.old, migration.new, migration.journal.owner
    if migration.watched:
        notes = old.notes(owner)
        while notes:
            if not everything:
                noted(migration, old.last_notes(owner, list({note.id for note in notes if note.id is not None})))
            old.forget(owner, notes, keep=True)
            notes = old.notes(owner) if len(notes) == BATCH_ROWS else []
        if not everything:
            return
        new.remove_orphans()
        noted(migration, old.last_notes(owner))
    back(migration, list(new.not_in(old)))  # such as documents that came with a text alone, and that top-up embedded


def noted(migration: Migration, last: Sequence[Note]) -> None:
    """What the old model made last is right as it is, and so is what it made of a text that is still the same."""
    ids: dict[str, list[Id]] = {"old": [], "new": [], "text": [], "gone": [], "left": []}
    written = migration.old.take_over(migration.journal.owner, [note for note in last if note.what not in FORMER])
    for note in last:
        ids["old" if note.id in written or note.what == "key" else note.what].append(require_id(note))
    edited = with_other_texts(migration) if ids["old"] or ids["new"] else set()
    right = {key for rows in read_ids(migration.old, ids["new"]) for key in rows.ids if key not in edited}
    stale = [*ids["text"], *(key for key in ids["old"] if key in edited)]
    made = still_real(migration, stale)  # by top-up, of the new text
    back(migration, [*(key for key in ids["new"] if key not in right), *made])
    # Others never had a vector.
    kept = {key for rows in migration.old.read(ids=stale, vectors=False) for key in rows.ids} if stale else set()
    migration.journal.add_to("old_text", [key for key in stale if key in kept and key not in made])


def with_other_texts(migration: Migration, made: Collection[str] = ("old",)) -> set[Id]:
    """The documents whose texts have changed since their vectors of these kinds were made. Whoever writes both in one
    transaction has made one of the other."""
    found: set[Id] = set()
    made_by: dict[Id, int] = {}
    previous: dict[int, Note] = {}
    displaced: set[tuple[int, Id | None]] = set()
    for note in migration.old.every_note(migration.journal.owner, seen=True):
        before, previous[note.by] = previous.get(note.by), note
        if note.what == "key" and note.id in found:  # its document goes on by a later note of the same statement
            displaced.add((note.by, note.id))
        if note.what in made or note.what == "key":
            made_by[require_id(note)] = note.by
            found.discard(require_id(note))
        elif note.what == "text" and made_by.get(require_id(note)) != note.by:
            found.add(require_id(note))
        elif note.what in FORMER and before is not None and before.what == "key":  # no vector changed
            made_by.pop(require_id(before), None)
            # A new vector may have been made again of what is under the new key.
            if note.id in found or (note.by, note.id) in displaced or "new" in made:
                found.add(require_id(before))
    return found


def back(migration: Migration, ids: Sequence[Id]) -> None:
    """Writes translations of these documents' new vectors as their old ones, after it has noted them."""
    journal, translator = migration.journal, migration.translator(back=True)
    for first in range(0, len(ids), BATCH_ROWS):
        for rows in migration.new.read(ids=ids[first:first + BATCH_ROWS]):
            good = usable(rows.matrix)
            some = [key for key, use in zip(rows.ids, good) if use]
            if some:
                vectors = np.asarray(translator.transform(np.ascontiguousarray(rows.matrix[good], np.float32),
                                                          normalize=migration.config.normalize))
                journal.add_to("translated_back", some)
                migration.old.write(some, vectors)
                theirs = [n for n, key in enumerate(some) if journal.version_of(key) is None]
                journal.already_real([some[n] for n in theirs], vectors[theirs])
                journal.still_real(some, vectors)


def list_ids(migration: Migration, ids: list[Id]) -> str | None:
    """Writes the documents down whose old vectors the old model has not made from their texts."""
    if not ids:
        return None
    texts = Texts(migration)
    return write_waiting(migration, "rollback", list(zip(ids, texts.of(ids) if texts.there else [None] * len(ids))))


def note_written(migration: Migration) -> None:
    """Vectors that applications have written since the cutover are the new model's own, not to be translated again.
    Only a 'changed' column tells which rows to look at; what differs from its translation is theirs."""
    journal, since = migration.journal, migration.journal.fact("cut_at")
    if since is None:
        return
    translator, real = migration.translator(), journal.real()
    for batch in migration.new.read(changed=since):
        there = {key: row for key, row in zip(batch.ids, batch.matrix) if key not in real}
        for rows in migration.old.read(ids=list(there)) if there else ():
            good = usable(rows.matrix)
            ids, old = [key for key, use in zip(rows.ids, good) if use], rows.matrix[good]
            translated = migration.translate(translator, old)
            theirs = [n for n, key in enumerate(ids) if not close(there[key], translated[n])]
            journal.already_real([ids[n] for n in theirs], old[theirs])


def remove(migration: Migration) -> bool:
    """Removes the new place if it is this migration's. Returns whether it was there."""
    new, journal = migration.beside, migration.journal
    migration.place.unwatch(journal.owner)
    try:
        owner = new.describe().owner
    except Missing:
        return False
    except BadFile:  # damaged; only whether apply was at work there shows whose it is
        owner = journal.owner if journal.fact("apply_map") is not None else None
    if owner != journal.owner:
        raise Error(f"{new.shown} was not made by this migration, so it is not removed; nothing was changed")
    new.drop()
    return True
