# SPDX-License-Identifier: Apache-2.0
"""Rows of .npy files as a store."""
import errno
import os
import pathlib
from typing import Any

import numpy as np
import pytest
from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, unit_rows
from kedge.migrate import BadFile, Error
from kedge.migrate.store import Store, open_store
from kedge.migrate.stores.npy import NpyStore
from require import of_kind


class TestNpy(StoreContract):
    dtype: type[np.floating[Any]] = np.float32

    @pytest.fixture
    def filled(self, tmp_path: pathlib.Path) -> Filled:
        vectors = unit_rows(ROWS, OLD_WIDTH)
        np.save(tmp_path / "docs.npy", vectors.astype(self.dtype))
        return Filled(open_store(f"npy:{tmp_path}/docs.npy"), list(range(ROWS)), vectors)


class TestHalf(TestNpy):
    dtype = np.float16

    def test_the_new_one_is_of_the_same_kind(self, old: Store, new: Store) -> None:
        assert old.describe().kind == new.describe().kind == "float16"


Places = tuple[NpyStore, NpyStore, np.ndarray]  # the old store, the new one, and the rows to put into the new one


@pytest.fixture
def places(tmp_path: pathlib.Path) -> Places:
    np.save(tmp_path / "docs.npy", unit_rows(ROWS, OLD_WIDTH))
    old = of_kind(NpyStore, open_store(f"npy:{tmp_path}/docs.npy"))
    new = of_kind(NpyStore, old.beside("_new"))
    new.create(old, NEW_WIDTH, OWNER)
    return old, new, unit_rows(ROWS + 20, NEW_WIDTH, 2)


def test_the_new_file_is_one_that_numpy_reads(places: Places) -> None:
    _, new, rows = places
    new.write(list(range(ROWS)), rows[:ROWS])
    assert (np.load(new.path) == rows[:ROWS]).all()


def test_rows_that_arrive_later_make_the_file_longer(places: Places) -> None:
    _, new, rows = places
    new.write(list(range(ROWS)), rows[:ROWS])
    new.write([ROWS + 19, ROWS + 4], rows[[ROWS + 19, ROWS + 4]])
    found = contents(open_store(new.address))
    assert list(found) == [*range(ROWS), ROWS + 4, ROWS + 19]
    assert all((found[key] == rows[key]).all() for key in found)
    assert np.load(new.path).shape == (ROWS + 20, NEW_WIDTH)


def test_a_row_that_was_cut_short_is_not_there(places: Places) -> None:
    """In a file of ours; in a user's file a row with some NaN is one to be told of."""
    old, new, rows = places
    new.write([0, 1], rows[:2])
    with open(new.path, "rb+") as file:
        file.seek(np.load(new.path, mmap_mode="r").offset + 4 * NEW_WIDTH)
        file.write(np.r_[rows[1, :9], np.full(NEW_WIDTH - 9, np.nan)].astype(np.float32).tobytes())
    assert list(contents(new)) == [0] and new.describe().rows == 1
    half = np.array([[1, np.nan], [np.nan, np.nan], [np.nan, 2]], np.float32)
    np.save(old.path, half)
    assert list(contents(old)) == [0, 2] and old.describe().rows == 2


def test_a_full_disk_is_a_sentence(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, rows = places

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(Error, match="the disk is full; make room"):
            new.write([0], rows[:1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        other = of_kind(NpyStore, old.beside("_other"))
        with pytest.raises(Error, match="the disk is full; make room"):
            other.create(old, NEW_WIDTH, OWNER)
        assert not other.path.exists()
    other.create(old, NEW_WIDTH, OWNER)
    assert contents(new) == contents(other) == {}


def test_what_is_not_a_matrix_of_floats_is_said(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "whole.npy", np.arange(6).reshape(2, 3))
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "object.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / "several", a=np.zeros(3))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    (tmp_path / "text.npy").write_text("not an array")
    (tmp_path / "empty.npy").touch()
    np.save(tmp_path / "cut.npy", np.zeros((50, 50)))
    os.truncate(tmp_path / "cut.npy", 5000)
    for name in ("whole", "cube", "object", "several", "text", "empty", "cut"):
        with pytest.raises(BadFile, match=f"{name}.npy"):
            open_store(f"npy:{tmp_path}/{name}.npy").describe()


def test_a_place_that_is_taken_is_not_overwritten_by_a_switch(places: Places) -> None:
    old, new, rows = places
    kept = of_kind(NpyStore, old.beside("_old"))
    np.save(kept.path, np.zeros((2, 2)))
    with pytest.raises(Error, match="is taken"):
        old.switch(new, kept)
    assert old.describe().width == OLD_WIDTH and new.describe().width == NEW_WIDTH and kept.describe().width == 2


def test_without_second_names_a_switch_still_works(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some disks have no hard links."""
    old, new, _ = places
    kept = old.beside("_old")

    def refuse(*words: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    old.switch(new, kept)
    assert (old.describe().width, kept.describe().width) == (NEW_WIDTH, OLD_WIDTH)
    assert old.describe().owner == OWNER and kept.describe().owner is None
    old.switch(kept, new)
    assert (old.describe().width, new.describe().width) == (OLD_WIDTH, NEW_WIDTH)
    assert old.describe().owner is None and new.describe().owner == OWNER
