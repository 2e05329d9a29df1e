# SPDX-License-Identifier: Apache-2.0
"""Rows of .npy files as a store."""
import os

import numpy as np
import pytest

from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, unit_rows
from kedge.migrate.errors import BadFile, Error
from kedge.migrate.store import open_store


class TestNpy(StoreContract):
    dtype = np.float32

    @pytest.fixture
    def filled(self, tmp_path):
        vectors = unit_rows(ROWS, OLD_WIDTH)
        np.save(tmp_path / "docs.npy", vectors.astype(self.dtype))
        return Filled(open_store(f"npy:{tmp_path}/docs.npy"), list(range(ROWS)), vectors)


class TestHalf(TestNpy):
    dtype = np.float16
    tolerance = 0.0

    def test_the_new_one_is_of_the_same_kind(self, old, new):
        assert old.describe().kind == new.describe().kind == "float16"
