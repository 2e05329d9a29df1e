# SPDX-License-Identifier: Apache-2.0
"""A folder of images, sorted by path; class subfolders give labels as torchvision's ImageFolder does."""
from __future__ import annotations

import hashlib
import os
import pathlib
from typing import TYPE_CHECKING

from .._errors import BadFile, UsageError
from .inputs import Data

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def images_under(folder: pathlib.Path) -> list[tuple[str, ...]]:
    """Paths relative to the folder, as tuples of names, sorted."""
    found: list[tuple[str, ...]] = []
    for base, _, names in os.walk(folder, followlinks=True):
        inside = pathlib.Path(base).relative_to(folder).parts
        # macOS leaves '._name.jpg' files that are no images.
        found += [(*inside, name) for name in names if name.lower().endswith(ENDINGS) and not name.startswith(".")]
    return sorted(found)


def open_image(path: pathlib.Path) -> Image:
    from PIL import Image
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except Exception as error:  # a damaged file can raise nearly anything in a decoder
        raise BadFile(f"{path} cannot be read as an image: {error}") from None


def open_folder(folder: pathlib.Path, split: str | None) -> Data:
    """The Data of a folder; if it has subfolders train and test, they are the splits and classes are below them."""
    import numpy
    parts = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    halves = parts == ["test", "train"]
    if split is not None and not halves:
        raise UsageError(f"{folder} does not hold just the subfolders train and test, so --split has no meaning; leave "
                         "it out")
    paths: list[tuple[str, ...]] = []
    for part in (["train", "test"] if split in (None, "all") else [split]) if halves else [""]:
        paths += [(part, *path) if part else path for path in images_under(folder / part)]
    if not paths:
        raise BadFile(f"{folder} has no images ({', '.join(ENDINGS)}), nor the files of CIFAR or MNIST")
    labels = names = None
    level = int(halves)
    if all(len(path) > level + 1 for path in paths):
        names = sorted({path[level] for path in paths})
        number = {name: index for index, name in enumerate(names)}
        labels = numpy.array([number[path[level]] for path in paths], numpy.int64)
    ids = ["/".join(path) for path in paths]
    digest = hashlib.sha256()
    for name in ids:
        if "\n" in name or "\r" in name:
            raise BadFile(f"{folder} has a file with a line break in its name, {name!r}; rename it")
        about = os.stat(folder / name)  # the content of a million images would take minutes to read
        digest.update(f"{name}\0{about.st_size}\0{about.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return Data("image", "image folder", ids, lambda row: open_image(folder / ids[row]), labels, names,
                digest.hexdigest())
