# SPDX-License-Identifier: Apache-2.0
"""Reads a page and results again, apart from the code under test."""
import html
import html.parser
import re
import statistics
from collections.abc import Callable
from typing import Any

from conftest import ENCODERS, Results

Cell = tuple[str, bool]  # text, bold


class Tables(html.parser.HTMLParser):
    """Sections -> rows of (text, bold) as a reader sees them, row headers repeated if they span rows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: dict[str, list[list[Cell]]] = {}
        self.section: list[list[Cell]] = []
        self.spans: dict[int, tuple[int, Cell]] = {}
        self.cell: str | None = None
        self.bold = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "section":
            self.section = self.sections.setdefault(attributes["id"] or "", [])
        elif tag == "table":
            self.spans = {}
        elif tag == "tr":
            self.section.append([])
            for column, (left, cell) in list(self.spans.items()):
                if left and column == len(self.section[-1]):
                    self.section[-1].append(cell)
                    self.spans[column] = (left - 1, cell)
        elif tag in ("td", "th"):
            self.cell, self.bold = "", False
            self.span, self.column = int(attributes.get("rowspan") or 1), len(self.section[-1])
        elif tag == "b" and self.cell is not None:
            self.bold = True

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            cell = (" ".join((self.cell or "").split()), self.bold)
            self.section[-1].append(cell)
            if self.span > 1:
                self.spans[self.column] = (self.span - 1, cell)
            self.cell = None


def search(pattern: str, text: str) -> re.Match[str]:
    """Where it is in the text, as it must be."""
    found = re.search(pattern, text)
    assert found, pattern
    return found


def summary(page: str) -> str:
    text = search(r'(?s)<section id="summary">(.*?)</section>', page)[1]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def values(results: Results, key: str, **wanted: Any) -> list[float]:
    return [r[key] for r in results["records"] if r[key] is not None and all(r[k] == v for k, v in wanted.items())]


def noise(numbers: list[float]) -> float:
    """Half of the 95 % interval of a mean over three seeds or more alone."""
    x = 1 / (len(numbers) - 1)
    student = 1.960 + 2.372 * x + 2.823 * x ** 2 + 2.556 * x ** 3 + 1.590 * x ** 4
    return float(student * statistics.stdev(numbers) / len(numbers) ** 0.5)


def written(numbers: list[float], scale: int = 100, digits: int = 1) -> str:
    text = f"{scale * statistics.mean(numbers):.{digits}f}"
    return text + (f" ± {scale * noise(numbers):.{digits}f}" if len(numbers) > 2 else "")


def loss(results: Results, method: str, encoder: str, source: str) -> float:
    own = statistics.mean(values(results, "weighted_f1", method="absolute", encoder=encoder))
    stitched = values(results, "weighted_f1", method=method, encoder=encoder, trained_on=source)
    return 100 * (own - statistics.mean(stitched))


def pairs(encoders: list[str] = ENCODERS) -> list[tuple[str, str]]:
    return [(encoder, source) for encoder in encoders for source in encoders if encoder != source]


def set_f1(results: Results, f1: Callable[[dict[str, Any]], float]) -> Results:
    """Every F1 by a rule, so that the test knows it."""
    for r in results["records"]:
        r["weighted_f1"] = f1(r)
    return results
