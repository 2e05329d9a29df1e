# SPDX-License-Identifier: Apache-2.0
"""Storage that all workers see: what may pass there is tried again, and files appear when they are whole."""
from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._address import is_uri
from .._arrow import ReadError
from .._output_file import output_file

T = TypeVar("T")

WAITS = (1, 2, 4, 8, 16)  # seconds until it is tried again
PASSING = {errno.EAGAIN, errno.EBUSY, errno.EIO, errno.EPIPE, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNABORTED,
           errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
# Of what storage says without a number; anything else may pass.
LASTING = re.compile("ACCESS_DENIED|NO_SUCH_BUCKET|NO_SUCH_KEY|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|"
                     "RESOURCE_NOT_FOUND|EntityTooLarge|PERMISSION_DENIED|UNAUTHENTICATED|Bucket '[^']*' not found|"
                     "MISSING_AUTHENTICATION_TOKEN|INVALID_CLIENT_TOKEN|ExpiredToken|InvalidToken|"
                     "Unable to load|Prior attempt to load")
PARTIAL = re.compile(r"[._]kedge-[0-9a-f]+\.partial$")  # of Parquet's readers, none reads these
COPIED_AT_ONCE = 5 * 2**30  # bytes of an object that S3 copies by itself
CHUNK = 2**24


class LastingError(OSError):
    """What storage said each time it was tried."""


class Again:
    """Waits after every failure of one piece of work, longer each time, and raises what lasts."""

    def __init__(self, path: str) -> None:
        self.path, self.waits = path, list(WAITS)

    def after(self, error: Exception) -> None:
        if not self.may_pass(error):
            raise error
        if not self.waits:
            raise LastingError(f"{error} (tried {f'{len(WAITS) + 1} times' if WAITS else 'once'})") from None
        time.sleep(self.waits.pop(0) * random.uniform(0.5, 1))  # not all workers at the same time

    def may_pass(self, error: Exception) -> bool:
        if not isinstance(error, OSError) or isinstance(error, (ReadError, LastingError)):  # tried again already
            return False
        if error.errno is not None:
            return error.errno in PASSING
        return is_remote(self.path) and not LASTING.search(str(error))


def retried(path: str, work: Callable[[], T]) -> T:
    again = Again(path)
    while True:
        try:
            return work()
        except OSError as error:
            again.after(error)


def is_remote(path: str) -> bool:
    return is_uri(path) and not path.startswith("file:")


def system_of(path: str) -> tuple[Any, str]:
    """What reads the path, a local one or such as s3://bucket/folder, and the path there."""
    import pyarrow
    from pyarrow import fs

    if not is_uri(path):
        return fs.LocalFileSystem(use_mmap=True), os.path.abspath(path)
    try:
        system, inner = retried(path, lambda: fs.FileSystem.from_uri(path))
        return system, inner
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]  # pyarrow then lists every place where it looked for a library
        advice = "; workers read it with pyarrow, to which it is s3://" if path.startswith("s3a://") else ""
        raise LastingError(f"cannot read '{path}': {reason}{advice}") from None


def listed(folder: str) -> list[Any]:
    """All files of a folder and of those within it; none if it is not there."""
    from pyarrow import fs

    system, inner = system_of(folder)
    selector = fs.FileSelector(inner, allow_not_found=True, recursive=True)
    return [info for info in retried(folder, lambda: system.get_file_info(selector)) if info.type == fs.FileType.File]


def create_folder(path: str) -> None:
    system, inner = system_of(path)
    try:
        retried(path, lambda: system.create_dir(inner, recursive=True))
    except OSError as error:
        raise type(error)(f"cannot write to '{path}': {error}") from None


@contextlib.contextmanager
def output_stream(target: str) -> Iterator[Any]:
    """What is written here is a file when the block ends, and nothing if that fails. Of several that write the same
    file, each writes one of its own, and none can spoil what another has finished."""
    system, inner = system_of(target)
    place = os.path.dirname(inner)
    system.create_dir(place, recursive=True)
    if not is_remote(target):
        with output_file(inner, durable=False) as partial, system.open_output_stream(partial) as stream:
            yield stream
        return
    partial = f"{place}/_kedge-{uuid.uuid4().hex}.partial"
    try:
        with system.open_output_stream(partial) as stream:  # which keeps what there is of a file when it is closed
            yield stream
            size = stream.tell()
        move(system, partial, inner, size)
    except BaseException:
        with contextlib.suppress(OSError):
            system.delete_file(partial)
        raise


def move(system: Any, partial: str, target: str, size: int) -> None:
    if system.type_name != "s3" or size <= COPIED_AT_ONCE:
        system.move(partial, target)
        return
    with system.open_input_stream(partial) as source:
        try:
            with system.open_output_stream(target) as stream:
                shutil.copyfileobj(source, stream, CHUNK)
        except BaseException:  # after which there is what was copied
            with contextlib.suppress(OSError):
                system.delete_file(target)
            raise
    system.delete_file(partial)


def clear(folder: str) -> None:
    """Removes what workers that died have left behind."""
    system, _ = system_of(folder)
    for info in listed(folder):
        if PARTIAL.match(os.path.basename(info.path)):
            with contextlib.suppress(FileNotFoundError):
                retried(folder, lambda path=info.path: system.delete_file(path))  # type: ignore[misc]
