# SPDX-License-Identifier: Apache-2.0
"""sample: documents that both models embed, drawn at random from the store; the map is learned from them."""
from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from .._errors import BadFile, Error, UsageError
from .._output_file import write_file
from .._progress import command_progress
from . import draw, maps, models
from .embed import BATCH_TEXTS, Counted
from .migration import Migration, usable
from .texts import Texts
from .types import Found, Id, Vectors

PILOT_ROWS = 400
STEP = 2  # a sample at most doubles at once: the learning curve may not hold further out


def sample(migration: Migration, rows: int | None = None, vectors: str | None = None, again: bool = False,
           quiet: bool = True) -> Found:
    """Draws the sample, up to 'rows' documents in all; then embeds it, reads its 'vectors', or writes what to embed.
    'again' first forgets what the new model made of it."""
    journal, wanted = migration.journal, rows or migration.config.sample
    if again:
        if journal.fact("apply_map") is not None:
            raise UsageError("apply has used these vectors already; 'kedge-migrate rollback --drop' first")
        journal.forget_sample()
        migration.models.clear()
    there = journal.drawn()
    if there < wanted:
        draw_more(migration, wanted, quiet)
    if vectors:
        take(migration, vectors)
    elif migration.config.embed and journal.unembedded():
        embed(migration, quiet)
    return summary(migration)


def until(migration: Migration, target: float, quiet: bool = True) -> Found:
    """Enlarges the sample until the estimated error of a map made from it is at or below the target.

    Without a model to embed with, it goes one step and says how many documents it hands out.
    """
    if not 0 < target < 1:
        raise UsageError(f"the target error is a share of the variance, between 0 and 1; found {target}")
    rows, total = len(migration.journal.sample()[0]), migration.old.describe().rows
    found = sample(migration, max(rows, min(PILOT_ROWS, total)), quiet=quiet)
    while found["embedded"] == found["drawn"]:
        ids, old, new = migration.journal.sample()
        new = migration.as_new(new)
        _, errors, method = maps.learn(old, new, migration.config.map)
        curve = maps.learning_curve(old, new, method, errors[method])
        needed = maps.rows_for(curve, target)
        found["error"], found["needed"] = errors[method], needed
        if errors[method] <= target:
            return {**found, "enough": f"the error is {errors[method]:.3f}, at or below {target}: the sample is large "
                                       "enough"}
        if needed is None or len(ids) >= total:
            return {**found, "enough": f"the error is {errors[method]:.3f} and hardly falls any more; {target} is out "
                                       "of reach with this map"}
        before = found["drawn"]
        found = sample(migration, min(needed, STEP * len(ids), total), quiet=quiet)
        if found["drawn"] == before:
            return {**found, "enough": f"there are no more documents to draw; the error is {errors[method]:.3f}"}
    return found


def draw_more(migration: Migration, wanted: int, quiet: bool) -> None:
    """Adds documents to the sample until there are so many; it leaves out what has no translation or no text."""
    store, journal, texts = migration.old, migration.journal, Texts(migration)
    if migration.config.embed:
        texts.require("embedding the sample")
    already = journal.drawn_ids()
    total = store.describe().rows
    candidates = wanted + wanted // 20 + 50
    while True:
        smallest = draw.Smallest(candidates, migration.config.seed)
        progress = command_progress("kedge-migrate sample", total, quiet)
        for batch in store.read(vectors=False):
            smallest.add(batch.ids)
            progress.advance(len(batch))
        progress.close()
        kept = usable_of(texts, [key for key in smallest.ids if key not in already])[:wanted - len(already)]
        if len(kept) + len(already) >= wanted or len(smallest.ids) < candidates:
            break
        candidates *= 4  # many rows could not be used
    if not kept and not already:
        raise Error(f"{store.shown} has no rows {'with a text ' if texts.there else ''}that can be translated, so "
                    "there is nothing to draw a sample from"
                    + (f"; are its ids those of {migration.config.texts}?" if texts.file else ""))
    journal.add_sample(kept)


def usable_of(texts: Texts, ids: Sequence[Id]) -> list[tuple[Id, str | None, str, Vectors]]:
    """The documents that can be in a sample, in the order of the ids."""
    found = [document for document in texts.read(ids) if document.text or not texts.there]
    return [(key, text, version, old) for key, text, version, old in found
            if old is not None and usable(old[None])[0]]


def embed(migration: Migration, quiet: bool) -> None:
    """The new model's vectors of what waits for them; noted batch by batch, so that none is paid for twice."""
    journal = migration.journal
    waiting = journal.unembedded()
    function = Counted(migration, migration.config.embed)
    progress = command_progress("kedge-migrate sample", len(waiting), quiet)
    for first in range(0, len(waiting), BATCH_TEXTS):
        batch = waiting[first:first + BATCH_TEXTS]
        rows = function([text or "" for _, text in batch])
        models.require_new(migration, rows)
        journal.embed_sample([key for key, _ in batch], rows)
        progress.advance(len(batch))
    progress.close()


def take(migration: Migration, path: str) -> None:
    """Vectors that the user made of the documents in the order of the file of ids."""
    waiting = [key for key, _ in migration.journal.unembedded()]
    if not waiting:
        raise UsageError(f"every document of the sample has its vector already, so {path} was not read; "
                         "'sample --rows N' draws more")
    rows = read_matrix(path, len(waiting), "document of the sample that waits for its vector")
    models.require_new(migration, rows)
    migration.journal.embed_sample(waiting, rows)


def read_matrix(path: str, rows: int | None, what: str) -> Vectors:
    """A float32 matrix with a row for each 'what'; any number of rows, but at least one, if 'rows' is None."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read as .npy: {error}") from None
    wrong = found.ndim != 2 or found.dtype.kind != "f"
    if wrong or (len(found) != rows if rows is not None else not len(found)):
        raise BadFile(f"{path} holds {found.dtype} of shape {found.shape}; expected a matrix of floats with "
                      f"{'some' if rows is None else rows} rows, one for each {what}")
    if not np.isfinite(found).all():
        raise BadFile(f"{path}: row {int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])} holds NaN or infinity")
    return np.asarray(found, np.float32)


def summary(migration: Migration) -> Found:
    """What there is, and the files of what waits to be embedded."""
    journal = migration.journal
    waiting = journal.unembedded()
    drawn = journal.drawn()
    found = {"drawn": drawn, "embedded": drawn - len(waiting), "new_width": journal.fact("new_width")}
    if waiting:
        found["to_embed"] = write_waiting(migration, "sample", waiting)
    journal.log("sample", found)
    return found


def write_waiting(migration: Migration, what: str, waiting: Iterable[tuple[Id, str | None]]) -> str:
    """Writes a file of the ids, and texts if there are any, of documents that the user embeds; returns its name."""
    path = pathlib.Path(f"{migration.path.with_suffix('')}.{what}.jsonl")
    write_file(path, "".join(
        json.dumps({"id": key, **({} if text is None else {"text": text})}, ensure_ascii=False) + "\n"
        for key, text in waiting))
    return str(path)
