# SPDX-License-Identifier: Apache-2.0
"""Tiny models of every kind, made on the spot and saved as their libraries save them; images and files by hand."""
from __future__ import annotations

import os
import pathlib
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
try:
    import sentence_transformers  # noqa: F401
    import timm  # noqa: F401
    import torch
    import transformers
except ImportError as error:
    pytest.exit(f"the tests of kedge-encode need {error.name}, which is not installed; pip install '.[encode]'")

from kedge.encode.__main__ import main  # noqa: E402

if TYPE_CHECKING:
    from PIL import Image

torch.set_num_threads(2)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

WORDS = ["the", "a", "dog", "cat", "bird", "sat", "on", "mat", "ran", "far", "away", "and", "then", "slept", "under",
         "old", "tree", "near", "river"]
SENTENCES = ["the dog sat", "a cat", "bird", "the old dog ran far away and then slept under the tree near the river",
             "a bird sat on the old mat", "cat and dog", "then the cat ran", "far far away", "the mat",
             "a dog and a cat and a bird sat on the mat under the tree"] * 3
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

KEDGE = os.environ.get("KEDGE", "")
needs_kedge = pytest.mark.skipif(not pathlib.Path(KEDGE).is_file(), reason="KEDGE does not name a kedge program")
Run = Callable[..., tuple[Any, str, str]]  # of words: exit code, stdout, stderr
Script = Callable[..., subprocess.CompletedProcess[str]]


