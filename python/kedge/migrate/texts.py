# SPDX-License-Identifier: Apache-2.0
"""Texts of documents: from the store, or from a file if the store has none."""
from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from .._errors import BadFile, Error
from .draw import as_text
from .migration import Migration
from .store import Document
from .types import Id, Vectors


def read_texts(path: str) -> dict[str, str]:
    """{id as text: text} of a .txt, whose line n is document n, or of a .jsonl with id and text."""
    file = pathlib.Path(path)
    try:
        lines = file.read_text("utf-8").split("\n")
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile(f"{file} is not UTF-8; convert it, for instance with iconv") from None
    lines = lines[:-1] if lines[-1] == "" else lines
    if file.suffix != ".jsonl":
        return {str(number): line for number, line in enumerate(lines)}
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if isinstance(record["id"], dict):
                raise TypeError
            found[as_text(record["id"])] = str(record["text"])
        except (ValueError, KeyError, TypeError):
            raise BadFile(f"{file} line {number}: expected an object such as "
                          '{"id": 7, "text": "..."}') from None
    return found


class Embeddable(NamedTuple):
    """A document as it was at one moment. Its new vector belongs to this version alone."""
    id: Id
    text: str | None
    version: str
    old: Vectors | None


class Texts:
    """Gives the texts of ids, and says before any work whether there are any."""

    def __init__(self, migration: Migration) -> None:
        # 7 and "7" are alike: Chroma's ids are all texts, and a line has a number.
        self.file = read_texts(migration.config.texts) if migration.config.texts else None
        # After a cutover either place has them; the one that holds every document is the new one.
        self.store, self.old, self.switched = migration.place, migration.old, migration.switched
        self.there = self.file is not None or self.store.describe().texts

    def read(self, ids: Sequence[Id]) -> list[Embeddable]:
        """The documents of these ids that, after a cutover, were not removed; in their order. Those that came after it
        may have no old vector; before it a document has one, or no part in the migration."""
        found = self._documents(ids)
        old = {key: row for rows in self.old.read(ids=ids) for key, row in zip(rows.ids, rows.matrix)} if found else {}
        return [Embeddable(key, *found[key], old.get(key)) for key in ids
                if key in found and (key in old or self.switched)]

    def of(self, ids: Sequence[Id]) -> list[str | None]:
        """A text or None for every id."""
        found = self._documents(ids)
        return [found[key].text if key in found else None for key in ids]

    def _documents(self, ids: Sequence[Id]) -> dict[Id, Document]:
        found = self.store.documents_of(ids)
        if self.file is None:
            return found
        # Nobody edits the file meanwhile: the store's vector tells whether the document changed.
        return {key: document._replace(text=self.file.get(as_text(key))) for key, document in found.items()}

    def require(self, what: str) -> None:
        if not self.there:
            raise Error(f"{what} needs the documents' texts, and {self.store.shown} has none; name a file with "
                        "'texts', or the store's column in its address (text=...)")
