# SPDX-License-Identifier: Apache-2.0
"""What DuckDB and SQLite have in common."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ..._errors import Error


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def all_or_nothing(run: Callable[[str, str], object], doing: str, begin: str) -> Iterator[None]:
    """A transaction; 'run' takes a word for what is done, and a statement."""
    run(doing, begin)
    try:
        yield
        run(doing, "COMMIT")
    except BaseException:
        with contextlib.suppress(Error):  # it may have rolled back by itself
            run(doing, "ROLLBACK")
        raise
