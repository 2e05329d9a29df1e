# SPDX-License-Identifier: Apache-2.0
"""A retriever of LlamaIndex over both models of a migration.

>>> from kedge.migrate.llama_index import FusedRetriever
>>> retriever = FusedRetriever("migrate.toml", k=5)
>>> nodes = retriever.retrieve("lift of a wing in supersonic flow")
"""
from __future__ import annotations

import asyncio
import os
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from .draw import as_text
from .migration import CONFIG
from .text_search import TextSearch


class FusedRetriever(BaseRetriever):
    """The k best documents with their scores; a node has the document's id and text. Options: see TextSearch."""

    def __init__(self, migration: str | os.PathLike[str] = CONFIG, *, k: int = 10, **options: Any) -> None:
        self.k, self.search = k, TextSearch(migration, **options)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(id_=as_text(hit.id), text=hit.text or ""), score=hit.score)
                for hit in self.search(query_bundle.query_str, self.k)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def close(self) -> None:
        """Lets go of the stores."""
        self.search.close()
