# SPDX-License-Identifier: Apache-2.0
"""Documents whose keys others change: what was noted under a former id is of the document all the same."""
from __future__ import annotations

import collections
from collections.abc import Iterable

from .store import Note
from .types import Id

FORMER = {"gone", "left"}  # what may be noted of the id that a document had


def with_moves(notes: Iterable[Note]) -> list[Note]:
    """The notes in their order, each under the id that its document has by the last of them; where that is known to be
    so, 'key' becomes 'moved'."""
    found: list[Note | None] = []
    places: dict[Id | None, list[int]] = {}  # of the notes of the document that has this id now
    displaced: dict[tuple[int, Id | None], dict[int, Note]] = {}  # by a transaction, from an id that another has got
    previous: dict[int, int] = {}  # the place of a transaction's last note
    notes = sorted(notes)
    before_others_left = displacing(notes)
    for note in notes:
        place = previous.pop(note.by, None)
        came = None if place is None else found[place]
        if note.what in FORMER and note.id is not None and came is not None and came.what == "key":
            assert place is not None
            if note.what == "left" and (note.by, note.id) in displaced:
                own = displaced.pop((note.by, note.id))
            else:
                own = taken(found, places.pop(note.id, ()))
                note = note._replace(what="gone")  # nobody came yet, or by an INSERT; who comes takes this note away
            others = taken(found, (n for n in places[came.id] if n != place))
            if came.mark in before_others_left:
                displaced[note.by, came.id] = others
            for earlier, there in own.items():
                found[earlier] = there._replace(id=came.id)
            found[place] = came._replace(what="moved")
            places[came.id] = [*own, place]
        if note.what != "left":
            previous[note.by] = len(found)
            places.setdefault(note.id, []).append(len(found))
            found.append(note)
    return [note for note in found if note is not None]


def displacing(notes: Iterable[Note]) -> set[int]:
    """Marks of the notes 'key' under an id that another document leaves in the same statement, and has yet to. At an id
    that is taken, a statement notes one 'key' and one 'left', in any order; at a free one, a 'key' alone comes first.
    """
    found: set[int] = set()
    events: collections.defaultdict[tuple[int, Id | None], list[Note]] = collections.defaultdict(list)
    for note in notes:
        here = note.by, note.id
        if note.what == "gone":
            found |= first_of_pairs(events.pop(here, []))
        elif note.what in {"key", "left"}:
            events[here].append(note)
    return found.union(*map(first_of_pairs, events.values()))


def first_of_pairs(events: list[Note]) -> set[int]:
    return {note.mark for note in events[len(events) % 2::2] if note.what == "key"}


def taken(found: list[Note | None], places: Iterable[int]) -> dict[int, Note]:
    """The notes at these places, which are then empty."""
    notes = {n: note for n in places if (note := found[n]) is not None}
    for n in notes:
        found[n] = None
    return notes


def whole_moves(notes: list[Note]) -> list[Note]:
    """Of a batch, what comes before a change of key whose second note is in the next one."""
    last = {note.by: note for note in notes}.values()
    cut = min((note.mark for note in last if note.what == "key"), default=None)
    if cut is None:
        return notes
    return whole_moves([note for note in notes if note.mark < cut]) or notes  # others' may have lost theirs by that
