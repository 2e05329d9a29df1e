#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast a BLAS is at the products that kedge makes, on one thread.

    OPENBLAS_CORETYPE=Prescott bench/blas.py /usr/lib/x86_64-linux-gnu/libopenblas.so.0

Takes a library: Debian's OpenBLAS, PyPI's (libscipy_openblas.so of scipy-openblas32), or MKL (libmkl_rt.so of mkl).
Prints billions of operations per second of processor time, of the fastest of 25 rounds: of the sums of a fit (dsyrk),
of products in float64 and of those of a map (float32).
"""
import argparse
import ctypes
import functools
import os
import time
from collections.abc import Callable

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):  # which libraries read when loaded
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

ROWS_OF_BLAS, PLAIN, TRANSPOSED, LOWER = 101, 111, 112, 122  # as cblas.h numbers them
ROUNDS = 25


def speed(operations: float, work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return operations / min(seconds) / 1e9


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    library = ctypes.CDLL(parser.parse_args().library, mode=ctypes.RTLD_GLOBAL)
    prefix = "scipy_" if hasattr(library, "scipy_cblas_dgemm") else ""
    rng = np.random.default_rng(0)
    rows, sums = rng.standard_normal((3272, 640)), np.zeros((640, 640))
    found = [speed(640 * 641 * 3272, lambda: library[f"{prefix}cblas_dsyrk"](
        ROWS_OF_BLAS, LOWER, TRANSPOSED, 640, 3272, ctypes.c_double(1), pointer(rows), 640, ctypes.c_double(1),
        pointer(sums), 640))]
    for kind, number, letter in ((np.float64, ctypes.c_double, "d"), (np.float32, ctypes.c_float, "s")):
        x, w = (rng.standard_normal(shape).astype(kind) for shape in ((2000, 768), (768, 300)))
        y = np.zeros((2000, 300), kind)
        work = functools.partial(library[f"{prefix}cblas_{letter}gemm"], ROWS_OF_BLAS, PLAIN, PLAIN, 2000, 300, 768,
                                 number(1), pointer(x), 768, pointer(w), 300, number(0), pointer(y), 300)
        found.append(speed(2 * y.size * 768, work))
    print("sums {:.0f}, products {:.0f}, maps {:.0f}".format(*found))


if __name__ == "__main__":
    main()
