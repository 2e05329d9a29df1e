# SPDX-License-Identifier: Apache-2.0
"""MNIST, Fashion-MNIST and their like: the four idx files, plain or gzipped."""
from __future__ import annotations

import gzip
import hashlib
import math
import pathlib
import struct
import zlib
from typing import TYPE_CHECKING

from .._errors import BadFile
from .inputs import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

PREFIX = {"train": "train", "test": "t10k"}


def _find(folder: pathlib.Path, part: str, content: str, dims: int) -> pathlib.Path | None:
    """The file under any of its usual names, or None."""
    for middle in ("-", "."):
        for end in ("", ".gz"):
            path = folder / f"{PREFIX[part]}-{content}{middle}idx{dims}-ubyte{end}"
            if path.is_file():
                return path
    return None


def is_idx(folder: pathlib.Path) -> bool:
    return any(_find(folder, part, "images", 3) for part in PREFIX)


def read_idx(path: pathlib.Path, dims: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file of that many dimensions."""
    import numpy
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            header = file.read(4 + 4 * dims)
            if len(header) < 4 + 4 * dims or header[:4] != bytes([0, 0, 8, dims]):
                raise BadFile(f"{path} is not an idx file of unsigned bytes in {dims} dimensions")
            shape = struct.unpack(f">{dims}I", header[4:])
            content = file.read(math.prod(shape) + 1)  # never more than the header says, whatever a .gz unpacks to
    except (OSError, EOFError, zlib.error, OverflowError, MemoryError) as error:
        raise BadFile(f"{path} cannot be read: {error}") from None
    if len(content) != math.prod(shape):
        raise BadFile(f"{path}: the header says {' x '.join(map(str, shape))} values, but the file has "
                      f"{'more' if len(content) > math.prod(shape) else len(content)}")
    return numpy.frombuffer(content, numpy.uint8).reshape(shape)


def open_idx(folder: pathlib.Path, split: str) -> Data:
    """The Data of a folder with idx files; train images come before test images."""
    import numpy
    images: list[NDArray[np.uint8]] = []
    labels: list[NDArray[np.uint8]] = []
    ids: list[str] = []
    digest = hashlib.sha256()
    for part in ["train", "test"] if split == "all" else [split]:
        for content, dims, into in (("images", 3, images), ("labels", 1, labels)):
            path = _find(folder, part, content, dims)
            if path is None:
                raise BadFile(f"{folder} has no {PREFIX[part]}-{content}-idx{dims}-ubyte, nor a .gz of it; use --split "
                              "train or test to take only one half")
            into.append(read_idx(path, dims))
            digest.update(into[-1].data)
        if len(labels[-1]) != len(images[-1]):
            raise BadFile(f"{path} has {len(labels[-1])} labels, but there are {len(images[-1])} images")
        ids += [f"{part}/{row}" for row in range(len(images[-1]))]
    if len({part.shape[1:] for part in images}) != 1:
        raise BadFile(f"{folder}: train and test images differ in size")
    if 0 in images[0].shape[1:]:
        raise BadFile(f"{folder}: the images have no pixels")
    pixels = numpy.concatenate(images)

    def read(row: int) -> Image:
        from PIL import Image
        return Image.fromarray(pixels[row]).convert("RGB")
    return Data("image", "idx", ids, read, numpy.concatenate(labels).astype(numpy.int64), None, digest.hexdigest())
