# SPDX-License-Identifier: Apache-2.0
"""fit: the map from old vectors to new ones, by ridge or kernel, whichever has the smaller leave-one-out error."""
from __future__ import annotations

import math
import warnings
from typing import Any, TypeAlias

import numpy as np

import kedge

from .._errors import Error
from .migration import Migration, digest_of
from .types import Found, Vectors

Curve: TypeAlias = list[tuple[int, float]]  # rows of a sample, and the error of a map made from them

LEAST_ROWS = 20
LARGEST_ERROR = .97
# By ridge, raw rows make the better index; by kernel it makes no difference: docs/search-scores.md has the table.
METHODS: dict[str, dict[str, Any]] = {"ridge": {"method": "ridge", "similarity": "inner"},
                                      "kernel": {"method": "kernel"}}
CURVE_SHARES = (.25, .5, 1)
STRENGTHS = (.003, .01, .03, .1, .3, 1, 3, 10, 30)


def fit(migration: Migration) -> Found:
    """Learns the map from the sample and saves it beside the config. Returns the errors of what was tried."""
    journal = migration.journal
    ids, old, new = journal.sample()
    waiting = len(journal.unembedded())
    if len(ids) < LEAST_ROWS:
        raise Error(f"the map needs at least {LEAST_ROWS} documents that both models have embedded, and there are "
                    f"{len(ids)}; run 'kedge-migrate sample'")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        bundle, errors, chosen = learn(old, migration.as_new(new), migration.config.map)
        curve = learning_curve(old, migration.as_new(new), chosen, errors[chosen])
    if errors[chosen] > LARGEST_ERROR:
        raise Error(f"the map explains nothing of the new vectors (error {errors[chosen]:.3f}), so they seem to belong "
                    "to other documents; are they in the order of the file that 'sample' wrote? 'sample --again' takes "
                    "them anew")
    bundle.save(migration.bundle_path, in_place=True)
    found = {"rows": len(ids), "waiting": waiting, "map": chosen, "errors": errors, "file": str(migration.bundle_path),
             "curve": curve, "warnings": list(dict.fromkeys(str(one.message) for one in said))[:1]}
    journal.note(map=chosen, error=errors[chosen], fitted=digest_of(migration.bundle_path))
    journal.log("fit", found)
    return found


def learn(old: Vectors, new: Vectors, which: str = "auto") -> tuple[kedge.Bundle, dict[str, float], str]:
    """(bundle, {method: leave-one-out error as a share of the new vectors' variance}, chosen)."""
    strength: float | None = None
    errors: dict[str, float] = {}
    if which != "kernel":
        strength, errors["ridge"] = best_ridge(old, new)
    tried = {}
    for method in METHODS if which == "auto" else [which]:
        options = {**METHODS[method], **({"ridge": strength} if method == "ridge" else {})}
        try:
            tried[method] = kedge.fit({"old": old, "new": new}, support=len(old), **options)
        except ValueError as error:
            raise Error(f"no map can be learned from the sample: {error}") from None
        errors.setdefault(method, 1 - (tried[method]["old"].r2 or 0.0))
    chosen = min(errors, key=lambda method: errors[method])
    return tried[chosen], errors, chosen


def best_ridge(old: Vectors, new: Vectors) -> tuple[float, float]:
    """(strength, leave-one-out error) of the ridge with the smallest such error, a mean over new values as of a kernel.

    Each row is left out exactly. Generalised cross-validation, which kedge.fit chooses by, can go wrong if there are
    fewer rows than values and some of them are alike.
    """
    x, y = (np.asarray(rows, np.float64) - rows.mean(axis=0, dtype=np.float64) for rows in (old, new))
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    squares, inside = values**2, left.T @ y
    mean = squares.sum() / x.shape[1]
    if not mean > 0:
        raise Error("no map can be learned from the sample: its old vectors are all alike")
    variances = np.square(y).sum(axis=0)
    varies = variances > 0
    if not varies.any():
        raise Error("no map can be learned from the sample: its new vectors are all alike")
    found = []
    for strength in STRENGTHS:
        kept = squares / (squares + strength * mean)
        taken = np.minimum(1 / len(x) + left**2 @ kept, 1 - 1e-9)  # a row that alone decides its own value says nothing
        missed = (y - left @ (kept[:, None] * inside)) / (1 - taken)[:, None]
        found.append((float(np.mean(np.square(missed).sum(axis=0)[varies] / variances[varies])), strength))
    error, strength = min(found)
    return strength, error


def learning_curve(old: Vectors, new: Vectors, method: str, last: float) -> Curve:
    """(rows, error) of maps from a part of the sample: what a larger one would be worth."""
    found = []
    for share in CURVE_SHARES[:-1]:
        rows = int(share * len(old))
        if rows >= LEAST_ROWS:
            _, errors, _ = learn(old[:rows], new[:rows], method)
            found.append((rows, errors[method]))
    return [*found, (len(old), last)]


def rows_for(curve: Curve, target: float) -> int | None:
    """How many documents bring the error down so far, by the power law through the curve; None if it does not fall."""
    rows, errors = np.log([rows for rows, _ in curve]), np.log([max(error, 1e-9) for _, error in curve])
    if curve[-1][1] <= target:
        return curve[-1][0]
    if len(curve) < 2:
        return None
    slope, at_one = np.polyfit(rows, errors, 1)
    if slope >= -0.02:
        return None
    return math.ceil(float(np.exp((np.log(target) - errors[-1]) / slope + rows[-1])))
