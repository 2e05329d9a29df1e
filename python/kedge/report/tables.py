# SPDX-License-Identifier: Apache-2.0
"""The tables of OUT/tables.json as cells with a text, a heat from 0 to 1 and a bold best; the page makes HTML of them.

Every number in them was computed by the command that wrote the file: nothing is averaged here."""
from __future__ import annotations

import dataclasses
import numbers
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._errors import BadFile

if TYPE_CHECKING:
    from .results import Results

FORMAT_VERSION = 1
KINDS = ["heads", "decoders", "retrieval", "means", "sweep"]


@dataclasses.dataclass
class Cell:
    text: str
    spread: str = ""
    heat: float | None = None
    best: bool = False
    head: bool = False
    rows: int = 1
    columns: int = 1
    kind: str = ""


@dataclasses.dataclass
class Table:
    caption: str
    head: list[list[Cell]]
    body: list[list[Cell]]
    title: str = ""


def check(document: Any, path: pathlib.Path, records: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables and warnings of a document that holds what the page shows, made of as many records as there are."""
    def expect(good: object, expected: str) -> None:
        if not good:
            raise BadFile(f"{path}: expected {expected}; make it again with the same 'kedge stitch' or 'kedge "
                             "sweep', which computes nothing twice")

    expect(isinstance(document, dict) and document.get("format") == "kedge tables"
           and document.get("format_version") == FORMAT_VERSION, f"tables of format version {FORMAT_VERSION}")
    expect(document.get("records") == records, f"the tables of {records:,} records, as results.json has")
    warnings, tables = document.get("warnings"), document.get("tables")
    expect(isinstance(warnings, list) and all(isinstance(text, str) for text in warnings), "sentences in 'warnings'")
    expect(isinstance(tables, list) and all(map(is_table, tables)), "tables with columns, rows and cells in 'tables'")
    return tables, warnings


def is_table(table: Any) -> bool:
    texts = isinstance(table, dict) and all(isinstance(table.get(key), str) for key in ("title", "caption"))
    if not texts or table.get("kind") not in KINDS or not are_texts(table.get("labels")):
        return False
    columns, rows = table.get("columns"), table.get("rows")
    return (isinstance(columns, list) and isinstance(rows, list)
            and all(isinstance(one, dict) and are_texts([one.get("method"), one.get("metric")]) for one in columns)
            and all(isinstance(row, dict) and are_texts(row.get("labels"))
                    and len(row["labels"]) == len(table["labels"])
                    and isinstance(row.get("cells"), list) and len(row["cells"]) == len(columns)
                    and all(map(is_cell, row["cells"])) for row in rows))


def are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def is_cell(cell: Any) -> bool:
    return cell is None or (isinstance(cell, dict) and are_texts([cell.get("text"), cell.get("noise")])
                            and isinstance(cell.get("best"), bool) and cell.get("better") in (-1, 0, 1)
                            and (cell.get("mean") is None or isinstance(cell["mean"], numbers.Real)))


class Heat:
    """0 for the worst of some cells, 1 for the best."""

    def __init__(self, cells: Iterable[Mapping[str, Any] | None]) -> None:
        values: list[float] = [cell["mean"] for cell in cells if cell and cell["mean"] is not None]
        self.low, self.high = min(values, default=0.0), max(values, default=0.0)

    def __call__(self, cell: Mapping[str, Any]) -> float | None:
        if not cell["better"] or cell["mean"] is None or self.high <= self.low:
            return None
        heat: float = (cell["mean"] - self.low) / (self.high - self.low)
        return round(heat if cell["better"] > 0 else 1 - heat, 3)


def heats(table: Mapping[str, Any]) -> list[list[Heat]]:
    """A Heat for each cell: the cells of a row share one in a table of means, the cells of a metric in others."""
    rows, columns = [row["cells"] for row in table["rows"]], table["columns"]
    if table["kind"] == "means":
        return [[heat] * len(columns) for heat in map(Heat, rows)]
    of = {name: Heat([row[i] for row in rows for i, column in enumerate(columns) if column["metric"] == name])
          for name in {column["metric"] for column in columns}}
    return [[of[column["metric"]] for column in columns] for _ in rows]


def shown(cell: Mapping[str, Any] | None, heat: Heat) -> Cell:
    if cell is None:
        return Cell("–", kind="absent")
    return Cell(cell["text"], f"± {cell['noise']}" if cell["noise"] else "", heat(cell), cell["best"])


def labels_of(rows: Sequence[Mapping[str, Any]], index: int) -> list[Cell]:
    """The cells that name a row; the first of two is written once for the rows it belongs to."""
    names = rows[index]["labels"]
    if len(names) != 2:
        return [Cell(name, head=True, kind="group") for name in names]
    first, second = names
    found = [Cell(second, "own" if first == second else "", head=True, kind="source")]
    if index == 0 or rows[index - 1]["labels"][0] != first:
        span = next((i for i, row in enumerate(rows[index:]) if row["labels"][0] != first), len(rows) - index)
        found.insert(0, Cell(first, head=True, rows=span, kind="group"))
    return found


def head_of(table: Mapping[str, Any]) -> list[list[Cell]]:
    """One row of names, or two if every method has several metrics."""
    kinds = ["group", "source"] if len(table["labels"]) == 2 else ["group"] * len(table["labels"])
    metrics = list(dict.fromkeys(column["metric"] for column in table["columns"]))
    many = len(metrics) > 1
    names = [Cell(name[:1].upper() + name[1:], head=True, rows=2 if many else 1, kind=kind)
             for name, kind in zip(table["labels"], kinds)]
    methods = dict.fromkeys(column["method"] for column in table["columns"])
    first = names + [Cell(name, head=True, columns=len(metrics) if many else 1) for name in methods]
    return [first, [Cell(column["metric"], head=True) for column in table["columns"]]] if many else [first]


def rendered(table: Mapping[str, Any], title: str = "") -> Table:
    rows = table["rows"]
    body = [labels_of(rows, index) + [shown(*pair) for pair in zip(row["cells"], heat)]
            for index, (row, heat) in enumerate(zip(rows, heats(table)))]
    return Table(table["caption"], head_of(table), body, title)


def of_kind(results: Results, kind: str) -> list[dict[str, Any]]:
    return [table for table in results.tables if table["kind"] == kind]
