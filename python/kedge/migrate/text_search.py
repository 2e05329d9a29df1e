# SPDX-License-Identifier: Apache-2.0
"""Fused search by the text of a query, for the retrievers of other libraries: everything is opened once."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .._errors import UsageError
from .draw import as_text
from .embed import embedder
from .fused import search
from .migration import CONFIG, Migration
from .texts import read_texts
from .types import Id

Model: TypeAlias = str | Callable[[list[str]], Any]


class Hit(NamedTuple):
    id: Id
    score: float
    text: str | None


class TextSearch:
    """The documents of a migration that fit a text, by both models while both answer.

    old_model, new_model: what embeds queries, as a function or by the names that the config takes; by default what the
    config names. Further options are those of kedge.migrate.search. Any number of threads may ask; they take turns, as
    a store serves one at a time.
    """

    def __init__(self, migration: str | os.PathLike[str] = CONFIG, *, old_model: Model | None = None,
                 new_model: Model | None = None, **options: Any) -> None:
        self.migration, self.options, self._guard = Migration(migration, alone=False), options, threading.Lock()
        config = self.migration.config
        gone = config.old_encoder == "gone"
        self.old = None if gone else self._function(old_model or config.embed_old)
        self.new = self._function(new_model or config.embed_query or config.embed)
        if self.new is None or (self.old is None and not gone):
            which = "new" if self.new is None else "old"
            self.close()
            raise UsageError(f"a search by text needs the {which} model to embed the query; give {which}_model, or "
                             f"name it in {migration}"
                             + ("" if which == "new" else "; or say old_encoder = \"gone\" there"))
        self.file = read_texts(config.texts) if config.texts else None

    def __call__(self, text: str, k: int = 10) -> list[Hit]:
        assert self.new is not None
        new, old = self.new([text])[0], None if self.old is None else self.old([text])[0]
        with self._guard:
            ids, scores = search(self.migration, old, new, k, **self.options)
            texts = self._texts(ids)
        return [Hit(key, float(score), texts.get(key)) for key, score in zip(ids, scores)]

    def _texts(self, ids: list[Id]) -> dict[Id, str | None]:
        if self.file is not None:
            return {key: self.file.get(as_text(key)) for key in ids}
        found: dict[Id, str | None] = {}
        for rows in self.migration.place.read(ids=ids, vectors=False, texts=True) if ids else ():
            found.update(zip(rows.ids, rows.texts or [None] * len(rows)))
        return found

    def _function(self, model: Model | None) -> Callable[[list[str]], Any] | None:
        if not isinstance(model, str) or not model:
            return None if isinstance(model, str) else model
        found = embedder(model, queries=True)
        self.migration.opened.callback(found.close)
        return found

    def close(self) -> None:
        self.migration.close()
