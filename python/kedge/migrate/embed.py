# SPDX-License-Identifier: Apache-2.0
"""From texts to vectors: by a model of kedge-encode or sentence-transformers, by a provider's API, or by any function
of the user's, named module:function."""
from __future__ import annotations

import importlib
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._errors import Error, UsageError
from .._extras import what_is_missing
from . import providers
from .migration import Migration
from .types import Found, Vectors

BATCH_TEXTS = 128  # what is embedded, and lost if a process dies before it is noted
MODEL_TEXTS = 64   # what a model on this machine takes at once


class Embedder:
    """A function from texts to a float32 matrix; what comes back is looked at."""

    def __init__(self, function: Callable[[list[str]], Any], name: str) -> None:
        self.function, self.name = function, name

    @property
    def tokens(self) -> int | None:
        """How many a provider has counted so far; None if nobody counts."""
        found: int | None = getattr(self.function, "tokens", None)
        return found

    def __call__(self, texts: Sequence[str]) -> Vectors:
        name = self.name
        try:
            rows = self.function(list(texts))
        except Exception as error:  # whatever the user's code or its API raises
            raise Error(f"{name} failed on {len(texts)} texts: {type(error).__name__}: {error}") from error
        try:
            with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which is refused below
                rows = np.asarray(rows, np.float32)
        except (ValueError, TypeError) as error:
            raise Error(f"{name} returned what is no matrix of numbers: {error}") from None
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise Error(f"{name} returned an array of shape {rows.shape} for {len(texts)} texts; expected a row for "
                        "each")
        if not np.isfinite(rows).all():
            wrong = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise Error(f"{name} returned NaN or infinity for the text {texts[wrong][:60]!r}")
        return rows


    def close(self) -> None:
        """Lets go of a provider's connections."""
        if isinstance(self.function, providers.Remote):
            self.function.close()


class Counted:
    """A migration's embedder, closed with it; the tokens it takes are noted in the journal."""

    def __init__(self, migration: Migration, name: str, queries: bool = False) -> None:
        self.journal, self.embed = migration.journal, embedder(name, queries)
        migration.opened.callback(self.embed.close)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        before = self.embed.tokens
        rows = self.embed(texts)
        if before is not None and self.embed.tokens is not None:
            self.journal.note(tokens=self.journal.fact("tokens", 0) + self.embed.tokens - before)
        return rows


def paid(migration: Migration) -> Found:
    """The tokens that this migration has taken, and what they cost at its price; nothing if nobody counted."""
    tokens = migration.journal.fact("tokens")
    if tokens is None:
        return {}
    return {"tokens": tokens, "cost": tokens * migration.config.price / 1e6 if migration.config.price else None}


def embedder(name: str, queries: bool = False) -> Embedder:
    """The function that a name stands for: sentence-transformers:MODEL, openai:MODEL, cohere:MODEL, voyage:MODEL, the
    address of a server that speaks as OpenAI's does (http://host/v1#MODEL), module:function, or a model that
    kedge-encode knows. queries: for queries rather than documents, where the model makes a difference."""
    place, _, query = name.partition("?")
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    scheme, _, model = place.partition(":")
    if scheme in providers.PROVIDERS or scheme in ("http", "https"):
        return Embedder(providers.Remote(name, place, options, queries), name)
    if scheme == "sentence-transformers":
        _require_known(name, options, ("prefix",))
        return Embedder(_sentence_transformer(name, model, options.get("prefix"), queries), name)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        return Embedder(_function(name), name)
    return Embedder(_model(name), name)


def _require_known(name: str, options: dict[str, str], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            raise UsageError(f"{name}: {option!r} means nothing here; behind the ? may be {', '.join(known)}")


def _function(name: str) -> Callable[..., Any]:
    module, function = name.split(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: object = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise UsageError(f"{name}: cannot import {module}: {error}; it is looked for in the current folder and in "
                         "PYTHONPATH") from None
    if not callable(found):
        raise UsageError(f"{name}: the module {module} has no function {function}")
    return found


def _sentence_transformer(name: str, model: str, prefix: str | None, queries: bool) -> Callable[..., Any]:
    """With the prompts that the model has for queries and documents, unless a prefix takes their place."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise Error(f"{name}: {what_is_missing(error, 'encode')}") from None
    try:
        net = SentenceTransformer(model)
    except (OSError, ValueError) as error:
        raise Error(f"{name} cannot be read as a sentence-transformers model: {str(error).splitlines()[0]}") from None
    if prefix is not None:
        return lambda texts: net.encode([prefix + text for text in texts], batch_size=MODEL_TEXTS,
                                        show_progress_bar=False)
    encode = net.encode_query if queries else net.encode_document
    return lambda texts: encode(texts, batch_size=MODEL_TEXTS, show_progress_bar=False)


def _model(name: str) -> Callable[..., Any]:
    from ..encode import models, presets
    from ..encode.__main__ import skip_unreachable_hub
    try:
        skip_unreachable_hub(name)
        model = presets.resolve(name, "text")
        encoder = models.load(model, None, quiet=True, batch=MODEL_TEXTS, pooling=model.pooling)
    except ImportError as error:
        raise Error(f"{name}: embedding {what_is_missing(error, 'encode')}, or name a function of yours as "
                    "module:function") from None
    return lambda texts: encoder.embed([encoder.prepare(text) for text in texts])
