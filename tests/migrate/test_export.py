# SPDX-License-Identifier: Apache-2.0
"""A map inside a FAISS index, inside a sentence-transformers model, and as ONNX."""
import json
import os
import pathlib
import warnings
from typing import Any, Literal

import faiss
import kedge
import numpy as np
import pytest
from contract import unit_rows
from kedge import Translator
from kedge.migrate import Error, UsageError
from kedge.migrate.export import faiss_pre_transform, sentence_transformers_folder
from require import require_near

os.environ["HF_HUB_OFFLINE"] = "1"

OLD, NEW = 12, 16
WORDS = ["the", "a", "dog", "cat", "bird", "sat", "on", "mat", "ran", "far", "away", "and", "then", "slept", "under",
         "old", "tree", "near", "river"]
TEXTS = [" ".join(WORDS[(n * step) % len(WORDS)] for n in range(1, 7)) for step in range(1, 40)]


@pytest.fixture(scope="module")
def spaces() -> dict[str, np.ndarray]:
    hidden = np.random.default_rng(0).standard_normal((400, 10)).astype(np.float32)
    mix = np.random.default_rng(1).standard_normal((10, OLD + NEW)).astype(np.float32)
    rows = hidden @ mix + 0.1 * np.random.default_rng(2).standard_normal((400, OLD + NEW)).astype(np.float32) + 0.3
    return {"old": rows[:, :OLD], "new": rows[:, OLD:]}


@pytest.fixture(scope="module")
def translator(spaces: dict[str, np.ndarray]) -> Translator:
    return kedge.fit(spaces, method="ridge").translator("new", "old")


def steps_of(index: Any) -> int:
    """FAISS calls the steps a list, but gives a vector of C++."""
    return int(index.chain.size())


@pytest.mark.parametrize("words", ["Flat", "IDMap,Flat", "IVF4,Flat", "HNSW8,Flat", "IDMap2,PQ4x4np", "PCA8,Flat"])
@pytest.mark.parametrize("metric", [faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2])
def test_an_index_answers_queries_of_the_new_model(words: str, metric: int, spaces: dict[str, np.ndarray],
                                                   translator: Translator, tmp_path: pathlib.Path) -> None:
    inner = faiss.index_factory(OLD, words, metric)
    inner.train(spaces["old"])
    ids = np.arange(len(spaces["old"])) + (1000 if "IDMap" in words else 0)
    inner.add_with_ids(spaces["old"], ids) if "IDMap" in words else inner.add(spaces["old"])
    before = faiss.serialize_index(inner).tobytes()
    mapped_index = faiss_pre_transform(translator, inner)
    assert (mapped_index.d, mapped_index.ntotal) == (NEW, 400) and faiss.serialize_index(inner).tobytes() == before
    queries = spaces["new"][:20]
    expected = inner.search(translator.transform(queries), 5)
    faiss.write_index(mapped_index, str(tmp_path / "made.index"))
    for index in (mapped_index, faiss.read_index(str(tmp_path / "made.index"))):
        scores, found = index.search(queries, 5)
        assert (found == expected[1]).mean() > 0.97  # sums in another order may swap equals
        np.testing.assert_allclose(scores, expected[0], rtol=1e-3, atol=1e-3)


def test_what_is_added_later_is_mapped_too(spaces: dict[str, np.ndarray], translator: Translator) -> None:
    index = faiss_pre_transform(translator, faiss.IndexFlatL2(OLD))
    index.add(spaces["new"][:50])
    inner = faiss.downcast_index(index.index)
    require_near(inner.reconstruct_n(0, 50), translator.transform(spaces["new"][:50]), 1e-4)


def test_queries_get_length_1_where_the_rows_have_it(spaces: dict[str, np.ndarray], translator: Translator) -> None:
    rows = unit_rows(100, OLD)
    products, distances = faiss.IndexFlatIP(OLD), faiss.IndexFlatL2(OLD)
    for index in (products, distances):
        index.add(rows)
    mapped = translator.transform(spaces["new"][:9], normalize=True)
    best = faiss_pre_transform(translator, products).search(spaces["new"][:9], 1)[0]
    require_near(best[:, 0], (mapped @ rows.T).max(axis=1), 1e-4)
    assert steps_of(faiss_pre_transform(translator, distances)) == 1
    assert steps_of(faiss_pre_transform(translator, distances, normalize=True)) == 2
    assert steps_of(faiss_pre_transform(translator, products, normalize=False)) == 1


