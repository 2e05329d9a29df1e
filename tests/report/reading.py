# SPDX-License-Identifier: Apache-2.0
"""Reads a page and results again, apart from the code under test."""
import html
import html.parser
import re
import statistics

from conftest import ENCODERS


class Tables(html.parser.HTMLParser):
    """Sections -> rows of (text, bold) as a reader sees them, row headers repeated where they span rows."""

    def __init__(self, page):
        super().__init__()
        self.sections, self.section, self.cell, self.spans, self.bold = {}, None, None, {}, False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "section":
            self.section = self.sections.setdefault(attributes["id"], [])
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
            self.span, self.column = int(attributes.get("rowspan", 1)), len(self.section[-1])
        elif tag == "b" and self.cell is not None:
            self.bold = True

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            cell = (" ".join(self.cell.split()), self.bold)
            self.section[-1].append(cell)
            if self.span > 1:
                self.spans[self.column] = (self.span - 1, cell)
            self.cell = None


def summary(page):
    text = re.search(r'<section id="summary">(.*?)</section>', page, re.S).group(1)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def values(results, key, **wanted):
    return [r[key] for r in results["records"] if r[key] is not None and all(r[k] == v for k, v in wanted.items())]


def noise(numbers):
    """Half of the 95 % interval of a mean over three seeds or more alone."""
    x = 1 / (len(numbers) - 1)
    student = 1.960 + 2.372 * x + 2.823 * x ** 2 + 2.556 * x ** 3 + 1.590 * x ** 4
    return student * statistics.stdev(numbers) / len(numbers) ** 0.5


def written(numbers, scale=100, digits=1):
    text = f"{scale * statistics.mean(numbers):.{digits}f}"
    return text + (f" ± {scale * noise(numbers):.{digits}f}" if len(numbers) > 2 else "")


def loss(results, method, encoder, source):
    own = statistics.mean(values(results, "weighted_f1", method="absolute", encoder=encoder))
    stitched = values(results, "weighted_f1", method=method, encoder=encoder, trained_on=source)
    return 100 * (own - statistics.mean(stitched))


def pairs(encoders=ENCODERS):
    return [(encoder, source) for encoder in encoders for source in encoders if encoder != source]


def set_f1(results, f1):
    """Every F1 by a rule, so that the test knows it."""
    for r in results["records"]:
        r["weighted_f1"] = f1(r)
    return results
