# SPDX-License-Identifier: Apache-2.0
"""cutover: new vectors in the place that applications ask."""
from __future__ import annotations

from .._errors import Error
from .apply import catch_up, sums, write_real, wrote_new_last
from .migration import Migration
from .moved import FORMER
from .rollback import with_other_texts
from .store import Note
from .types import Found, Id

FEW, ROUNDS = 500, 20


def cutover(migration: Migration, yes: bool = False) -> Found:
    """Puts the new vectors where the old ones are; the old ones stay, under another name. Can be run again."""
    journal = migration.journal
    if journal.fact("switching_back") is not None:
        migration.require_settled()
    if migration.switched:
        # Sessions that embed with the old model may live on for a while: what they wrote is translated too.
        caught = catch_up(migration) if migration.watched else None
        return {"already": True, "since": journal.when("cutover"), "old": migration.old.shown,
                "new": migration.new.shown, "view": migration.place.shows(), "caught": caught}
    if journal.fact("applied") is None:
        raise Error("there are no new vectors to cut over to; run 'kedge-migrate apply'")
    begun = journal.fact("switching")
    if begun is not None and migration.place.switching(migration.beside, migration.kept):
        migration.place.switch(migration.beside, migration.kept)
        caught = begun
    else:
        if begun is None:
            migration.require_same_old()
            ask(migration, yes)
        caught = catch_up_and_switch(migration)
    watched = migration.watched
    with journal.together():
        journal.note(switched=True, switching=None, only_new=None,
                     cut_at=None if watched else migration.place.newest())
        journal.forget_lists()
    if watched and migration.new.stays:  # nobody was kept out, so a few changes may have come since
        caught = sums(caught, catch_up(migration))
    found = {"already": False, **caught, "old": migration.old.shown, "new": migration.new.shown,
             "view": migration.place.shows()}
    journal.log("cutover", found)
    return found


def catch_up_and_switch(migration: Migration) -> dict[str, int]:
    """After a run that was stopped before its switch, too: what it caught up in that transaction is undone,
    and more may have come since."""
    journal, place = migration.journal, migration.place
    write_real(migration)
    caught = catch_up(migration)
    migration.new.finish()
    if migration.watched:
        caught = sums(caught, catch_up_until_few(migration))
    try:
        with place.frozen(migration.beside, migration.kept):
            caught = sums(caught, catch_up(migration, undoable=True))  # few rows: nobody waits for long
            migration.new.finish()
            journal.note(switching=caught)
            place.switch(migration.beside, migration.kept)
    except Error:
        if journal.fact("switching") is not None and migration.never_began("cutover"):
            journal.note(switching=None)
        raise
    return caught


def catch_up_until_few(migration: Migration) -> dict[str, int]:
    """Without a lock, until so few changes are left that catching them up under one takes no time."""
    caught = {"arrived": 0, "changed": 0, "removed": 0}
    for _ in range(ROUNDS):
        found = catch_up(migration)
        caught = sums(caught, found)
        if sum(found.values()) <= FEW:
            return caught
    raise Error(f"others change more than {FEW} rows in the time that it takes to catch up with them; nothing was "
                "switched; run the cutover again when fewer are written")


def finish(migration: Migration) -> Found:
    """Ends a migration that is cut over: the store no longer notes what others change, so there is no way back."""
    if not migration.switched:
        raise Error("nothing is cut over yet; 'kedge-migrate rollback --drop' gives a migration up")
    migration.require_settled()
    follows = migration.new.follow_documents()
    if migration.watched:  # which a run that was stopped may have ended
        catch_up(migration)  # what the old model wrote last
        if follows:
            migration.new.mark_stale(not_embedded_since(migration))
            migration.new.remove_orphans([note.id for note in migration.old.every_note(migration.journal.owner)
                                          if note.what == "gone" and note.id is not None])
    migration.place.unwatch(migration.journal.owner, migration.new)
    migration.journal.note(finished=True)
    # Old vectors in a table beside the documents' are an earlier migration's, and nothing shows them any more.
    replaced = migration.old.stays
    if replaced:
        migration.old.drop()
    found = {"old": migration.old.shown, "new": migration.new.shown, "follows": follows, "old_dropped": replaced}
    migration.journal.log("finish", found)
    return found


def not_embedded_since(migration: Migration) -> list[Id]:
    """The documents whose texts have changed since their new vectors were made, or may have: of what others write just
    now, only a new vector is surely of the text that is there."""
    unread: dict[Id, list[Note]] = {}
    for note in migration.old.every_note(migration.journal.owner):
        if note.id is not None and note.what not in FORMER:
            unread.setdefault(note.id, []).append(note)
    real = migration.journal.real()
    return [*(key for key, notes in unread.items() if not wrote_new_last(notes)),
            *(key for key in with_other_texts(migration, ("old", "new")) if key not in unread and key not in real)]


def ask(migration: Migration, yes: bool) -> None:
    """Refuses unless the new vectors were verified, and the switch is one step or --yes was given."""
    if migration.journal.fact("verified") is None:
        raise Error("the new vectors were not verified since the last apply; run 'kedge-migrate verify'")
    if not migration.journal.fact("verified"):
        raise Error("verify found that the new vectors are not whole; run 'kedge-migrate apply' and 'verify' again")
    if not isinstance(migration.beside, type(migration.place)):
        raise Error(f"{migration.beside.shown} is another kind of store than {migration.place.shown}, so the two "
                    "cannot change places; let applications use the new one instead")
    place = migration.place.facts()
    atomic = place.atomic
    if not place.can_switch:
        raise Error(atomic)
    if atomic and not yes:
        raise Error(f"here a cutover is not one step: {atomic}. Stop what searches, and run it with --yes")
