# SPDX-License-Identifier: Apache-2.0
"""Search by text over both models, by itself and as retrievers of LangChain and LlamaIndex."""
import asyncio
import concurrent.futures
import pathlib
from typing import Any

import pytest
from kedge import migrate
from kedge.migrate.text_search import TextSearch
from made_up import models, spaces
from steps import run, until


@pytest.fixture
def applied(folder: pathlib.Path) -> list[int]:
    """A migration that is applied, and what a fused search for document 7 finds."""
    old, new = spaces()
    models(folder, new, old)
    until("apply", "--embed-old", "models:old")
    ids, _ = migrate.search("migrate.toml", old[7], new[7], k=4)
    return list(ids)


def test_a_text_is_searched_by_both_models(folder: pathlib.Path, applied: list[int]) -> None:
    search = TextSearch()
    hits = search("7", 4)
    assert [hit.id for hit in hits] == applied and [hit.text for hit in hits] == [str(key) for key in applied]
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(found == hits for found in pool.map(lambda _: search("7", 4), range(8)))
    assert run("verify", "-q") == 0 and run("cutover", "-q", "--yes") == 0
    assert search("7", 4) == hits, "a search that is open finds the places after a cutover"
    search.close()
    heavy = TextSearch(weights=(0, 1))
    assert [hit.id for hit in heavy("7", 4)] == migrate.search("migrate.toml", None, spaces()[1][7], k=4)[0]
    heavy.close()


def test_a_model_may_be_a_function_or_be_missing(folder: pathlib.Path) -> None:
    old, new = spaces()
    until("apply")
    with pytest.raises(migrate.UsageError, match="old model.*old_model.*gone"):
        TextSearch()
    search = TextSearch(old_model=lambda texts: old[[int(text) for text in texts]])
    assert [hit.id for hit in search("7", 4)] == migrate.search("migrate.toml", old[7], new[7], k=4)[0]
    search.close()


@pytest.mark.long
@pytest.mark.parametrize("library", ["langchain", "llama_index"])
def test_a_retriever_gives_what_the_search_finds(library: str, folder: pathlib.Path, applied: list[int]) -> None:
    pytest.importorskip("langchain_core" if library == "langchain" else "llama_index.core")
    if library == "langchain":
        from kedge.migrate.langchain import FusedRetriever as ForLangChain

        chain = ForLangChain(k=4)
        found: list[Any] = chain.invoke("7")
        later: list[Any] = asyncio.run(chain.ainvoke("7"))
        assert [(one.metadata["id"], one.page_content) for one in found] == [(key, str(key)) for key in applied]
        assert found[0].metadata["score"] > found[-1].metadata["score"] and found == later
        chain.close()
    else:
        from kedge.migrate.llama_index import FusedRetriever as ForLlamaIndex

        index = ForLlamaIndex(k=4)
        found = index.retrieve("7")
        later = list(asyncio.run(index.aretrieve("7")))
        assert [(one.node_id, one.text) for one in found] == [(str(key), str(key)) for key in applied]
        scores = [float(one.score or 0) for one in found]
        assert scores == [one.score for one in later] == sorted(scores, reverse=True)
        index.close()
