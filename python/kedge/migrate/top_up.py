# SPDX-License-Identifier: Apache-2.0
"""top-up: real vectors in place of translated ones, those first that are most worth it."""
from __future__ import annotations

import collections
import os
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from .._errors import Error, UsageError
from .._progress import command_progress
from . import draw, models
from .apply import ROUNDING, catch_up, close, write_real
from .check import WHOLE_ROWS, in_the_store
from .embed import BATCH_TEXTS, Counted
from .migration import Migration, usable
from .pace import Pace
from .sample import read_matrix, write_waiting
from .texts import Embeddable, Texts
from .types import Found, Id, Vectors
from .verify import as_kept
from .worth import most_worth

WRITE_ROWS = 1024
# Documents that have no text; that are not in the new place; that were edited while they were embedded, so that the
# vector of their old text was not written; and that applications have embedded themselves.
COUNTED = ("without_text", "not_there", "edited", "theirs")


def top_up(migration: Migration, rows: int | None = None, share: float | None = None, vectors: str | None = None,
           quiet: bool = True, rate: float | None = None, max_lag: float | None = None) -> Found:
    """Embeds 'rows' more documents, or as many as make 'share' of them real; all by default. Can be run again."""
    journal = migration.journal
    if journal.fact("applied") is None:
        raise Error("top-up replaces translated vectors, and there are none yet; run 'kedge-migrate apply'")
    theirs = len(journal.theirs())
    if migration.watched:
        catch_up(migration)  # a document that was edited since it was embedded is to be embedded again
    counted: collections.Counter[str] = collections.Counter(edited=write_real(migration),
                                                            theirs=len(journal.theirs()) - theirs)
    if vectors:
        counted["edited"] += take(migration, vectors)
    else:
        until = goal(migration, rows, share)
        if migration.config.embed:
            counted += embed(migration, until, Pace(migration.new, rate, max_lag), quiet)
        else:
            counted["theirs"] += hand_out(migration, until)
    migration.new.finish()
    journal.note(top_up_goal=None)
    found = {**summary(migration), **{name: counted[name] for name in COUNTED}}
    journal.log("top-up", found)
    return found


def goal(migration: Migration, rows: int | None, share: float | None) -> int:
    """How many documents are to be real in the end. If a run was stopped, the same words mean its goal."""
    journal = migration.journal
    total, real = count(migration), journal.count_real()
    if rows is not None and share is not None:
        raise UsageError("give either a number of rows or a share of all, not both")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"a share lies between 0 and 1, found {share}")
    if rows is None:
        return max(real, round((1 if share is None else share) * total))
    if rows < 1:
        raise UsageError(f"rows must be 1 or more, found {rows}")
    begun = journal.fact("top_up_goal")
    if begun is None or begun["rows"] != rows:
        begun = {"rows": rows, "until": min(real + rows, total)}
        journal.note(top_up_goal=begun)
    return max(real, int(begun["until"]))


def documents(migration: Migration) -> Iterator[list[Id]]:
    """The ids of all documents, in batches. After a cutover some come with a new vector alone, or with none yet."""
    if migration.switched and migration.place.shares_documents:
        return migration.place.all_documents()
    return (rows.ids for rows in migration.old.read(vectors=False))


def count(migration: Migration) -> int:
    return sum(map(len, documents(migration)))


def choose(migration: Migration, count: int, first: list[Id] | None = None,
           tried: Collection[Id] = frozenset()) -> list[Id]:
    """The next documents: what queries of the log gain most by, 'first' if that is known, then at random."""
    known = migration.journal.real().union(tried)
    chosen = [key for key in (most_worth(migration) if first is None else first) if key not in known][:count]
    known |= set(chosen)
    smallest = draw.Smallest(count - len(chosen), migration.config.seed)
    if count > len(chosen):
        for ids in documents(migration):
            smallest.add([key for key in ids if key not in known])
    return chosen + smallest.ids


def embed(migration: Migration, until: int, pace: Pace, quiet: bool) -> collections.Counter[str]:
    """Embedded and noted batch by batch, for that may cost money; written less often, for stores like large writes.
    Returns how many documents there were of each kind of COUNTED; others take their turn."""
    texts, function, real = Texts(migration), Counted(migration, migration.config.embed), migration.journal.count_real
    texts.require("top-up")
    progress = command_progress("kedge-migrate top-up", until - real(), quiet)
    tried: set[Id] = set()
    worth_most, theirs = most_worth(migration), Theirs(migration)
    counted: collections.Counter[str] = collections.Counter()
    while real() < until and (chosen := choose(migration, until - real(), worth_most, tried)):
        tried.update(chosen)
        for first in range(0, len(chosen), BATCH_TEXTS):
            ids = theirs.leave_out(chosen[first:first + BATCH_TEXTS])
            found = texts.read(ids)
            some = [document for document in found if document.text]
            counted.update(without_text=len(found) - len(some), not_there=len(ids) - len(found))
            if some:
                note(migration, some, function([document.text or "" for document in some]))
            if migration.journal.count_waiting() >= WRITE_ROWS:
                counted["edited"] += write_real(migration)
            progress.advance(len(some))
            pace.after(len(some))
        counted["edited"] += write_real(migration)
    progress.close()
    counted["theirs"] = theirs.count
    return counted


