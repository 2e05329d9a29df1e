# SPDX-License-Identifier: Apache-2.0
"""Which library makes a model of a name: the paper's models by short names, folders by what is in them."""
from __future__ import annotations

import dataclasses
import json
import os

from .._errors import BadFile, UsageError

LIBRARIES = ("timm", "transformers", "sentence-transformers")


@dataclasses.dataclass(frozen=True)
class Model:
    name: str  # as the library knows it, or a folder
    library: str
    pooling: str | None = None  # None leaves it to the model
    dim: int | None = None  # for --list
    folder: bool = False

    @property
    def kind(self) -> str:
        return "image" if self.library == "timm" else "text"


# The paper gives no pooling for its BERTs; the mean over tokens is what experiments/marc.toml suggests.
# TinyLlama and Gemma are the base checkpoints, not those tuned for chat: both GPT-2 are base models too, and the
# sentences are no dialogues. TinyLlama's is the last one of its training, from which the chat model was made.
PRESETS = {
    "vit-s": Model("vit_small_patch16_224", "timm", dim=384),
    "rexnet": Model("rexnet_100", "timm", dim=1280),
    "vit-b": Model("vit_base_patch16_224", "timm", dim=768),
    "vit-r50": Model("vit_base_r50_s16_384", "timm", dim=768),
    "bert-en": Model("bert-base-uncased", "transformers", "mean", 768),
    "bert-de": Model("bert-base-german-cased", "transformers", "mean", 768),
    "bert-fr": Model("camembert-base", "transformers", "mean", 768),
    "bert-es": Model("dccuchile/bert-base-spanish-wwm-cased", "transformers", "mean", 768),
    "bert-zh": Model("bert-base-chinese", "transformers", "mean", 768),
    "tinyllama": Model("TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", "transformers", "last", 2048),
    "gpt2": Model("gpt2", "transformers", "last", 768),
    "gpt2-medium": Model("gpt2-medium", "transformers", "last", 1024),
    "gemma": Model("google/gemma-3-1b-pt", "transformers", "last", 1152),
}
# The other names that the paper and experiments/*.toml use for them.
ALIASES = {"gpt-2": "gpt2", "gpt2-med": "gpt2-medium", "gemma-3-1b": "gemma", "gemma3-1b": "gemma"}


def table() -> str:
    """The presets as lines of text."""
    rows = [("preset", "model", "library", "pooling", "dim")]
    rows += [(name, m.name, m.library, m.pooling or "its own", str(m.dim)) for name, m in PRESETS.items()]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def library_of(folder: str) -> str:
    """The library that wrote this folder."""
    if os.path.isfile(os.path.join(folder, "modules.json")):
        return "sentence-transformers"
    config = os.path.join(folder, "config.json")
    try:
        with open(config, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        raise BadFile(f"{folder} holds no model: neither config.json nor modules.json is in it") from None
    except (OSError, ValueError) as error:
        raise BadFile(f"{config} cannot be read: {error}") from None
    # timm writes the name of one architecture, transformers a list of classes.
    return "timm" if isinstance(found, dict) and "architecture" in found else "transformers"


def resolve(name: str, kind: str, library: str | None = None) -> Model:
    """The model a user means; a preset wins over a folder of the same name, which './NAME' still reaches."""
    preset = PRESETS.get(ALIASES.get(name.lower(), name.lower()))
    folder = os.path.expanduser(name)
    if preset:
        model = preset if library in (None, preset.library) else Model(preset.name, library)
    elif os.path.isdir(folder):
        model = Model(folder, library or library_of(folder), folder=True)
    elif name.startswith((".", "/", "~")):
        raise BadFile(f"{name}: there is no such folder; --model takes a preset (--list), a folder, or a model's name")
    elif library:
        model = Model(name, library)
    elif kind == "image":
        model = Model(name, "timm")
    else:
        model = Model(name, "sentence-transformers" if name.startswith("sentence-transformers/") else "transformers")
    if model.kind != kind:
        raise UsageError(f"{name} is a model of {model.library}, which embeds {model.kind}s here, but the data are "
                         f"{kind}s; choose another model, or give --kind if the data were misread")
    return model
