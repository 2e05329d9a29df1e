# SPDX-License-Identifier: Apache-2.0
"""Texts of documents: from the store, or from a file if the store has none."""
from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

from .._errors import BadFile, Error
from .migration import Migration
from .types import Id


def read_texts(path: str) -> dict[Id, str]:
    """{id: text} of a .txt, whose line n is document n, or of a .jsonl with id and text."""
    file = pathlib.Path(path)
    try:
        lines = file.read_text("utf-8").split("\n")
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile(f"{file} is not UTF-8; convert it, for instance with iconv") from None
    lines = lines[:-1] if lines[-1] == "" else lines
    if file.suffix != ".jsonl":
        return dict(enumerate(lines))
    found: dict[Id, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            found[record["id"]] = str(record["text"])
        except (ValueError, KeyError, TypeError):
            raise BadFile(f"{file} line {number}: expected an object such as "
                          '{"id": 7, "text": "..."}') from None
    return found


class Texts:
    """Gives the texts of ids, and says before any work whether there are any."""

    def __init__(self, migration: Migration) -> None:
        # 7 and "7" are alike: Chroma's ids are all texts, and a line has a number.
        self.file = ({str(key): text for key, text in read_texts(migration.config.texts).items()}
                     if migration.config.texts else None)
        # After a cutover either place has them; the one that holds every document is the new one.
        self.store = migration.place
        self.there = self.file is not None or self.store.describe().texts

    def of(self, ids: Sequence[Id]) -> list[str | None]:
        """A text or None for every id."""
        if self.file is not None:
            return [self.file.get(str(key)) for key in ids]
        found: dict[Id, str | None] = {}
        for rows in self.store.read(ids=ids, vectors=False, texts=True):
            found.update(zip(rows.ids, rows.texts or [None] * len(rows)))
        return [found.get(key) for key in ids]

    def require(self, what: str) -> None:
        if not self.there:
            raise Error(f"{what} needs the documents' texts, and {self.store.shown} has none; name a file with "
                        "'texts', or the store's column in its address (text=...)")
