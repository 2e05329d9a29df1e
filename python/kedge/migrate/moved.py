# SPDX-License-Identifier: Apache-2.0
"""Documents whose keys others change: what was noted under a former id is of the document all the same."""
from __future__ import annotations

from collections.abc import Iterable

from .store import Note
from .types import Id


def with_moves(notes: Iterable[Note]) -> list[Note]:
    """The notes in their order, each under the id that its document has by the last of them; where that is known to be
    so, 'key' becomes 'moved'."""
    found: list[Note | None] = []
    places: dict[Id | None, list[int]] = {}
    previous: dict[int, int] = {}  # the place of a transaction's last note
    for note in sorted(notes):
        place = previous.get(note.by)
        came = None if place is None else found[place]
        if note.what == "gone" and note.id is not None and came is not None and came.what == "key":
            for earlier in places.pop(came.id, ()):  # of a document that had this id before
                found[earlier] = None
            places[came.id] = []
            for earlier in places.pop(note.id, ()):
                there = found[earlier]
                found[earlier] = None if there is None else there._replace(id=came.id)
                places[came.id].append(earlier)
            assert place is not None
            found[place] = came._replace(what="moved")
            places[came.id].append(place)
        previous[note.by] = len(found)
        places.setdefault(note.id, []).append(len(found))
        found.append(note)
    return [note for note in found if note is not None]


def whole_moves(notes: list[Note]) -> list[Note]:
    """Of a batch, what comes before a change of key whose second note is in the next one."""
    last = {note.by: note for note in notes}.values()
    cut = min((note.mark for note in last if note.what == "key"), default=None)
    if cut is None:
        return notes
    return whole_moves([note for note in notes if note.mark < cut]) or notes  # others' may have lost theirs by that
