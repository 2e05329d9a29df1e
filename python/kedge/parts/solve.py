# SPDX-License-Identifier: Apache-2.0
"""What is made of the sum of all partials, on one machine."""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core, _fit
from .._arrays import named
from .._core import Bundle, Moments
from .._options import takes
from .apply import bundle_of
from .columns import require_names
from .partial import Partial

if TYPE_CHECKING:
    import pandas as pd

SUPPORT = 5000
SAMPLE = 100_000  # rows that methods learn from which need more than sums
VALIDATED = 20_000

# The options that engines hand on, for their signatures, their help, and what they say of others.
fit_options = takes(_core.fit_options(), leave_out=("support", "support_select", "seed"))
attach_options = takes(_core.attach_options(), leave_out=("support_rows",))
validate_options = takes(_core.fit_options(), leave_out=("seed", "checkpoint", "checkpoint_every", "resume"))


def require_fit(seed: int, options: Mapping[str, Any]) -> None:
    require_options(_fit.fit, {"moments": _core.Moments()}, {**options, "seed": seed})


def require_attach(bundle: Bundle, columns: Mapping[str, str], replace: bool, options: Mapping[str, Any]) -> None:
    require_names(columns)
    if not bundle.by_id:
        raise ValueError("the bundle keeps its support by row number, so that ids do not find it; fit it by id first, "
                         "with ids= or from parts")
    for space in columns:
        require_options(copy.copy(bundle).attach, {"name": space, "X": []}, {**options, "replace": replace},
                        {"replace": True})


def require_validate(columns: Mapping[str, str], seed: int, options: Mapping[str, Any]) -> None:
    require_names(columns)
    if len(columns) < 3:
        raise ValueError("validation holds each space out in turn and needs three columns or more, but there are "
                         f"{len(columns)}")
    require_options(_fit.validate, {"spaces": {}}, {**options, "seed": seed})


def require_options(call: Callable[..., object], nothing: Mapping[str, Any], options: Mapping[str, Any],
                    fitting: Mapping[str, Any] | None = None) -> None:
    """Raises what is wrong with the options, before any row is read: a call without rows complains about its options
    first, if there is something to complain about. A GPU need not be on this machine."""
    if options.get("device") == "cuda":
        options = {**options, "device": "cpu"}
    error = refusal(call, {**nothing, **options})
    if str(error) != str(refusal(call, {**nothing, **(fitting or {})})):
        raise error


def refusal(call: Callable[..., object], arguments: Mapping[str, Any]) -> ValueError | TypeError:
    try:
        call(**arguments)
    except (ValueError, TypeError) as error:
        return error
    raise AssertionError("there was nothing to work on")


def learns_from_rows(options: Mapping[str, Any]) -> bool:
    """Whether a fit with these options needs a sample of rows, and not sums and support rows alone."""
    refined = options.get("method", "consensus") == "consensus" and options.get("effort") == "best"
    return options.get("method") == "param" or bool(options.get("refine_epochs")) or refined


def rows_to_draw(support: int | None, sample: int, options: Mapping[str, Any]) -> int:
    """The support is the beginning of the sample: a larger draw contains a smaller one."""
    support = SUPPORT if support is None else whole("support", support)
    return max(support, whole("sample", sample)) if learns_from_rows(options) else support


def whole(name: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a number of rows, 1 or more; found {value!r}")
    return int(value)


def fitted(total: Partial | None, support: int | None, seed: int, options: Mapping[str, Any]) -> Bundle:
    """A bundle. A support that was asked for must be there; otherwise there may be fewer rows."""
    total = require_rows(total)
    moments = total.moments
    ids = moments.support_ids
    options = {**options, "support": min(SUPPORT, len(ids)) if support is None else support, "seed": seed}
    if not learns_from_rows(options):
        return _fit.fit(moments=moments, **options)
    sample = {space: moments.support(space) for space in total.columns.spaces}
    return _fit.fit(sample, ids=ids, moments=moments, **options)


def attached(total: Partial | None, bundle: Bundle, options: Mapping[str, Any]) -> Bundle:
    """A copy of the bundle with the spaces of these partials."""
    total = require_rows(total)
    bundle, moments = copy.copy(bundle_of(bundle)), total.moments
    require_support(bundle, moments, total.columns.spaces)
    for space in total.columns.spaces:
        bundle.attach(space, moments.support(space), support_rows=True, moments=moments, **options)
    return bundle


def require_support(bundle: Bundle, moments: Moments, spaces: Iterable[str]) -> None:
    missing = np.setdiff1d(bundle.support_ids, moments.support_ids)
    if len(missing):
        all_of_them = ", or are these the ids of other rows?" if len(missing) == len(bundle.support_ids) else ""
        raise ValueError(f"{named(list(spaces))}: {len(missing)} of {len(bundle.support_ids)} support rows are "
                         f"missing, with the id {named(missing.tolist(), 5)}; add the rows with these ids{all_of_them}")


def validated(total: Partial | None, seed: int, options: Mapping[str, Any]) -> pd.DataFrame:
    total = require_rows(total)
    spaces = {space: total.moments.support(space) for space in total.columns.spaces}
    return _fit.validate(spaces, seed=seed, **options)


def require_rows(total: Partial | None) -> Partial:
    if total is None or total.rows == 0:
        raise ValueError("there are no rows to learn from")
    total.seen.require_unique()
    return total
