# SPDX-License-Identifier: Apache-2.0
"""Arguments and exit codes. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file, 130 interrupted."""
import argparse
import contextlib
import dataclasses
import inspect
import json
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence

from .._errors import UsageError
from .._program import print_lines, run
from .api import Migration
from .config import Config
from .migration import CONFIG
from .types import Found

NEXT = re.compile(r"(Next|then): kedge-migrate [a-z-]+")
COMMANDS = {
    "plan": "look at the store: what is in it, what a migration costs; writes the config if there is none",
    "sample": "draw the documents that both models embed, and embed them",
    "fit": "learn the map from old vectors to new ones",
    "check": "measure what search will keep, and say what to do: translate, fuse or embed again",
    "apply": "translate every vector into a new place beside the old",
    "verify": "check that the new place is complete and right",
    "cutover": "put the new vectors where the old ones are",
    "rollback": "put the old vectors back",
    "finish": "stop noting what others change; the old vectors can go then",
    "top-up": "replace translated vectors by real ones, the most useful first",
    "status": "say where the migration stands",
    "report": "write a page with the quality so far and what was done when",
    "sql": "print the fused search as an SQL function, for PostgreSQL",
}


def count(text: str) -> int:
    """A number of rows."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, found {text!r}")
    return int(text)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kedge-migrate", description="Changes the embedding model under a vector store. Run the commands in this "
        "order; each can be run again and continues where it was stopped.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parsers = {}
    for name, purpose in COMMANDS.items():
        parsers[name] = command = commands.add_parser(name, help=purpose,
                                                      description=purpose[0].upper() + purpose[1:] + ".")
        command.add_argument("--config", metavar="FILE", default=CONFIG, help=f"the migration (default: {CONFIG})")
        command.add_argument("--json", action="store_true", help="print what was found as JSON on stdout")
        command.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    settings = parsers["plan"].add_argument_group("settings, for a new config")
    for field in dataclasses.fields(Config):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            settings.add_argument(flag, action=argparse.BooleanOptionalAction, default=None,
                                  help=field.metadata["help"])
        else:
            settings.add_argument(flag, type=type(field.default), default=None, help=field.metadata["help"],
                                  choices=field.metadata["choices"],
                                  metavar=None if field.metadata["choices"] else field.metadata["metavar"])
    add = parsers["sample"].add_argument
    add("--rows", type=count, metavar="N", help="documents in all [as the config says]")
    add("--target-error", type=float, metavar="SHARE",
        help="as many as bring the map's error down to this share of the variance")
    add("--vectors", metavar="FILE.npy", help="the new model's vectors of what waits for them")
    add("--again", action="store_true", help="forget the new model's vectors of the sample first")
    add = parsers["check"].add_argument
    add("--whole", action="store_true",
        help="with judged queries, also search the whole store [if it has at most 200,000 rows]")
    add("--gate", type=float, metavar="SHARE",
        help="exit status 4 unless search keeps this share of the old model's nDCG@10 (of the new one's if the old is "
        "gone), by the lower end of its 95 %% interval")
    for name, where in (("apply", "where new vectors go into a column of it"),
                        ("rollback", "that gets an old vector because it came or changed since the cutover")):
        add = parsers[name].add_mutually_exclusive_group().add_argument
        add("--fire-triggers", action="store_true", default=None,
            help=f"let the table's triggers run for every row, {where}")
        add("--skip-triggers", action="store_false", dest="fire_triggers", default=None, help="keep them from running")
    add = parsers["verify"].add_argument
    add("--rows", type=count, default=1000, metavar="N", help="rows to translate again (default: 1000)")
    add = parsers["cutover"].add_argument
    add("--yes", action="store_true", help="go on where the store cannot switch in one step")
    add = parsers["rollback"].add_argument
    add("--yes", action="store_true",
        help="go on where the store cannot switch in one step, or where --drop removes documents that are nowhere else")
    add("--drop", action="store_true", help="also remove the new vectors")
    add = parsers["top-up"].add_argument
    add("--rows", type=count, metavar="N", help="documents to embed now [all]")
    add("--share", type=float, metavar="SHARE", help="go on until this share is real")
    add("--vectors", metavar="FILE.npy", help="the new model's vectors of what was handed out")
    for name in ("apply", "top-up"):
        add = parsers[name].add_argument
        add("--rate", type=float, metavar="ROWS_PER_S", help="rows a second at most [as fast as it goes]")
        add("--max-lag", type=float, metavar="SECONDS", help="wait while replicas are further behind [do not look]")
    parsers["report"].add_argument("-o", "--out", metavar="FILE.html", help="file to write [beside the config]")
    parsers["sql"].add_argument("--install", action="store_true", help="install it in the database")
    return parser.parse_args(argv)


def open_migration(options: argparse.Namespace) -> Migration:
    """Settings on the command line make a new config; they do not change one that is there."""
    alone = options.command not in ("status", "report", "sql")
    if options.command != "plan":
        return Migration(options.config, alone)
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(Config)
             if getattr(options, field.name) is not None}
    if os.path.exists(options.config):
        if given:
            raise UsageError(f"{options.config} is there already; change {', '.join(given)} in the file, or give "
                             "another --config")
        return Migration(options.config, alone)
    if "store" not in given:
        raise UsageError(f"there is no {options.config}; say which store to look at with --store ADDRESS")
    return Migration.begin(options.config, **given)


@contextlib.contextmanager
def without_leftovers(options: argparse.Namespace) -> Iterator[None]:
    """A plan that fails leaves no config behind, which would be in the way of the next try; nor a journal, unless it
    was there: it may hold a sample that was paid for."""
    files = (options.config, str(pathlib.Path(options.config).with_suffix(".journal")))
    new = [path for path in files if options.command == "plan" and not os.path.exists(path)]
    try:
        yield
    except BaseException:
        if options.config in new:
            for path in new:
                pathlib.Path(path).unlink(missing_ok=True)
        raise


def step(migration: Migration, options: argparse.Namespace) -> Found:
    """Runs the method of a command with its options; returns what it found."""
    method = getattr(migration, options.command.replace("-", "_"))
    given = {name: getattr(options, name) for name in inspect.signature(method).parameters if name != "progress"}
    if "progress" in inspect.signature(method).parameters:
        given["progress"] = False if options.quiet or options.json else None
    found: Found = method(**given)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)

    def work() -> Found:
        with without_leftovers(options), open_migration(options) as migration:
            return step(migration, options)

    code, found = run("kedge-migrate", work, extra="migrate", path=options.config,
                      interrupted="interrupted; the same command continues")
    if found is None:
        return code
    if options.json:
        print_lines([json.dumps(found)])
    elif not options.quiet:
        from . import say
        print_lines(line if options.config == CONFIG else
                    NEXT.sub(lambda found: f"{found[0]} --config {shlex.quote(options.config)}", line)
                    for line in getattr(say, options.command.replace("-", "_"))(found))
    if options.command == "check" and found.get("gate", {"passed": True})["passed"] is False:
        return 4
    return 1 if options.command == "verify" and not found["whole"] else 0


if __name__ == "__main__":
    sys.exit(main())
