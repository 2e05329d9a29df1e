# SPDX-License-Identifier: Apache-2.0
"""Images: folders, CIFAR and idx files, each against a plain loop over single images."""
import gzip
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import timm
import torch
from conftest import idx_bytes, noise, write_cifar100
from kedge.encode import BadFile, encode
from kedge.encode.presets import PRESETS, resolve
from PIL import Image
from timm.data.config import resolve_model_data_config
from timm.data.transforms_factory import create_transform

pytestmark = pytest.mark.long

TOLERANCE = 2e-5


def one_at_a_time(folder: str, images: list[Image.Image]) -> np.ndarray:
    net = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0).eval()
    transform = create_transform(**resolve_model_data_config(net), is_training=False)
    with torch.no_grad():
        return np.concatenate([net(transform(image.convert("RGB"))[None]).numpy() for image in images])


def test_class_folders_are_those_of_torchvision(models: dict[str, str], pictures: pathlib.Path,
                                                tmp_path: pathlib.Path) -> None:
    import torchvision
    found = encode(models["timm"], pictures, tmp_path / "o.npy", batch=2)
    assert (tmp_path / "o.ids.txt").read_text().split() == [
        "ant/x.jpg", "bee/deep/y.PNG", "bee/z.bmp", "cat/10.png", "cat/2.png"]
    assert (tmp_path / "o.labels.txt").read_text().split() == ["ant", "bee", "cat"]
    theirs = torchvision.datasets.ImageFolder(pictures)
    assert dict(zip((tmp_path / "o.ids.txt").read_text().split(), np.load(tmp_path / "o.labels.npy").tolist())) == {
        path[len(str(pictures)) + 1:]: label for path, label in theirs.samples}
    ids = (tmp_path / "o.ids.txt").read_text().split()
    expected = one_at_a_time(models["timm"], [Image.open(pictures / name) for name in ids])
    assert np.abs(found - expected).max() < TOLERANCE


def test_a_flat_folder_has_no_labels_and_leaves_none_behind(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "flat").mkdir()
    noise(1).save(tmp_path / "flat" / "b.png")
    noise(2).save(tmp_path / "flat" / "a.png")
    (tmp_path / "o.labels.npy").write_bytes(b"of an earlier run")
    assert encode(models["timm"], tmp_path / "flat", tmp_path / "o.npy").shape == (2, 16)
    assert (tmp_path / "o.ids.txt").read_text() == "a.png\nb.png\n"
    assert not (tmp_path / "o.labels.npy").exists()


def test_train_and_test_folders_are_splits(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    for number, name in enumerate(["test/a/1.png", "test/b/2.png", "train/a/3.png", "train/b/4.png"]):
        (tmp_path / "d" / name).parent.mkdir(parents=True)
        noise(number).save(tmp_path / "d" / name)
    encode(models["timm"], tmp_path / "d", tmp_path / "o.npy")
    assert (tmp_path / "o.ids.txt").read_text().split() == [
        "train/a/3.png", "train/b/4.png", "test/a/1.png", "test/b/2.png"]
    assert np.load(tmp_path / "o.labels.npy").tolist() == [0, 1, 0, 1]
    encode(models["timm"], tmp_path / "d", tmp_path / "t.npy", split="test")
    assert (tmp_path / "t.ids.txt").read_text().split() == ["test/a/1.png", "test/b/2.png"]


def test_cifar100(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    cifar = write_cifar100(tmp_path / "d" / "cifar-100-python")
    found = encode(models["timm"], tmp_path / "d", tmp_path / "o.npy", labels="coarse", batch=5)
    train, test = cifar["train"], cifar["test"]
    pixels = np.concatenate([train[b"data"], test[b"data"]]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    expected = one_at_a_time(models["timm"], [Image.fromarray(np.ascontiguousarray(image)) for image in pixels])
    assert np.abs(found - expected).max() < TOLERANCE
    assert np.load(tmp_path / "o.labels.npy").tolist() == train[b"coarse_labels"] + test[b"coarse_labels"]
    assert (tmp_path / "o.labels.txt").read_text().split()[19] == "c19"
    ids = (tmp_path / "o.ids.txt").read_text().split()
    assert ids[0] == "train/0" and ids[11:13] == ["train/11", "test/0"]
    encode(models["timm"], tmp_path / "d" / "cifar-100-python", tmp_path / "f.npy", split="test")
    assert np.load(tmp_path / "f.labels.npy").tolist() == test[b"fine_labels"]


def test_cifar10(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]:
        content = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 9]}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    assert encode(models["timm"], folder, tmp_path / "o.npy").shape == (12, 16)
    assert np.load(tmp_path / "o.labels.npy").tolist() == [1, 9] * 6
    assert (tmp_path / "o.ids.txt").read_text().split()[9:] == ["train/9", "test/0", "test/1"]


@pytest.mark.parametrize("zipped", [False, True])
def test_idx(models: dict[str, str], tmp_path: pathlib.Path, zipped: bool) -> None:
    rng, folder = np.random.default_rng(0), tmp_path / "mnist"
    folder.mkdir()
    images = {part: rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8) for part, rows in (("train", 5), ("t10k", 3))}
    for part, pixels in images.items():
        for name, array in ((f"{part}-images-idx3-ubyte", pixels),
                            (f"{part}-labels-idx1-ubyte", np.arange(len(pixels), dtype=np.uint8))):
            raw = idx_bytes(array)
            (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(raw) if zipped else raw)
    found = encode(models["timm"], folder, tmp_path / "o.npy")
    expected = one_at_a_time(models["timm"], [Image.fromarray(image) for part in images.values() for image in part])
    assert np.abs(found - expected).max() < TOLERANCE
    assert np.load(tmp_path / "o.labels.npy").tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        import os
        return os.system, ("touch /tmp/kedge-encode-was-here",)


