# SPDX-License-Identifier: Apache-2.0
"""A page of sentences, tables and figures; page.html says how they look."""
import dataclasses
import functools
import pathlib
import re

import jinja2
from markupsafe import Markup, escape


@dataclasses.dataclass
class Section:
    anchor: str
    title: str
    text: list
    tables: list = dataclasses.field(default_factory=list)
    groups: list = dataclasses.field(default_factory=list)
    facts: list = dataclasses.field(default_factory=list)
    legend: list = dataclasses.field(default_factory=list)
    terms: list = dataclasses.field(default_factory=list)   # explained here, because they are first used here

    alone: bool = False         # shown for its text, with nothing below

    def __bool__(self):
        return any([self.tables, self.groups, self.facts, self.alone])


def breakable(name):
    """Long names may break where their parts end."""
    return Markup(re.sub("([/_.:])", r"\1<wbr>", str(escape(name))))


@functools.cache
def template():
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["breakable"] = breakable
    return environment.get_template("page.html")


def page(*, made, **parts):
    """The whole page: title, heading, headline, maker, version, sentences, tiles, terms, sections and the source."""
    return template().render(made=f"{made:%d %B %Y, %H:%M}".lstrip("0"), **parts)
