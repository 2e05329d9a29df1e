# SPDX-License-Identifier: Apache-2.0
"""The columns that rows are known by, one or several, as the statements of a migration need them.

Ids are numbers or texts, or tuples of these. A key of several columns is a row in SQL, (tenant_id, id), which compares
as one value does, by the index of the key. Whatever is no number travels as text, whatever its type.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Any, cast

from psycopg import sql

from ..types import Id

INTEGERS = ("smallint", "integer", "bigint")


@dataclasses.dataclass(frozen=True)
class Key:
    names: tuple[str, ...]
    types: tuple[str, ...]    # as SQL writes them
    schemas: tuple[str, ...]  # that the types live in
    collations: tuple[tuple[str, ...] | None, ...]  # (schema, name), None where it is the type's own

    @property
    def several(self) -> bool:
        return len(self.names) > 1

    @property
    def named(self) -> str:
        """As an address names it."""
        return ",".join(self.names)

    @property
    def type(self) -> str:
        """As messages name it."""
        return ", ".join(self.types)

    @property
    def search_path(self) -> sql.Composed:
        """Where its types and their operators are."""
        return sql.SQL(", ").join(sql.Identifier(schema) for schema in dict.fromkeys(self.schemas))

    @property
    def defined(self) -> sql.Composed:
        """The columns of a table that has the same. An index of another collation finds none of its rows."""
        return sql.SQL(", ").join(
            sql.SQL("{} " + kind).format(sql.Identifier(name))
            + (sql.SQL(" COLLATE {}").format(sql.Identifier(*collation)) if collation else sql.SQL(""))
            for name, kind, collation in zip(self.names, self.types, self.collations))

    def called(self, name: str) -> Key:
        """The same under another name, which a number follows if there are several."""
        names = tuple(f"{name}{n}" for n in range(1, len(self.names) + 1)) if self.several else (name,)
        return dataclasses.replace(self, names=names)

    def _parts(self, row: str | sql.Composable) -> list[sql.Composed]:
        before = sql.SQL(f"{row}." if row else "") if isinstance(row, str) else row + sql.SQL(".")
        return [before + sql.Identifier(name) for name in self.names]

    def columns(self, row: str | sql.Composable = "") -> sql.Composed:
        """The columns of that row, one after the other."""
        return sql.SQL(", ").join(self._parts(row))

    def of(self, row: str | sql.Composable = "") -> sql.Composed:
        """The key of that row, to be compared with another's."""
        return sql.SQL("({})" if self.several else "{}").format(self.columns(row))

    def out(self, row: str | sql.Composable = "") -> sql.Composed:
        """The key of that row as Python gets it, in binary."""
        parts = [part if kind in INTEGERS else part + sql.SQL("::text")
                 for part, kind in zip(self._parts(row), self.types)]
        return sql.SQL("ROW({})" if self.several else "{}").format(sql.SQL(", ").join(parts))

    def renamed(self, row: str, other: Key) -> sql.Composed:
        """The columns of that row under the names of another key."""
        return sql.SQL(", ").join(part + sql.SQL(" AS {}").format(sql.Identifier(name))
                                  for part, name in zip(self._parts(row), other.names))

    def _placeholders(self, dimensions: str) -> list[sql.Composable]:
        return [sql.SQL(f"%s::bigint{dimensions}" if kind in INTEGERS else f"%s::text{dimensions}::{kind}{dimensions}")
                for kind in self.types]

    @property
    def arrays(self) -> sql.Composed:
        """A parameter for each column, for what given() makes of ids."""
        return sql.SQL(", ").join(self._placeholders("[]"))

    @property
    def unnested(self) -> sql.Composed:
        """The ids of 'arrays' row by row, in a list of what is selected."""
        return sql.SQL(", ").join(sql.SQL("unnest({}) AS {}").format(array, sql.Identifier(name))
                                  for array, name in zip(self._placeholders("[]"), self.names))

    def among(self, row: str | sql.Composable = "") -> sql.Composed:
        """Whether that row's is among ids, with the parameters of 'arrays'."""
        among = "{} IN (SELECT * FROM unnest({}))" if self.several else "{} = ANY({})"
        return sql.SQL(among).format(self.of(row), self.arrays)

    def after(self, row: str) -> sql.Composed:
        """Whether that row's comes behind an id; the parameters are those of 'given' for that one."""
        return sql.SQL("{} > ({})" if self.several else "{} > {}").format(
            self.of(row), sql.SQL(", ").join(self._placeholders("")))

    def given(self, ids: Collection[Id]) -> list[list[Any]]:
        """Ids as parameters: a list for each column."""
        if not self.several:
            return [list(ids)]
        return [list(column) for column in zip(*cast(Collection[tuple[Any, ...]], ids))] or [[] for _ in self.names]

    def taken(self, ids: Collection[Any]) -> list[Id]:
        """Ids as this key has them; raises ValueError or TypeError if one cannot be."""
        makes: list[Callable[[Any], int | str]] = [int if kind in INTEGERS else str for kind in self.types]
        if not self.several:
            return [makes[0](one) for one in ids]
        if not all(isinstance(one, (tuple, list)) for one in ids):
            raise TypeError
        return [tuple(make(part) for make, part in zip(makes, one, strict=True)) for one in ids]
