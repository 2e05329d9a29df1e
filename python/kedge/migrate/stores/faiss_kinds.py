# SPDX-License-Identifier: Apache-2.0
"""What a FAISS index is made of: its word for index_factory, the rows in it, and an empty one of the same kind.

FAISS' own reconstruct is not used. IndexIDMap2.reconstruct_n ends the process for ids that do not begin at 0, and that
of an IVF index with ids of its own gives other rows than asked for. The codes are read from its memory instead.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from ..._errors import BadFile, Error
from ..types import Places, Vectors
from .faiss_flat import Ids, Take

QUANTIZERS = {faiss.ScalarQuantizer.QT_8bit: "SQ8", faiss.ScalarQuantizer.QT_4bit: "SQ4",
              faiss.ScalarQuantizer.QT_6bit: "SQ6", faiss.ScalarQuantizer.QT_fp16: "SQfp16",
              faiss.ScalarQuantizer.QT_bf16: "SQbf16"}
TRAIN_ROWS = 100_000
TRAIN_ROWS_A_LIST = 256


@dataclasses.dataclass
class Walk:
    """The ids of all rows in the order they are stored, and the rows of some places in it."""
    ids: Ids
    take: Take


def walk(index: Any) -> Walk:
    index = faiss.downcast_index(index)
    if isinstance(index, (faiss.IndexIDMap, faiss.IndexIDMap2)):
        inner = walk(index.index)
        own = faiss.vector_to_array(index.id_map)
        if len(inner.ids) and (inner.ids.min() < 0 or inner.ids.max() >= len(own)):
            raise BadFile("the index is damaged: it names rows that have no id")
        return Walk(own[inner.ids], inner.take)
    if isinstance(index, faiss.IndexPreTransform):
        return walk_back(index)
    if isinstance(index, faiss.IndexHNSW):
        return walk(index.storage)
    if isinstance(index, faiss.IndexIVF):
        return walk_lists(index)
    if isinstance(index, faiss.IndexFlatCodes):
        codes = view(index.codes.data(), index.ntotal * index.code_size).reshape(index.ntotal, index.code_size)
        return Walk(np.arange(index.ntotal), lambda places: index.sa_decode(np.ascontiguousarray(codes[places])))
    raise Error(f"rows cannot be read out of a FAISS index of the kind {type(index).__name__}; "
                "Flat, IVF, HNSW, SQ, PQ, IDMap and transforms before them can")


def view(pointer: Any, size: int) -> npt.NDArray[Any]:
    return faiss.rev_swig_ptr(pointer, size) if size else np.empty(0, np.uint8)


def walk_back(index: Any) -> Walk:
    """The rows as they were before the transforms, as far as those can be undone."""
    inner = walk(index.index)
    chain = [faiss.downcast_VectorTransform(index.chain.at(n)) for n in range(index.chain.size())]

    def take(places: Places) -> Vectors:
        rows = inner.take(places)
        for step in reversed(chain):
            try:
                rows = step.reverse_transform(np.ascontiguousarray(rows))
            except RuntimeError:
                raise Error(f"the {type(step).__name__} of this index cannot be undone, so its rows cannot be read; "
                            "embed the documents again into a new index") from None
        return rows
    return Walk(inner.ids, take)


def walk_lists(index: Any) -> Walk:
    if "FastScan" in type(index).__name__:
        raise Error(f"rows cannot be read out of a FAISS index of the kind {type(index).__name__}, whose codes are "
                    "packed across rows; embed the documents again into a new index")
    lists = index.invlists
    sizes = np.array([lists.list_size(number) for number in range(index.nlist)], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ids = np.empty(starts[-1], np.int64)
    for number in np.flatnonzero(sizes):
        ids[starts[number]:starts[number + 1]] = view(lists.get_ids(int(number)), int(sizes[number]))

    def take(places: Places) -> Vectors:
        prefix = index.coarse_code_size()
        codes = np.empty((len(places), prefix + index.code_size), np.uint8)
        owners = np.searchsorted(starts, places, side="right") - 1
        codes[:, :prefix] = owners.astype("<u8")[:, None].view(np.uint8)[:, :prefix]
        for number in np.unique(owners):
            here = owners == number
            stored = view(lists.get_codes(int(number)), int(sizes[number]) * index.code_size)
            codes[here, prefix:] = stored.reshape(-1, index.code_size)[places[here] - starts[number]]
        return np.asarray(index.sa_decode(codes))
    return Walk(ids, take)


def word(index: Any, width: int | None = None) -> str:
    """What index_factory makes it of; for another width, what comes nearest."""
    index = faiss.downcast_index(index)
    width = index.d if width is None else width
    if isinstance(index, (faiss.IndexIDMap, faiss.IndexIDMap2)):
        return f"{'IDMap2' if isinstance(index, faiss.IndexIDMap2) else 'IDMap'},{word(index.index, width)}"
    if isinstance(index, faiss.IndexPreTransform):
        return transformed_word(index, width)
    if isinstance(index, faiss.IndexHNSW):
        return f"HNSW{neighbours(index)},{word(index.storage, width)}"
    if isinstance(index, faiss.IndexIVF):
        coarse = faiss.downcast_index(index.quantizer)
        graph = f"_HNSW{neighbours(coarse)}" if isinstance(coarse, faiss.IndexHNSW) else ""
        return f"IVF{index.nlist}{graph},{code_word(index, width)}"
    return code_word(index, width)


def neighbours(graph: Any) -> int:
    return int(graph.hnsw.nb_neighbors(1))


def code_word(index: Any, width: int) -> str:
    if isinstance(index, (faiss.IndexFlat, faiss.IndexIVFFlat)):
        return "Flat"
    if isinstance(index, (faiss.IndexScalarQuantizer, faiss.IndexIVFScalarQuantizer)) and index.sq.qtype in QUANTIZERS:
        return QUANTIZERS[index.sq.qtype]
    if isinstance(index, (faiss.IndexPQ, faiss.IndexIVFPQ)):
        # np: without an order of the codes that only polysemous searches use, and that takes long to learn.
        plain = faiss.IndexPQ.ST_PQ  # type: ignore[attr-defined]  # FAISS' types do not know it
        polysemous = getattr(index, "search_type", plain) != plain
        return f"PQ{dividing(index.pq.M, width)}x{index.pq.nbits}{'' if polysemous else 'np'}"
    raise Error(f"kedge-migrate does not make a FAISS index of the kind {type(index).__name__}; it makes Flat, IVF, "
                "HNSW, SQ, PQ, IDMap and PCA, OPQ, RR or L2norm before them")


def dividing(parts: int, width: int) -> int:
    """The number nearest to 'parts' that divides the width, which product quantisers need."""
    return min((part for part in range(1, width + 1) if width % part == 0), key=lambda part: (abs(part - parts), part))


def transformed_word(index: Any, width: int) -> str:
    words = []
    inner = core = faiss.downcast_index(index.index)
    while hasattr(core, "index"):
        core = faiss.downcast_index(core.index)
    for number in range(index.chain.size()):
        step = faiss.downcast_VectorTransform(index.chain.at(number))
        out = min(step.d_out, width)
        if isinstance(step, faiss.PCAMatrix):
            words.append(f"PCA{'W' if step.eigen_power == -0.5 else ''}{'R' if step.random_rotation else ''}{out}")
        elif isinstance(step, faiss.NormalizationTransform):
            words.append("L2norm")
        elif isinstance(step, faiss.RandomRotationMatrix):
            words.append(f"RR{out}")
        elif isinstance(step, faiss.LinearTransform) and hasattr(core, "pq"):
            # FAISS does not write down that a matrix was OPQ's; before a product quantiser it always is.
            words.append(f"OPQ{dividing(core.pq.M, out)}_{out}")
        else:
            raise Error(f"kedge-migrate does not make the transform {type(step).__name__} of this index anew; it makes "
                        "PCA, OPQ, RR and L2norm")
        width = width if isinstance(step, faiss.NormalizationTransform) else out
    return ",".join([*words, word(inner, width)])


def settings(index: Any, found: dict[str, int] | None = None) -> dict[str, int]:
    """How widely it searches, which index_factory does not know of."""
    index, found = faiss.downcast_index(index), {} if found is None else found
    if isinstance(index, faiss.IndexIVF):
        found["nprobe"] = int(index.nprobe)
        settings(index.quantizer, found)
    elif isinstance(index, faiss.IndexHNSW):
        found["efSearch"], found["efConstruction"] = int(index.hnsw.efSearch), int(index.hnsw.efConstruction)
    elif hasattr(index, "index"):
        settings(index.index, found)
    return found


def make(words: str, width: int, metric: int, chosen: Mapping[str, int]) -> Any:
    """An empty index, not trained."""
    index = faiss.index_factory(width, words, metric)
    inner = faiss.downcast_index(index)
    while hasattr(inner, "index"):
        inner = faiss.downcast_index(inner.index)
    graph = inner
    if isinstance(inner, faiss.IndexIVF):
        inner.nprobe = chosen.get("nprobe", inner.nprobe)
        graph = faiss.downcast_index(inner.quantizer)
    if isinstance(graph, faiss.IndexHNSW):
        graph.hnsw.efSearch = chosen.get("efSearch", graph.hnsw.efSearch)
        graph.hnsw.efConstruction = chosen.get("efConstruction", graph.hnsw.efConstruction)
    return index


def lists_of(words: str) -> int:
    """How many inverted lists a word asks for."""
    for part in words.split(","):
        if part.startswith("IVF"):
            return int(part[3:].split("_")[0])
    return 0


def takes_ids(words: str) -> bool:
    return any(part.startswith(("IDMap", "IVF")) for part in words.split(","))


def is_flat(words: str) -> bool:
    return words in ("Flat", "IDMap,Flat", "IDMap2,Flat")


def kind_of(words: str) -> str:
    """Contents.kind: float32 if rows come back as they were given, else the word."""
    core = words.removeprefix("IDMap,").removeprefix("IDMap2,")
    parts = core.split(",")
    if len(parts) == 2 and parts[0].startswith(("IVF", "HNSW")) and parts[1] == "Flat" or core == "Flat":
        return "float32"
    if core == "SQfp16" or len(parts) == 2 and parts[0].startswith("HNSW") and parts[1] == "SQfp16":
        return "float16"
    return core


def build(words: str, width: int, metric: int, chosen: Mapping[str, int], ids: Ids, take: Take,
          block: int = 65536) -> Any:
    """A filled index of the rows of 'take' under 'ids'; without ids of its own they must be 0, 1, 2 and so on."""
    index = make(words, width, metric, chosen)
    if not len(ids):
        return index
    if not index.is_trained:
        wanted = min(len(ids), max(TRAIN_ROWS, TRAIN_ROWS_A_LIST * lists_of(words)))
        places = np.sort(np.random.default_rng(0).choice(len(ids), wanted, replace=False))
        index.train(take(places))
    for first in range(0, len(ids), block):
        places = np.arange(first, min(first + block, len(ids)))
        if takes_ids(words):
            index.add_with_ids(take(places), ids[places])
        else:
            index.add(take(places))
    return index
