# SPDX-License-Identifier: Apache-2.0
"""The zero-shot protocol: stitch and sweep."""
from __future__ import annotations

import json
import os
import pathlib
import typing

import numpy as np

from . import _core, _inputs
from ._fit import named_spaces
from ._options import takes

if typing.TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import StitchOptions, SweepOptions

# Methods and seeds are lists here, and a fit's bundle is not what is wanted of it.
NOT_HERE = ("method", "similarity", "keep", "seed", "attach", "checkpoint", "checkpoint_every", "resume")
SWEPT = ("anchors", "support", "shrinkage")
NO_SWEEP = dict.fromkeys(SWEPT, ())


def as_list(value):
    return [value] if isinstance(value, (str, int, float, np.number)) else list(value)


def flat_targets(targets, shape):
    """Targets as a matrix, and the shape of one of them as a picture."""
    if targets is None or isinstance(targets, (str, os.PathLike)):
        return targets, list(shape or ())
    given = np.asarray(targets)
    if given.ndim > 2:
        return given.reshape(len(given), -1), list(shape or given.shape[1:])
    return targets, list(shape or ())


def run(spaces, train, test, labels, targets, target_shape, methods, similarities, swept, seeds, seed, hold_out, samples,
        support_ids, out, fresh, keep_bundles, report, progress, options):
    import pandas as pd

    spaces = named_spaces(spaces)
    if keep_bundles and out is None:
        raise ValueError("keep_bundles saves bundles in the folder `out`; name one")
    folder = None if out is None else os.fspath(out)
    report = folder is not None if report is None else report
    if report and folder is None:
        raise ValueError("a report is a file in the folder `out`; name one")
    heads = {option["name"] for option in _core.head_options()}
    targets, shape = flat_targets(targets, target_shape)
    plan = {
        "fit": {name: value for name, value in options.items() if name not in heads},
        "head": {name: value for name, value in options.items() if name in heads},
        "swept": swept, "methods": as_list(methods), "similarities": as_list(similarities),
        "seeds": list(range(seed, seed + seeds)) if isinstance(seeds, (int, np.integer)) else list(seeds),
        "hold_out": as_list(hold_out), "samples": samples, "figures": bool(report),
        "support_ids": None if support_ids is None else _inputs.integers_of(support_ids, "support_ids"),
        "bundle_folder": str(pathlib.Path(folder) / "bundles") if keep_bundles else "",
    }
    labels = None if labels is None else _inputs.integers_of(labels, "labels")
    records = _core.stitch(spaces, train, test, labels, targets, shape, plan, folder, fresh, progress)
    if report:
        from .report import output, page, results

        output.write_whole(pathlib.Path(folder) / "report.html", page.render(results.read(pathlib.Path(folder))))
    table = pd.DataFrame(json.loads(records))
    return table.where(table.notna(), np.nan).infer_objects()


@takes(_core.fit_options(), _core.head_options(), leave_out=NOT_HERE)
def stitch(spaces, *, train, test, labels=None, targets=None, target_shape=None, methods=_core.STITCH_METHODS, seeds=1,
           seed=0, hold_out=(), samples=_core.STITCH_SAMPLES, support_ids=None, out=None, fresh=False,
           keep_bundles=False, report=None, progress=False, **options: Unpack[StitchOptions]):
    """Hold every encoder out in turn and see how heads trained on the others do on it.

    Parameters
    ----------
    spaces : dict
        As for fit; all rows, those heads learn from and those they are judged on.
    train, test : slice, (first, end) or 'first:end'
        Rows that anchors, whitening and heads learn from, and rows they are judged on.
    labels : array of int, optional
        The class of every row; without it no classifiers are trained.
    targets : array or path, optional
        What decoders give back for every row: rows x values, or pictures as rows x height x width.
    target_shape : tuple of int, optional
        Shape of one row of the targets as a picture, for the report, where the array does not say.
    methods : list of str
        'absolute', or anchors (random, kmeans, fps, param-single, param-multi, consensus) with a similarity (wip unless
        said), such as 'random-cosine'; '-ridge' at the end makes maps by ridge.
    seeds : int or list of int, default 1
        How many seeds to run everything with, or the seeds themselves.
    seed : int, default 0
        The first of them.
    hold_out : list of str, optional
        Hold out only these spaces; each in turn unless given.
    samples : int
        Test rows whose decoded targets the report shows.
    support_ids : array of int, optional
        As for fit.
    out : path, optional
        Folder for results, tables and the report, as 'kedge stitch' writes them; what is there already is not computed
        again, so that interrupted work goes on.
    fresh : bool, default False
        Compute everything anew, even if the folder has results already.
    keep_bundles : bool, default False
        Also save every bundle, in out/bundles.
    report : bool, optional
        Whether to write out/report.html; yes where there is a folder, unless said otherwise.
    progress : bool or callable, default False
        As for fit.

    Returns
    -------
    pandas.DataFrame
        One line per measurement: method, encoder, trained_on, zero_shot, seed and the scores (docs/results.md).
    """
    return run(spaces, train, test, labels, targets, target_shape, methods, (), NO_SWEEP, seeds, seed, hold_out, samples,
               support_ids, out, fresh, keep_bundles, report, progress, options)


@takes(_core.fit_options(), _core.head_options(), leave_out=(*NOT_HERE, *SWEPT))
def sweep(spaces, *, train, test, anchors=(), support=(), shrinkage=(), similarity=(), labels=None, targets=None,
          target_shape=None, methods=_core.SWEEP_METHODS, seeds=1, seed=0, hold_out=(), samples=_core.STITCH_SAMPLES,
          support_ids=None, out=None, fresh=False, keep_bundles=False, report=None, progress=False,
          **options: Unpack[SweepOptions]):
    """Stitch at every combination of numbers of anchors and support rows, similarities and shrinkages.

    Parameters
    ----------
    anchors, support : list of int, optional
        Numbers of anchors and of rows they are made of.
    shrinkage : list of float or str, optional
        Pulls of the covariance towards a sphere, 0 to 1; or 'auto', 'ledoit-wolf', 'oas'.
    similarity : list of str, optional
        Similarities for methods that are named without one.
    spaces, train, test, labels, targets, target_shape, methods, seeds, seed, hold_out, samples, support_ids, out, fresh, \
keep_bundles, report, progress
        As for stitch.

    Returns
    -------
    pandas.DataFrame
        As for stitch; the columns anchors, support and shrinkage tell the points apart.
    """
    swept = {"anchors": as_list(anchors), "support": as_list(support), "shrinkage": list(map(str, as_list(shrinkage)))}
    return run(spaces, train, test, labels, targets, target_shape, methods, similarity, swept, seeds, seed, hold_out,
               samples, support_ids, out, fresh, keep_bundles, report, progress, options)
