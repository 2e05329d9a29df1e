# SPDX-License-Identifier: Apache-2.0
"""plan: what is in the store, and what a migration of it will cost."""
from __future__ import annotations

import time

import numpy as np

from .._progress import RowProgress, command_progress
from . import draw
from .embed import embedder
from .migration import Migration, usable
from .store import Store
from .texts import Texts
from .types import Found

TEXTS_TO_TIME = 64


def plan(migration: Migration, quiet: bool = True) -> Found:
    """Reads everything once. Returns what was found, by name."""
    contents = migration.place.describe()
    began = time.monotonic()
    found = look_at(migration.place, command_progress("kedge-migrate plan", contents.rows, quiet))
    seconds = max(time.monotonic() - began, 1e-9)
    texts = Texts(migration)
    found.update(store=migration.place.shown, width=contents.width, kind=contents.kind, metric=contents.metric,
                 index=contents.index, texts=texts.there, atomic=contents.atomic,
                 read_rows_per_second=found["rows"] / seconds, sample=min(migration.config.sample, found["usable"]))
    found.update(cost(migration, texts, found, seconds))
    migration.journal.log("plan", found)
    return found


def look_at(store: Store, progress: RowProgress) -> Found:
    """Counts rows, lengths, duplicates, and rows that cannot be translated."""
    rows = bad = zeros = 0
    shortest, longest, lengths = np.inf, 0.0, 0.0
    hashes = [np.empty(0, np.int64)]
    for batch in store.read():
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
    return {"rows": rows, "nan": bad, "zeros": zeros, "usable": there,
            "duplicates": there - len(np.unique(np.concatenate(hashes))),
            "length": {"least": shortest if there else None, "mean": lengths / there if there else None,
                       "largest": longest if there else None}}


def cost(migration: Migration, texts: Texts, found: Found, read_seconds: float) -> Found:
    """Rows to embed, bytes and minutes, as far as they can be known before the sample."""
    needs: Found = {"embed_sample": found["sample"], "embed_all": found["usable"], "new_width": None, "new_bytes": None,
            "minutes_sample": None, "minutes_all": None, "minutes_apply": None}
    if migration.config.embed and texts.there and found["usable"]:
        some = draw.Smallest(TEXTS_TO_TIME, migration.config.seed)
        some.add(next(iter(migration.place.read(vectors=False))).ids)
        chosen = [text for text in texts.of(some.ids) if text]
    else:
        chosen = []
    if chosen:
        embed = embedder(migration.config.embed)
        embed(chosen[:1])  # loading counts once, not for every text
        began = time.monotonic()
        width = embed(chosen).shape[1]
        each = (time.monotonic() - began) / len(chosen)
        needs.update(new_width=width, new_bytes=4 * width * found["usable"], minutes_sample=each * found["sample"] / 60,
                    minutes_all=each * found["usable"] / 60)
    # Writing a row takes stores about twice as long as reading one, and translation runs beside both.
    needs["minutes_apply"] = 3 * read_seconds / 60
    return needs
