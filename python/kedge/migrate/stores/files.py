# SPDX-License-Identifier: Apache-2.0
"""What stores that are files share: marks of their owner, switching, writing in place, and what went wrong."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._errors import Error
from ..._output_file import sync, write_file
from ..store import Missing

EXCHANGE = 2              # RENAME_EXCHANGE of Linux
AT_FDCWD = -100
SWITCHING = ".switching.json"  # beside a folder while it is switched
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
FULL = "the disk is full; make room and run it again"
REFUSED = "this user may not; change its permissions, or run as a user who may"
READ_ONLY = "the disk is mounted read-only"
# What libraries say of a folder, by a part of it, and what that means to the user.
REASONS = {"readonly database": "this user may not write to the folder", "ermission denied": REFUSED,
           "Read-only file system": READ_ONLY, "disk is full": FULL, "No space left": FULL}


def reason_for(said: str) -> str | None:
    return next((reason for sign, reason in REASONS.items() if sign in said), None)


def with_ending(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextlib.contextmanager
def file_errors(doing: str, path: Path) -> Iterator[None]:
    """Turns what the system says about a file into a sentence."""
    try:
        yield
    except OSError as error:
        reason = {
            errno.ENOSPC: FULL, errno.EDQUOT: "the disk quota is used up; make room and run it again",
            errno.EACCES: REFUSED, errno.EPERM: REFUSED, errno.EROFS: READ_ONLY,
            errno.ENOENT: "there is no such file or folder",
        }.get(error.errno or 0, error.strerror or str(error))
        raise Error(f"{path}: cannot {doing} it: {reason}") from None


class Mark:
    """A small file beside a place that says which migration made it, and what else the store wants to remember."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def owner(self) -> str | None:
        found: str | None = self.read().get("owner")
        return found

    def write(self, facts: Mapping[str, object]) -> None:
        write_file(self.path, json.dumps(facts))


def switch_files(here: Path, incoming: Path, outgoing: Path, endings: Sequence[str] = ()) -> None:
    """What is 'here' goes to 'outgoing', and 'incoming' comes here, with the files beside them that have these endings.

    A second name for the old file, and then one rename: the name 'here' always leads to a file. Called again after a
    crash it goes on: files beside that were given a second name are recognised by being the same file.
    """
    require_something(here, incoming, outgoing)
    with file_errors("switch", here):
        if incoming.exists():
            if outgoing.exists() and here.exists() and not os.path.samefile(outgoing, here):
                raise Error(f"{outgoing} is taken, and would hold what is now in {here}; move it away")
            for ending in ("", *endings):
                second_name(with_ending(here, ending), with_ending(outgoing, ending))
            sync(here.parent)
            os.replace(incoming, here)
        for ending in endings:
            move_beside(*(with_ending(path, ending) for path in (here, incoming, outgoing)))
        sync(here.parent)


def switch_folders(here: Path, incoming: Path, outgoing: Path, endings: Sequence[str] = ()) -> None:
    """The same for folders, which have no second names: they change names in one step if the system can.

    A file beside says which folder was which before, so that a switch that was cut short is not undone by the next.
    """
    require_something(here, incoming, outgoing)
    begun = with_ending(here, SWITCHING)
    with file_errors("switch", here):
        if incoming.exists():
            if outgoing.exists() and here.exists():
                raise Error(f"{outgoing} is taken, and would hold what is now in {here}; move it away")
            for ending in endings:
                second_name(with_ending(here, ending), with_ending(outgoing, ending))
            if here.exists():
                exchanged = Mark(begun).read().get("put") == here.stat().st_ino
                if not exchanged:
                    write_file(begun, json.dumps({"put": incoming.stat().st_ino}))
                    exchanged = exchange(here, incoming)
                os.rename(incoming if exchanged else here, outgoing)
            if incoming.exists():
                os.rename(incoming, here)
            sync(here.parent)
        for ending in endings:
            move_beside(*(with_ending(path, ending) for path in (here, incoming, outgoing)))
        begun.unlink(missing_ok=True)
        sync(here.parent)


def require_something(here: Path, incoming: Path, outgoing: Path) -> None:
    if not incoming.exists() and not outgoing.exists():
        raise Missing(f"{incoming} does not exist, so nothing can take the place of {here}")


def second_name(source: Path, target: Path) -> None:
    if not source.exists() or target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.rename(source, target)  # such disks have no second names: for an instant there is no file of that name


def move_beside(here: Path, incoming: Path, outgoing: Path) -> None:
    if incoming.exists():
        os.replace(incoming, here)
    elif here.exists() and outgoing.exists() and os.path.samefile(here, outgoing):
        here.unlink()


def can_exchange() -> bool:
    """Whether the system can exchange names; some disks still refuse."""
    try:
        return hasattr(ctypes.CDLL(None), "renameat2")
    except OSError:
        return False


def exchange(first: Path, second: Path) -> bool:
    """Two files or folders change names in one step; False if the system cannot."""
    if not can_exchange():
        return False
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    if rename(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(first))


def write_all(file: int, data: bytes | memoryview, place: int) -> None:
    """A write may take less than it is given; the rest is written then."""
    rest = memoryview(data)
    while rest:
        done = os.pwrite(file, rest, place)
        rest, place = rest[done:], place + done


def write_durably(path: Path, data: bytes | memoryview, place: int, cut: bool = False) -> None:
    """Writes into a file that is there; 'cut' ends it behind what is written."""
    file = os.open(path, os.O_RDWR)
    try:
        if cut:
            os.ftruncate(file, place)
        write_all(file, memoryview(data).cast("B"), place)
        os.fdatasync(file)
    finally:
        os.close(file)
