# SPDX-License-Identifier: Apache-2.0
"""The one file that is written."""
import os


def write_whole(path, text):
    """The page appears complete or not at all, and an older one stays until then."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
