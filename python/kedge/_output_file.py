# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all; an older one stays until then."""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


def flush(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def output_file(path: str | os.PathLike[str], durable: bool = True) -> Iterator[str]:
    """A name to write to; what is there takes the place of 'path' when the block ends. A durable one is on the disk by
    then, which matters if it replaces the only copy of something."""
    target = os.path.realpath(path)
    handle, partial = tempfile.mkstemp(prefix=".kedge-", suffix=".partial", dir=os.path.dirname(target))
    try:
        os.close(handle)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~umask)
        yield partial
        if durable:
            flush(partial)
        os.replace(partial, target)
        if durable:
            flush(os.path.dirname(target))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    with output_file(path) as partial, open(partial, "wb") as file:
        file.write(content)
