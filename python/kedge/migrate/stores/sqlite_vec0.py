# SPDX-License-Identifier: Apache-2.0
"""The definition of a vec0 table of sqlite-vec: which columns it has, and the statement that makes one like it."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from .sql_words import quoted

DEFINITION = re.compile(r"\s*CREATE\s+VIRTUAL\s+TABLE\s.*?\bUSING\s+vec0\s*\((.*)\)\s*;?\s*",
                        re.IGNORECASE | re.DOTALL)
VECTOR = re.compile(r"(\w+)\s+(float|f32|int8|i8|bit)\s*\[\s*(\d+)\s*\](.*)", re.IGNORECASE | re.DOTALL)
METRIC = re.compile(r"distance_metric\s*=\s*(\w+)", re.IGNORECASE)
KEY = re.compile(r"(\w+)\s+(\w+)\s+primary\s+key", re.IGNORECASE)
OPTION = re.compile(r"\w+\s*=.*", re.DOTALL)
NAME = re.compile(r"\+?\s*(\w+)")
# A column of another kind than float takes a value only if it is said to be of that kind.
WRAPPED = {"int8": "vec_int8({})", "i8": "vec_int8({})", "bit": "vec_bit({})"}


@dataclasses.dataclass
class Vector:
    """A column of vectors; 'rest' is what its definition says behind the width."""
    name: str
    kind: str
    width: int
    rest: str

    @property
    def metric(self) -> str:
        found = METRIC.search(self.rest)
        return found[1].lower() if found else "l2"


@dataclasses.dataclass
class Definition:
    """The parts between the brackets of vec0(...), as they were written."""
    parts: list[str]

    @staticmethod
    def parse(command: str | None) -> Definition | None:
        """None for a table that is not of vec0."""
        found = DEFINITION.fullmatch(command or "")
        return Definition([part.strip() for part in found[1].split(",")]) if found else None

    @property
    def vectors(self) -> list[Vector]:
        found = [VECTOR.fullmatch(part) for part in self.parts]
        return [Vector(one[1], one[2].lower(), int(one[3]), one[4]) for one in found if one]

    @property
    def key(self) -> str:
        found = [KEY.fullmatch(part) for part in self.parts]
        return next((one[1] for one in found if one), "rowid")

    @property
    def columns(self) -> list[str]:
        """Of all columns the names, the key first."""
        named = [found[1] for part in self.parts if not OPTION.fullmatch(part) and (found := NAME.match(part))]
        return [self.key, *(name for name in named if name != self.key)]

    def values(self, column: str, vector_from: str, others_from: str, vector: str) -> str:
        """What is copied into a column: the vector and the key from one table, all else from another."""
        source = vector_from if column in (self.key, vector) else others_from
        kind = next((found.kind for found in self.vectors if found.name == column), "")
        return WRAPPED.get(kind, "{}").format(f"{source}.{quoted(column)}")

    def with_vector(self, column: str, width: int) -> Definition:
        """The same table, with float vectors of this width in the column."""
        return Definition([f"{found[1]} float[{width}]{found[4]}" if (found := VECTOR.fullmatch(part))
                           and found[1] == column else part for part in self.parts])

    def only(self, column: str) -> Definition:
        """The key, the column and the settings, without all other columns."""
        return Definition([part for part in self.parts if KEY.fullmatch(part) or OPTION.fullmatch(part)
                           or (found := VECTOR.fullmatch(part)) and found[1] == column])

    def create(self, table: str) -> str:
        return f"CREATE VIRTUAL TABLE {quoted(table)} USING vec0({', '.join(self.parts)})"


def copy(target: str, made_as: Definition, vector: str, vectors_from: str, others_from: str | None = None,
         unless_in: str | None = None) -> str:
    """Fills a table: vectors of one, all other columns of another if there is one, for the ids that both have."""
    others = others_from or vectors_from
    columns: Sequence[str] = made_as.columns
    chosen = ", ".join(made_as.values(column, "v", "o" if others_from else "v", vector) for column in columns)
    key = quoted(made_as.key)
    source = f"{quoted(vectors_from)} v"
    if others_from:
        source += f" CROSS JOIN {quoted(others)} o ON o.{key} = v.{key}"
    if unless_in:
        source += f" WHERE NOT EXISTS (SELECT 1 FROM {quoted(unless_in)} x WHERE x.{key} = v.{key})"
    return f"INSERT INTO {quoted(target)} ({', '.join(map(quoted, columns))}) SELECT {chosen} FROM {source}"
