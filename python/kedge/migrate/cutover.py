# SPDX-License-Identifier: Apache-2.0
"""cutover and rollback: which vectors are in the place that applications ask."""
from __future__ import annotations

from .._errors import BadFile, Error
from .apply import catch_up, close, write_real
from .migration import Migration, usable
from .store import Missing
from .types import Found


def cutover(migration: Migration, yes: bool = False) -> Found:
    """Puts the new vectors where the old ones are; the old ones stay, under another name. Can be run again."""
    journal = migration.journal
    if journal.fact("switching_back") is not None:
        migration.require_settled()
    if migration.switched:
        return {"already": True, "old": migration.kept.shown}
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
    journal.note(switched=True, switching=None, only_new=None, cut_at=migration.place.newest())
    found = {"already": False, **caught, "old": migration.kept.shown, "new": migration.place.shown}
    journal.log("cutover", found)
    return found


def catch_up_and_switch(migration: Migration) -> dict[str, int]:
    """After a run that was stopped before its switch, too: what it caught up in that transaction is undone,
    and more may have come since."""
    write_real(migration)
    caught = catch_up(migration)
    migration.new.finish()
    with migration.place.frozen(migration.beside, migration.kept):
        last = catch_up(migration, undoable=True)  # what came while the first ran: few rows, nobody waits for long
        caught = {name: caught[name] + last[name] for name in caught}
        migration.new.finish()
        migration.journal.note(switching=caught)
        migration.place.switch(migration.beside, migration.kept)
    return caught


def ask(migration: Migration, yes: bool) -> None:
    """Refuses unless the new vectors were verified, and the switch is one step or --yes was given."""
    if migration.journal.fact("verified") is None:
        raise Error("the new vectors were not verified since the last apply; run 'kedge-migrate verify'")
    if not migration.journal.fact("verified"):
        raise Error("verify found that the new vectors are not whole; run 'kedge-migrate apply' and 'verify' again")
    if type(migration.beside) is not type(migration.place):
        raise Error(f"{migration.beside.shown} is another kind of store than {migration.place.shown}, so the two "
                    "cannot change places; let applications use the new one instead")
    place = migration.place.describe()
    atomic = place.atomic
    if not place.can_switch:
        raise Error(atomic)
    if atomic and not yes:
        raise Error(f"here a cutover is not one step: {atomic}. Stop what searches, and run it with --yes")


def rollback(migration: Migration, drop: bool = False, yes: bool = False) -> Found:
    """Puts the old vectors back; with 'drop', also removes the new ones and forgets that they were made."""
    journal = migration.journal
    found: Found = {"switched_back": False, "dropped": False}
    if journal.fact("switching") is not None:
        migration.require_settled()
    if migration.switched and not journal.fact("switching_back"):
        journal.note(only_new=list(migration.new.not_in(migration.old)))
        note_written(migration)
    only_new = journal.fact("only_new", [])
    if drop and only_new and (migration.switched or not yes):
        raise Error(f"{len(only_new)} documents have arrived since the cutover and are only in {migration.new.shown}, "
                    "so that --drop would remove them for good; roll back without it, give the old model these "
                    "documents, then drop with --yes")
    paid = journal.count_real() - len(journal.sample()[0])
    if drop and paid > 0 and not yes:
        raise Error(f"{paid} documents that top-up has embedded would have to be embedded again; drop with --yes if "
                    "that is what you want")
    if migration.switched:
        atomic = migration.place.describe().atomic if not journal.fact("switching_back") else None
        if atomic and not yes:
            raise Error(f"here a rollback is not one step: {atomic}. Stop what searches, and run it with --yes")
        journal.note(switching_back=True)
        migration.place.switch(migration.kept, migration.beside)
        journal.note(switched=None, switching_back=None, verified=None)
        found["switched_back"] = True
    elif not drop:
        raise Error("nothing was cut over, so there is nothing to roll back; --drop removes the new vectors")
    found["only_new"] = len(only_new)
    if drop:
        remove(migration)
        journal.start_over()
        found["dropped"] = True
    journal.log("rollback", found)
    return found


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


def remove(migration: Migration) -> None:
    """Removes the new place if it is this migration's; one that is gone already is as good as removed."""
    new, journal = migration.beside, migration.journal
    try:
        owner = new.describe().owner
    except Missing:
        return
    except BadFile:  # damaged; only whether apply was at work there shows whose it is
        owner = journal.owner if journal.fact("apply_map") is not None else None
    if owner != journal.owner:
        raise Error(f"{new.shown} was not made by this migration, so it is not removed; nothing was changed")
    new.drop()
