# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all; an older one stays until then."""
from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

from ._typing import Path


def sync(path: Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_nameless(folder: str) -> int | None:
    """A file without a name, which is gone with the process however that ends; None if the file system has none."""
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return None
    if os.path.exists(descriptor_path(handle)):
        return handle
    os.close(handle)
    return None


def descriptor_path(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


@contextlib.contextmanager
def output_file(path: Path, durable: bool = True) -> Iterator[str]:
    """A name to write to; what is there takes the place of 'path' when the block ends. A durable one is on the disk by
    then, which matters if it replaces the only copy of something."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    partial = os.path.join(folder, f".kedge-{uuid.uuid4().hex}.partial")
    nameless = open_nameless(folder)
    handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666) if nameless is None else nameless
    try:
        if os.path.exists(target):
            os.fchmod(handle, os.stat(target).st_mode & 0o777)
        yield partial if nameless is None else descriptor_path(handle)
        if durable:
            os.fsync(handle)
        if nameless is not None:  # only a name replaces a name; src_dir_fd selects linkat, which follows /proc's link
            os.link(descriptor_path(handle), partial, src_dir_fd=handle, follow_symlinks=True)
        os.replace(partial, target)
        if durable:
            sync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    finally:
        os.close(handle)


def write_file(path: Path, content: bytes | str) -> None:
    """Text is written as UTF-8, with question marks for what that cannot say."""
    with output_file(path) as partial, open(partial, "wb") as file:
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
