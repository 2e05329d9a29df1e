# SPDX-License-Identifier: Apache-2.0
"""fit: the map from old vectors to new ones, by ridge or kernel, whichever has the smaller error on held-out rows."""
from __future__ import annotations

import hashlib

import numpy as np

from .errors import Error

LEAST_ROWS = 20
# Raw rows make the better index by ridge, and a kernel does not care: docs/methods.md has the table.
METHODS = {"ridge": {"method": "ridge", "similarity": "inner"}, "kernel": {"method": "kernel"}}
CURVE_SHARES = (.25, .5, 1)


def fit(migration):
    """Learns the map from the sample and saves it beside the config. Returns the errors of what was tried."""
    journal = migration.journal
    ids, old, new = journal.sample()
    waiting = len(journal.unembedded())
    if len(ids) < LEAST_ROWS:
        raise Error(f"the map needs at least {LEAST_ROWS} documents that both models have embedded, and there are "
                    f"{len(ids)}; run 'kedge-migrate sample'")
    bundle, errors, chosen = learn(old, migration.as_new(new), migration.config.map)
    bundle.save(migration.bundle_path, in_place=True)
    found = {"rows": len(ids), "waiting": waiting, "map": chosen, "errors": errors, "file": str(migration.bundle_path),
             "curve": learning_curve(old, migration.as_new(new), chosen, errors[chosen])}
    journal.note(map=chosen, error=errors[chosen], fitted=print_of(migration.bundle_path))
    journal.log("fit", found)
    return found


def print_of(path):
    """Tells one map from another."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else (
            hashlib.sha256(file.read()).hexdigest())  # Python 3.10


def learn(old, new, which="auto"):
    """(bundle, {method: share of the new vectors' variance that it misses}, chosen): the error is on rows left out."""
    import kedge

    tried, errors = {}, {}
    for method in METHODS if which == "auto" else [which]:
        try:
            tried[method] = kedge.fit({"old": old, "new": new}, support=len(old), **METHODS[method])
        except ValueError as error:
            raise Error(f"no map can be learned from the sample: {error}") from None
        errors[method] = 1 - (tried[method]["old"].r2 or 0.0)
    chosen = min(errors, key=errors.get)
    return tried[chosen], errors, chosen


def learning_curve(old, new, method, last):
    """(rows, error) of maps from a part of the sample: what a larger one would be worth."""
    found = []
    for share in CURVE_SHARES[:-1]:
        rows = int(share * len(old))
        if rows >= LEAST_ROWS:
            _, errors, _ = learn(old[:rows], new[:rows], method)
            found.append((rows, errors[method]))
    return [*found, (len(old), last)]


def rows_for(curve, target):
    """How many documents it takes to come down to an error, by the power law through the curve; None if it does not fall."""
    rows, errors = np.log([rows for rows, _ in curve]), np.log([max(error, 1e-9) for _, error in curve])
    if curve[-1][1] <= target:
        return curve[-1][0]
    if len(curve) < 2:
        return None
    slope, at_one = np.polyfit(rows, errors, 1)
    if slope >= -0.02:
        return None
    return int(np.ceil(np.exp((np.log(target) - errors[-1]) / slope + rows[-1])))
