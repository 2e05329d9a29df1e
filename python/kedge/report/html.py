# SPDX-License-Identifier: Apache-2.0
"""A page of sentences, tables and figures; page.html says how they look."""
from __future__ import annotations

import dataclasses
import datetime
import functools
import pathlib
import re
from typing import Any

import jinja2
from markupsafe import Markup, escape

from .style import Group, Key
from .tables import Table


@dataclasses.dataclass
class Section:
    anchor: str
    title: str
    text: list[str]
    tables: list[Table] = dataclasses.field(default_factory=list)
    groups: list[Group] = dataclasses.field(default_factory=list)
    facts: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    legend: list[Key] = dataclasses.field(default_factory=list)
    terms: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # explained here, where they are new

    alone: bool = False         # shown for its text, with nothing below

    def __bool__(self) -> bool:
        return any([self.tables, self.groups, self.facts, self.alone])


def breakable(name: str) -> Markup:
    """Long names may break where their parts end."""
    return Markup(re.sub("([/_.:])", r"\1<wbr>", str(escape(name))))


@functools.cache
def template() -> jinja2.Template:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["breakable"] = breakable
    return environment.get_template("page.html")


def page(*, created: datetime.datetime, **parts: Any) -> str:
    """The whole page: title, heading, headline, maker, version, sentences, tiles, terms, sections and the source."""
    return template().render(created=f"{created:%d %B %Y, %H:%M}".lstrip("0"), **parts)
