# SPDX-License-Identifier: Apache-2.0
"""Texts: batches with padding give what one text at a time without padding gives."""
import json
import pathlib

import numpy as np
import pytest
import torch
import transformers
from conftest import SENTENCES, Run, make_bert
from kedge.encode import encode
from kedge.encode.pooling import pool

pytestmark = pytest.mark.long

TOLERANCE = 2e-5  # float32 sums in another order; a padding mistake is larger than 1e-2 here


def one_at_a_time(folder: str, texts: list[str], how: str) -> np.ndarray:
    """No batch, no padding, no mask: nothing that could be masked wrongly."""
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    net = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    for text in texts:
        with torch.no_grad():
            hidden = net(input_ids=torch.tensor([tokens(text)["input_ids"]])).last_hidden_state[0]
        rows.append({"last": hidden[-1], "cls": hidden[0], "mean": hidden.mean(0)}[how].numpy())
    return np.stack(rows)


@pytest.mark.parametrize("name, how", [("bert", "cls"), ("camembert", "cls")] + [
    (name, how) for name in ("bert", "camembert", "gpt2", "llama", "gemma") for how in ("last", "mean")])
def test_pooling_is_that_of_single_texts(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path,
                                         name: str, how: str) -> None:
    found = encode(models[name], sentences, tmp_path / "o.npy", pooling=how, batch=7)
    plain = one_at_a_time(models[name], SENTENCES, how)
    assert found.shape == plain.shape and found.dtype == np.float32
    assert np.abs(found - plain).max() < TOLERANCE
    assert np.abs(plain[0] - plain[1]).max() > 0.1  # the check can fail


@pytest.mark.parametrize("how", ["last", "mean", "cls"])
def test_padding_on_either_side_pools_alike(how: str) -> None:
    rng = torch.Generator().manual_seed(0)
    tokens = [torch.randn(length, 5, generator=rng) for length in (1, 4, 6)]
    for left in (False, True):
        hidden, mask = torch.full((3, 6, 5), 99.0), torch.zeros(3, 6, dtype=torch.long)
        for row, found in enumerate(tokens):
            place = slice(6 - len(found), 6) if left else slice(0, len(found))
            hidden[row, place], mask[row, place] = found, 1
        expected = torch.stack([{"last": t[-1], "cls": t[0], "mean": t.mean(0)}[how] for t in tokens])
        assert torch.allclose(pool(hidden, mask, how), expected, atol=1e-6)


def test_pooling_left_to_the_model_is_last_for_causal_ones(models: dict[str, str], sentences: pathlib.Path,
                                                           tmp_path: pathlib.Path) -> None:
    for name, how in (("bert", "mean"), ("gpt2", "last"), ("gemma", "last")):
        encode(models[name], sentences, tmp_path / f"{name}.npy")
        assert json.loads((tmp_path / f"{name}.json").read_text())["details"]["pooling"] == how


def test_sentence_transformers(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path) -> None:
    import sentence_transformers
    found = encode(models["sentence"], sentences, tmp_path / "o.npy", batch=4)
    net = sentence_transformers.SentenceTransformer(models["sentence"], device="cpu")
    assert np.abs(found - np.stack([net.encode(text) for text in SENTENCES])).max() < TOLERANCE
    assert json.loads((tmp_path / "o.json").read_text())["library"] == "sentence-transformers"


def test_long_texts_are_cut_where_the_model_ends(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "long.txt").write_text("the dog " * 400 + "\nthe dog\n")
    assert encode(models["bert"], tmp_path / "long.txt", tmp_path / "a.npy").shape == (2, 16)
    # Of its 24 positions CamemBERT uses 23: it counts from one past the padding's id, which is 0 here.
    encode(models["camembert"], tmp_path / "long.txt", tmp_path / "b.npy")
    assert json.loads((tmp_path / "b.json").read_text())["details"]["max_length"] == 23


def test_max_length(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path, run: Run) -> None:
    short = encode(models["gpt2"], sentences, tmp_path / "a.npy", max_length=2)
    first_two = [" ".join(text.split()[:2]) for text in SENTENCES]
    assert np.abs(short - one_at_a_time(models["gpt2"], first_two, "last")).max() < TOLERANCE
    code, _, err = run("--model", models["gpt2"], "--data", sentences, "-o", tmp_path / "b.npy", "--max-length", 65)
    assert code == 2 and "at most 64 tokens" in err


def test_jsonl_csv_and_txt_are_the_same_texts(models: dict[str, str], sentences: pathlib.Path,
                                              tmp_path: pathlib.Path) -> None:
    plain = encode(models["bert"], sentences, tmp_path / "a.npy")
    rows = [{"review": text, "stars": n % 3} for n, text in enumerate(SENTENCES)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "d.csv").write_text("review,stars\r\n" + "".join(f'"{r["review"]}",{r["stars"]}\r\n' for r in rows))
    for name in ("d.jsonl", "d.csv"):
        out = tmp_path / f"{name}.npy"
        assert np.array_equal(plain, encode(models["bert"], tmp_path / name, out, field="review", label_field="stars"))
        labels = np.load(out.with_suffix(".labels.npy"))
        assert labels.dtype == np.int64 and labels.tolist() == [n % 3 for n in range(len(rows))]
        assert out.with_suffix(".ids.txt").read_text().split() == [str(n + 1) for n in range(len(rows))]
        assert not out.with_suffix(".labels.txt").exists()


def test_labels_by_name_are_numbered_sorted(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "d.csv").write_text("text,mood\nthe dog,sad\na cat,glad\nbird,sad\n")
    encode(models["bert"], tmp_path / "d.csv", tmp_path / "o.npy", label_field="mood")
    assert np.load(tmp_path / "o.labels.npy").tolist() == [1, 0, 1]
    assert (tmp_path / "o.labels.txt").read_text() == "glad\nsad\n"


def test_rows_are_cut_with_ids_and_float16_is_the_rounded_float32(models: dict[str, str], sentences: pathlib.Path,
                                                                  tmp_path: pathlib.Path) -> None:
    whole = encode(models["bert"], sentences, tmp_path / "a.npy")
    part = encode(models["bert"], sentences, tmp_path / "b.npy", rows="20:25", precision="float16")
    assert part.dtype == np.float16 and np.abs(part - whole[20:25]).max() < 5e-3
    assert (tmp_path / "b.ids.txt").read_text().split() == ["21", "22", "23", "24", "25"]


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: pathlib.Path, sentences: pathlib.Path, run: Run) -> None:
    import safetensors.torch
    folder = make_bert(tmp_path / "holes")
    path = tmp_path / "holes" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    weights.pop("bert.encoder.layer.1.attention.self.query.weight")
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
    code, _, err = run("--model", folder, "--data", sentences, "-o", tmp_path / "o.npy")
    assert code == 1 and "query.weight" in err and "random" in err
