# SPDX-License-Identifier: Apache-2.0
"""Embeddings from a provider's API, or from a server of one's own that speaks as OpenAI's does.

All of them are asked through OpenAI's client: it waits and tries again if a server is busy (429), as long as the server
asks for, or fails (5xx), and keeps connections. Cohere's own API is asked with the same client, because the one it
offers for OpenAI's clients does not tell queries from documents.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._errors import Error, UsageError
from .._extras import what_is_missing
from .types import Floats

REQUEST_TEXTS = 32
REQUEST_CHARACTERS = 100_000  # providers take so many tokens in a request, and one has a character at least
CONCURRENT = 4
OWN_KEY = "EMBED_API_KEY"  # of a server of one's own, which must not be sent the key of a provider
RETRIES = 8  # with pauses that grow to 8 s, or of the length that the server asks for


@dataclasses.dataclass(frozen=True)
class Provider:
    """Where it is, the variables that hold its key, how it tells documents from queries, and its word for a width."""
    address: str
    keys: tuple[str, ...]
    kinds: tuple[str, str] | None = None
    dimensions: str = "dimensions"


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "voyage": Provider("https://api.voyageai.com/v1", ("VOYAGE_API_KEY",), ("document", "query"), "output_dimension"),
    "cohere": Provider("https://api.cohere.com/v2", ("COHERE_API_KEY", "CO_API_KEY"),
                       ("search_document", "search_query"), "output_dimension"),
}


class Remote:
    """A function from texts to vectors that asks a server; 'tokens' is how many it has been charged for."""

    def __init__(self, name: str, place: str, options: Mapping[str, str], queries: bool) -> None:
        for option in options:
            if option not in ("prefix", "dimensions"):
                raise UsageError(f"{name}: {option!r} means nothing here; behind the ? may be prefix or dimensions")
        self.prefix, self.tokens, self._guard = options.get("prefix", ""), 0, threading.Lock()
        scheme, _, model = place.partition(":")
        provider = PROVIDERS.get(scheme)
        if provider is None:
            address, _, model = place.partition("#")
            provider = Provider(address, (OWN_KEY,))
        elif os.environ.get(f"{scheme.upper()}_BASE_URL"):  # a proxy
            provider = dataclasses.replace(provider, address=os.environ[f"{scheme.upper()}_BASE_URL"])
        if not model:
            raise UsageError(f"{name}: name a model, such as {scheme}:MODEL or http://host:port/v1#MODEL")
        self.model, self.cohere = model, scheme == "cohere"
        self.more: dict[str, Any] = {} if provider.kinds is None else {"input_type": provider.kinds[queries]}
        if "dimensions" in options:
            if not options["dimensions"].isdecimal():
                raise UsageError(f"{name}: dimensions must be a whole number, found {options['dimensions']!r}")
            self.more[provider.dimensions] = int(options["dimensions"])
        self._client = _client(name, provider)
        self._pool = concurrent.futures.ThreadPoolExecutor(CONCURRENT)

    def __call__(self, texts: list[str]) -> Floats:
        """A row for each text, in order; as many requests at a time as CONCURRENT says."""
        asked = [self._pool.submit(self._request, some) for some in _requests([self.prefix + text for text in texts])]
        try:
            return np.concatenate([one.result() for one in asked])
        finally:
            for one in asked:  # after an error nobody waits for the others
                one.cancel()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _request(self, texts: list[str]) -> Floats:
        if self.cohere:
            body = {"model": self.model, "texts": texts, "embedding_types": ["float"], **self.more}
            answer: Any = self._client.post("/embed", body=body, cast_to=object)
            rows = answer["embeddings"]["float"]
            tokens = answer.get("meta", {}).get("billed_units", {}).get("input_tokens", 0)
        else:
            made = self._client.embeddings.create(model=self.model, input=texts, extra_body=self.more)
            rows = [one.embedding for one in sorted(made.data, key=lambda one: int(one.index))]
            tokens = made.usage.total_tokens if made.usage else 0
        with self._guard:
            self.tokens += int(tokens)
        return np.asarray(rows, np.float32)


def _client(name: str, provider: Provider) -> Any:
    try:
        import openai
    except ImportError as error:
        raise Error(f"{name}: {what_is_missing(error, 'openai')}") from None
    key = next((os.environ[variable] for variable in provider.keys if os.environ.get(variable)), None)
    if key is None and OWN_KEY not in provider.keys:
        raise Error(f"{name}: the variable {provider.keys[0]} is not set; it should hold the key of the API")
    # A server of one's own seldom wants a key, but the client does.
    return openai.OpenAI(api_key=key or "none", base_url=provider.address, max_retries=RETRIES)


def _requests(texts: list[str]) -> Iterator[list[str]]:
    """The texts in portions that a request may have."""
    some: list[str] = []
    characters = 0
    for text in texts:
        if some and (len(some) == REQUEST_TEXTS or characters + len(text) > REQUEST_CHARACTERS):
            yield some
            some, characters = [], 0
        some.append(text)
        characters += len(text)
    if some:
        yield some
