# SPDX-License-Identifier: Apache-2.0
"""Arguments and exit codes. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file, 130 interrupted."""
import argparse
import dataclasses
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence

from .._errors import UsageError
from .._program import run
from .config import Config, write
from .migration import CONFIG, Migration
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
    parsers["report"].add_argument("-o", "--out", metavar="FILE.html", help="file to write [beside the config]")
    parsers["sql"].add_argument("--install", action="store_true", help="install it in the database")
    return parser.parse_args(argv)


def write_config(options: argparse.Namespace) -> None:
    """Settings on the command line make a new config; they do not change one that is there."""
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(Config)
             if getattr(options, field.name) is not None}
    if os.path.exists(options.config):
        if given:
            raise UsageError(f"{options.config} is there already; change {', '.join(given)} in the file, or give "
                             "another --config")
        return
    if "store" not in given:
        raise UsageError(f"there is no {options.config}; say which store to look at with --store ADDRESS")
    write(Config(**given), options.config)


def step(migration: Migration, options: argparse.Namespace) -> Found:
    """Runs a command; returns what it found."""
    from . import apply, check, cutover, maps, sample, status, survey, top_up, verify
    quiet = options.quiet or options.json
    if options.command in ("sample", "check", "apply", "verify", "top-up", "sql"):
        migration.require_settled()
        migration.require_same_old()
    if options.command == "report":
        from .report import report
        return report(migration, options.out)
    if options.command == "sql":
        from .fused import sql
        return sql(migration, options.install)
    if options.command == "sample" and options.target_error is not None:
        return sample.until(migration, options.target_error, quiet)
    return {
        "plan": lambda: survey.plan(migration, quiet),
        "sample": lambda: sample.sample(migration, options.rows, options.vectors, options.again, quiet),
        "fit": lambda: maps.fit(migration),
        "check": lambda: check.check(migration, options.whole),
        "apply": lambda: apply.apply(migration, quiet),
        "verify": lambda: verify.verify(migration, options.rows),
        "cutover": lambda: cutover.cutover(migration, options.yes),
        "rollback": lambda: cutover.rollback(migration, options.drop, options.yes),
        "top-up": lambda: top_up.top_up(migration, options.rows, options.share, options.vectors, quiet),
        "status": lambda: status.status(migration),
    }[options.command]()


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)

    def work() -> Found:
        if options.command == "plan":
            write_config(options)
        with Migration(options.config, alone=options.command not in ("status", "report", "sql")) as migration:
            return step(migration, options)

    code, found = run("kedge-migrate", work, extra="migrate", path=options.config,
                      interrupted="interrupted; the same command continues")
    if found is None:
        return code
    if options.json:
        print(json.dumps(found))
    elif not options.quiet:
        from . import say
        for line in getattr(say, options.command.replace("-", "_"))(found):
            print(line if options.config == CONFIG else
                  NEXT.sub(lambda found: f"{found[0]} --config {shlex.quote(options.config)}", line))
    return 1 if options.command == "verify" and not found["whole"] else 0


if __name__ == "__main__":
    sys.exit(main())
