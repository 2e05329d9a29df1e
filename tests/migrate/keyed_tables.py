# SPDX-License-Identifier: Apache-2.0
"""Tables of several shapes whose rows are known by two columns together, and migrations of them."""
import json
from typing import NamedTuple

import numpy as np
import psycopg
from kedge.migrate.stores.scores import unit
from made_up import ROWS, spaces
from psycopg import sql as words
from require import require_near
from steps import run

TENANTS = 5
INSERT = words.SQL("INSERT INTO docs ({}, body, embedding) VALUES (%s, %s, %s, %s)")
Key = tuple[int | str, int | str]


class Shape(NamedTuple):
    columns: tuple[str, str]
    types: tuple[str, str]
    partitions: str = ""

    @property
    def named(self) -> words.Composed:
        return words.SQL(", ").join(map(words.Identifier, self.columns))

    def key(self, n: int) -> Key:
        made: dict[str, int | str] = {
            "int": n % TENANTS, "bigint": n, "text": ("a,b", "(c)", 'd"e', "", "f g")[n % TENANTS],
            "uuid": f"00000000-0000-0000-0000-{n:012}", "timestamptz": f"2026-01-0{1 + n % TENANTS} 00:00:00.5+00"}
        one, other = (made[kind] for kind in self.types)
        return one, other


LISTED = "PARTITION BY LIST (tenant_id)", *(
    f"CREATE TABLE docs_{n} PARTITION OF docs FOR VALUES IN ({n})" for n in range(TENANTS))
BY_DAY = "PARTITION BY RANGE (created_at)", *(
    f"CREATE TABLE docs_{n} PARTITION OF docs FOR VALUES FROM ('2026-01-0{n} UTC') TO ('2026-01-0{n + 1} UTC')"
    for n in range(1, TENANTS + 1))
SHAPES = {"numbers": Shape(("tenant_id", "id"), ("int", "bigint")), "texts": Shape(("who is", "a"), ("text", "uuid")),
          "partitioned": Shape(("tenant_id", "id"), ("int", "bigint"), "; ".join(LISTED)),
          "moments": Shape(("id", "created_at"), ("bigint", "timestamptz"), "; ".join(BY_DAY))}


def text_of(vector: np.ndarray) -> str:
    return str(vector.tolist())


def make(sql: psycopg.Connection, shape: Shape, rows: int = ROWS) -> None:
    """A table of documents whose texts are their numbers."""
    defined = words.SQL(", ").join(words.SQL("{} " + kind).format(words.Identifier(name))
                                   for name, kind in zip(shape.columns, shape.types))
    sql.execute(words.SQL("CREATE TABLE docs ({}, body text, embedding vector(12), PRIMARY KEY ({})) "
                          + shape.partitions).format(defined, shape.named))
    with sql.cursor() as cursor:
        cursor.executemany(INSERT.format(shape.named), [
            (*shape.key(n), str(n), text_of(row)) for n, row in enumerate(spaces()[0][:rows])])
    if not shape.partitions:
        sql.execute("CREATE INDEX near ON docs USING hnsw (embedding vector_cosine_ops)")


def where(shape: Shape) -> words.Composed:
    return words.SQL("({}) = (%s, %s)").format(shape.named)


def change(sql: psycopg.Connection, shape: Shape, setting: str, *values: object, n: int) -> None:
    sql.execute(words.SQL("UPDATE docs SET " + setting + " WHERE {}").format(where(shape)), [*values, *shape.key(n)])


def begin(address: str, into: str, *more: object) -> None:
    """Up to apply."""
    assert run("plan", "-q", "--store", f"{address}&table=docs&column=embedding&text=body", "--embed", "models:new",
               "--sample", 120, *(["--into", into] if into else []), *more) == 0
    for step in ("sample", "fit", "apply"):
        assert run(step, "-q") == 0


def shown(sql: psycopg.Connection, shape: Shape, into: str) -> dict[Key, tuple[str, str | None]]:
    """What applications see: {key: (text, vector)}."""
    one, other = (words.Identifier(name) + words.SQL("" if kind in ("int", "bigint") else "::text")
                  for name, kind in zip(shape.columns, shape.types))
    found = sql.execute(words.SQL("SELECT {}, {}, body, embedding::text FROM {}").format(
        one, other, words.Identifier("docs" if into else "kedge_docs"))).fetchall()
    return {(row[0], row[1]): (row[2], row[3]) for row in found}


def require_real(found: dict[Key, tuple[str, str | None]]) -> None:
    new = unit(spaces()[1])
    for body, vector in found.values():
        assert vector is not None
        require_near(json.loads(vector), new[int(body)])