@pytest.mark.parametrize("content", [
    pickle.dumps({b"data": Evil()}, protocol=2),
    pickle.dumps(Evil()),
    b"cbuiltins\neval\n(S'1'\ntR.",
    b"cnumpy\ndtype\n(cnumpy\nndarray\ntR.",
    pickle.dumps({b"data": np.array([[Evil]], object)}, protocol=2),
    pickle.dumps({b"data": np.zeros((2, 3072), np.float32), b"fine_labels": [0, 1]}, protocol=2),
    pickle.dumps({b"data": np.zeros((2, 3071), np.uint8), b"fine_labels": [0, 1]}, protocol=2),
    pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0]}, protocol=2),
    pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0, 100]}, protocol=2),
    pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}, protocol=2),
    pickle.dumps([1, 2]), b"", b"\x80", b"not a pickle at all"])
def test_a_hostile_pickle_runs_nothing(tmp_path: pathlib.Path, content: bytes) -> None:
    import pathlib

    from kedge.encode.data import open_data
    mark = pathlib.Path("/tmp/kedge-encode-was-here")
    mark.unlink(missing_ok=True)
    (tmp_path / "train").write_bytes(content)
    with pytest.raises(BadFile, match="train"):
        open_data(tmp_path, split="train")
    assert not mark.exists()


def test_the_unpickler_sees_what_pickle_sees(tmp_path: pathlib.Path) -> None:
    import hashlib

    from kedge.encode.cifar import _pixels, unpickle
    cifar = write_cifar100(tmp_path / "c")
    for protocol in (2, 3, 4):
        (tmp_path / "x").write_bytes(pickle.dumps(cifar["train"], protocol=protocol))
        found = unpickle(tmp_path / "x", hashlib.sha256())
        assert np.array_equal(_pixels(tmp_path / "x", found["data"]).reshape(-1, 3072), cifar["train"][b"data"])
        assert found["fine_labels"] == cifar["train"][b"fine_labels"]


@pytest.mark.parametrize("spoil", [
    lambda raw: raw[:-1], lambda raw: raw + b"x", lambda raw: b"\1" + raw[1:], lambda raw: raw[:9],
    lambda raw: raw[:4] + b"\xff" * 12 + raw[16:], lambda raw: b""])
def test_a_bad_idx_file_is_named(tmp_path: pathlib.Path, spoil: Callable[[bytes], bytes]) -> None:
    from kedge.encode.data import open_data
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(spoil(idx_bytes(np.zeros((2, 4, 4), np.uint8))))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(2, np.uint8)))
    with pytest.raises(BadFile, match="t10k-images"):
        open_data(tmp_path, split="test")


def test_presets_are_real_models_of_timm() -> None:
    for name, model in PRESETS.items():
        if model.library == "timm":
            known = timm.get_pretrained_cfg(model.name)
            assert timm.is_model(model.name) and known and known.hf_hub_id
            with torch.device("meta"):  # shapes without weights
                net = timm.create_model(model.name, pretrained=False, num_classes=0)
            assert net.num_features == model.dim or net.head_hidden_size == model.dim
        assert resolve(name.upper(), model.kind) == model
    for name, preset in (("ViT-S", "vit-s"), ("RexNet", "rexnet"), ("ViT-R50", "vit-r50"), ("TinyLlama", "tinyllama"),
                         ("gemma-3-1b", "gemma"), ("gpt2-med", "gpt2-medium")):
        assert resolve(name, PRESETS[preset].kind) == PRESETS[preset]
