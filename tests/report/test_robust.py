# SPDX-License-Identifier: Apache-2.0
"""Odd names, odd sizes and damaged files."""
import base64
import html
import io
import json
import re
from collections.abc import Callable
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from conftest import ENCODERS, METHODS, Report, fake_figures, fake_results
from reading import Tables, search, summary

pytestmark = pytest.mark.long


def test_names_are_text_and_never_markup_or_formulas(report: Report) -> None:
    bad = ["<script>alert(1)</script>", "a&b $x_1^2$ $", "\"'><img src=x onerror=alert(2)>", "$\\frac$ %s {{ 7*7 }}"]
    results = fake_results(encoders=bad, methods=["absolute", "random-cosine"], seeds=1)
    page = report.page_of(results, fake_figures(encoders=bad, methods=["<i>$m_1$</i>"], pictures=False))
    assert "<script" not in page and "<img src=x" not in page and "<i>" not in page
    for name in bad:
        assert str(html.escape(name)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page


def test_a_cloud_that_would_be_a_speck_is_magnified_and_the_page_says_so(report: Report) -> None:
    figures = fake_figures(rows=100, methods=["consensus"])
    points = figures["relative"][-1]["points"]
    for space, scale in (("vgg16", 0.02), ("vit-s14", 1e-6), ("tinyvit-sam", 0)):
        points[space] = [[scale * x, scale * y] for x, y in points[space]]
    page = report.page_of(fake_results(methods=["consensus"], seeds=1), {**figures, "similarities": [], "raw": {}})
    drawn = dict(re.findall(r'<figcaption>([^<]*?)(?: <small>[^<]*</small>)?</figcaption>.*?base64,([^"]*)"',
                            page.split("<h3>consensus")[1], re.S))
    notes = dict(re.findall(r"<figcaption>([^<]*) <small>([^<]*)</small>", page.split("<h3>consensus")[1]))
    factors = {space: int(search(r"^magnified ([\d,]+) x$", notes[space])[1].replace(",", ""))
               for space in ("vgg16", "vit-s14")}
    assert 30 < factors["vgg16"] < 100 and 6e5 < factors["vit-s14"] < 2e6
    assert notes["tinyvit-sam"] == "held out, all in one point" and "effnet-lite0" not in notes
    for space in ("effnet-lite0", "vgg16", "vit-s14"):
        pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(drawn[space])))[..., :3]
        across = np.flatnonzero((pixels < 0.9).any(axis=(0, 2)))
        assert np.ptp(across) > 0.4 * pixels.shape[1], space  # dots from side to side


def test_names_of_an_axis_stand_side_by_side(report: Report) -> None:
    swept = fake_results(sweep={"shrinkage": ["oas", 0.9, "ledoit-wolf", 0.05]}, methods=["absolute", "consensus"],
                         seeds=1)
    page = report.page_of(swept)
    drawing = search(r"(?s)<figcaption>F1.*?</svg>", page.split('<section id="sweep">')[1])[0]
    assert len(re.findall(r'id="f\w+-xtick_(\d+)"', drawing)) == 4  # letters on axes are paths, so ids are counted


def test_absent_numbers_are_dashes_and_do_not_stop_the_page(report: Report) -> None:
    results = fake_results(seeds=2)
    results["records"] = [r for r in results["records"] if (r["method"], r["encoder"]) != ("consensus", "vgg16")]
    assert ("–", False) in Tables(report.page_of(results)).sections["heads"][-1]
    for index, r in enumerate(results["records"]):
        for key in ("weighted_f1", "mrr", "nmse", "accuracy"):
            r[key] = [r[key], None, float("nan"), float("inf")][index % 4]
    for run in results["runs"]:
        for epoch in run["history"][::3]:
            epoch["coverage"] = None
    (report.folder / "results.json").write_text(json.dumps(results))
    assert report.here("--quiet") == (0, "")
    page = report.page.read_text()
    assert not re.search(r"\bnan\b|\binf\b", html.unescape(re.sub(r"<[^>]*>", " ", page.split("</style>")[1])))
    only = fake_results(methods=["absolute"], seeds=1)
    assert "hold no zero-shot measurement" in summary(report.page_of(only))


