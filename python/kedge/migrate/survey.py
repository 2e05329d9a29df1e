# SPDX-License-Identifier: Apache-2.0
"""plan: what is in the store, and what a migration of it will cost."""
from __future__ import annotations

import time

import numpy as np

from .._progress import RowProgress, command_progress
from . import draw, models
from .embed import Counted
from .migration import Migration, usable
from .store import Glance
from .texts import Texts
from .types import Found

TEXTS_TO_TIME = 64
LOOK_AT = 10_000  # rows; a store of more is judged by so many
LETTERS_OF_A_TOKEN = 4  # where nobody counts tokens: English has about so many


def plan(migration: Migration, quiet: bool = True) -> Found:
    """Looks at the store, and at some of its rows. Returns what was found, by name."""
    place = migration.place
    if not migration.switched:
        migration.beside.require_place(place, migration.journal.owner)
    contents, glance = place.facts(), place.glance(LOOK_AT)
    models.require_old(migration)
    began = time.monotonic()
    found = look_at(glance, command_progress("kedge-migrate plan", min(glance.rows, LOOK_AT), quiet))
    seconds = max(time.monotonic() - began, 1e-9) * glance.rows / max(found["looked_at"], 1)
    texts = Texts(migration)
    found.update(store=place.shown, width=contents.width, kind=contents.kind, metric=contents.metric,
                 index=contents.index, texts=texts.there, atomic=contents.atomic, triggers=place.triggers(),
                 unseen=place.unseen(), read_rows_per_second=glance.rows / max(seconds, 1e-9),
                 sample=min(migration.config.sample, found["usable"]),
                 password_left_out=str(migration.path) if migration.password_left_out else None)
    found.update(cost(migration, texts, found, seconds))
    migration.journal.log("plan", found)
    return found


def look_at(glance: Glance, progress: RowProgress) -> Found:
    """Counts rows, lengths, duplicates, and rows that cannot be translated, among those that are looked at."""
    rows = bad = zeros = 0
    shortest, longest, lengths = np.inf, 0.0, 0.0
    hashes = [np.empty(0, np.int64)]
    for batch in glance.batches:
        good = usable(batch.matrix)
        finite = np.isfinite(batch.matrix).all(axis=1)
        rows += len(batch)
        bad += int((~finite).sum())
        zeros += int((finite & ~good).sum())
        norms = np.linalg.norm(batch.matrix[good], axis=1)
        if len(norms):
            shortest, longest = min(shortest, float(norms.min())), max(longest, float(norms.max()))
            lengths += float(norms.sum())
        hashes.append(draw.fingerprints(batch.matrix[good]))
        progress.advance(len(batch))
    progress.close()
    there = rows - bad - zeros
    return {"rows": glance.rows, "without_vector": glance.without_vector, "counted": glance.counted, "looked_at": rows,
            "nan": bad, "zeros": zeros, "usable": round(glance.rows * there / max(rows, 1)),
            "duplicates": there - len(np.unique(np.concatenate(hashes))),
            "length": {"least": shortest if there else None, "mean": lengths / there if there else None,
                       "largest": longest if there else None}}


def cost(migration: Migration, texts: Texts, found: Found, read_seconds: float) -> Found:
    """Rows to embed, bytes, minutes and money, as far as they can be known before the sample. Raises Error if the new
    vectors would have no place."""
    needs: Found = {"embed_sample": found["sample"], "embed_all": found["usable"], "new_width": None, "new_bytes": None,
                    "index_bytes": None, "log_bytes": None, "minutes_sample": None, "minutes_all": None,
                    "tokens_all": None, "cost_sample": None, "cost_all": None,
                    # Writing a row takes stores about twice as long as reading one; translation runs beside both.
                    "minutes_apply": 3 * read_seconds / 60}
    chosen: list[str] = []
    if texts.there and found["usable"]:
        some = draw.Smallest(TEXTS_TO_TIME, migration.config.seed)
        some.add(next(iter(migration.place.read(vectors=False))).ids)
        chosen = [document.text for document in texts.read(some.ids) if document.text]
    if not chosen:
        return needs
    each = sum(map(len, chosen)) / LETTERS_OF_A_TOKEN / len(chosen)  # tokens
    if migration.config.embed:
        embed = Counted(migration, migration.config.embed)
        embed(chosen[:1])  # loading counts once, not for every text
        before, began = embed.embed.tokens, time.monotonic()
        width = embed(chosen).shape[1]
        seconds = (time.monotonic() - began) / len(chosen)
        if before is not None and embed.embed.tokens is not None:
            each = (embed.embed.tokens - before) / len(chosen)
        needs.update(new_width=width, minutes_sample=seconds * found["sample"] / 60,
                     minutes_all=seconds * found["usable"] / 60)
        room = migration.beside.room(migration.place, found["usable"], width)
        needs.update(new_bytes=room.vectors, index_bytes=room.index, log_bytes=room.log)
    needs["tokens_all"] = round(each * found["usable"])
    if migration.config.price:
        needs.update({f"cost_{what}": each * found[rows] * migration.config.price / 1e6
                      for what, rows in (("sample", "sample"), ("all", "usable"))})
    return needs
