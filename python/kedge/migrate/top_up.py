# SPDX-License-Identifier: Apache-2.0
"""top-up: real vectors in place of translated ones, those first that searches find most often."""
from __future__ import annotations

import collections

from .._program import Progress
from . import draw
from .apply import write_real
from .check import read_queries
from .embed import BATCH_TEXTS, embedder
from .errors import Error, UsageError
from .fused import search
from .sample import read_matrix, require_width, write_waiting
from .texts import Texts

HITS = 10
WRITE_ROWS = 1024


def top_up(migration, rows=None, share=None, vectors=None, quiet=True):
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


def goal(migration, rows, share):
    """How many documents are to be real in the end. A run that was stopped had a goal too: the same words mean that one."""
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
    return max(real, begun["until"])


def choose(migration, count, first=None, tried=frozenset()):
    """The next documents: by how often the queries of the log find them, 'first' if that is known, then at random."""
    known = migration.journal.real() | tried
    chosen = [id for id in (hits(migration) if first is None else first) if id not in known][:count]
    known |= set(chosen)
    smallest = draw.Smallest(count - len(chosen), migration.config.seed)
    if count > len(chosen):
        for batch in migration.old.read(vectors=False):
            smallest.add([id for id in batch.ids if id not in known])
    return chosen + smallest.ids


def hits(migration):
    """Documents that the queries find, most often first; empty without a log."""
    width = migration.old.describe().width, migration.new.describe().width
    queries = read_queries(migration, *width, either=True)  # the old model may be gone
    if queries is None:
        return []
    found, _ = search((migration.old, migration.new), *queries, k=HITS)
    counted = collections.Counter(id for ids in found for id in ids)
    return [id for id, _ in sorted(counted.items(), key=lambda pair: (-pair[1], str(pair[0])))]


def embed(migration, until, quiet):
    """Embedded and noted batch by batch, for that may cost money; written less often, for stores like large writes.
    Returns how many documents have no text; others take their turn."""
    texts, function, count = Texts(migration), embedder(migration.config.embed), migration.journal.count_real
    texts.require("top-up")
    progress = Progress("kedge-migrate top-up", until - count(), quiet)
    most_found, tried, without_text = hits(migration), set(), 0
    while count() < until and (chosen := choose(migration, until - count(), most_found, tried)):
        tried.update(chosen)
        for first in range(0, len(chosen), BATCH_TEXTS):
            ids = chosen[first:first + BATCH_TEXTS]
            some = [(id, text) for id, text in zip(ids, texts.of(ids)) if text]
            without_text += len(ids) - len(some)
            if some:
                note(migration, [id for id, _ in some], function([text for _, text in some]))
            if migration.journal.count_waiting() >= WRITE_ROWS:
                write_real(migration)
            progress.advance(len(some))
        write_real(migration)  # which forgets documents that went meanwhile
    progress.close()
    return without_text


def note(migration, ids, vectors):
    """Keeps vectors of the new model in the journal until they are written."""
    require_width(migration, vectors.shape[1])
    old = {id: row for batch in migration.old.read(ids=ids) for id, row in zip(batch.ids, batch.vectors)}
    there = [n for n, id in enumerate(ids) if id in old]  # others were removed meanwhile
    if there:
        migration.journal.embedded([ids[n] for n in there], [old[ids[n]] for n in there], vectors[there])


def hand_out(migration, chosen):
    """Without a model of its own: writes down what the user embeds."""
    texts = Texts(migration)
    found = texts.of(chosen) if texts.there else [None] * len(chosen)
    migration.journal.note(handed_out=chosen)
    migration.journal.note(handed_out_file=write_waiting(migration, "top-up", list(zip(chosen, found))))


def take(migration, path):
    """The vectors of what was handed out, in its order."""
    ids = migration.journal.fact("handed_out")
    if not ids:
        raise UsageError("no documents were handed out to embed; run 'kedge-migrate top-up --rows N' first")
    note(migration, ids, read_matrix(path, len(ids), "document of the file that top-up wrote"))
    write_real(migration)
    migration.journal.note(handed_out=None, handed_out_file=None)


def summary(migration):
    total, real = migration.old.describe().rows, migration.journal.count_real()
    return {"rows": total, "real": real, "share": real / max(total, 1), "to_embed": migration.journal.fact("handed_out_file"),
            "expected": expected(migration, real / max(total, 1))}


def expected(migration, share):
    """What search keeps at this share of real vectors, between the points that 'check' measured: {way: {measure: value}}."""
    import numpy as np

    checked = migration.journal.fact("check")
    if checked is None:
        return None
    shares = [point for point, _ in checked["curve"]]
    return {way: {name: float(np.interp(share, shares, [scores[way][name] for _, scores in checked["curve"]]))
                  for name in checked["curve"][0][1][way]} for way in checked["curve"][0][1]}
