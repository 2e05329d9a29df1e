# SPDX-License-Identifier: Apache-2.0
"""The map alone, without a migration: inside a FAISS index, or inside the new model itself.

Both let a store that stays as it is answer queries of the new model, so the translator goes from the new model to the
old one: bundle.translator("new", "old"). Both hold an affine map and nothing else. For other places there is ONNX,
translator.to_onnx("map.onnx"), which also takes maps with a kernel.
"""
from __future__ import annotations

import importlib
import json
import os
import pathlib
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import kedge

from .._errors import Error, UsageError
from .._extras import what_is_missing

if TYPE_CHECKING:
    import faiss

SAMPLE_ROWS = 256
# What modules.json called these before sentence-transformers 5.4; text-embeddings-inference knows only these names.
OLD_NAMES = {name: f"sentence_transformers.models.{name}" for name in
             ("Transformer", "Pooling", "Dense", "Normalize", "LayerNorm", "Dropout")}


def require_affine(translator: kedge.Translator, holder: str) -> None:
    if translator.kernel is not None:
        raise UsageError(f"this translator has a kernel, and {holder} holds only an affine map; fit it again with "
                         "method=\"ridge\", or write it as ONNX")


def faiss_pre_transform(translator: kedge.Translator, index: Any,
                        normalize: bool | None = None) -> faiss.IndexPreTransform:
    """The index with the map before it: search() takes queries of the new model, the rows inside stay as they are.

    The map is also applied to what is added from now on, so add() takes rows of the new model as well; to add rows of
    the old model, add them to 'index' itself and set ntotal. normalize: whether mapped queries get length 1; by default
    they do if the index compares by inner product and its rows have length 1. 'index' is not copied.
    """
    import faiss

    require_affine(translator, "a LinearTransform of FAISS")
    if translator.n_features_out != index.d:
        raise UsageError(f"the translator gives vectors of {translator.n_features_out} values, but the index holds "
                         f"vectors of {index.d}; it must go from the new model to the one of the index")
    linear = faiss.LinearTransform(translator.n_features_in, translator.n_features_out, True)
    faiss.copy_array_to_vector(np.ascontiguousarray(translator.weight, np.float32).ravel(), linear.A)
    faiss.copy_array_to_vector(np.ascontiguousarray(translator.bias, np.float32), linear.b)
    linear.is_trained = True
    mapped = faiss.IndexPreTransform(index)
    if unit_rows(index) if normalize is None else normalize:
        mapped.prepend_transform(faiss.NormalizationTransform(index.d, 2.0))
    mapped.prepend_transform(linear)
    return mapped


def unit_rows(index: Any) -> bool:
    """Whether it compares by inner product and its rows have length 1, by a sample of them."""
    import faiss

    from .stores.faiss_kinds import walk

    if index.metric_type != faiss.METRIC_INNER_PRODUCT or not index.ntotal:
        return False
    rows = walk(index).take(np.unique(np.linspace(0, index.ntotal - 1, SAMPLE_ROWS).astype(np.int64)))
    return bool(np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 0.1)  # codes that lose much are off by some percent


def sentence_transformers_folder(translator: kedge.Translator, model: str | os.PathLike[str],
                                 out: str | os.PathLike[str], normalize: bool = True, pooled: bool = False) -> None:
    """Writes the model with the map behind it, as a folder that SentenceTransformer and text-embeddings-inference read.

    model: its name or folder. normalize: whether a Normalize module comes last. pooled: whether the translator was
    fitted on what the model gives before its own Normalize module; that module is then left out.

    text-embeddings-inference reads Dense modules but no Normalize before one. Behind a model that has one, it would
    apply the map to rows of other lengths than the map knows, and the bias would weigh too much or too little. A
    warning says so; fit the map on rows before the Normalize, and give pooled=True, and both programs agree.
    """
    try:
        from sentence_transformers import SentenceTransformer
        try:
            modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
        except ImportError:  # their place in older versions
            modules = importlib.import_module("sentence_transformers.models")
    except ImportError as error:
        raise Error(what_is_missing(error, "encode")) from None
    require_affine(translator, "a Dense module")
    folder = pathlib.Path(out)
    if folder.exists():
        raise Error(f"{folder} exists; choose another folder, or move it away")
    try:
        net = SentenceTransformer(str(model), device="cpu")
    except (OSError, ValueError) as error:
        raise Error(f"{model} cannot be read as a sentence-transformers model: {str(error).splitlines()[0]}") from None
    if pooled:
        while isinstance(net[-1], modules.Normalize):
            del net[-1]
    elif any(isinstance(module, modules.Normalize) for module in net) and np.any(translator.bias):
        warnings.warn(f"{model} has a Normalize module before the map, which text-embeddings-inference does not apply; "
                      "its vectors will differ from those of sentence-transformers. Fit the map on rows before that "
                      "module, and give pooled=True", stacklevel=2)
    append(net, translator, modules.Dense, modules.Normalize if normalize else None)
    save(net, folder)


def append(net: Any, translator: kedge.Translator, dense: Any, last: Any) -> None:
    import torch

    named = "get_embedding_dimension" if hasattr(net, "get_embedding_dimension") else "get_sentence_embedding_dimension"
    width = getattr(net, named)()
    if width is not None and width != translator.n_features_in:
        raise UsageError(f"the translator takes vectors of {translator.n_features_in} values, but the model gives "
                         f"{width}; it must go from this model to the one of the store")
    net.append(dense(translator.n_features_in, translator.n_features_out, activation_function=torch.nn.Identity(),
                     init_weight=torch.from_numpy(translator.weight.copy()),
                     init_bias=torch.from_numpy(translator.bias.copy())))
    if last is not None:
        net.append(last())


def save(net: Any, out: pathlib.Path) -> None:
    """The folder appears whole."""
    try:
        with tempfile.TemporaryDirectory(prefix=".kedge-", dir=out.parent) as between:
            model = pathlib.Path(between, "model")
            net.save(str(model), create_model_card=False)
            listed = model / "modules.json"
            modules = json.loads(listed.read_text())
            for module in modules:
                module["type"] = OLD_NAMES.get(module["type"].rsplit(".", 1)[-1], module["type"])
            listed.write_text(json.dumps(modules, indent=2))
            os.replace(model, out)
    except OSError as error:
        raise Error(f"{out}: cannot write it: {error.strerror or error}") from None
