# SPDX-License-Identifier: Apache-2.0
"""fit, validate and load."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _core, _inputs
from ._core import Bundle, Moments, RelativeMap
from ._options import takes
from ._progress import ShowProgress
from ._typing import Path

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from ._types import FitOptions


def named_spaces(spaces: Any) -> list[tuple[str, Any]]:
    """(name, rows) of every space."""
    if not isinstance(spaces, Mapping):
        raise TypeError("spaces must map names to embeddings, such as {'vit': X1, 'rex': X2}; found "
                        f"{type(spaces).__name__}")
    for name in spaces:
        if not isinstance(name, str):
            raise TypeError(f"a space's name must be a str, found {name!r}")
    return list(spaces.items())


def require_moments_alone(moments: Moments | None, **about_rows: object) -> None:
    if moments is None:
        raise ValueError("there is nothing to fit: give spaces, or moments that carry the support rows")
    for name, value in about_rows.items():
        if value is not None:
            raise ValueError(f"{name} says something about the rows of spaces, but there are none; leave it out, or "
                             "give spaces")


def require_checkpoint(path: object) -> None:
    if not path:
        raise ValueError("resume continues from a checkpoint; name its file with checkpoint=")
    # Anything that is no path is refused when all options are read.
    if isinstance(path, (str, os.PathLike)) and not os.path.exists(path):
        raise ValueError(f"there is nothing to resume: '{os.fsdecode(path)}' does not exist; leave out resume "
                         "to start from scratch")


@takes(_core.fit_options())
def fit(spaces: Any = None, *, rows: Any = None, ids: Any = None, support_ids: Any = None,
        moments: Moments | None = None, support_rows: bool = False, pairs: Any = None, progress: ShowProgress = False,
        **options: Unpack[FitOptions]) -> Bundle:
    """Learn anchors that several encoders share, from embeddings of the same inputs.

    Parameters
    ----------
    spaces : dict, optional
        One encoder's embeddings under each name; row n of all of them embeds the same input n. Arrays of any float type
        and layout (float32 in C order is not copied), tensors on the processor, Arrow or Parquet columns, or paths to
        .npy, .safetensors#tensor, .fvecs and .parquet#column files, which are streamed. May be left out if `moments`
        carry the support rows.
    rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
        Rows to learn from; all by default.
    ids : array of int or list of str, optional
        An id for each row of the arrays or files. The support is then drawn by id, as by Moments, so that it does not
        depend on the order of the rows; the bundle's support_ids are ids.
    support_ids : array of int, optional
        The rows to make anchors from, as row numbers in the arrays or files (not within `rows`), or with `ids` by their
        ids; selected by default.
    moments : Moments, optional
        Take statistics from these moments of all rows instead of from `spaces`, which then hold all rows, a sample of
        them, or, with `support_rows`, the support alone.
    support_rows : bool, default False
        Whether `spaces` hold only the support rows: those of `support_ids`, in that order. Needs `moments`.
    pairs : array of int or path, optional
        Which rows belong together, if the spaces are in other orders or hold other rows too: a column of row numbers
        for each space, in their order. Each row of the first may be in one pair; the bundle keeps its number.
    progress : bool or callable, default False
        True shows a progress bar; a function is called with step, done, total and detail.

    Returns
    -------
    Bundle
        The anchors and one map per space. The same options and seed give the same bits as 'kedge fit'.

    Raises
    ------
    ValueError
        If options or arrays do not fit together, or hold NaN or infinity; the message says which row.
    OSError
        If a file cannot be read or a device does not exist.
    KeyboardInterrupt
        On Ctrl-C; with `checkpoint`, resume=True then continues to the same result.
    """
    if options.get("resume") and options.get("method") == "param":  # other methods refuse to resume in fit
        require_checkpoint(options.get("checkpoint"))
    if moments is not None and not isinstance(moments, Moments):
        raise TypeError(f"moments must be kedge.Moments, found {type(moments).__name__}")
    if support_rows and moments is None:
        raise ValueError("support_rows=True says that the spaces hold only the support, so that moments of all rows "
                         "are needed too; give moments=")
    if support_rows and support_ids is None:
        raise ValueError("support_rows=True needs support_ids, to say which rows the spaces hold, in their order")
    if spaces is None:
        require_moments_alone(moments, rows=rows, ids=ids, support_ids=support_ids, pairs=pairs,
                              support_rows=support_rows or None)
    if support_rows and not (ids is None and pairs is None):
        raise ValueError("support_rows=True says that the spaces hold only the support, in its order, so that there is "
                         f"nothing to {'find by pairs' if ids is None else 'draw by ids'}; leave out one of them")
    return _core.fit([] if spaces is None else named_spaces(spaces), rows, _inputs.support_ids_of(support_ids),
                     progress, options, moments, bool(support_rows), ids, pairs)


@takes(_core.fit_options(), leave_out=("checkpoint", "checkpoint_every", "resume"))
def validate(spaces: Any, *, rows: Any = None, progress: ShowProgress = False,
             **options: Unpack[FitOptions]) -> pd.DataFrame:
    """Estimate how an unseen encoder will score: hold each space out in turn, fit the others, attach it, score it.

    Parameters
    ----------
    spaces : dict
        As for fit; three spaces or more.
    rows, progress
        As for fit.

    Returns
    -------
    pandas.DataFrame
        One row per held-out space: held_out, rows, mrr, recall@1, recall@5, recall@10, nmse.
    """
    import pandas as pd

    return pd.DataFrame(_core.validate(named_spaces(spaces), rows, progress, options))


def load_map(path: Path, space: str) -> RelativeMap:
    """Read one space's map out of a bundle, without the rest of the file."""
    return _core.load_map(path, space)


def load(path: Path) -> Bundle:
    """Read a bundle written by Bundle.save or the command; raises OSError for anything else."""
    return Bundle.load(path)
