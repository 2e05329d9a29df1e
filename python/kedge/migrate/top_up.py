# SPDX-License-Identifier: Apache-2.0
"""top-up: real vectors in place of translated ones, those first that searches find most often."""
from __future__ import annotations

import collections
from collections.abc import Collection, Sequence

import numpy as np

from .._errors import Error, UsageError
from .._progress import command_progress
from . import draw
from .apply import write_real
from .check import read_queries
from .embed import BATCH_TEXTS, embedder
from .fused import search
from .migration import Migration
from .sample import read_matrix, require_width, write_waiting
from .texts import Texts
from .types import Found, Id, Vectors

HITS = 10
WRITE_ROWS = 1024


def top_up(migration: Migration, rows: int | None = None, share: float | None = None, vectors: str | None = None,
           quiet: bool = True) -> Found:
    """Embeds 'rows' more documents, or as many as make 'share' of them real; all by default. Can be run again."""
    journal = migration.journal
    if journal.fact("applied") is None:
        raise Error("top-up replaces translated vectors, and there are none yet; run 'kedge-migrate apply'")
    write_real(migration)
    without_text = 0
    if vectors:
        take(migration, vectors)
    else:
        until = goal(migration, rows, share)
        if migration.config.embed:
            without_text = embed(migration, until, quiet)
        else:
            hand_out(migration, journal.fact("handed_out") or choose(migration, until - journal.count_real()))
    migration.new.finish()
    journal.note(top_up_goal=None)
    found = {**summary(migration), "without_text": without_text}
    journal.log("top-up", found)
    return found


def goal(migration: Migration, rows: int | None, share: float | None) -> int:
    """How many documents are to be real in the end. If a run was stopped, the same words mean its goal."""
    journal = migration.journal
    total, real = migration.old.describe().rows, journal.count_real()
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


def choose(migration: Migration, count: int, first: list[Id] | None = None,
           tried: Collection[Id] = frozenset()) -> list[Id]:
    """The next documents: by how often the queries of the log find them, 'first' if that is known, then at random."""
    known = migration.journal.real().union(tried)
    chosen = [key for key in (hits(migration) if first is None else first) if key not in known][:count]
    known |= set(chosen)
    smallest = draw.Smallest(count - len(chosen), migration.config.seed)
    if count > len(chosen):
        for batch in migration.old.read(vectors=False):
            smallest.add([key for key in batch.ids if key not in known])
    return chosen + smallest.ids


def hits(migration: Migration) -> list[Id]:
    """Documents that the queries find, most often first; empty without a log."""
    old, new = migration.old, migration.new
    # Either will do: the old model may be gone.
    queries = read_queries(migration, old.describe().width, new.describe().width, either=True)
    if queries is None:
        return []
    found, _ = search((old, new), queries[0], queries[1], k=HITS)
    counted = collections.Counter(key for ids in found for key in ids)
    return [key for key, _ in sorted(counted.items(), key=lambda pair: (-pair[1], str(pair[0])))]


def embed(migration: Migration, until: int, quiet: bool) -> int:
    """Embedded and noted batch by batch, for that may cost money; written less often, for stores like large writes.
    Returns how many documents have no text; others take their turn."""
    texts, function, count = Texts(migration), embedder(migration.config.embed), migration.journal.count_real
    texts.require("top-up")
    progress = command_progress("kedge-migrate top-up", until - count(), quiet)
    tried: set[Id] = set()
    most_found, without_text = hits(migration), 0
    while count() < until and (chosen := choose(migration, until - count(), most_found, tried)):
        tried.update(chosen)
        for first in range(0, len(chosen), BATCH_TEXTS):
            ids = chosen[first:first + BATCH_TEXTS]
            some = [(key, text) for key, text in zip(ids, texts.of(ids)) if text]
            without_text += len(ids) - len(some)
            if some:
                note(migration, [key for key, _ in some], function([text for _, text in some]))
            if migration.journal.count_waiting() >= WRITE_ROWS:
                write_real(migration)
            progress.advance(len(some))
        write_real(migration)  # which forgets documents that went meanwhile
    progress.close()
    return without_text


def note(migration: Migration, ids: Sequence[Id], vectors: Vectors) -> None:
    """Keeps vectors of the new model in the journal until they are written."""
    require_width(migration, vectors.shape[1])
    old = {key: row for batch in migration.old.read(ids=ids) for key, row in zip(batch.ids, batch.matrix)}
    there = [n for n, key in enumerate(ids) if key in old]  # others were removed meanwhile
    if there:
        migration.journal.embedded([ids[n] for n in there], [old[ids[n]] for n in there], vectors[there])


def hand_out(migration: Migration, chosen: list[Id]) -> None:
    """Without a model of its own: writes down what the user embeds."""
    texts = Texts(migration)
    found = texts.of(chosen) if texts.there else [None] * len(chosen)
    migration.journal.note(handed_out=chosen)
    migration.journal.note(handed_out_file=write_waiting(migration, "top-up", list(zip(chosen, found))))


def take(migration: Migration, path: str) -> None:
    """The vectors of what was handed out, in its order."""
    ids = migration.journal.fact("handed_out")
    if not ids:
        raise UsageError("no documents were handed out to embed; run 'kedge-migrate top-up --rows N' first")
    note(migration, ids, read_matrix(path, len(ids), "document of the file that top-up wrote"))
    write_real(migration)
    migration.journal.note(handed_out=None, handed_out_file=None)


def summary(migration: Migration) -> Found:
    total, real = migration.old.describe().rows, migration.journal.count_real()
    share = real / max(total, 1)
    return {"rows": total, "real": real, "share": share, "to_embed": migration.journal.fact("handed_out_file"),
            "expected": expected(migration, share)}


def expected(migration: Migration, share: float) -> dict[str, dict[str, float]] | None:
    """What search keeps at this share of real vectors, between the points that 'check' measured, by way and measure."""
    checked = migration.journal.fact("check")
    if checked is None:
        return None
    shares = [point for point, _ in checked["curve"]]
    return {way: {name: float(np.interp(share, shares, [scores[way][name] for _, scores in checked["curve"]]))
                  for name in checked["curve"][0][1][way]} for way in checked["curve"][0][1]}
