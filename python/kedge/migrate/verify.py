# SPDX-License-Identifier: Apache-2.0
"""verify: the new place holds every document once, and its rows are what the map and the new model made."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .._errors import Error
from . import draw
from .apply import ROUNDING, apart
from .migration import Migration, usable
from .store import Rows, Store, sorted_keys
from .stores.scores import unit
from .types import Found, Id, Vectors

ROWS = 1000
PENDING_SHARE = .01  # more rows than come and go on an ordinary day: apply must run again


def verify(migration: Migration, rows: int = ROWS) -> Found:
    """Counts, compares ids, and translates some rows again. Of what it returns, 'whole' says whether all is right."""
    journal, old, new = migration.journal, migration.old, migration.new
    if journal.fact("applied") is None:
        raise Error("there is nothing to verify yet; run 'kedge-migrate apply'")
    new_keys = sorted_keys(new)
    lacks = list(old.not_in(new))
    # Rows that cannot be translated are not there on purpose, and neither is their translation.
    lost = [key for batch in read_ids(old, lacks) for key, use in zip(batch.ids, usable(batch.matrix)) if use]
    only_new = set(journal.ids("only_new"))  # what came between a cutover and a rollback
    extra = [key for key in new.not_in(old) if key not in only_new]
    watched = migration.watched
    compared = compare(migration, rows)
    # Read last: what others changed while the rows were read has its note by now.
    differ = compared.pop("differ_ids")
    noted, rows_noted = read_notes(migration, {None, *differ, *lost, *extra}) if watched else (set(), 0)
    differ = [key for key in differ if key not in noted]
    missed = [key for key in [*lost, *extra] if key not in noted]
    found = {"old_rows": old.describe().rows, "new_rows": len(new_keys), "lost": len(lost), "extra": len(extra),
             "twice": len(new_keys) - len(np.unique(new_keys)), "cannot_translate": len(lacks) - len(lost),
             "differ": len(differ), "differ_ids": differ, "noted": rows_noted, "watched": watched,
             "examples": [*lost[:5], *extra[:5]], "switched": bool(migration.switched), **compared}
    # A live store has rows that came or went since apply; the cutover takes them along. After it, documents come, go
    # and change in the new place alone.
    pending = len(missed) > (0 if watched else PENDING_SHARE * found["old_rows"])
    wrong = differ or pending or None in noted  # None: every row may have changed
    found["whole"] = not found["twice"] and (migration.switched or not wrong)
    # apply translates these again, and with a store that takes notes everything that was missed.
    journal.note(verified=found["whole"],
                 differ=[*differ, *(missed if watched else [])] if not migration.switched else None)
    journal.log("verify", found)
    return found


def read_notes(migration: Migration, ids: set[Id | None]) -> tuple[set[Id | None], int]:
    """Those of these ids that there are notes of, and how many rows have notes that apply would catch up with. There
    may be very many: 8 bytes of memory for each."""
    found, rows, after = set[Id | None](), [np.empty(0, np.uint64)], 0
    while notes := migration.old.notes(migration.journal.owner, not migration.switched, after=after):
        about = {note.id for note in notes}
        found |= about & ids
        rows.append(draw.keys([key for key in about if key is not None]))
        after = notes[-1].mark
    return found, len(np.unique(np.concatenate(rows))) + (None in found)


def read_ids(store: Store, ids: Sequence[Id]) -> Iterable[Rows]:
    return store.read(ids=ids) if ids else ()


def compare(migration: Migration, rows: int) -> Found:
    """Translates a random sample of rows again and compares them with what is stored: bit for bit, or as closely as the
    store keeps them. Real vectors of the sample are compared with the journal's, unless they were made of a later text
    or beside a later old vector."""
    journal, old, new = migration.journal, migration.old, migration.new
    smallest = draw.Smallest(rows, migration.config.seed + 1)
    for batch in new.read(vectors=False):
        smallest.add(batch.ids)
    expected: dict[Id, Vectors] = {}
    real = journal.real()
    translator = migration.translator()
    for batch in read_ids(old, [key for key in smallest.ids if key not in real]):
        good = usable(batch.matrix)  # a row may have become NaN or zeros since
        if good.any():
            expected.update(zip([key for key, use in zip(batch.ids, good) if use],
                                migration.translate(translator, batch.matrix[good])))
    ids, _, embedded = journal.sample()
    written = journal.sample_as_drawn()
    sampled = [n for n, key in enumerate(ids) if key in written][:rows]
    expected.update(zip([ids[n] for n in sampled], migration.as_new(embedded[sampled]) if sampled else []))
    kind = new.facts().kind
    same, largest = 0, 0.0
    differ: list[Id] = []
    for batch in read_ids(new, list(expected)):
        for key, row in zip(batch.ids, batch.matrix):
            off = apart(row, as_kept(expected[key], kind))
            largest = max(largest, off)
            same += off == 0
            # Another processor rounds the last bits differently; a store that compresses keeps what it can.
            if kind in ROUNDING and off > ROUNDING[kind]:
                differ.append(key)
    return {"compared": len(expected), "same_bits": same, "differ_ids": differ, "largest_difference": largest,
            "kind": kind}


def as_kept(row: Vectors, kind: str) -> Vectors:
    """A row as a store of that kind gives it back."""
    if kind == "float16":
        return row.astype(np.float16)
    return unit(row) if kind == "float32 of length 1" else row
