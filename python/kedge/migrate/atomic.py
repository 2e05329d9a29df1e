# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole, with their names on the disk, or not at all."""
from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator


def with_ending(path: pathlib.Path, ending: str) -> pathlib.Path:
    return path.with_name(path.name + ending)


def sync_folder(path: pathlib.Path) -> None:
    """Makes the names in a folder as durable as the files."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def appearing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Where to write the file; it gets its name, and is durable, when this ends without an error."""
    partial = with_ending(path, ".partial")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: pathlib.Path, text: str) -> None:
    with appearing(path) as partial:
        partial.write_text(text, "utf-8")
