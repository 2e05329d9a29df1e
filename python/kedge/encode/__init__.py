# SPDX-License-Identifier: Apache-2.0
"""From a pretrained model and its inputs to the .npy files kedge reads; 'python -m kedge.encode' is the command.

Importing this is cheap: torch and the model libraries are imported when a model is loaded.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import BadFile, Error, UsageError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

__all__ = ["BadFile", "Error", "UsageError", "encode"]


def encode(model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str],
           **options: Any) -> NDArray[Any]:
    """Embeds 'data' with 'model' into the file 'out' and returns it as a read-only memory map, rows x dim.

    Options are those of the command, with underscores: kind, library, pooling, revision, split, labels, field,
    label_field, rows, max_length, batch, device, precision, threads, fresh; quiet defaults to True. Raises Error.
    """
    import numpy

    from . import work
    options.setdefault("quiet", True)
    work.run(work.Options(str(model), str(data), str(out), **options))
    rows: NDArray[Any] = numpy.load(out, mmap_mode="r")
    return rows
