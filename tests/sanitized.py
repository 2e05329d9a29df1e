# SPDX-License-Identifier: Apache-2.0
"""Whether the command was built with a sanitizer, which takes memory of its own and terabytes of addresses."""
import mmap
import os


def _is_sanitized(program):
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"__asan_init") >= 0 or content.find(b"__tsan_init") >= 0


SANITIZED = _is_sanitized(os.environ["KEDGE"])
