# SPDX-License-Identifier: Apache-2.0
"""Finds out what --data is and opens it."""
from __future__ import annotations

import os
import pathlib

from .._errors import BadFile, UsageError
from . import cifar, idx, image_folder, text_files
from .inputs import Data


def kind_of(path: pathlib.Path, asked: str | None) -> str:
    """image or text, from the path or from what the user says."""
    if path.is_dir():
        if asked == "text":
            raise UsageError(f"{path} is a folder, but texts are read from a file; give a .txt, .jsonl or .csv")
        return "image"
    if not path.exists():
        raise BadFile(f"{path}: there is no such file or folder")
    if asked == "image":
        raise UsageError(f"{path} is a file, but images are read from a folder; give the folder it is in")
    if asked is None and path.suffix.lower() not in text_files.ENDINGS:
        raise UsageError(f"cannot tell what {path} is: texts end in {', '.join(text_files.ENDINGS)}, and images are in "
                         "a folder; --kind text reads it line by line")
    return "text"


def open_data(given: str | os.PathLike[str], kind: str | None = None, split: str | None = None,
              labels: str | None = None, field: str | None = None, label_field: str | None = None) -> Data:
    """The Data at a path. Options that mean nothing for it are refused, not ignored."""
    path = pathlib.Path(given).expanduser()
    if kind_of(path, kind) == "text":
        if split or labels:
            raise UsageError(f"--split and --labels are for images, but {path} holds texts; use --rows to take some of "
                             "them")
        return text_files.open_text(path, field, label_field)
    if field or label_field:
        raise UsageError(f"--field and --label-field are for texts, but {path} is a folder of images")
    for folder in (path, path / "cifar-100-python", path / "cifar-10-batches-py"):
        if cifar.is_cifar100(folder) or cifar.is_cifar10(folder):
            return cifar.open_cifar(folder, split or "all", labels)
    if labels:
        raise UsageError(f"--labels chooses among CIFAR-100's two kinds, but {path} is not CIFAR-100; leave it out")
    if idx.is_idx(path):
        return idx.open_idx(path, split or "all")
    return image_folder.open_folder(path, split)
