# SPDX-License-Identifier: Apache-2.0
"""What tests require of a store and of what it gives, so that they can go on with it."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from kedge.migrate import Error
from kedge.migrate.store import Rows, Store
from kedge.migrate.types import Id

AStore = TypeVar("AStore", bound=Store)


def of_kind(kind: type[AStore], store: Store) -> AStore:
    """The same store, for tests that look behind what all kinds of stores have."""
    assert isinstance(store, kind)
    return store


def vectors_of(batch: Rows) -> np.ndarray:
    assert batch.vectors is not None
    return batch.vectors


def texts_of(batch: Rows) -> list[str | None]:
    assert batch.texts is not None
    return batch.texts


def require_errors(message: str, *calls: Callable[[], object]) -> None:
    """Each of these raises an error that says so."""
    for call in calls:
        with pytest.raises(Error, match=message):
            call()


def require_near(found: npt.ArrayLike, expected: npt.ArrayLike, share: float = 1e-5, message: str = "") -> None:
    """No value is further from the expected one than this share of the largest: processors round differently."""
    there, wanted = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(there, wanted, rtol=0, atol=share * np.abs(wanted).max(), err_msg=message)


def number(key: Id) -> int:
    """An id that is a number, in a store that may write it as a text."""
    return int(str(key))
