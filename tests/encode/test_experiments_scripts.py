# SPDX-License-Identifier: Apache-2.0
"""experiments/run from names to report, with tiny models in place of the paper's. KEDGE names the kedge program."""
import json
import pathlib
import sys

import numpy as np
import pytest
from conftest import ROOT, SENTENCES, SMALL, Script, needs_kedge, save, write_cifar100

pytestmark = pytest.mark.long

@pytest.fixture
def fake_kedge(tmp_path: pathlib.Path) -> pathlib.Path:
    """Says what it was asked, and where."""
    path = tmp_path / "kedge"
    path.write_text('#!/bin/sh\npwd\necho "$@"\nls embeddings/*\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def cifar(tmp_path: pathlib.Path) -> pathlib.Path:
    write_cifar100(tmp_path / "cifar-100-python", train=420, test=10)
    return tmp_path / "cifar-100-python"


def some_sentences(path: pathlib.Path) -> pathlib.Path:
    rng = np.random.default_rng(0)
    words = sorted({word for text in SENTENCES for word in text.split()})
    path.write_text("".join(" ".join(rng.choice(words, 8)) + "\n" for _ in range(400)))
    return path


@needs_kedge
def test_slm_paper_to_the_report(script: Script, models: dict[str, str], tmp_path: pathlib.Path) -> None:
    done = script("slm_paper", "--quick", "--work", tmp_path / "work",
                  "--sentences", some_sentences(tmp_path / "s.txt"),
                  "--model", f"tinyllama={models['llama']}", "--model", f"gpt2={models['gpt2']}",
                  "--model", f"gpt2-medium={models['bert']}", "--model", f"gemma={models['gemma']}",
                  "--encode", "--threads 2", "--", "--no-report", "--threads", 2)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "work" / "out" / "slm_paper"
    assert (out / "tables.md").is_file()
    text = (out / "results.json").read_text()
    assert all(name in text for name in ("TinyLlama", "gpt2-med", "gemma-3-1b", "param-multi", "consensus"))
    assert np.load(tmp_path / "work" / "embeddings" / "slm" / "TinyLlama.npy").shape == (400, 16)


@needs_kedge
def test_cifar100_to_the_report(script: Script, models: dict[str, str], cifar: pathlib.Path,
                                tmp_path: pathlib.Path) -> None:
    replaced = [word for name in ("vit-s", "rexnet", "vit-b", "vit-r50")
                for word in ("--model", f"{name}={models['timm']}")]
    done = script("cifar100", "support_size", "--quick", "--work", tmp_path / "work", "--cifar", cifar, *replaced,
                  "--encode", "--threads 2", "--", "--no-report", "--threads", 2)
    assert done.returncode == 0, done.stderr
    # The second figure takes the embeddings of the table.
    assert done.stderr.count("already exists, made by the same command") == 4
    for table in ("cifar100", "support_size"):
        assert json.loads((tmp_path / "work" / "out" / table / "results.json").read_text())
    labels = np.load(tmp_path / "work" / "embeddings" / "cifar100" / "labels_coarse.npy")
    assert labels.tolist() == [row % 20 for row in range(400)]


def test_marc_takes_parallel_files_and_refuses_others(script: Script, models: dict[str, str], tmp_path: pathlib.Path,
                                                      fake_kedge: pathlib.Path) -> None:
    languages = ["de", "en", "es", "fr", "zh"]
    (tmp_path / "marc").mkdir()
    for language in languages:
        (tmp_path / "marc" / f"{language}.jsonl").write_text("".join(
            json.dumps({"text": text, "label": number % 2}) + "\n" for number, text in enumerate(SENTENCES)))
    words = ["marc", "--work", tmp_path / "work", "--marc", tmp_path / "marc", "--encode", "--quiet --threads 1"]
    words += [word for language in languages for word in ("--model", f"bert-{language}={models['bert']}")]
    done = script(*words, "--", "--seeds", "2", kedge=fake_kedge)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == str(tmp_path / "work") and said[1] == f"stitch --config {ROOT}/experiments/marc.toml --seeds 2"
    assert {"labels.npy", *(f"{language}.npy" for language in languages)} <= set(said)
    path = tmp_path / "marc" / "de.jsonl"
    path.write_text(path.read_text().replace('"label": 1', '"label": 0', 1))
    done = script(*words, kedge=fake_kedge)
    assert done.returncode == 3 and "not translations of each other" in done.stderr


def test_wrong_words_are_sentences(script: Script, fake_kedge: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for words, says in (([], "name a table"), (["cifar10"], "neither a table"), (["cifar100"], "--cifar FOLDER"),
                        (["marc"], "translate.py"), (["cifar100", "--model", "vit-s"], "PRESET=MODEL")):
        done = script(*words, kedge=fake_kedge)
        assert done.returncode == 2 and says in done.stderr, done.stderr
    assert script("slm_paper", kedge=tmp_path / "absent").returncode == 1


def test_what_the_script_embeds_is_what_the_tables_read() -> None:
    """Every file of every .toml is one that the script writes, under that name."""
    import tomllib
    text = (ROOT / "experiments" / "run").read_text()
    for table in ("cifar100", "ablation_single_multi", "ablation_anchors", "support_size", "marc", "slm_paper",
                  "captions", "captions_best", "captions_support", "captions_anchors"):
        config = tomllib.loads((ROOT / "experiments" / f"{table}.toml").read_text())
        for space in config["space"]:
            path = pathlib.Path(space.split("=")[1])
            listed = table == "marc" or table.startswith("captions")  # there the script goes through languages
            assert f"={path.stem}" in text or (listed and f" {path.stem} " in text.replace(";", " ")), space


def test_translations_continue_after_an_interrupt(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tiny random translator: what it says is nonsense, but row n stays row n."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("translate", ROOT / "experiments" / "marc" / "translate.py")
    assert spec and spec.loader
    translate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(translate)
    transformers = pytest.importorskip("transformers")
    config = transformers.BartConfig(vocab_size=SMALL["vocab_size"], d_model=16, encoder_layers=1, decoder_layers=1,
                                     encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
                                     decoder_ffn_dim=16, max_position_embeddings=64, pad_token_id=0, bos_token_id=2,
                                     eos_token_id=3, decoder_start_token_id=2, forced_eos_token_id=3)
    model = save(tmp_path / "bart", config, transformers.BartForConditionalGeneration)
    rows = [{"review_body": f"{text}\n again", "stars": 1 + number % 5} for number, text in enumerate(SENTENCES)]
    (tmp_path / "r.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["translate.py", "--train", tmp_path / "r.json", "--test", tmp_path / "r.json", "--out", tmp_path / "out",
               "--train-rows", "10", "--test-rows", "6", "--batch", "4", "--max-length", "12"]
    command += [word for language in ("de", "es", "fr", "zh") for word in ("--model", f"{language}={model}")]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    translate.main()
    english = [json.loads(line) for line in (tmp_path / "out" / "en.jsonl").read_text().splitlines()]
    assert len(english) == 16 and {row["label"] for row in english} == {0, 1} and "\n" not in english[0]["text"]
    whole = (tmp_path / "out" / "de.jsonl").read_bytes()
    assert [json.loads(line)["label"] for line in whole.splitlines()] == [row["label"] for row in english]
    (tmp_path / "out" / "de.jsonl").unlink()
    (tmp_path / "out" / "de.jsonl.partial").write_bytes(b"".join(whole.splitlines(True)[:8]) + b'{"text": "hal')
    translate.main()
    assert (tmp_path / "out" / "de.jsonl").read_bytes() == whole
    (tmp_path / "r.json").write_text((tmp_path / "r.json").read_text().replace("dog", "cat"))
    with pytest.raises(SystemExit, match="other reviews"):  # their translations would not be parallel
        translate.main()
