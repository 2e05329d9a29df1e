# SPDX-License-Identifier: Apache-2.0
"""parquet:folder#column?id=id&text=body&changed=updated_at: a column of vectors in a Parquet file or a folder of them.

Ids are in the column 'id', or the one named in the address; without one they are the numbers of the rows, over
all files in the order of their names. The new place, folder_new, gets the same files with all other columns, the same
row groups (those with more than 256 MB of vectors are split), schema metadata and compression. Vectors are staged in
folder_new.staged, an SQLite file as large as they are, until finish() writes the files, one by one, each whole.
Later changes are staged again, and the next finish() writes those files anew that hold them.
"""
from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ..._address import join_address, split_address
from ..._errors import Error, UsageError
from ..._output_file import output_file
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Mask, Moment, Vectors
from .files import SWITCHING, Mark, can_exchange, file_errors, switch_files, switch_folders, with_ending
from .parquet_files import Files, Part, matrix, rewrite
from .parquet_staged import Staged
from .require import require_free
from .scores import best_of

Value = TypeVar("Value")
OPTIONS = ("id", "text", "changed")
MARK, STAGED = ".owner.json", ".staged"


class ParquetStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        place, self.column, options, _ = split_address(address, OPTIONS, named=False)
        self.path = pathlib.Path(place)
        self.options = {name: value for name, value in options.items() if value}
        self.mark = Mark(with_ending(self.path, MARK))
        self.staged = Staged(with_ending(self.path, STAGED))
        self._seen: tuple[list[tuple[str, int, int]], Files] | None = None  # what the files were, and what is in them

    def beside(self, ending: str) -> ParquetStore:
        suffix = ".parquet" if self.path.suffix == ".parquet" else ""
        path = self.path.with_name(self.path.name.removesuffix(suffix) + ending + suffix)
        return ParquetStore(join_address("parquet", str(path), self.column, self.options))

    def close(self) -> None:
        self._seen = None
        self.staged.close()

    def _files(self) -> Files:
        """Looked at again only if some file is another one than before."""
        stamps = [(str(path), found.st_mtime_ns, found.st_size) for path in sorted([self.path, *self.path.rglob("*")])
                  if path.exists() for found in [path.stat()]]
        if self._seen is None or self._seen[0] != stamps:
            self._seen = stamps, Files(self.path, self.column, self.options)
        return self._seen[1]

    def _begun(self) -> Files | None:
        """What is in the files, or None if it is a place that has none yet."""
        try:
            return self._files()
        except Missing:
            if self.mark.owner() is None:
                raise
            return None

    def create(self, like: Store, width: int, owner: str) -> None:
        there = self.path.exists() or self.mark.path.exists()
        require_free(self.path, there, self.mark.owner(), owner)
        if not isinstance(like, ParquetStore):
            raise UsageError(f"{self.path}: Parquet files are made like other Parquet files, not like {like.shown}")
        like_files = like._files()
        with file_errors("write", self.path):
            known = self.mark.read()
            # Where the other columns come from; a place that was switched and is back again asks anew.
            self.mark.write({"owner": owner, "width": known.get("width", width), "like": os.path.abspath(like.path),
                             "column": like_files.column, "kind": like_files.kind()})

    def describe(self) -> Contents:
        files, mark = self._begun(), self.mark.read()
        if files is None:
            rows = self.staged.count() if self.staged.exists() else 0
            return Contents(rows, mark["width"], mark["kind"], owner=mark["owner"], atomic=self._atomic())
        exact = not self.staged.exists() and not any(part.nulls for part in files.parts)
        rows = files.rows if exact else sum(len(batch) for batch in self.read(vectors=False))
        width = mark.get("width") or files.width()
        if width is None:
            raise Error(f"{self.path}: the column '{files.column}' holds no vector")
        return Contents(rows, width, files.kind(), texts=files.text is not None, owner=self.mark.owner(),
                        atomic=self._atomic())

    def _atomic(self) -> str | None:
        if self.path.suffix == ".parquet" or can_exchange():
            return None
        return "two folders change names one after the other; for an instant there is none of that name"

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        """The rows of the files, with what is staged for them, and then staged rows that no file has yet."""
        files = self._begun()
        start, staged_after = self._place_of(after, files)
        seen = self._staged_before(files, start)
        ids = None if ids is None else set(ids)
        if files is not None:
            yield from self._from_files(files, start, ids, changed, vectors, texts, size, seen)
        if ids is not None:
            yield from self._staged_of(ids - seen, vectors, size)
        elif changed is None:
            yield from self._staged_rest(staged_after, seen, vectors, size)

    def _place_of(self, key: Id | None, files: Files | None) -> tuple[int, int]:
        """The row of the files and the number among the staged rows from which reading goes on after an id."""
        if key is None:
            return 0, 0
        row = None if files is None else files.row_of(key)
        if row is not None:
            return row + 1, 0
        number = self.staged.number(key) if self.staged.exists() else None
        if number is None:
            raise Error(f"{self.path}: the row {key!r}, after which reading was to go on, is no longer there; start "
                        "again")
        return 0 if files is None else files.rows, number

    def _staged_before(self, files: Files | None, end: int) -> set[Id]:
        """The staged ids among the first rows of the files."""
        found: set[Id] = set()
        if end and files is not None and self.staged.exists():
            for first, batch in files.batches(files.known_by()):
                if first >= end:
                    break
                found.update(self.staged.find(files.ids(first, batch)[:end - first]))
        return found

    def _from_files(self, files: Files, start: int, ids: set[Id] | None, changed: Moment | None, vectors: bool,
                    texts: bool, size: int, seen: set[Id]) -> Iterator[Rows]:
        if changed is not None and files.changed is None:
            raise UsageError(f"{self.address}: names no column that says when a row changed; add changed= to it")
        width = self.mark.read().get("width") or (files.width() if vectors else None)
        for part in files.parts if ids is None else files.parts_with(ids):
            wanted = [files.id_column, files.text if texts else None, files.changed if changed is not None else None,
                      files.column if vectors or part.nulls else None]
            # Some column must be read to know how many rows there are.
            columns = [name for name in wanted if name] or [files.schema.names[0]]
            for first, batch in files.batches(columns, start, size, [part]):
                keys = files.ids(first, batch)
                there, rows = self._overlaid(files, first, batch, keys, width, vectors, seen)
                if changed is not None:
                    there &= files.since(batch, changed)
                if ids is not None:
                    there &= np.array([key in ids for key in keys])
                if there.any():
                    yield Rows(chosen(keys, there), None if rows is None else rows[there],
                               chosen(batch.column(files.text).to_pylist(), there) if texts and files.text else None)

    def _overlaid(self, files: Files, first: int, batch: Any, keys: list[Id], width: int | None, vectors: bool,
                  seen: set[Id]) -> tuple[Mask, Vectors | None]:
        """Which rows of a batch have a vector, and their vectors; staged ones replace the file's."""
        there, rows = np.ones(len(keys), bool), np.zeros((len(keys), width or 0), np.float32) if vectors else None
        if files.column in batch.schema.names:
            there, found = matrix(batch.column(files.column), f"{self.path}, from row {first}")
            if rows is not None and found is not None:
                if found.shape[1] != width:
                    raise Error(f"{self.path}: the column '{files.column}' holds vectors of {width} and of "
                                f"{found.shape[1]} values; a migration needs one width")
                rows[there] = found
        staged = self.staged.find(keys)
        seen.update(staged)
        overlay(keys, staged, there, rows)
        return there, rows

    def _staged_of(self, ids: set[Id], vectors: bool, size: int) -> Iterator[Rows]:
        found = [(key, value) for key, value in self.staged.find(list(ids)).items() if value is not None]
        for first in range(0, len(found), size):
            part = found[first:first + size]
            yield Rows([key for key, _ in part],
                       np.array([np.frombuffer(value, np.float32) for _, value in part]) if vectors else None)

    def _staged_rest(self, after: int, seen: set[Id], vectors: bool, size: int) -> Iterator[Rows]:
        """Staged rows that no file has yet."""
        if not self.staged.exists():
            return
        for keys, rows in self.staged.batches(size, self.mark.read()["width"], after):
            fresh = np.array([key not in seen for key in keys])
            if fresh.any():
                yield Rows([key for key, use in zip(keys, fresh) if use], rows[fresh] if vectors else None)

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        mark = self.mark.read()
        width = mark.get("width")
        if width is None:
            raise Error(f"{self.path} was not made by a migration, so that nothing is written to it")
        if not len(ids):
            return
        if vectors is not None:
            vectors = np.ascontiguousarray(vectors, np.float32)
            if vectors.shape != (len(ids), width):
                raise Error(f"{self.path} holds vectors of {width} values; found {vectors.shape[-1]} for {len(ids)} "
                            "ids")
            if mark["kind"] == "float16":  # as the files will give them back
                vectors = vectors.astype(np.float16).astype(np.float32)
        with file_errors("write", self.path):
            self.staged.write(list(ids), vectors)

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        return best_of(self.read(), queries, k, "cosine")

    def finish(self) -> None:
        if not self._pending():
            return
        mark = self.mark.read()
        like = mark.get("like")
        template = self._files() if like is None else Files(pathlib.Path(like), mark["column"], self.options)
        with file_errors("write", self.path):
            merge(self, template, mark["width"])
            self.staged.remove()

    def _pending(self) -> bool:
        return self.mark.path.exists() and (self.staged.exists() or not self.path.exists())

    def switch(self, incoming: ParquetStore, outgoing: ParquetStore) -> None:
        if incoming.path.exists() or incoming.staged.exists():
            if not outgoing.path.exists():
                incoming.finish()
            known = incoming.mark.read()
            if known.get("like"):  # from now on the other columns are its own
                with file_errors("write", incoming.path):
                    incoming.mark.write({**known, "like": None})
        for store in (self, incoming, outgoing):
            store.close()
        way = switch_files if self.path.is_file() else switch_folders
        way(self.path, incoming.path, outgoing.path, [MARK, STAGED])

    def switching(self, incoming: ParquetStore, outgoing: ParquetStore) -> bool:
        return outgoing.path.exists() or with_ending(self.path, SWITCHING).exists()

    def drop(self) -> None:
        self.staged.remove()
        with file_errors("remove", self.path):
            if self.path.is_dir():
                shutil.rmtree(self.path)
            self.path.unlink(missing_ok=True)
            self.mark.path.unlink(missing_ok=True)

    def newest(self) -> Moment | None:
        return self._files().newest()