def tokenizer(folder: pathlib.Path, wrap: str | None = None, pad: bool = True, side: str = "right",
              limit: int | None = 64) -> None:
    """One token per word; 'wrap' adds tokens as BERT ('[CLS] $A [SEP]') or Llama ('[CLS] $A') do."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    words.normalizer = normalizers.Replace("~", "")  # so that a text can have no token
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    if wrap:
        words.post_processor = processors.TemplateProcessing(single=wrap, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"unk_token": "[UNK]", "eos_token": "[SEP]", **({"pad_token": "[PAD]"} if pad else {})}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, padding_side=side, model_max_length=limit,
                                         **names).save_pretrained(folder)


def save(folder: pathlib.Path, config: transformers.PretrainedConfig, kind: Any, **tokens: Any) -> str:
    """A model with random weights, larger than usual so that mistakes show."""
    torch.manual_seed(0)
    config.initializer_range = 0.3
    kind(config).eval().save_pretrained(folder)
    tokenizer(folder, **tokens)
    return str(folder)


SMALL: dict[str, Any] = {
    "vocab_size": len(SPECIAL + WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 64}


def make_bert(folder: pathlib.Path) -> str:
    return save(folder, transformers.BertConfig(**SMALL), transformers.BertForMaskedLM, wrap="[CLS] $A [SEP]")


def make_camembert(folder: pathlib.Path) -> str:
    config = transformers.CamembertConfig(**{**SMALL, "max_position_embeddings": 24}, pad_token_id=0, bos_token_id=2,
                                          eos_token_id=3)
    return save(folder, config, transformers.CamembertModel, wrap="[CLS] $A [SEP]", limit=None)


def make_gpt2(folder: pathlib.Path) -> str:
    config = transformers.GPT2Config(vocab_size=SMALL["vocab_size"], n_embd=16, n_layer=2, n_head=2, n_positions=64,
                                     bos_token_id=2, eos_token_id=3)
    return save(folder, config, transformers.GPT2LMHeadModel, pad=False)


def make_llama(folder: pathlib.Path) -> str:
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, bos_token_id=2, eos_token_id=3)
    return save(folder, config, transformers.LlamaForCausalLM, wrap="[CLS] $A", pad=False, side="left")


def make_gemma(folder: pathlib.Path) -> str:
    config = transformers.Gemma3TextConfig(**SMALL, num_key_value_heads=1, head_dim=8, sliding_window=4, pad_token_id=0,
                                           layer_types=["sliding_attention", "full_attention"], bos_token_id=2,
                                           eos_token_id=3)
    return save(folder, config, transformers.Gemma3ForCausalLM, wrap="[CLS] $A", side="left")


def make_timm(folder: pathlib.Path) -> str:
    import json

    import timm
    from timm.models import _hub
    torch.manual_seed(0)
    size: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
    net = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=10, **size)
    _hub.save_for_hf(net, str(folder), model_args=size)
    config = json.loads((folder / "config.json").read_text())
    config["pretrained_cfg"]["input_size"] = [3, 32, 32]
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def make_sentence(folder: pathlib.Path, bert: str) -> str:
    import sentence_transformers
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    words = Transformer(bert)
    net = sentence_transformers.SentenceTransformer(modules=[words, Pooling(16, "mean")], device="cpu")
    net.save(str(folder))
    return str(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("models")
    found = {make.__name__[5:]: make(base / make.__name__[5:])
             for make in (make_bert, make_camembert, make_gpt2, make_llama, make_gemma, make_timm)}
    found["sentence"] = make_sentence(base / "sentence", found["bert"])
    return found


@pytest.fixture
def sentences(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES) + "\n")
    return path


def noise(seed: int, side: int = 40) -> Image.Image:
    from PIL import Image
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


@pytest.fixture
def pictures(tmp_path: pathlib.Path) -> pathlib.Path:
    """Three classes; one image lies deeper, one is greyscale, and one file is not an image."""
    base = tmp_path / "pictures"
    for number, name in enumerate(["cat/2.png", "cat/10.png", "ant/x.jpg", "bee/deep/y.PNG", "bee/z.bmp"]):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (noise(number).convert("L") if number == 4 else noise(number)).save(base / name)
    (base / "cat" / "notes.txt").write_text("no image")
    return base


def write_cifar100(folder: pathlib.Path, train: int = 12, test: int = 6) -> dict[str, dict[bytes, Any]]:
    """As the authors' files: protocol 2, keys as bytes."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    batches = {}
    for name, rows in (("train", train), ("test", test)):
        batches[name] = {b"data": rng.integers(0, 256, (rows, 3072), dtype=np.uint8),
                      b"fine_labels": [int(v) for v in rng.integers(0, 100, rows)],
                      b"coarse_labels": [row % 20 for row in range(rows)],
                      b"filenames": [b"x.png"] * rows, b"batch_label": b"one"}
        (folder / name).write_bytes(pickle.dumps(batches[name], protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [b"f%d" % n for n in range(100)],
                                                b"coarse_label_names": [b"c%d" % n for n in range(20)]}, protocol=2))
    return batches


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: exit code, stdout, stderr."""
    def call(*argv: object) -> tuple[Any, str, str]:
        try:
            code: str | int | None = main([str(word) for word in argv])
        except SystemExit as ended:  # argparse
            code = ended.code
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err
    return call


@pytest.fixture(scope="session")
def warm_encode(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A kedge-encode for scripts that lets this process do the work: importing torch anew each time takes seconds."""
    import contextlib
    import io
    import threading
    from multiprocessing.connection import Listener
    folder = tmp_path_factory.mktemp("warm")
    (folder / "client.py").write_text(
        "import sys\nfrom multiprocessing.connection import Client\nserver = Client(sys.argv[1])\n"
        "server.send(sys.argv[2:])\ncode, out, err = server.recv()\nsys.stdout.write(out)\nsys.stderr.write(err)\n"
        "sys.exit(code)\n")
    listener = Listener(str(folder / "socket"))

    def serve() -> None:
        while True:
            with listener.accept() as client, io.StringIO() as out, io.StringIO() as err:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    try:
                        code: str | int | None = main(client.recv())
                    except SystemExit as ended:
                        code = ended.code
                client.send((code, out.getvalue(), err.getvalue()))
    threading.Thread(target=serve, daemon=True).start()
    return f"{sys.executable} {folder / 'client.py'} {folder / 'socket'}"


@pytest.fixture
def script(warm_encode: str) -> Script:
    def call(*argv: object, kedge: str | pathlib.Path = KEDGE) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "KEDGE": str(kedge), "KEDGE_ENCODE": warm_encode}
        return subprocess.run([ROOT / "experiments" / "run", *map(str, argv)], capture_output=True, text=True,
                              timeout=1800, env=env)
    return call


def python(*argv: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Another Python, for what depends on what is imported."""
    return subprocess.run([sys.executable, *map(str, argv)], capture_output=True, text=True, timeout=1200,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1", **env})
