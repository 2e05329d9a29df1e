# SPDX-License-Identifier: Apache-2.0
"""Documents whose ids others change: what was noted under the former id is of the document all the same."""
from __future__ import annotations

from collections.abc import Iterable

from .store import Note
from .types import Id


def with_moves(notes: Iterable[Note]) -> tuple[list[Note], list[tuple[Id, Id]]]:
    """The notes in their order, each under the id that its document has by the last of them, and which id became which,
    one after the other."""
    found: list[Note] = []
    places: dict[Id | None, list[int]] = {}
    moves: list[tuple[Id, Id]] = []
    begun: dict[int, Id] = {}  # by transaction: the id that the document has now
    for note in sorted(notes):
        if note.what == "key" and note.id is not None:
            begun[note.by] = note.id
        elif note.by in begun and note.id is not None:
            now = begun.pop(note.by)
            moves.append((note.id, now))
            for place in places.get(note.id, ()):
                found[place] = found[place]._replace(id=now)
            places.setdefault(now, []).extend(places.pop(note.id, ()))
        places.setdefault(note.id, []).append(len(found))
        found.append(note)
    return found, moves