def chosen(values: Sequence[Value], there: Mask) -> list[Value]:
    return [value for value, use in zip(values, there) if use]


def overlay(keys: Sequence[Id], staged: Mapping[Id, bytes | None], there: Mask, rows: Vectors | None) -> None:
    """Replaces vectors by staged ones of the same key."""
    for place, key in enumerate(keys if staged else ()):
        if key in staged:
            vector = staged[key]
            there[place] = vector is not None
            if rows is not None and vector is not None:
                rows[place] = np.frombuffer(vector, np.float32)


def merge(store: ParquetStore, template: Files, width: int) -> None:
    """Writes every file of the template into the store's place, with the vectors that are staged or already there."""
    first, matched = 0, 0
    for path in template.paths:
        parts = [part for part in template.parts if part.path == path]
        matched += merge_file(store, template, path, parts, first, width)
        first += sum(part.rows for part in parts)
    require_all(store, template, matched)


def merge_file(store: ParquetStore, template: Files, path: pathlib.Path, parts: list[Part], offset: int,
               width: int) -> int:
    """The same for one file, whose first row has the number 'offset'. Returns how many staged vectors are in it."""
    target = store.path if store.path.suffix == ".parquet" else store.path / path.relative_to(template.place)
    known = Files(target, template.column, store.options) if target.exists() else None
    if known is not None and target != path and not known.same_ids(template, path):
        stage_again(store, known)
        known = None
    if known is not None and target.stat().st_mtime_ns >= path.stat().st_mtime_ns and not concerned(
            store, template, parts):
        return 0
    matched = 0

    def fill(row: int, batch: Any) -> tuple[Mask, Vectors]:
        nonlocal matched
        keys = template.ids(row, batch)
        there, rows = np.zeros(len(keys), bool), np.zeros((len(keys), width), np.float32)
        if known is not None:
            there, rows = known.vectors(row - offset, len(keys), width)
        staged = store.staged.find(keys)
        matched += sum(value is not None for value in staged.values())
        overlay(keys, staged, there, rows)
        return there, rows

    target.parent.mkdir(parents=True, exist_ok=True)
    with output_file(target) as partial:
        rewrite(path, partial, template.column, width, fill, offset)
    return matched


def concerned(store: ParquetStore, template: Files, parts: list[Part]) -> bool:
    """Whether something is staged for rows of these parts."""
    return any(store.staged.find(template.ids(first, batch))
               for first, batch in template.batches(template.known_by(), parts=parts))


def stage_again(store: ParquetStore, known: Files) -> None:
    """The vectors of a file whose rows are not the template's any more, staged unless newer ones are."""
    for first, batch in known.batches([name for name in (known.id_column, known.column) if name]):
        there, rows = matrix(batch.column(known.column), str(known.place))
        if rows is not None:
            keys = chosen(known.ids(first, batch), there)
            newer = store.staged.find(keys)
            fresh = np.array([key not in newer for key in keys])
            store.staged.write(chosen(keys, fresh), rows[fresh])


def require_all(store: ParquetStore, template: Files, matched: int) -> None:
    if store.staged.exists() and matched < store.staged.count():
        raise Error(f"{store.path}: {store.staged.count() - matched} vectors are staged under ids that no row of "
                    f"{template.place} has; remove them, or add the rows")
