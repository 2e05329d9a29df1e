# SPDX-License-Identifier: Apache-2.0
"""A retriever of LangChain over both models of a migration.

>>> from kedge.migrate.langchain import FusedRetriever
>>> retriever = FusedRetriever("migrate.toml", k=5)
>>> documents = retriever.invoke("lift of a wing in supersonic flow")
"""
from __future__ import annotations

import asyncio
import os
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from .draw import as_text
from .migration import CONFIG
from .text_search import TextSearch


class FusedRetriever(BaseRetriever):
    """The k best documents; each has its text, and its id and score in the metadata. Options: see TextSearch."""
    k: int = 10
    _search: TextSearch = PrivateAttr()

    def __init__(self, migration: str | os.PathLike[str] = CONFIG, *, k: int = 10, **options: Any) -> None:
        super().__init__()
        self.k = k
        self._search = TextSearch(migration, **options)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._found(query)

    async def _aget_relevant_documents(self, query: str, *,
                                       run_manager: AsyncCallbackManagerForRetrieverRun) -> list[Document]:
        return await asyncio.to_thread(self._found, query)

    def _found(self, query: str) -> list[Document]:
        return [Document(id=as_text(hit.id), page_content=hit.text or "", metadata={"id": hit.id, "score": hit.score})
                for hit in self._search(query, self.k)]

    def close(self) -> None:
        """Lets go of the stores."""
        self._search.close()
