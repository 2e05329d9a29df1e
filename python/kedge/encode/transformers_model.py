# SPDX-License-Identifier: Apache-2.0
"""Language models of transformers: the last hidden state, pooled over the tokens of each text."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import Error, UsageError
from .inputs import BadRow
from .pooling import pool
from .presets import Model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

# Texts are sorted by length inside a window of so many batches, so that little of a batch is padding. What an interrupt
# loses is one window.
BATCHES_PER_WINDOW = 4


def token_limit(config: Any, tokenizer: Any) -> int | None:
    """How many tokens the model has positions for."""
    limits = []
    if tokenizer.model_max_length and tokenizer.model_max_length < 10**9:  # a huge number if unknown
        limits.append(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its like count positions from one past the id of padding.
        roberta = "roberta" in config.model_type or config.model_type == "camembert"
        limits.append(positions - (config.pad_token_id or 0) - 1 if roberta else positions)
    return min(limits, default=None)


def length_to_use(asked: int | None, config: Any, tokenizer: Any) -> int | None:
    limit = token_limit(config, tokenizer)
    if asked and limit and asked > limit:
        raise UsageError(f"--max-length is {asked}, but the model reads at most {limit} tokens")
    return asked or limit


class TransformersEncoder:
    def __init__(self, model: Model, device: torch.device, batch: int, pooling: str | None = None,
                 max_length: int | None = None, revision: str | None = None) -> None:
        import torch
        import transformers
        where = {"revision": revision, "trust_remote_code": False}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model.name, **where)
        # float32 even if the checkpoint is bfloat16, so that rounding does not change what is stored.
        self.net, loaded = transformers.AutoModel.from_pretrained(model.name, dtype=torch.float32,
                                                                  output_loading_info=True, **where)
        # A pooler that the checkpoint lacks is made up at random, but nothing here reads it. Anything else matters.
        lacking = sorted(key for key in loaded["missing_keys"] if not key.startswith("pooler."))
        lacking += sorted(str(key) for key in loaded.get("mismatched_keys", ()))
        if lacking:
            raise Error(f"could not load {model.name}: its checkpoint lacks {len(lacking)} weights, among them "
                        f"{lacking[0]}, which would be random; is the model complete?")
        config = self.net.config.get_text_config() if not self.net.config.is_encoder_decoder else self.net.config
        if self.net.config.is_encoder_decoder:
            self.net = self.net.get_encoder()
        self.net = self.net.eval().to(device)
        self.length = length_to_use(max_length, config, self.tokenizer)
        causal = any("CausalLM" in name or "LMHead" in name for name in config.architectures or ())
        if causal and pooling == "cls":
            raise UsageError("--pooling cls: the first token of a causal model sees no other, so texts would hardly "
                             "differ; use last or mean")
        self.pooling = pooling or ("last" if causal else "mean")
        # Padding is hidden by the mask, so any id will do for a tokenizer that has none (GPT-2).
        self.padding = next((i for i in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id) if i is not None), 0)
        self.device, self.batch, self.window = device, batch, batch * BATCHES_PER_WINDOW
        self.details = {"architecture": type(self.net).__name__, "pooling": self.pooling, "max_length": self.length,
                        "commit": getattr(self.net.config, "_commit_hash", None)}
        self.versions = {"transformers": transformers.__version__}

    def prepare(self, text: str) -> str:
        return text

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """One window of texts: float32, rows x dim."""
        import numpy
        tokens = self.tokenizer(texts, truncation=self.length is not None, max_length=self.length)["input_ids"]
        for index, ids in enumerate(tokens):
            if not ids:
                raise BadRow(index, "the tokenizer makes no tokens from its text; leave the row out of all files")
        order = sorted(range(len(texts)), key=lambda index: -len(tokens[index]))
        parts = [self._embed_batch([tokens[index] for index in order[start:start + self.batch]])
                 for start in range(0, len(order), self.batch)]
        rows = numpy.empty((len(texts), parts[0].shape[1]), numpy.float32)
        rows[order] = numpy.concatenate(parts)
        return rows

    def _embed_batch(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        import torch
        # Padded on the right whatever the tokenizer says: on the left, models with absolute positions such as GPT-2
        # would give the first token another position in every batch.
        width = max(map(len, tokens))
        ids = torch.full((len(tokens), width), self.padding, dtype=torch.long)
        mask = torch.zeros((len(tokens), width), dtype=torch.long)
        for row, found in enumerate(tokens):
            ids[row, :len(found)] = torch.tensor(found)
            mask[row, :len(found)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.inference_mode():
            hidden = self.net(input_ids=ids, attention_mask=mask).last_hidden_state
            return pool(hidden.float(), mask, self.pooling).cpu().numpy()