def with_cell(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    document["tables"][0]["rows"][0]["cells"][0].update(changes)
    return document


@pytest.mark.parametrize("bend", [
    lambda document: {**document, "format": "other"},
    lambda document: {**document, "format_version": 2},
    lambda document: {**document, "records": 3},
    lambda document: {**document, "tables": 7},
    lambda document: {**document, "warnings": [1]},
    lambda document: {**document, "tables": [{**document["tables"][0], "kind": "other"}]},
    lambda document: {**document, "tables": [{**document["tables"][0], "columns": []}]},
    lambda document: with_cell(document, text=5),
    lambda document: with_cell(document, mean="much"),
    lambda document: with_cell(document, better=[1]),
    lambda document: [],
    lambda document: None,
])
def test_tables_that_are_not_those_of_the_results_are_refused(report: Report,
                                                              bend: Callable[[dict[str, Any]], Any]) -> None:
    report.write(fake_results(encoders=ENCODERS[:2], seeds=1))
    file = report.folder / "tables.json"
    document = bend(json.loads(file.read_text()))
    file.write_text(json.dumps(document)) if document is not None else file.unlink()
    report.refused(["tables.json", "kedge stitch"])


def test_twelve_encoders_with_long_names_and_many_classes_make_a_small_page(report: Report) -> None:
    names = [f"organisation/some_vision_transformer_{i:02d}-patch14.reg4.lvd142m" for i in range(12)]
    figures = fake_figures(encoders=names, classes=35, rows=500, pictures=True)
    page = report.page_of(fake_results(encoders=names, methods=METHODS[-2:], seeds=1), figures)
    clouds = page.count('<img alt="PCA of') + page.count('<img alt="RR of')
    assert clouds == 12 * (1 + 4 + 4) and 5e3 < len(page) / clouds < 3e4, (clouds, len(page))


BAD: dict[str, tuple[object, list[str]]] = {
    "no file": (None, ["results.json", "No such file", "kedge stitch"]),
    "truncated": ('{"format": "kedge results", "records": [', ["not valid JSON", "line 1", "again"]),
    "not text": ("\x00\x01", ["not valid JSON"]),
    "another format": ({"format": "something"}, ['"kedge results"', '"something"']),
    "a list": ([], ["kedge results"]),
    "a later version": ({**fake_results(seeds=1), "format_version": 2}, ["reads format version 1, found 2"]),
    "no records": ({**fake_results(seeds=1), "records": []}, ["at least one record, found none", "run it again"]),
    "no list": ({**fake_results(seeds=1), "records": {}}, ["a list in 'records'"]),
    "text for a number": ({**fake_results(seeds=1), "records": [{"method": "a", "encoder": "b", "trained_on": "b",
                                                                 "mrr": "high"}]}, ["'mrr' of record 0", '"high"']),
    "no name of a rule": ({**fake_results(seeds=1), "records": [{"method": "a", "encoder": "b", "trained_on": "b",
                                                                 "shrinkage": ""}]}, ["'shrinkage' of record 0"]),
    "no name": ({**fake_results(seeds=1), "records": [{"method": "a", "encoder": 3, "trained_on": "b"}]},
                ["a name in 'encoder' of record 0", "found 3"]),
    "all null": ({**fake_results(seeds=1), "records": [{"method": "a", "encoder": "b", "trained_on": "b"}]},
                 ["nothing but null in every record"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_results_are_refused_in_one_sentence(report: Report, case: str) -> None:
    results, says = BAD[case]
    report.write(results)
    report.refused(says)


@pytest.mark.parametrize("figures, says", [
    ("{", ["figures.json", "not valid JSON"]),
    ("[1]", ["expected an object, found list"]),
    ({"raw": {"a": [[1, 2, 3]]}}, ["rows of 2 numbers", "space 'a'"]),
    ({"raw": 5}, ["an object of spaces in 'raw'"]),
    ({"raw": {"a": [["x", {}]]}}, ["rows of numbers of one length"]),
    ({"raw": {"a": [[1, 2]], "b": [[1, 2], [3, 4]]}}, ["equally many rows", "1 and, in 'raw', space 'b', 2"]),
    ({"raw": {"a": [[1, 2]]}, "labels": [1, 2]}, ["one for each drawn row (1)"]),
    ({"relative": [3]}, ["an object as entry 0 of 'relative'"]),
    ({"similarities": "all"}, ["a list in 'similarities'"]),
    ({"similarities": [{"similarity": "wip"}]}, ["entry 0 of 'similarities'"]),
    ({"reconstructions": 1}, ["an object in 'reconstructions'"]),
    ({"reconstructions": {"shape": [2, 2], "original": [[1, 2]]}}, ["rows of 4 numbers", "[1, 2]"]),
])
@pytest.mark.usefixtures("undrawn")
def test_bad_drawings_cost_the_drawings_alone(report: Report, figures: object, says: list[str]) -> None:
    report.write(fake_results(encoders=ENCODERS[:2], methods=["absolute", "consensus"], seeds=1), figures)
    code, said = report.here("--quiet")
    assert code == 0 and said.startswith("report: no drawings: ") and said.count("\n") == 1, said
    page = html.unescape(report.page.read_text())
    for word in says:
        assert word in said and word in page, said
    assert "The drawings are left out" in page and Tables(report.page.read_text()).sections["heads"]


def test_drawings_may_be_fewer(report: Report) -> None:
    results = fake_results(encoders=ENCODERS[:2], methods=["consensus"], seeds=1, labels=False)
    full = fake_figures(encoders=ENCODERS[:2], rows=40, pictures=True)
    for figures, wanted in (({key: full[key] for key in ("labels", "raw", "relative")}, {"geometry"}),
                            ({**full, "similarities": full["similarities"][1:2]}, {"geometry", "similarities",
                                                                                  "pictures"}),
                            ({**full, "similarities": [], "relative": full["relative"][:1], "reconstructions": None},
                             {"geometry"}),
                            ({"labels": full["labels"], "similarities": full["similarities"]}, {"similarities"}),
                            ({"similarities": full["similarities"]}, {"similarities"}),
                            ({**full, "raw": {}, "relative": [{"method": "consensus", "points": {}}],
                              "similarities": None}, {"pictures"}), ({}, set())):
        page = report.page_of(results, figures)
        shown = set(re.findall(r'<section id="(\w+)">', page)) & {"geometry", "similarities", "pictures"}
        assert shown == wanted, figures.keys()
        for entry in figures.get("similarities") or []:
            assert f"<h3>{entry['similarity']} " in page


def test_it_runs_as_a_user_runs_it(report: Report) -> None:
    report.write(fake_results(seeds=1))
    done = report.run()
    assert done.returncode == 0 and done.stderr.startswith(f"report: wrote {report.page} ("), done.stderr
    assert "consensus" in report.page.read_text()
    assert report.run("--no-such-option").returncode == 2


@pytest.mark.usefixtures("undrawn")
def test_the_old_page_stays_where_the_new_one_cannot_be_written(report: Report) -> None:
    report.write(fake_results(seeds=1))
    code, said = report.here("--output", str(report.folder / "missing" / "page.html"))
    assert code == 1 and "cannot write" in said and said.count("\n") == 1
    report.page.write_text("old")
    report.write("{")
    assert report.here()[0] == 3
    assert report.page.read_text() == "old"
