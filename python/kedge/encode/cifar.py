# SPDX-License-Identifier: Apache-2.0
"""CIFAR-100 and CIFAR-10 as their authors pickled them for Python, read without letting a pickle run anything."""
from __future__ import annotations

import hashlib
import io
import pathlib
import pickle
from typing import TYPE_CHECKING, Any

from .._errors import BadFile, UsageError
from .inputs import Data

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SIDE = 32
PIXELS = 3 * SIDE * SIDE


class _Dtype:
    """What a pickle says about a dtype; numpy never sees it."""

    def __init__(self, code: str | bytes = "", *_: object) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """What a pickle says about an array: its shape, dtype and bytes, to be checked before numpy sees them."""

    def __init__(self, *_: object) -> None:
        self.shape: object = None
        self.dtype: object = None
        self.raw: object = None

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, _, self.raw = state


def _encode(text: str, _: str = "latin1") -> bytes:
    """How Python 3 pickles bytes for Python 2."""
    return text.encode("latin1")


# All that a pickle of CIFAR names, each with a stand-in that can do nothing but hold values.
_ALLOWED = {("numpy.core.multiarray", "_reconstruct"): _Array, ("numpy._core.multiarray", "_reconstruct"): _Array,
            ("numpy", "ndarray"): _Array, ("numpy", "dtype"): _Dtype, ("_codecs", "encode"): _encode}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, but only arrays of numbers are allowed")
        return _ALLOWED[module, name]


def unpickle(path: pathlib.Path, digest: Digest) -> dict[str, Any]:
    """The dictionary in the file, keys as text. 'digest' takes in the bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    digest.update(raw)
    try:
        found = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in found.items()}
    except Exception as error:  # a hostile pickle can raise anything
        raise BadFile(f"{path} is not a file of CIFAR's Python version: {error}") from None


def _pixels(path: pathlib.Path, array: object) -> NDArray[np.uint8]:
    import numpy
    if not isinstance(array, _Array) or not isinstance(array.dtype, _Dtype) or array.dtype.code != "u1":
        raise BadFile(f"{path}: 'data' is not an array of bytes")
    raw = array.raw if isinstance(array.raw, bytes) else b""
    if array.shape != (len(raw) // PIXELS, PIXELS) or len(raw) % PIXELS:
        raise BadFile(f"{path}: expected rows of {PIXELS} values in 'data', found shape {array.shape} and "
                      f"{len(raw)} bytes")
    return numpy.frombuffer(raw, numpy.uint8).reshape(-1, 3, SIDE, SIDE)


def _labels(path: pathlib.Path, values: object, key: str, rows: int) -> NDArray[np.int64]:
    import numpy
    if not isinstance(values, list) or len(values) != rows or not all(type(v) is int and 0 <= v < 100 for v in values):
        raise BadFile(f"{path}: expected one label per image in '{key}', {rows} whole numbers from 0 to 99")
    return numpy.array(values, numpy.int64)


def is_cifar100(folder: pathlib.Path) -> bool:
    return (folder / "train").is_file() or (folder / "test").is_file()


def is_cifar10(folder: pathlib.Path) -> bool:
    return (folder / "data_batch_1").is_file() or (folder / "test_batch").is_file()


def open_cifar(folder: pathlib.Path, split: str, labels: str | None) -> Data:
    """The Data of a folder cifar-100-python or cifar-10-batches-py; train images come before test images."""
    import numpy
    if is_cifar100(folder):
        what, key = "CIFAR-100", f"{labels or 'fine'}_labels"
        files = {"train": ["train"], "test": ["test"]}
        meta, meta_key = folder / "meta", f"{labels or 'fine'}_label_names"
    else:
        if labels:
            raise UsageError("--labels chooses among CIFAR-100's two kinds, but CIFAR-10 has only one; leave it out")
        what, key = "CIFAR-10", "labels"
        files = {"train": [f"data_batch_{n}" for n in range(1, 6)], "test": ["test_batch"]}
        meta, meta_key = folder / "batches.meta", "label_names"
    digest, pixels, classes = hashlib.sha256(), [], []
    ids: list[str] = []
    for part in ["train", "test"] if split == "all" else [split]:
        start = len(ids)
        for name in files[part]:
            found = unpickle(folder / name, digest)
            pixels.append(_pixels(folder / name, found.get("data")))
            classes.append(_labels(folder / name, found.get(key), key, len(pixels[-1])))
            ids += [f"{part}/{len(ids) - start + row}" for row in range(len(pixels[-1]))]
    names = None
    if meta.is_file():
        listed = unpickle(meta, hashlib.sha256()).get(meta_key)
        if isinstance(listed, list) and all(isinstance(name, bytes) for name in listed):
            names = [name.decode("utf-8", "replace") for name in listed]
    images = numpy.concatenate(pixels).transpose(0, 2, 3, 1)

    def read(row: int) -> Image:
        from PIL import Image
        return Image.fromarray(numpy.ascontiguousarray(images[row]))
    return Data("image", what, ids, read, numpy.concatenate(classes), names, digest.hexdigest())
