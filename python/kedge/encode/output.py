# SPDX-License-Identifier: Apache-2.0
"""OUT.npy and its companions. Rows go into OUT.npy.partial, which an interrupted run leaves and the next continues.

The partial file is written, not mapped: a full disk is then an error like any other; a map would kill the process.
"""
from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from .._errors import Error, UsageError
from .._output_file import write_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SECONDS_BETWEEN_STATES = 5


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a file, or an empty one if there is none to read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between two sets of settings, as words."""
    return [f"{key} (was {before.get(key)}, is {now.get(key)})"
            for key in sorted({*before, *now}) if before.get(key) != now.get(key)]


class Output:
    """settings: what the values depend on, known before a model is loaded; about: what is worth noting besides."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any], rows: int, dtype: str) -> None:
        self.path, self.settings, self.rows, self.dtype = pathlib.Path(path), settings, rows, dtype
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.state = self.path.with_name(self.path.name + ".partial.json")
        self.done = 0
        if self.path.suffix != ".npy":
            raise UsageError(f"-o {path}: embeddings are written as .npy; give a name that ends in .npy")
        if not self.path.parent.is_dir():
            raise Error(f"-o {path}: there is no folder {self.path.parent}; create it first")

    def beside(self, ending: str) -> pathlib.Path:
        return self.path.with_suffix(ending)

    def finished(self) -> bool:
        """Whether the same command has already made the file."""
        return self.path.is_file() and read_json(self.beside(".json")).get("settings") == self.settings

    def check(self, fresh: bool) -> None:
        """Refuses to continue what was begun with other settings; early, as loading a model takes a while."""
        found = read_json(self.state)
        if fresh or not self.partial.exists() or not found:
            return
        self._refuse(differences(found.get("settings", {}), self.settings))

    def _refuse(self, different: list[str]) -> None:
        if different:
            raise UsageError(f"{self.partial} was started with other settings: {', '.join(different)}; use "
                             "--fresh to start over, or the old settings to continue it")

    def begin(self, versions: dict[str, str], fresh: bool) -> int:
        """Opens the partial file and returns how many rows are done. One process at a time."""
        import fcntl
        self.versions = versions
        self.file: IO[bytes] = open(  # noqa: SIM115  finish or stop closes it
            self.partial, "r+b" if self.partial.exists() else "w+b")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Error(f"another kedge-encode is writing {self.partial}; wait for it, or choose another -o") from None
        found = {} if fresh else read_json(self.state)
        if found:
            self._refuse(differences({**found.get("settings", {}), **found.get("versions", {})},
                                     {**self.settings, **versions}))
        size, row = os.fstat(self.file.fileno()).st_size, found.get("row_bytes", 0)
        whole = found.get("header", 0) + found.get("done", 0) * row
        if found and row and size >= whole:
            self.done, self.header, self.row_bytes = found["done"], found["header"], row
            self.file.truncate(whole)  # rows that a crash left after the last state are made again
            self.file.seek(whole)
        else:
            self.header = self.row_bytes = 0
            self.file.truncate(0)
        self.saved = time.monotonic()
        return self.done

    def append(self, rows: NDArray[Any]) -> None:
        import numpy
        if not self.header:
            numpy.lib.format.write_array_header_1_0(self.file, {
                "descr": numpy.lib.format.dtype_to_descr(numpy.dtype(self.dtype)), "fortran_order": False,
                "shape": (self.rows, rows.shape[1])})
            self.header, self.row_bytes = self.file.tell(), rows.shape[1] * numpy.dtype(self.dtype).itemsize
        self.file.write(numpy.ascontiguousarray(rows, self.dtype).data)
        self.done += len(rows)
        if time.monotonic() - self.saved > SECONDS_BETWEEN_STATES:
            self.save()

    def save(self) -> None:
        """Rows first and then the number of them, so that it never counts rows that are not on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        write_file(self.state, json.dumps({
            "settings": self.settings, "versions": self.versions, "done": self.done, "rows": self.rows,
            "header": self.header, "row_bytes": self.row_bytes}, indent=1).encode())
        self.saved = time.monotonic()

    def stop(self) -> None:
        """Leaves what is done for the next run, or no trace if nothing is done."""
        if self.done:
            self.save()
        else:
            self.partial.unlink(missing_ok=True)
            self.state.unlink(missing_ok=True)
        self.file.close()

    def finish(self, ids: Sequence[str], labels: NDArray[np.int64] | None, names: Sequence[str] | None,
               about: dict[str, Any]) -> None:
        """Puts everything in place. OUT.json comes last: if it exists, the rest is complete."""
        import io

        import numpy
        self.save()
        self.beside(".json").unlink(missing_ok=True)
        write_file(self.beside(".ids.txt"), "".join(f"{name}\n" for name in ids).encode("utf-8", "surrogateescape"))
        for ending, wanted in ((".labels.npy", labels is not None), (".labels.txt", bool(names))):
            if not wanted:
                self.beside(ending).unlink(missing_ok=True)  # of an earlier run
        if labels is not None:
            buffer = io.BytesIO()
            numpy.save(buffer, labels)
            write_file(self.beside(".labels.npy"), buffer.getvalue())
        if names:
            write_file(self.beside(".labels.txt"),
                        "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"))
        os.replace(self.partial, self.path)
        self.file.close()
        self.state.unlink(missing_ok=True)
        write_file(self.beside(".json"), (json.dumps({**about, "settings": self.settings}, indent=1) + "\n").encode())
