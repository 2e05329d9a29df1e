# SPDX-License-Identifier: Apache-2.0
"""Loads a model and says in a sentence why it could not. """
from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .._errors import BadFile, Error
from .._extras import what_is_missing
from .presets import Model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

ENCODERS = {"timm": ("timm_model", "TimmEncoder"), "transformers": ("transformers_model", "TransformersEncoder"),
            "sentence-transformers": ("sentence_model", "SentenceEncoder")}
UNREACHABLE = {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectError", "ConnectTimeout", "ConnectionError"}


class Encoder(Protocol):
    """A model that is loaded. 'window' inputs are embedded at a time; the rest goes into OUT.json."""
    window: int
    details: dict[str, Any]
    versions: dict[str, str]

    @property
    def prepare(self) -> Callable[[Any], Any]:
        """What embed takes of one input: threads call it."""

    def embed(self, prepared: list[Any], /) -> NDArray[np.float32]:
        """One window: rows x dim."""


def device_to_use(asked: str | None) -> torch.device:
    """A torch device; asked is cpu, cuda or None."""
    import torch
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise Error("--device cuda: torch finds no GPU; use --device cpu, or install a torch built for CUDA")
    return torch.device(asked or ("cuda" if there else "cpu"))


def device_name(asked: str | None) -> str:
    """For the record, and because another processor gives other bits."""
    import torch
    device = device_to_use(asked)
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else "cpu"


def hush(quiet: bool) -> None:
    """Libraries report every unused weight; what matters is checked and reported here."""
    warnings.filterwarnings("ignore", module=r"(timm|transformers|sentence_transformers|huggingface_hub)\b")
    for name in ("timm", "sentence_transformers", "huggingface_hub", "httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if quiet or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def hush_transformers(quiet: bool) -> None:
    import transformers
    transformers.utils.logging.set_verbosity_error()
    if quiet or not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()


def why(error: BaseException, model: Model) -> Error:
    """The Error that says what is behind an exception of a library."""
    chain: BaseException | None = error
    names: list[str] = []
    while chain is not None and len(names) < 20:
        names += [base.__name__ for base in type(chain).__mro__]
        chain = chain.__cause__ or chain.__context__
    if "GatedRepoError" in names:
        return Error(f"could not load {model.name}: its owner asks you to accept a licence; do so on "
                     f"https://huggingface.co/{model.name}, then 'hf auth login', or give a local folder")
    if "RepositoryNotFoundError" in names or "RevisionNotFoundError" in names or "HFValidationError" in names:
        return Error(f"could not load {model.name}: the hub has no such model or revision, or it is private; "
                     "'kedge-encode --list' shows the presets, and a local folder works too")
    if UNREACHABLE.intersection(names):
        return Error(f"could not load {model.name}: the hub is not reachable and the model is not in the cache; give a "
                     "local folder, or run the same command once with a network connection")
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "trust_remote_code" in str(error):
        return Error(f"could not load {model.name}: it comes with code of its own, and kedge-encode does not run code "
                     "that comes with a model; choose another")
    return (BadFile if model.folder else Error)(f"could not load {model.name}: {said}")


def load(model: Model, device: str | None, quiet: bool, **options: Any) -> Encoder:
    """The encoder of a Model; 'options' are batch, pooling, max_length, revision."""
    module, name = ENCODERS[model.library]
    try:
        hush(quiet)
        if model.library != "timm":
            hush_transformers(quiet)
        new_encoder: Callable[..., Encoder] = getattr(importlib.import_module(f".{module}", __package__), name)
        return new_encoder(model, device_to_use(device), **options)
    except (Error, MemoryError):
        raise
    except ImportError as error:
        raise Error(f"{model.library} {what_is_missing(error, 'encode')}") from None
    except Exception as error:
        raise why(error, model) from error
