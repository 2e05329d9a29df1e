# SPDX-License-Identifier: Apache-2.0
"""Models of sentence-transformers, which bring their own pooling."""
from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING

from .._errors import BadFile, UsageError
from .presets import Model
from .transformers_model import BATCHES_PER_WINDOW

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def refuse_foreign_code(folder: str) -> None:
    """Old versions of the library import any class that modules.json of a local folder names."""
    path = pathlib.Path(folder) / "modules.json"
    if not path.is_file():
        return
    try:
        types = [str(module["type"]) for module in json.loads(path.read_text("utf-8"))]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadFile(f"{path} cannot be read: {error!r}") from None
    for name in types:
        if not name.startswith("sentence_transformers."):
            raise BadFile(f"{path} asks for the class {name}, which is code from outside the library; kedge-encode "
                          "does not run code that comes with a model")


class SentenceEncoder:
    def __init__(self, model: Model, device: torch.device, batch: int, pooling: str | None = None,
                 max_length: int | None = None, revision: str | None = None) -> None:
        if pooling:
            raise UsageError("a model of sentence-transformers has its own pooling; leave out --pooling, or use "
                             "--library transformers to pool its tokens differently")
        if model.folder:
            refuse_foreign_code(model.name)
        import sentence_transformers
        self.net = sentence_transformers.SentenceTransformer(model.name, device=str(device), revision=revision,
                                                             trust_remote_code=False).float().eval()
        limit = self.net.max_seq_length
        if max_length:
            if limit and max_length > limit:
                raise UsageError(f"--max-length is {max_length}, but the model reads at most {limit} tokens")
            self.net.max_seq_length = max_length
        self.batch, self.window = batch, batch * BATCHES_PER_WINDOW
        self.details = {"modules": [type(module).__name__ for module in self.net], "max_length": max_length or limit}
        self.versions = {"sentence-transformers": sentence_transformers.__version__}

    def prepare(self, text: str) -> str:
        return text

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """One window of texts: float32, rows x dim."""
        return self.net.encode(texts, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True)
