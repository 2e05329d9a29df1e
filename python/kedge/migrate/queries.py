# SPDX-License-Identifier: Apache-2.0
"""The log of queries, as either model embeds it. What was embedded is kept in the journal, since it may have cost
money: a query is embedded once by each model."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .._errors import UsageError
from .embed import BATCH_TEXTS, Counted
from .migration import Migration
from .sample import read_matrix
from .texts import read_texts
from .types import Vectors

Queries: TypeAlias = tuple[Vectors | None, Vectors | None]  # as the old and as the new model embeds them

TABLE = """CREATE TABLE IF NOT EXISTS queries (model TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL,
                                               PRIMARY KEY (model, text))"""


def read_queries(migration: Migration, old_width: int, new_width: int, either: bool = False) -> Queries | None:
    """(old, new) vectors of the queries in the log, or None without a log. If either is enough, one may be None."""
    config = migration.config
    texts = list(read_texts(config.queries).values()) if config.queries else None
    found: list[Vectors | None] = []
    for path, model, width, which in ((config.old_queries, config.embed_old, old_width, "old"),
                                      (config.new_queries, config.embed_query or config.embed, new_width, "new")):
        if path:
            rows = read_matrix(path, len(texts) if texts else None, "query")
        elif texts and model:
            rows = embed_once(migration, model, texts)
        else:
            found.append(None)
            continue
        if rows.shape[1] != width:
            raise UsageError(f"the {which} model's queries have {rows.shape[1]} values and its documents {width}")
        found.append(rows)
    old, new = found
    if old is None and new is None:
        return None
    if old is None or new is None:
        if either:
            return old, new
        raise UsageError("a check compares both models, so it needs the queries as either embeds them; give "
                         "old_queries and new_queries, or the texts as 'queries' with embed and embed_old")
    if len(old) != len(new):
        raise UsageError(f"there are {len(old)} old queries and {len(new)} new ones; they must be the same")
    return old, new


def embed_once(migration: Migration, model: str, texts: Sequence[str]) -> Vectors:
    """The queries' vectors: from the journal, or from the model, which are then noted batch by batch."""
    journal = migration.journal
    with journal.together():
        journal.db.execute(TABLE)
    known = dict(journal.rows("SELECT text, vector FROM queries WHERE model = ?", model))
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    function = Counted(migration, model, queries=True) if missing else None
    for first in range(0, len(missing), BATCH_TEXTS):
        assert function
        some = missing[first:first + BATCH_TEXTS]
        made = {text: row.astype("<f4").tobytes() for text, row in zip(some, function(some))}
        with journal.together():
            journal.db.executemany("INSERT INTO queries VALUES (?, ?, ?)",
                                   [(model, text, vector) for text, vector in made.items()])
        known.update(made)
    return np.stack([np.frombuffer(known[text], "<f4") for text in texts])


def forget_queries(migration: Migration) -> None:
    """What models made of the queries is embedded again when it is next asked for."""
    with migration.journal.together():
        migration.journal.db.execute(TABLE)
        migration.journal.db.execute("DELETE FROM queries")
