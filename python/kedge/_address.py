# SPDX-License-Identifier: Apache-2.0
"""Addresses, taken apart and put together: file.parquet#column, URIs such as s3://bucket/folder, and those of stores:
scheme:path, scheme:place#name?key=value, scheme://host/name?key=value, and libpq's with a table in them."""
from __future__ import annotations

import dataclasses
import os
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ._errors import Error, UsageError

OURS = ("table", "column", "id", "text", "changed", "side", "metric", "where", "password_env")


def is_uri(path: str) -> bool:
    return "://" in path


def is_parquet(path: str) -> bool:
    return path.endswith(".parquet") or ".parquet#" in path


def split_column(path: str) -> tuple[str, str | None]:
    """The Parquet file, and the column that is named behind it or None."""
    if path.endswith(".parquet") or ".parquet#" not in path:
        return path, None
    file, column = path.split(".parquet#", 1)
    return file + ".parquet", column


def scheme_of(address: str) -> str:
    scheme = address.partition(":")[0]
    return "postgresql" if scheme == "postgres" else scheme


def path_of(address: str) -> str:
    """The path of an address that is a scheme and a path."""
    return address.partition(":")[2]


def without_password(address: str) -> str:
    """The address as people may see it. A password may hold any sign, also an unescaped @ or /."""
    place, mark, query = address.partition("?")
    place = re.sub(r"(//[^/@:]*:).+@", r"\1...@", place)
    return place + mark + re.sub(r"((?:^|&)\w*password=)[^&]*", r"\1...", query)


def to_keep(address: str) -> str:
    """The address as a file may keep it: it means the same, and the password comes from elsewhere."""
    place, mark, query = address.partition("?")
    parts = [part for part in query.split("&") if not part.startswith("password=")]
    return re.sub(r"(//[^/@:]*):.+@", r"\1@", place) + (mark + "&".join(parts) if parts != [""] else "")


class Parts(NamedTuple):
    place: str  # a path or URL, or host:port if it is remote
    name: str
    options: dict[str, str]
    remote: bool


def split_address(address: str, known: Sequence[str], named: bool = True) -> Parts:
    """The parts of an address; 'known' are the options there are. If a name must be there, the path ends at the last
    '#'; otherwise at the first '#' or '?'."""
    scheme, _, body = address.partition(":")
    remote = body.startswith("//")
    if remote:
        place, _, rest = body[2:].partition("/")
        name, _, query = rest.partition("?")
    elif named:
        place, _, rest = body.rpartition("#")
        name, _, query = rest.partition("?")
    else:
        head, _, query = body.partition("?")
        place, _, name = head.partition("#")
    if named and not (place and name):
        raise UsageError(f"{address}: expected {scheme}:path#name, with ?option=value behind the name")
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    for option in options:
        if option not in known:
            raise UsageError(f"{address}: {option!r} means nothing here; behind the ? may be {', '.join(known)}")
    return Parts(place, name, options, remote)


def join_address(scheme: str, place: str, name: str, options: Mapping[str, str], remote: bool = False) -> str:
    query = urllib.parse.urlencode(options)
    start = f"{scheme}://{place}/" if remote else f"{scheme}:{place}{'#' if name else ''}"
    return start + name + ("?" + query if query else "")


def uses_https(options: Mapping[str, str]) -> bool:
    return options.get("https", "0") not in ("", "0", "no", "false")


def secret(address: str, options: Mapping[str, str], option: str, what: str) -> str | None:
    """What the environment variable holds that an option names; None if the address has no such option."""
    variable = options.get(option)
    if variable and not os.environ.get(variable):
        raise Error(f"{address}: the variable {variable} is not set; it should hold the {what}")
    return os.environ[variable] if variable else None


@dataclasses.dataclass
class TableAddress:
    """postgresql://user@host:port/db?table=docs&column=embedding&id=id; parameters that are not ours are libpq's."""
    conninfo: str
    table: tuple[str, ...]
    column: str | None = None
    id: str | None = None
    text: str | None = None
    changed: str | None = None
    side: str | None = None  # the table beside it that holds the vectors
    where: str | None = None   # a condition in SQL: which rows of the table are meant
    metric: str | None = None  # how vectors compare, where no index says it, or several do
    password_env: str | None = None  # the environment variable that holds the password

    @classmethod
    def parse(cls, address: str) -> TableAddress:
        place, _, query = address.partition("?")
        user = place.partition("//")[2].rpartition("@")[0]
        if "@" in user or "/" in user:  # libpq would take a part of the password for the host, and name it
            raise UsageError("the address has a user or password with @ or / in it; write them as %40 and %2F")
        theirs: list[str] = []
        ours: dict[str, str] = {}
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            if name not in OURS:
                theirs.append(part)
            elif name in ours or not value:
                raise UsageError(f"the address of the table gives {name!r} {'twice' if name in ours else 'no value'}; "
                                 f"expected {name}=NAME once")
            else:
                ours[name] = urllib.parse.unquote(value)
        if "table" not in ours:
            raise UsageError("the address names no table; add ?table=NAME, such as "
                             "postgresql://host/db?table=docs&column=embedding")
        names = re.findall(r'"((?:[^"]|"")+)"|([^."]+)', ours.pop("table"))
        table = tuple(quoted.replace('""', '"') or plain for quoted, plain in names)
        if len(table) > 2 or not table:
            raise UsageError("the address names a table as 'table' or 'schema.table'; put a name with dots in quotes")
        return cls(place + ("?" + "&".join(theirs) if theirs else ""), table, **ours)

    def __str__(self) -> str:
        table = ".".join('"' + name.replace('"', '""') + '"' if "." in name else name for name in self.table)
        ours = {"table": table, **{name: getattr(self, name) for name in OURS[1:]}}
        query = "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in ours.items() if value)
        return self.conninfo + ("&" if "?" in self.conninfo else "?") + query