class Theirs:
    """Documents that applications have embedded with the new model themselves, which they do once it is cut over. They
    are noted as real, and not paid for."""

    def __init__(self, migration: Migration) -> None:
        self.migration, self.count = migration, 0
        self.kind, self.watched, self.ours = migration.new.describe().kind, migration.watched, migration.journal.ours()
        # A form that loses more than rounding cannot be told from a translation. Notes say more than any comparison.
        self.translator = migration.translator() if migration.switched and self.kind in ROUNDING else None

    def leave_out(self, ids: list[Id]) -> list[Id]:
        """The others of these ids."""
        migration = self.migration
        if not migration.switched or not ids:
            return ids
        theirs = migration.new.written_by_others(ids)
        if theirs is not None:
            migration.journal.already_real(list(theirs), np.zeros((len(theirs), 1)))  # some have no old vector
            for rows in migration.old.read(ids=list(theirs)) if theirs else ():
                migration.journal.already_real(rows.ids, rows.matrix)
        elif self.watched:
            # What was noted before is caught up, so it is real and was not chosen; these wait for the next time.
            theirs = {note.id for note in migration.old.every_note(migration.journal.owner)
                      if note.id is not None and note.what == "new"}.intersection(ids)
        else:
            theirs = self._unlike_translations([key for key in ids if key not in self.ours])
        self.count += len(theirs)
        return [key for key in ids if key not in theirs]

    def _unlike_translations(self, ids: list[Id]) -> set[Id]:
        """Where the store does not know: what is in the new place is neither the translation nor a vector from here."""
        if self.translator is None or not ids:
            return set()
        migration, theirs = self.migration, set[Id]()
        there = {key: row for rows in migration.new.read(ids=ids) for key, row in zip(rows.ids, rows.matrix)}
        for rows in migration.old.read(ids=list(there)) if there else ():
            good = usable(rows.matrix)
            translated = np.zeros((len(rows), len(there[rows.ids[0]])), np.float32)
            if good.any():
                translated[good] = migration.translate(self.translator, rows.matrix[good])
            other = [n for n, key in enumerate(rows.ids) if not close(there[key], as_kept(translated[n], self.kind))]
            migration.journal.already_real([rows.ids[n] for n in other], rows.matrix[other])
            theirs.update(rows.ids[n] for n in other)
        return theirs


def fingerprint(document: Embeddable) -> int:
    """Of its old vector; 0 without one."""
    return 0 if document.old is None else int(draw.fingerprints(document.old[None])[0])


def note(migration: Migration, documents: Sequence[Embeddable], vectors: Vectors) -> None:
    """Keeps vectors of the new model in the journal until they are written."""
    models.require_new(migration, vectors)
    migration.journal.embedded([document.id for document in documents],
                               [fingerprint(document) for document in documents],
                               [document.version for document in documents], vectors)


def hand_out(migration: Migration, until: int) -> int:
    """Without a model of its own: writes down what the user embeds, and which version of it that is. Returns how many
    documents applications have embedded themselves."""
    journal, theirs = migration.journal, Theirs(migration)
    chosen: list[Id] = [draw.as_id(key) for key, _, _ in journal.fact("handed_out", [])]
    if chosen and os.path.exists(journal.fact("handed_out_file")):
        return 0  # it may be under way, and these are the versions that it is of
    worth_most = [] if chosen else most_worth(migration)
    while (lacking := until - journal.count_real() - len(chosen)) > 0 and (
            more := choose(migration, lacking, worth_most, set(chosen))):
        chosen += theirs.leave_out(more)
    found = Texts(migration).read(chosen)
    journal.note(handed_out=[[one.id, one.version, fingerprint(one)] for one in found],
                 handed_out_file=write_waiting(migration, "top-up", [(one.id, one.text) for one in found]))
    return theirs.count


def take(migration: Migration, path: str) -> int:
    """The vectors of what was handed out, in its order. Returns how many documents were edited since."""
    handed_out = migration.journal.fact("handed_out")
    if not handed_out:
        raise UsageError("no documents were handed out to embed; run 'kedge-migrate top-up --rows N' first")
    vectors = read_matrix(path, len(handed_out), "document of the file that top-up wrote")
    models.require_new(migration, vectors)
    ids, versions, before = zip(*handed_out)
    migration.journal.embedded([draw.as_id(key) for key in ids], before, versions, vectors)
    edited = write_real(migration)
    migration.journal.note(handed_out=None, handed_out_file=None)
    return edited


def summary(migration: Migration) -> Found:
    total, real = count(migration), migration.journal.count_real()
    share = min(real / max(total, 1), 1)  # documents that went since were embedded too
    return {"rows": total, "real": real, "share": share, "to_embed": migration.journal.fact("handed_out_file"),
            "expected": expected(migration, share),
            "measured": in_the_store(migration) if share == 1 and total <= WHOLE_ROWS else {}}


def expected(migration: Migration, share: float) -> dict[str, dict[str, float]] | None:
    """What search keeps at this share of real vectors, between the points that 'check' measured, by way and measure.
    'whole_ndcg' is that of the whole store: what it was at the check, with what the sample gains."""
    checked = migration.journal.fact("check")
    if checked is None:
        return None
    points = checked.get("ordered") or checked["curve"]

    def at(share: float, way: str, name: str) -> float:
        return float(np.interp(share, [point for point, _ in points], [scores[way][name] for _, scores in points]))

    found = {way: {name: at(share, way, name) for name in points[0][1][way]} for way in points[0][1]}
    if "whole" in checked and "ndcg" in found["new"]:
        before = checked["rows"] / max(checked["whole"]["rows"], 1)
        for way, scores in found.items():
            known = way if way in checked["whole"]["scores"] else "translated"  # the new model's own are not there yet
            scores["whole_ndcg"] = (checked["whole"]["scores"][known][0] * scores["ndcg"]
                                    / max(at(before, known, "ndcg"), 1e-9))
    return found
