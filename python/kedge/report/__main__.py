# SPDX-License-Identifier: Apache-2.0
"""Arguments, errors and the one file that is written. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file."""
import argparse
import pathlib
import sys

from .output import write_whole


def arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m kedge.report",
                                     description="Makes one HTML page from what 'kedge stitch' or 'kedge sweep' wrote.")
    parser.add_argument("folder", metavar="OUT", type=pathlib.Path, help="the folder that holds results.json")
    parser.add_argument("--output", type=pathlib.Path, help="the page to write (default: OUT/report.html)")
    parser.add_argument("--quiet", action="store_true", help="print nothing if all goes well")
    return parser.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    try:
        from . import page, results
    except ImportError as error:
        print(f"report: needs {error.name or error}, which is not installed; run 'scripts/setup demo' and use "
              ".venv/bin/python, or 'pip install numpy pandas matplotlib jinja2'", file=sys.stderr)
        return 1
    try:
        found = results.read(options.folder)
        text = page.render(found)
    except results.BadResults as error:
        print(f"report: {error}", file=sys.stderr)
        return 3
    output = options.output or options.folder / "report.html"
    try:
        write_whole(output, text)
    except OSError as error:
        print(f"report: cannot write {output}: {error.strerror}; name another place with --output", file=sys.stderr)
        return 1
    if found.trouble:
        print(f"report: no drawings: {found.trouble}", file=sys.stderr)
    if not options.quiet:
        print(f"report: wrote {output} ({len(text) / 1e6:.1f} MB)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
