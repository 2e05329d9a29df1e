# SPDX-License-Identifier: Apache-2.0
"""Arguments, errors and the one file that is written. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file."""
from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from .._errors import Error
from .._extras import what_is_missing
from .._output_file import write_file
from .._program import run


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kedge.report",
                                     description="Makes one HTML page from what 'kedge stitch' or 'kedge sweep' wrote.")
    parser.add_argument("folder", metavar="OUT", type=pathlib.Path, help="the folder that holds results.json")
    parser.add_argument("--output", type=pathlib.Path, help="the page to write (default: OUT/report.html)")
    parser.add_argument("--quiet", action="store_true", help="print nothing if all goes well")
    return parser.parse_args(argv)


def write(options: argparse.Namespace) -> None:
    try:
        from . import page, results
    except ImportError as error:
        raise Error(f"{what_is_missing(error, None)}; run 'scripts/setup demo' and use .venv/bin/python, or 'pip "
                    "install numpy pandas matplotlib jinja2'") from None
    found = results.read(options.folder)
    text = page.render(found)
    output = options.output or options.folder / "report.html"
    try:
        write_file(output, text)
    except OSError as error:
        raise Error(f"cannot write {output}: {error.strerror}; name another place with --output") from None
    if found.trouble:
        print(f"report: no drawings: {found.trouble}", file=sys.stderr)
    if not options.quiet:
        print(f"report: wrote {output} ({len(text) / 1e6:.1f} MB)", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    return run("report", lambda: write(options), path=str(options.folder),
               interrupted="interrupted; nothing was written")[0]


if __name__ == "__main__":
    sys.exit(main())
