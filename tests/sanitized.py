# SPDX-License-Identifier: Apache-2.0
"""Whether the command was built with a sanitizer, which takes memory of its own and terabytes of addresses; that of
threads also writes a file before the command begins, and cannot where files may have no size."""
import mmap
import os


def _names(symbol: bytes) -> bool:
    with open(os.environ["KEDGE"], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(symbol) >= 0


WRITES_ITSELF = _names(b"__tsan_init")
SANITIZED = WRITES_ITSELF or _names(b"__asan_init")
