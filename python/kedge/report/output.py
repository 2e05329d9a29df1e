# SPDX-License-Identifier: Apache-2.0
"""The one file that is written."""
import pathlib

from .._output_file import write_file


def write_whole(path: pathlib.Path, text: str) -> None:
    """Names may hold what UTF-8 cannot say."""
    write_file(path, text.encode("utf-8", "replace"))
