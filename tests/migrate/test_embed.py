# SPDX-License-Identifier: Apache-2.0
"""Embedders by name, against a server of our own on loopback; queries and documents; what is paid for."""
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from embedding_server import WIDTH, Server, serve, vector
from kedge import migrate
from kedge.migrate import providers
from kedge.migrate.embed import embedder
from kedge.migrate.text_search import TextSearch
from made_up import ROWS, models, spaces
from steps import begin, facts, run

pytest.importorskip("openai")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve() as started:
        for name in providers.PROVIDERS:
            monkeypatch.setenv(f"{name.upper()}_BASE_URL", address(started))
            monkeypatch.setenv(f"{name.upper()}_API_KEY", f"key of {name}")
        yield started


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


@pytest.mark.parametrize(("name", "path", "kinds"), [
    ("openai", "/v1/embeddings", (None, None)), ("voyage", "/v1/embeddings", ("document", "query")),
    ("cohere", "/v1/embed", ("search_document", "search_query"))])
def test_a_provider_is_asked_in_its_own_words(server: Server, name: str, path: str,
                                              kinds: tuple[str | None, str | None]) -> None:
    texts = ["one", "two", "three"]
    for queries, kind in enumerate(kinds):
        embed = embedder(f"{name}:some-model?dimensions=8", queries=bool(queries))
        np.testing.assert_allclose(embed(texts), [vector(text, kind) for text in texts], rtol=1e-6)
        asked, key, body = server.asked[-1]
        assert (asked, key, body["model"]) == (path, f"Bearer key of {name}", "some-model")
        assert body.get("input_type") == kind and 8 in (body.get("dimensions"), body.get("output_dimension"))
        assert embed.tokens == len("".join(texts))


def test_a_server_of_one_s_own_gets_prefixes_and_no_provider_s_key(server: Server) -> None:
    embed = embedder(f"{address(server)}#e5?prefix=query:%20")
    np.testing.assert_allclose(embed(["wing", "flow"]), [vector("query: wing"), vector("query: flow")], rtol=1e-6)
    assert server.asked[-1][1] == "Bearer none" and server.asked[-1][2]["model"] == "e5"


def test_many_texts_go_in_requests_side_by_side_and_come_back_in_order(server: Server) -> None:
    texts = [f"text {n}" for n in range(300)] + ["x" * 90_000, "y" * 90_000]
    np.testing.assert_allclose(embedder("openai:m")(texts), [vector(text) for text in texts], rtol=1e-6)
    sizes = [len(body["input"]) for _, _, body in server.asked]
    assert sum(sizes) == 302 and max(sizes) == providers.REQUEST_TEXTS
    assert max(len("".join(body["input"])) for _, _, body in server.asked) <= providers.REQUEST_CHARACTERS
    assert 1 < server.most_at_once <= providers.CONCURRENT


def test_a_busy_server_is_asked_again(server: Server) -> None:
    server.busy = 3
    embed = embedder("openai:m")
    assert embed(["one"]).shape == (1, WIDTH) and len(server.asked) == 4
    assert embed.tokens == 3, "an answer of 429 costs nothing"


def test_what_goes_wrong_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(migrate.Error, match="openai:broken failed on 1 texts: BadRequestError.*no such model"):
        embedder("openai:broken")(["one"])
    with pytest.raises(migrate.UsageError, match="colour.*prefix or dimensions"):
        embedder("openai:m?colour=red")
    with pytest.raises(migrate.UsageError, match="name a model"):
        embedder(address(server))
    monkeypatch.delenv("VOYAGE_API_KEY")
    with pytest.raises(migrate.Error, match="VOYAGE_API_KEY is not set"):
        embedder("voyage:m")


def test_tokens_are_counted_and_priced(server: Server, folder: pathlib.Path,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    begin("--embed", "openai:m", "--price", 1000)
    assert run("sample", "--json") == 0
    sampled = facts(capsys)
    # With what plan embedded, to see how long it takes.
    assert sampled["tokens"] == sum(len("".join(body["input"])) for _, _, body in server.asked)
    assert sampled["cost"] == pytest.approx(sampled["tokens"] / 1000)
    assert run("sample") == 0 and f"{sampled['tokens']} tokens so far, which cost" in capsys.readouterr().out
    assert run("plan", "--json") == 0
    planned = facts(capsys)
    assert 1 < planned["tokens_all"] / ROWS < 3
    assert planned["cost_all"] == pytest.approx(planned["tokens_all"] / 1000, rel=.01)


def test_connections_to_a_provider_are_closed(server: Server, folder: pathlib.Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    made, client = [], providers._client

    def kept(*given: Any) -> Any:
        made.append(client(*given))
        return made[-1]
    monkeypatch.setattr(providers, "_client", kept)
    begin("--embed", "openai:m")
    assert run("sample", "-q") == 0
    TextSearch(old_model="openai:old").close()
    assert len(made) == 4 and all(one.is_closed() for one in made)


def test_queries_are_embedded_as_such_and_once(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = spaces()
    models(folder, new, old)
    with open("models.py", "a") as file:
        file.write("def query(texts):\n    return -embed('new_model.npy', texts)\n")
    (folder / "queries.txt").write_text("".join(f"{n}\n" for n in range(30)) * 2)
    begin("--embed", "models:new", "--embed-query", "models:query", "--embed-old", "models:old", "--queries",
          "queries.txt")
    for step in ("sample", "fit"):
        assert run(step, "-q") == 0
    before = (folder / "asked.txt").read_text().split()
    assert run("check", "--json") == 0
    found = facts(capsys)
    asked = (folder / "asked.txt").read_text().split()[len(before):]
    assert asked == [str(n) for n in range(30)] * 2, "each query once by either model"
    # Turned round, the new model's queries find what is farthest.
    assert found["scores"]["old"]["overlap"][0] < .1
    for step in ("check", "apply"):
        assert run(step, "-q") == 0
    assert run("top-up", "-q", "--rows", 5) == 0
    assert len((folder / "asked.txt").read_text().split()) == len(before) + 60 + 5


@pytest.mark.long
def test_a_sentence_transformer_has_its_own_prompts(tmp_path: pathlib.Path) -> None:
    transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", "query", "passage", ":", "wing", "flow"]
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    net = transformers.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=6)], device="cpu",
                                           prompts={"query": "query: ", "document": "passage: "})
    net.save(str(tmp_path / "model"))
    name = f"sentence-transformers:{tmp_path}/model"
    for queries, prompt in ((False, "passage: "), (True, "query: ")):
        np.testing.assert_allclose(embedder(name, queries)(["wing flow"]), net.encode([prompt + "wing flow"]),
                                   rtol=1e-5)
    np.testing.assert_allclose(embedder(f"{name}?prefix=query:%20")(["wing"]), net.encode(["query: wing"]), rtol=1e-5)
    with pytest.raises(migrate.Error, match="cannot be read as a sentence-transformers model"):
        embedder(f"sentence-transformers:{tmp_path}/absent")
