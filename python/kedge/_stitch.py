# SPDX-License-Identifier: Apache-2.0
"""The zero-shot protocol: stitch and sweep."""
from __future__ import annotations

import json
import math
import numbers
import operator
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _inputs
from ._fit import named_spaces
from ._options import takes
from ._output_file import write_file
from ._progress import ShowProgress
from ._typing import Path

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Unpack

    from ._types import StitchOptions, SweepOptions

# Methods and seeds are lists here, and a fit's bundle is not what is wanted of it.
NOT_HERE = ("method", "similarity", "keep", "seed", "attach", "checkpoint", "checkpoint_every", "resume", "keep_rows")
SWEPT = ("anchors", "support", "shrinkage")
NO_SWEEP: dict[str, Sequence[Any]] = dict.fromkeys(SWEPT, ())
MOST = 2**64 - 1
MOST_SEEDS = 10000


def count(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """As Python does for its own sizes: numpy's integers will do, booleans and floats will not."""
    if isinstance(value, bool) or not is_index(value):
        raise TypeError(f"{name} is {value!r:.60}, expected a whole number")
    number = operator.index(value)
    if not least <= number <= most:
        expected = f"of {least} or more" if most == MOST and number < least else f"from {least} to {most}"
        raise ValueError(f"{name} is {number}, expected a whole number {expected}")
    return number


def is_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def listed(values: Any, name: str, expected: str) -> list[Any]:
    """What is in a list, an array or the like; text is none, though Python would take it letter by letter."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__") or np.ndim(values) == 0:
        raise TypeError(f"{name} is {values!r:.60}, expected {expected}, or a list of them")
    return list(values)


def counts(values: Any, name: str, least: int = 1) -> list[int]:
    return [count(one, name, least)
            for one in ([values] if is_index(values) else listed(values, name, "a whole number"))]


def names(values: Any, name: str) -> list[str]:
    found = [values] if isinstance(values, str) else listed(values, name, "a name")
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{name} holds {one!r:.60}, expected names")
    return found


def pulls(values: Any) -> list[str]:
    """Shrinkages as text, numbers as Python writes them, which is exact."""
    expected = "a number from 0 to 1, 'auto', 'ledoit-wolf' or 'oas'"
    found = [values] if isinstance(values, (str, numbers.Real)) else listed(values, "shrinkage", expected)
    for one in found:
        if isinstance(one, bool) or not isinstance(one, (str, numbers.Real)):
            raise TypeError(f"shrinkage is {one!r:.60}, expected {expected}")
    return [one if isinstance(one, str) else repr(float(one)) for one in found]


def truth(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r:.60}, expected True or False")
    return bool(value)


def all_seeds(seeds: Any, first: Any) -> list[int]:
    first = count(first, "seed")
    if is_index(seeds):
        number = count(seeds, "seeds", 1, MOST_SEEDS)
        count(first + number - 1, "the last seed")
        return list(range(first, first + number))
    found = counts(seeds, "seeds", 0)
    if not found:
        raise ValueError("seeds is empty; give seeds, or how many to use")
    return found


def folder_of(out: Any) -> str | None:
    if out is None:
        return None
    path = os.fspath(out) if isinstance(out, (str, os.PathLike)) else out
    if not isinstance(path, str):
        raise TypeError(f"out is {out!r:.60}, expected the path of a folder, as a str or a pathlib.Path")
    return path


def require_split(rows: Any, name: str) -> None:
    if rows is None:
        raise TypeError(f"{name} is None, expected rows as slice(0, 50000), (0, 50000) or '0:50000'")
    (_inputs.ids_of if _inputs.are_ids(rows) else _inputs.range_of)(rows, name)


def flat_targets(targets: Any, shape: Any) -> tuple[Any, list[int]]:
    """Targets as a matrix, and the shape of one of them as a picture; what is wrong with it rows_of says later."""
    shape = [] if shape is None else counts(shape, "target_shape")
    if isinstance(targets, (list, tuple)):
        try:
            targets = np.array(targets)
        except (TypeError, ValueError, RuntimeError):
            return targets, shape
    # A tensor is flattened as it is, since numpy knows neither bfloat16 nor gradients nor other devices.
    dense = str(getattr(targets, "layout", "torch.strided")) == "torch.strided"
    if dense and hasattr(targets, "reshape") and getattr(targets, "ndim", 0) > 2:
        rows, *one = targets.shape
        return targets.reshape(rows, math.prod(one)), shape or one
    return targets, shape


def run(spaces: Any, train: Any, test: Any, labels: Any, targets: Any, target_shape: Sequence[int] | None,
        methods: str | Sequence[str], similarities: str | Sequence[str], swept: Mapping[str, Sequence[Any]], seeds: Any,
        seed: int, hold_out: str | Sequence[str], samples: int, support_ids: Any, out: Any, fresh: bool,
        keep_bundles: bool, report: bool | None, progress: ShowProgress, options: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    spaces = named_spaces(spaces)
    require_split(train, "train")
    require_split(test, "test")
    fresh, keep_bundles = truth(fresh, "fresh"), truth(keep_bundles, "keep_bundles")
    if keep_bundles and out is None:
        raise ValueError("keep_bundles saves bundles in the folder `out`; name one")
    folder = folder_of(out)
    report = folder is not None if report is None else truth(report, "report")
    if report and folder is None:
        raise ValueError("a report is a file in the folder `out`; name one")
    place = pathlib.Path(folder or "")
    heads = {option["name"] for option in _core.head_options()}
    targets, shape = flat_targets(targets, target_shape)
    plan = {
        "fit": {name: value for name, value in options.items() if name not in heads},
        "head": {name: value for name, value in options.items() if name in heads},
        "swept": swept, "sweep": any(map(len, swept.values())),
        "methods": names(methods, "methods"), "similarities": names(similarities, "similarity"),
        "seeds": all_seeds(seeds, seed), "hold_out": names(hold_out, "hold_out"), "samples": count(samples, "samples"),
        "figures": report, "support_ids": _inputs.support_ids_of(support_ids),
        "bundle_folder": str(place / "bundles") if keep_bundles else "",
    }
    labels = None if labels is None else _inputs.integers_of(labels, "labels")
    records = _core.stitch(spaces, train, test, labels, targets, shape, plan, folder, fresh, progress)
    if report:
        from .report import page, results

        write_file(place / "report.html", page.render(results.read(place)))
    table = pd.DataFrame(json.loads(records))
    return table.where(table.notna(), np.nan).infer_objects()


@takes(_core.fit_options(), _core.head_options(), leave_out=NOT_HERE)
def stitch(spaces: Any, *, train: Any, test: Any, labels: Any = None, targets: Any = None,
           target_shape: Sequence[int] | None = None, methods: str | Sequence[str] = _core.STITCH_METHODS,
           seeds: int | Sequence[int] = 1, seed: int = 0, hold_out: str | Sequence[str] = (),
           samples: int = _core.STITCH_SAMPLES, support_ids: Any = None, out: Path | None = None, fresh: bool = False,
           keep_bundles: bool = False, report: bool | None = None, progress: ShowProgress = False,
           **options: Unpack[StitchOptions]) -> pd.DataFrame:
    """Hold each encoder out in turn and measure how heads trained on the others do on it.

    Parameters
    ----------
    spaces : dict
        As for fit; all rows, both those to train on and those to test on.
    train, test : slice, (first, end), 'first:end', array of row numbers or mask
        Rows to learn anchors, whitening and heads from, and rows to test them on.
    labels : array of int, optional
        The class of each row; without it no classifiers are trained.
    targets : array or path, optional
        What decoders learn to reproduce for each row: rows x values, or images as rows x height x width.
    target_shape : tuple of int, optional
        Shape of one target as an image, for the report, if the array does not say.
    methods : list of str
        'absolute', 'ridge' (of each pair, as a baseline), or anchors (random, kmeans, fps, param-single, param-multi,
        consensus) with a similarity (wip by default), such as 'random-cosine'; a final '-ridge' or '-kernel' makes maps
        that way.
    seeds : int or list of int, default 1
        Number of seeds to run everything with, or the seeds themselves.
    seed : int, default 0
        The first seed, if `seeds` is a number.
    hold_out : list of str, optional
        Hold out only these spaces; each in turn by default.
    samples : int
        Number of test rows whose decoded targets the report shows.
    support_ids : array of int, optional
        As for fit.
    out : path, optional
        Folder for results, tables and the report, as 'kedge stitch' writes them; results already there are not computed
        again, so interrupted runs resume.
    fresh : bool, default False
        Recompute everything, even if the folder already has results.
    keep_bundles : bool, default False
        Also save every bundle, in out/bundles.
    report : bool, optional
        Whether to write out/report.html; by default, only if `out` is given.
    progress : bool or callable, default False
        As for fit.

    Returns
    -------
    pandas.DataFrame
        One row per measurement: method, encoder, trained_on, zero_shot, seed and the scores (docs/results.md).
    """
    return run(spaces, train, test, labels, targets, target_shape, methods, (), NO_SWEEP, seeds, seed, hold_out,
               samples, support_ids, out, fresh, keep_bundles, report, progress, options)


@takes(_core.fit_options(), _core.head_options(), leave_out=(*NOT_HERE, *SWEPT))
def sweep(spaces: Any, *, train: Any, test: Any, anchors: int | Sequence[int] = (), support: int | Sequence[int] = (),
          shrinkage: float | str | Sequence[float | str] = (), similarity: str | Sequence[str] = (), labels: Any = None,
          targets: Any = None, target_shape: Sequence[int] | None = None,
          methods: str | Sequence[str] = _core.SWEEP_METHODS, seeds: int | Sequence[int] = 1, seed: int = 0,
          hold_out: str | Sequence[str] = (), samples: int = _core.STITCH_SAMPLES, support_ids: Any = None,
          out: Path | None = None, fresh: bool = False, keep_bundles: bool = False, report: bool | None = None,
          progress: ShowProgress = False, **options: Unpack[SweepOptions]) -> pd.DataFrame:
    """Stitch with every combination of anchor count, support size, similarity and shrinkage.

    Parameters
    ----------
    anchors, support : list of int, optional
        Numbers of anchors, and of rows to make them from.
    shrinkage : list of float or str, optional
        How far to shrink the covariance towards a sphere, 0 to 1; or 'auto', 'ledoit-wolf', 'oas'.
    similarity : list of str, optional
        Similarities for methods named without one.
    spaces, train, test, labels, targets, target_shape, methods, seeds, seed, hold_out, samples, support_ids, out, \
fresh, keep_bundles, report, progress
        As for stitch.

    Returns
    -------
    pandas.DataFrame
        As for stitch; the columns anchors, support and shrinkage tell the points apart.
    """
    swept: dict[str, Sequence[Any]] = {"anchors": counts(anchors, "anchors"), "support": counts(support, "support"),
                                       "shrinkage": pulls(shrinkage)}
    return run(spaces, train, test, labels, targets, target_shape, methods, similarity, swept, seeds, seed, hold_out,
               samples, support_ids, out, fresh, keep_bundles, report, progress, options)
