# SPDX-License-Identifier: Apache-2.0
"""From texts to vectors: by a model of kedge-encode, or by any function of the user's, named module:function."""
from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._errors import Error, UsageError
from .._extras import what_is_missing
from .types import Vectors

BATCH_TEXTS = 64
Embedder: TypeAlias = Callable[[Sequence[str]], Vectors]


def embedder(name: str) -> Embedder:
    """A function from texts to a float32 matrix. name: module:function, or a model that kedge-encode knows."""
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        return checked(_function(name), name)
    return checked(_model(name), name)


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


def _model(name: str) -> Callable[..., Any]:
    from ..encode import models, presets
    from ..encode.__main__ import skip_unreachable_hub
    try:
        skip_unreachable_hub(name)
        model = presets.resolve(name, "text")
        encoder = models.load(model, None, quiet=True, batch=BATCH_TEXTS, pooling=model.pooling)
    except ImportError as error:
        raise Error(f"{name}: embedding {what_is_missing(error, 'encode')}, or name a function of yours as "
                    "module:function") from None
    return lambda texts: encoder.embed([encoder.prepare(text) for text in texts])


def checked(function: Callable[[list[str]], Any], name: str) -> Embedder:
    """The function, with what it returns looked at."""
    def embed(texts: Sequence[str]) -> Vectors:
        try:
            rows = function(list(texts))
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
    return embed