@pytest.mark.long
def test_what_does_not_fit_is_refused(spaces: dict[str, np.ndarray], translator: Translator,
                                      tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="12 values, but the index holds vectors of 16"):
        faiss_pre_transform(translator, faiss.IndexFlatL2(NEW))
    curved = kedge.fit(spaces, method="kernel").translator("new", "old")
    assert curved.kernel is not None
    with pytest.raises(UsageError, match="method=\"ridge\""):
        faiss_pre_transform(curved, faiss.IndexFlatL2(OLD))
    with pytest.raises(UsageError, match="a Dense module holds only"):
        sentence_transformers_folder(curved, "nothing", tmp_path / "out")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A tiny model of 16 values with a Normalize module, made here."""
    torch, transformers, sentence = (pytest.importorskip(name) for name in
                                     ("torch", "transformers", "sentence_transformers"))
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("model")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(special + WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]",
                                         model_max_length=64).save_pretrained(folder / "bert")
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(special + WORDS), hidden_size=NEW, num_hidden_layers=1,
                                     num_attention_heads=2, intermediate_size=32, initializer_range=0.3)
    transformers.BertModel(config).eval().save_pretrained(folder / "bert")
    net = sentence.SentenceTransformer(modules=[Transformer(str(folder / "bert")), Pooling(NEW, "mean"), Normalize()],
                                       device="cpu", prompts={"query": "the "}, default_prompt_name=None)
    net.save(str(folder / "sentence"), create_model_card=False)
    return folder / "sentence"


def encode(folder: pathlib.Path, **options: Any) -> Any:
    import sentence_transformers

    return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS, **options)


@pytest.mark.long
def test_a_folder_gives_translated_vectors(model: pathlib.Path, translator: Translator, tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="Normalize module before the map"):
        sentence_transformers_folder(translator, model, tmp_path / "out")
    expected = translator.transform(encode(model, prompt_name="query"), normalize=True)
    require_near(encode(tmp_path / "out", prompt_name="query"), expected)
    with pytest.raises(Error, match="exists"):
        sentence_transformers_folder(translator, model, tmp_path / "out")
    sentence_transformers_folder(translator, model, tmp_path / "long", normalize=False, pooled=True)
    assert not np.allclose(np.linalg.norm(encode(tmp_path / "long"), axis=1), 1)


@pytest.mark.long
def test_a_folder_without_a_normalize_before_the_map_warns_of_nothing(model: pathlib.Path, translator: Translator,
                                                                      tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        sentence_transformers_folder(translator, model, tmp_path / "out", pooled=True)
    pooled = encode(model, output_value=None)
    pooled = np.array([np.asarray(row["token_embeddings"])[np.asarray(row["attention_mask"]) == 1].mean(axis=0)
                       for row in pooled])
    require_near(encode(tmp_path / "out"), translator.transform(pooled, normalize=True))


@pytest.mark.long
def test_a_folder_is_what_text_embeddings_inference_reads(model: pathlib.Path, translator: Translator,
                                                          tmp_path: pathlib.Path) -> None:
    """Its names for modules, an Identity, and weights under the names of torch's Linear."""
    safetensors = pytest.importorskip("safetensors.numpy")
    sentence_transformers_folder(translator, model, tmp_path / "out", pooled=True)
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [module["type"] for module in modules] == [f"sentence_transformers.models.{name}" for name in
                                                      ("Transformer", "Pooling", "Dense", "Normalize")]
    dense = tmp_path / "out" / modules[2]["path"]
    config = json.loads((dense / "config.json").read_text())
    assert config["activation_function"] == "torch.nn.modules.linear.Identity"
    assert (config["in_features"], config["out_features"], config["bias"]) == (NEW, OLD, True)
    weights = safetensors.load_file(dense / "model.safetensors")
    assert (weights["linear.weight"] == translator.weight).all() and (weights["linear.bias"] == translator.bias).all()


@pytest.mark.long
def test_a_model_of_another_width_is_refused(model: pathlib.Path, spaces: dict[str, np.ndarray],
                                             tmp_path: pathlib.Path) -> None:
    backward = kedge.fit(spaces, method="ridge").translator("old", "new")
    with pytest.raises(UsageError, match="takes vectors of 12 values, but the model gives 16"):
        sentence_transformers_folder(backward, model, tmp_path / "out", pooled=True)
    with pytest.raises(Error, match="cannot be read as a sentence-transformers model"):
        sentence_transformers_folder(backward, tmp_path / "nothing", tmp_path / "out")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("method", ["ridge", "kernel"])
def test_onnx_takes_maps_with_and_without_a_kernel(method: Literal["ridge", "kernel"], spaces: dict[str, np.ndarray],
                                                   tmp_path: pathlib.Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    translator = kedge.fit(spaces, method=method).translator("new", "old")
    assert (translator.kernel is None) == (method == "ridge")
    translator.to_onnx(tmp_path / "map.onnx", normalize=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "map.onnx"), providers=["CPUExecutionProvider"])
    found, = session.run(["y"], {"x": spaces["new"][:30]})
    require_near(found, translator.transform(spaces["new"][:30], normalize=True))


@pytest.mark.long
def test_a_migration_embeds_with_a_model_that_kedge_encode_knows(model: pathlib.Path) -> None:
    from kedge.migrate import Error
    from kedge.migrate.embed import embedder
    from sentence_transformers import SentenceTransformer

    texts = ["a river", "a bank", "the river bank"]
    require_near(embedder(str(model))(texts), SentenceTransformer(str(model)).encode(texts), 1e-6)
    with pytest.raises(Error, match="no model|no such folder"):
        embedder(str(model / "missing"))
