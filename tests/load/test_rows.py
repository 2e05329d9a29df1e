# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow with the rows of a file, and every one of them comes out right."""
import pathlib
from collections.abc import Iterator

import kedge
import numpy as np
import pytest
from conftest import DIM, measured
from tally import Tally

pytestmark = pytest.mark.long

BLOCK = 100_000
SECTION = "Rows of one file, 128 values in float16"


@pytest.fixture(scope="module")
def sizes(everything: bool) -> list[int]:
    return [1_000_000, 5_000_000, 20_000_000] if everything else [20_000, 200_000]


@pytest.fixture(scope="module")
def large(folder: pathlib.Path, sizes: list[int]) -> Iterator[tuple[pathlib.Path, dict[int, np.ndarray]]]:
    """A file of the largest size, and the mean of its first rows at every size; parts of it are smaller files."""
    base = np.random.default_rng(1).normal(size=(min(BLOCK, sizes[0]), DIM)).astype(np.float16)
    path, sums, means = folder / "large.npy", np.zeros(DIM), {}
    with open(path, "wb") as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (sizes[-1], DIM)}
        np.lib.format.write_array_header_1_0(file, header)
        for written in range(0, sizes[-1], len(base)):
            block = np.roll(base, written // len(base), axis=1) + np.float16(written // len(base) % 7)
            file.write(block.tobytes())
            sums += block.sum(axis=0, dtype=np.float64)
            means[written + len(base)] = sums / (written + len(base))
    yield path, means
    path.unlink()


def memory_is_flat(peaks: list[float]) -> None:
    """Of the same work on ever more rows; a few MB are the allocator's."""
    assert max(peaks) < 1.2 * peaks[0] + 16, peaks


def test_attach(large: tuple[pathlib.Path, dict[int, np.ndarray]], bundle: pathlib.Path, folder: pathlib.Path,
                sizes: list[int], tally: Tally) -> None:
    path, means = large
    peaks = []
    for rows in sizes:
        attached = folder / "attached.kedge"
        seconds, peak = measured("attach", bundle, "--space", f"new={path}", "--rows", f"0:{rows}", "-o", attached)
        np.testing.assert_allclose(kedge.load(attached)["new"].mean, means[rows], rtol=1e-5, atol=1e-6)
        peaks.append(peak)
        tally(SECTION, f"attach, {rows:,} rows", f"{seconds:.1f} s, peak {peak:.0f} MB")
    memory_is_flat(peaks)


def test_transform(large: tuple[pathlib.Path, dict[int, np.ndarray]], bundle: pathlib.Path, folder: pathlib.Path,
                   sizes: list[int], tally: Tally) -> None:
    path, _ = large
    rr_map = kedge.load(bundle)["a"]
    rows_in = np.load(path, mmap_mode="r")
    rng = np.random.default_rng(2)
    peaks = []
    for rows in sizes:
        out = folder / "rr.npy"
        seconds, peak = measured("transform", bundle, "--space", "a", "-i", path, "--rows", f"0:{rows}", "-o", out)
        found = np.load(out, mmap_mode="r")
        assert found.shape == (rows, rr_map.n_anchors) and found.dtype == np.float32
        for first in [0, rows - 500, *rng.integers(0, rows - 500, size=20)]:
            expected = rows_in[first:first + 500].astype(np.float64) @ rr_map.weight.T.astype(np.float64) + rr_map.bias
            np.testing.assert_allclose(found[first:first + 500], expected, atol=1e-4 * np.abs(expected).max())
        out.unlink()
        peaks.append(peak)
        tally(SECTION, f"transform, {rows:,} rows", f"{seconds:.1f} s, peak {peak:.0f} MB, rows as numpy's")
    memory_is_flat(peaks)
