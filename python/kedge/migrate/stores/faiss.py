# SPDX-License-Identifier: Apache-2.0
"""faiss:docs.index: a FAISS index file. Ids are its own, or the numbers of the rows if it has none.

The new index, docs_new.index, is of the same kind. Rows are staged beside it until finish() makes the file. A Flat
index, with or without IDMap, is then the staged file itself, so that it costs no room but its own, and memory does not
grow with it; changes to a finished one are staged until the next finish() copies it. Other kinds are read and built in
memory, and keep their staged rows, 4 bytes for each value, in docs_new.index.rows, because the index alone does not
give them back; that file may be deleted when no rows are to be replaced any more. An index without ids of its own has
zeros for rows that have no vector, such as those that could not be translated, and its searches here leave them out.
Beside every index that a migration made is docs_new.index.made.json, which says whose it is.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias, TypedDict, cast

import faiss
import numpy as np
import numpy.typing as npt

from ..._address import path_of
from ..._errors import BadFile, Error
from ..._output_file import output_file, sync
from ..store import BATCH_ROWS, Contents, Missing, Rows, Store
from ..types import Id, Moment, Places, Vectors
from . import faiss_flat, faiss_kinds
from .faiss_rows import View, lookup
from .faiss_staged import LOG, ROWS, Staged
from .files import Mark, file_errors, switch_files, with_ending, write_all, write_durably
from .require import require_free
from .scores import best_of, unit

Stamp: TypeAlias = tuple[int, int, int]  # what changes with a file

MARK = ".made.json"
BESIDE = [MARK, LOG, ROWS]
METRICS = {faiss.METRIC_INNER_PRODUCT: "inner", faiss.METRIC_L2: "euclidean"}
SAMPLE_ROWS = 256
BLOCK_ROWS = 8192


class Recipe(TypedDict, total=False):
    """What an index is made of, as the file beside it says."""
    owner: str | None
    words: str
    width: int
    metric: str
    settings: dict[str, int]
    note: str | None
    merged: int  # staged entries that are in the index
    gaps: list[int]


class FaissStore(Store):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.path = pathlib.Path(path_of(address))
        self.mark = Mark(with_ending(self.path, MARK))
        self._loaded: tuple[Stamp, Any] | None = None                # the file's stamp, and the index
        self._seen: tuple[list[Stamp | None], View] | None = None    # the stamps of all files, and what is in them
        self._kept: Staged | None = None                             # remembers how far its log goes
        self._compared: tuple[View, str] | None = None               # how the rows of that view compare

    def beside(self, ending: str) -> FaissStore:
        return FaissStore(f"faiss:{self.path.with_name(self.path.stem + ending + self.path.suffix)}")

    def close(self) -> None:
        self._loaded = self._seen = self._kept = self._compared = None

    def create(self, like: Store, width: int, owner: str) -> None:
        if require_free(self.path, self.path.exists() or self.mark.path.exists(), self.mark.owner(), owner):
            return
        metric = like.describe().metric
        words, chosen, note = like._new_kind(width) if isinstance(like, FaissStore) else ("IDMap,Flat", {}, None)
        with file_errors("write", self.path):
            Staged(self.path, width, 0).remove()
            self.mark.write({"owner": owner, "width": width, "words": words, "metric": metric, "settings": chosen,
                             "note": note, "merged": 0})

    def _new_kind(self, width: int) -> tuple[str, dict[str, int], str | None]:
        recipe = self.mark.read()
        flat = self._layout()
        if flat is not None:
            return flat.words, {}, None
        if recipe and not self.path.exists():
            return recipe["words"], recipe["settings"], recipe["note"]
        index = self._index()
        words, was = faiss_kinds.word(index, width), faiss_kinds.word(index)
        note = None if words == was else f"{was} does not fit {width} values; {words} is what comes nearest"
        return words, faiss_kinds.settings(index), note

    def _layout(self) -> faiss_flat.Layout | None:
        """Of a Flat file, None for other kinds and if there is none."""
        try:
            return faiss_flat.layout(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadFile(f"{self.path} cannot be read: {error.strerror}") from None

    def _index(self) -> Any:
        """The index as FAISS reads it. Rows of a Flat one are mapped; others are read into memory."""
        stamp = stamp_of(self.path)
        if stamp is None:
            raise Missing(f"{self.path}: there is no such index")
        if self._loaded is None or self._loaded[0] != stamp:
            self._loaded = (stamp, load(self.path, self._layout() is not None))
        return self._loaded[1]

    def _recipe(self) -> Recipe:
        """What this place is: of its mark, or of its file if it has none."""
        recipe = cast(Recipe, self.mark.read())
        if recipe.get("words"):
            return recipe
        flat = self._layout()
        if flat is not None:
            return {"words": flat.words, "width": flat.width, "metric": METRICS[flat.metric]}
        index = self._index()
        if index.metric_type not in METRICS:
            raise Error(f"{self.path} compares with FAISS' metric {index.metric_type}; kedge-migrate knows inner "
                        "product and L2")
        return {"words": faiss_kinds.word(index), "width": index.d, "metric": METRICS[index.metric_type],
                "settings": faiss_kinds.settings(index)}

    def _staged(self, recipe: Recipe) -> Staged:
        gap = faiss_flat.head_size(recipe["words"]) if faiss_kinds.is_flat(recipe["words"]) else 0
        if self._kept is None or (self._kept.width, self._kept.gap) != (recipe["width"], gap):
            self._kept = Staged(self.path, recipe["width"], gap)
        return self._kept

    def _view(self, recipe: Recipe | None = None) -> View:
        """All rows of the place: the file's, replaced by staged ones."""
        recipe = recipe or self._recipe()
        staged = self._staged(recipe)
        stamps = [stamp_of(path) for path in (self.path, staged.log_path, staged.rows_path)]
        if self._seen is None or self._seen[0] != stamps:
            self._seen = (stamps, self._look(recipe, staged))
        return self._seen[1]

    def _look(self, recipe: Recipe, staged: Staged) -> View:
        base = None
        if self.path.exists() and not (staged.exists() and not faiss_kinds.is_flat(recipe["words"])):
            flat = self._layout()
            if flat is None:
                index = self._index()
                with reading(self.path):
                    walk = faiss_kinds.walk(index)
                base = View(walk.ids, walk.take, keeping=index)
            else:
                matrix = faiss_flat.Matrix(self.path, flat.matrix_at, flat.width)
                base = View(faiss_flat.stored_ids(self.path, flat), matrix.take)
            if faiss_kinds.takes_ids(recipe["words"]) and len(np.unique(base.ids)) != len(base.ids):
                raise Error(f"{self.path} holds several rows under the same id; a migration needs one row for each id, "
                            "so build the index again with ids of their own")
            base = base.without(recipe.get("gaps"))
        return View.over(base, staged, faiss_kinds.takes_ids(recipe["words"]))

    def describe(self) -> Contents:
        recipe, view = self._recipe(), self._view()
        index = recipe["words"] if not recipe.get("note") else f"{recipe['words']} ({recipe['note']})"
        return Contents(len(view.ids), recipe["width"], faiss_kinds.kind_of(recipe["words"]),
                        self._metric(recipe, view), owner=self.mark.owner(), index=index)

    def _metric(self, recipe: Recipe, view: View) -> str:
        """Rows of length 1 are compared by cosine, whatever the index says."""
        if recipe["metric"] != "inner" or self.mark.owner() is not None or not len(view.ids):
            return recipe["metric"]
        if self._compared is None or self._compared[0] is not view:
            places = np.unique(np.linspace(0, len(view.ids) - 1, SAMPLE_ROWS).astype(np.int64))
            lengths = np.linalg.norm(view.take(places), axis=1)
            # Codes that lose much give back lengths that are off by some percent.
            slack = 1e-3 if faiss_kinds.kind_of(recipe["words"]) == "float32" else 0.1
            self._compared = view, "cosine" if np.abs(lengths - 1).max() < slack else "inner"
        return self._compared[1]

    def read(self, *, after: Id | None = None, ids: Collection[Id] | None = None, changed: Moment | None = None,
             vectors: bool = True, texts: bool = False, size: int = BATCH_ROWS) -> Iterator[Rows]:
        view = self._view()
        if ids is not None:
            places: Places | range = np.sort(lookup(view.ids, whole_numbers(ids, self.path))[1])
        else:
            places = range(0 if after is None else view.behind(after, self.path), len(view.ids))
        for first in range(0, len(places), size):
            batch = np.asarray(places[first:first + size])
            with reading(self.path):
                rows = view.take(batch) if vectors else None
            yield Rows(view.ids[batch].tolist(), rows)

    def write(self, ids: Sequence[Id], vectors: Vectors | None) -> None:
        recipe = self._recipe()
        numbers = whole_numbers(ids, self.path)
        if not len(numbers):
            return
        if vectors is not None:
            vectors = np.asarray(vectors, np.float32)
            if vectors.shape != (len(numbers), recipe["width"]):
                raise Error(f"{self.path} holds vectors of {recipe['width']} values; found {vectors.shape[-1]} for "
                            f"{len(numbers)} ids")
            if faiss_kinds.kind_of(recipe["words"]) == "float16":  # what the index will give back is given back at once
                vectors = vectors.astype(np.float16).astype(np.float32)
        if not faiss_kinds.takes_ids(recipe["words"]) and numbers.min() < 0:
            raise Error(f"{self.path} has no ids of its own; {numbers.min()} is not the number of a row")
        staged = self._staged(recipe)
        with file_errors("write", self.path):
            if self.path.exists() and not staged.exists() and not faiss_kinds.is_flat(recipe["words"]):
                self._stage_all(recipe, staged)
            staged.append(numbers, vectors)

    def _stage_all(self, recipe: Recipe, staged: Staged) -> None:
        """The rows of an index that has none staged, all of them or none."""
        view, copy = self._view(recipe), Staged(with_ending(self.path, ".copy"), staged.width, staged.gap)
        copy.remove()
        copy.begin()
        for first in range(0, len(view.ids), BLOCK_ROWS):
            places = np.arange(first, min(first + BLOCK_ROWS, len(view.ids)))
            copy.append(view.ids[places], view.take(places))
        if recipe.get("merged"):
            recipe["merged"] = 0
            self.mark.write(recipe)
        os.replace(copy.log_path, staged.log_path)
        os.replace(copy.rows_path, staged.rows_path)

    def _pending(self, recipe: Recipe) -> bool:
        staged = self._staged(recipe)
        return staged.exists() and len(staged.entries()) != recipe.get("merged", 0) or not self.path.exists()

    def search(self, queries: Vectors, k: int) -> tuple[list[list[Id]], Vectors]:
        recipe, metric = self._recipe(), self.describe().metric
        queries = np.atleast_2d(np.asarray(queries, np.float32))
        if self._pending(recipe):
            return best_of(self.read(), queries, k, metric)
        index, gaps = self._index(), recipe.get("gaps") or []
        if queries.shape[1] != index.d:
            raise Error(f"{self.path} holds vectors of {index.d} values; found a query of {queries.shape[1]}")
        queries = unit(queries) if metric == "cosine" else queries
        with reading(self.path):
            scores, found = index.search(np.ascontiguousarray(queries), k + len(gaps))
        if gaps:
            found[np.isin(found, gaps)] = -1
            order = np.argsort(found < 0, axis=1, kind="stable")[:, :k]
            found, scores = np.take_along_axis(found, order, axis=1), np.take_along_axis(scores, order, axis=1)
        scores = -np.sqrt(np.maximum(scores, 0)) if metric == "euclidean" else scores
        scores[found < 0] = -np.inf
        return [row[row >= 0].tolist() for row in found], scores

    def finish(self) -> None:
        recipe = self._recipe()
        if not self._pending(recipe):
            return
        view, staged = self._view(recipe), self._staged(recipe)
        if not faiss_kinds.takes_ids(recipe["words"]):
            view, recipe["gaps"] = view.with_gaps(recipe["width"])
        metric = faiss.METRIC_L2 if recipe["metric"] == "euclidean" else faiss.METRIC_INNER_PRODUCT
        with file_errors("write", self.path):
            if (recipe.get("gaps") or []) != self.mark.read().get("gaps", []):
                self.mark.write({"owner": None, **recipe})
            if faiss_kinds.is_flat(recipe["words"]):
                self._finish_flat(recipe, metric, view, staged)
            else:
                self._finish_built(recipe, metric, view, staged)

    def _finish_flat(self, recipe: Recipe, metric: int, view: View, staged: Staged) -> None:
        words, width = recipe["words"], recipe["width"]
        head, tail = faiss_flat.head(words, width, metric, len(view.ids)), faiss_flat.tail(words, view.ids)
        behind = len(head) + 4 * width * len(view.ids)
        if view.straight and staged.exists():  # the staged file is the index but for its head and tail
            write_durably(staged.rows_path, head, 0)
            write_durably(staged.rows_path, tail, behind, cut=True)
            os.replace(staged.rows_path, self.path)
            sync(self.path.parent)
        else:
            with output_file(self.path) as partial, open(partial, "wb", buffering=0) as file:
                write_all(file.fileno(), head, 0)
                for first in range(0, len(view.ids), BLOCK_ROWS):
                    places = np.arange(first, min(first + BLOCK_ROWS, len(view.ids)))
                    write_all(file.fileno(), view.take(places).tobytes(), len(head) + 4 * width * first)
                write_all(file.fileno(), tail, behind)
        staged.remove()
        self.close()

    def _finish_built(self, recipe: Recipe, metric: int, view: View, staged: Staged) -> None:
        try:
            index = faiss_kinds.build(recipe["words"], recipe["width"], metric, recipe["settings"], view.ids, view.take)
            with output_file(self.path) as partial:
                faiss.write_index(index, partial)
        except RuntimeError as error:
            raise Error(f"{self.path}: FAISS cannot make the index {recipe['words']} of {len(view.ids)} rows: "
                        f"{reason(error)}") from None
        recipe["merged"] = len(staged.entries())
        self.mark.write({"owner": None, **recipe})
        self.close()

    def switch(self, incoming: FaissStore, outgoing: FaissStore) -> None:
        if not outgoing.path.exists() and incoming.mark.path.exists() and incoming._pending(incoming._recipe()):
            incoming.finish()
        for store in (self, incoming, outgoing):
            store.close()
        switch_files(self.path, incoming.path, outgoing.path, BESIDE)

    def drop(self) -> None:
        self.close()
        with file_errors("remove", self.path):
            for path in (self.path, *(with_ending(self.path, ending) for ending in BESIDE)):
                path.unlink(missing_ok=True)


def stamp_of(path: pathlib.Path) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def load(path: pathlib.Path, flat: bool) -> Any:
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    if start[:2] == b"IB":
        raise BadFile(f"{path} is a binary index, whose rows are bits; kedge-migrate translates vectors of floats")
    with reading(path):
        # FAISS maps a file without checking its size: one that is cut short would end the process, so only a Flat
        # file, which faiss_flat has checked, is mapped.
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if flat else 0)


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise BadFile(f"{path} cannot be read as a FAISS index: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What FAISS says, without the place in its source."""
    said = re.sub(r"^Error in .* at \S+:\d+: (Error: )?", "", str(error).replace("\n", " ")).strip()
    return said.rstrip(".") or type(error).__name__


def whole_numbers(ids: Collection[Id], path: pathlib.Path) -> npt.NDArray[np.int64]:
    if not all(isinstance(key, (int, np.integer)) for key in ids):
        raise Error(f"{path}: the ids of a FAISS index are whole numbers; found {next(iter(ids))!r}")
    return np.asarray(ids, np.int64)
