# SPDX-License-Identifier: Apache-2.0
"""What the page compares: points of a sweep, methods on the pairs they share, and differences with their noise."""
import html
import json
import re
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import ENCODERS, METHODS, Report, Results, fake_results
from matplotlib.figure import Figure
from reading import Tables, set_f1, summary, values, written

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("undrawn")]


def test_a_sweep_says_what_the_last_step_brought_and_takes_its_tables_at_the_largest_point(report: Report) -> None:
    results = fake_results(sweep={"anchors": [50, 200, 300]}, methods=["absolute", "random-cosine", "consensus"])
    reach = {50: 0.60, 200: 0.70, 300: 0.703, None: 0.72}
    set_f1(results, lambda r: reach[r["anchors"]] - (0.1 if r["method"] != "consensus" and r["anchors"] else 0))
    page = report.page_of(results)
    assert ("With consensus, from 200 to 300 anchors F1 gains 0.3 points; from 200 anchors on it is within half a "
            "point of its best.") in summary(page)
    assert Tables(page).sections["heads"][2][-1] == ("70.3 ± 0.0", True)
    assert "Shown at one point of the sweep: 300 anchors." in page
    set_f1(results, lambda r: {50: 0.7, 200: 0.69, 300: 0.65, None: 0.72}[r["anchors"]])
    said = summary(report.page_of(results))
    assert "from 200 to 300 anchors F1 loses 4.0 points; its best was at 50 anchors." in said


def test_a_shrinkage_may_be_the_name_of_a_rule(report: Report) -> None:
    results = fake_results(sweep={"shrinkage": ["oas"]}, seeds=1)
    page = report.page_of(results)
    assert "sweep" not in Tables(page).sections and "Shown at one point" not in page
    methods = ["absolute", "param-multi"]
    swept = fake_results(sweep={"shrinkage": ["oas", 0.9, "ledoit-wolf", 0.05]}, methods=methods, seeds=3)
    reach = {"oas": 0.71, 0.9: 0.6, "ledoit-wolf": 0.70, 0.05: 0.65, None: 0.75}
    page = report.page_of(set_f1(swept, lambda r: reach[r["shrinkage"]]))
    assert "Shown at one point of the sweep: shrinkage 0.05." in page
    assert Tables(page).sections["heads"][2][-1][0] == "65.0 ± 0.0"
    assert "F1 is best with shrinkage oas (71.00) and worst with shrinkage 0.9 (60.00)" in summary(page)
    page = report.page_of(set_f1(swept, lambda r: 0.7))
    assert "F1 is 70.00 with every shrinkage." in summary(page)
    named = fake_results(sweep={"shrinkage": ["oas", "ledoit-wolf"], "anchors": [50, 300]}, methods=methods, seeds=1)
    page = report.page_of(named)
    assert "Shown at one point of the sweep: 300 anchors, shrinkage oas." in page
    assert ["50", "5000", "ledoit-wolf"] in [[text for text, _ in row[:3]] for row in Tables(page).sections["sweep"]]
    assert "How training went" in page


def test_two_axes_at_once_make_a_table_and_a_group_of_lines_for_each(report: Report) -> None:
    sweep = {"anchors": [50, 300], "support": [100, 2000]}
    results = fake_results(sweep=sweep, methods=["absolute", "consensus"], seeds=2)
    page = report.page_of(results)
    rows = Tables(page).sections["sweep"]
    assert [text for text, _ in rows[0]] == ["Anchors", "Support", "Shrinkage", "consensus"]
    for row, (anchors, support) in zip(rows[1:], ((50, 100), (50, 2000), (300, 100), (300, 2000))):
        each = [statistics.mean(values(results, "weighted_f1", zero_shot=True, seed=seed, anchors=anchors,
                                       support=support)) for seed in range(2)]
        assert [text for text, _ in row] == [str(anchors), str(support), "0.15", written(each)]
    assert "Everything else stays at 2,000 support rows." in page and "Everything else stays at 300 anchors." in page


def test_a_method_that_learned_on_the_tested_encoder_is_not_called_zero_shot(report: Report) -> None:
    results = fake_results(seeds=1)
    assert "never saw it" in report.page_of(results)
    for run in results["runs"]:
        run["sources"] = ENCODERS if run["method"] == "param-multi" else run["sources"]
    page = report.page_of(results)
    assert "Take care" in page and "without the tested encoder: param-multi on vit-s14, " in page
    assert "never saw it" not in page


def test_holding_out_is_checked_for_each_method_seed_and_point(report: Report) -> None:
    def page(bend: Callable[[dict[str, Any], str], object], method: str = "param-multi", **options: Any) -> str:
        results = fake_results(methods=["absolute", "random-cosine", method], seeds=2, **options)
        kept = []
        for run in results["runs"]:
            left_out = next(e for e in ENCODERS if e not in run["sources"])
            bend(run, left_out) if run["method"] == method else None
            kept += [] if run.get("gone") else [run]
        return report.page_of({**results, "runs": kept})

    def learned_on_all(run: dict[str, Any], left_out: str, **where: Any) -> None:
        if left_out == "vgg16" and all(run[key] == value for key, value in where.items()):
            run["sources"] = ENCODERS

    warning = "without the tested encoder: {} on vgg16."
    assert warning.format("param-multi") in page(lambda run, out: learned_on_all(run, out, seed=1))
    assert warning.format("param-multi") in page(lambda run, out: learned_on_all(run, out, anchors=50),
                                                 sweep={"anchors": [50, 300]})
    assert warning.format("param-multi") in page(lambda run, out: run.update(gone=out == "vgg16"))
    assert warning.format("random-wip-ridge") in page(learned_on_all, "random-wip-ridge")
    assert "never saw it" in page(learned_on_all, "random-wip")


def test_methods_are_compared_on_the_pairs_and_seeds_that_all_have(report: Report) -> None:
    """random-cosine looks better only because of a seed and a pair that the others lack."""
    results = set_f1(fake_results(methods=["absolute", "random-cosine", "consensus"], seeds=4),
                     lambda r: {"absolute": 0.8, "random-cosine": 0.4, "consensus": 0.6}[r["method"]])
    for r in results["records"]:
        r["weighted_f1"] = 0.99 if r["method"] == "random-cosine" and r["seed"] == 3 else r["weighted_f1"]
        r["weighted_f1"] = 0.1 if r["method"] == "absolute" and r["encoder"] == "vgg16" else r["weighted_f1"]
    results["records"] = [r for r in results["records"] if r["method"] != "consensus"
                          or (r["seed"] < 3 and r["encoder"] != "vgg16")]
    page = report.page_of(results)
    sections = Tables(page).sections
    assert sections["means"][1] == [("F1", False), ("–", False), ("40.0 ± 0.0", False), ("60.0 ± 0.0", True)]
    assert "compared on what all have: 27 of 48 measurements (9 pairs, 3 seeds)." in summary(page)
    assert "loses 20.0 points of F1 on average: 60.0 against 80.0" in summary(page)
    assert "(9 pairs of encoders, 3 seeds)" in summary(page) and "80.00 %F1 of the own heads" in summary(page)
    assert page.count("compared on what all have") >= 3  # summary, means, dots
    assert "consensus 60.00" in page and "random-cosine 40.00" in page  # the dots, in words
    assert not any(bold for row in sections["heads"][1:] for _, bold in row)  # no row has equal seeds


def test_methods_with_no_pair_in_common_are_not_compared(report: Report) -> None:
    results = fake_results(seeds=1)
    results["records"] = [r for r in results["records"] if r["method"] == "absolute"
                          or r["encoder"] == ENCODERS[2 * (r["method"] == "consensus")]]
    page = report.page_of(results)
    text = summary(page)
    assert "have none in common, so they are not compared." in text and "loses" not in text
    sections = Tables(page).sections
    assert "F1" not in text and not sections["means"] and "dots" not in sections
    assert len(sections["heads"]) == 1 + 4 + 4 + 2  # every single pair and own head is still there


def test_along_a_sweep_every_point_has_the_same_pairs(report: Report) -> None:
    results = fake_results(sweep={"anchors": [50, 300]}, methods=["consensus"], seeds=2)
    set_f1(results, lambda r: 0.9 if r["seed"] else 0.6 + r["anchors"] / 10000)
    results["records"] = [r for r in results["records"] if r["seed"] == 0 or r["anchors"] == 50]
    page = report.page_of(results)
    assert "from 50 to 300 anchors F1 gains 2.5 points" in summary(page)
    assert "The methods and points were not all measured on the same pairs" in page


def test_times_are_those_of_runs_and_are_not_added_up(report: Report) -> None:
    results = fake_results(methods=["random-cosine", "param-multi", "param-cosine"], seeds=1)
    for place, run in enumerate(results["runs"]):
        run["seconds"] = 10.0 + place % 4
    rows = Tables(report.page_of(results)).sections["made"]
    titles = [text for text, _ in rows[5]]
    assert titles == ["Method", "Runs", "Mean seconds of one run"]
    assert [[text for text, _ in row] for row in rows[6:]] == [[name, "4", "11.5 s"] for name in
                                                               ("random-cosine", "param-cosine", "param-multi")]


def resample(results: Results, rows: float = 0.02, apart: float = 0.0) -> Results:
    """Adds resamples of F1: 'rows' moves all records alike, 'apart' each on its own."""
    rng = np.random.default_rng(0)
    common = rng.normal(0, rows, 100)
    results["resamples"] = [{"weighted_f1": (r["weighted_f1"] + common + rng.normal(0, apart, 100)).tolist()}
                            for r in results["records"]]
    return results


def test_a_gain_within_noise_is_no_gain_and_nothing_is_bold(report: Report) -> None:
    rule = {"absolute": 0.70, "consensus": 0.71, "random-cosine": 0.705}

    def page(**noise: Any) -> str:
        results = set_f1(fake_results(methods=list(rule), seeds=1), lambda r: rule[r["method"]])
        return report.page_of(resample(results, **noise))
    sure = page(rows=0.02)
    assert "gains 1.0 points of F1 on average" in summary(sure)
    assert "Take consensus: its F1 is better than that of every other method here, beyond noise." in summary(sure)
    assert any(bold for row in Tables(sure).sections["heads"] for _, bold in row)
    unsure = page(rows=0.0, apart=0.2)
    assert "shows no difference beyond noise (+1.0 ± " in summary(unsure)
    assert "but random-cosine is within noise of it" in summary(unsure)
    assert not any(bold for row in Tables(unsure).sections["heads"] for _, bold in row)


def test_undertrained_heads_are_warned_of_and_settings_speak(report: Report) -> None:
    results = set_f1(fake_results(seeds=1), lambda r: 0.837)
    for r in results["records"]:
        r["linear_f1"] = 0.97 if r["method"] == "absolute" else None
    results["settings"]["head"] = {"kind": "mlp", "epochs": "auto", "hidden": 0}
    page = report.page_of(results)
    assert "The heads of absolute are undertrained" in summary(page)
    assert "F1 of 83.7 %, logistic regression on the same features 97.0 %" in summary(page)
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page.split('<section id="made">')[1]))
    assert facts["head epochs"] == "until a held-out tenth of the train rows stops improving"
    assert (facts["anchors"], facts["support"], facts["shrinkage"], facts["seeds"]) == ("300", "5,000", "0.15", "0")


def test_nothing_is_rounded_up_to_all_and_every_method_is_explained(report: Report) -> None:
    page = report.page_of(set_f1(fake_results(seeds=1), lambda r: 0.999997))
    assert "99.99 %" in summary(page) and "100.00" not in summary(page)
    assert not any(text.startswith("100") for row in Tables(page).sections["heads"] for text, _ in row)
    assert "100.00 %" in summary(report.page_of(set_f1(fake_results(seeds=1), lambda r: 1 - 1e-15)))
    for method in METHODS:
        assert f"<dt>{method}</dt>" in page
    for term in ("F1", "MRR", "R@1", "nMSE", "RR_std"):
        assert page.count(f"<dt>{term}</dt>") == 1, term


def test_tables_are_shown_as_the_command_wrote_them(report: Report) -> None:
    sections = Tables(report.page_of(resample(fake_results(targets=True), apart=0.01))).sections
    written_tables = json.loads((report.folder / "tables.json").read_text())["tables"]
    assert [table["kind"] for table in written_tables] == ["heads", "decoders", "retrieval", "means"]
    for table in written_tables:
        rows = [row for row in sections[table["kind"]] if len(row) == len(table["labels"]) + len(table["columns"])]
        assert len(rows) == len(table["rows"]) + 1  # and its head
        for row, shown in zip(reversed(table["rows"]), reversed(rows)):
            assert [text.removesuffix(" own") for text, _ in shown[:len(row["labels"])]] == \
                [label.removesuffix(" own") for label in row["labels"]]
            for cell, (text, bold) in zip(row["cells"], shown[len(row["labels"]):]):
                noise = f" ± {cell['noise']}" if cell and cell["noise"] else ""
                assert (text, bold) == ((cell["text"] + noise, cell["best"]) if cell else ("–", False))


def test_advice_says_what_it_costs_in_time(report: Report) -> None:
    results = set_f1(fake_results(methods=["absolute", "random-cosine", "consensus", "consensus-kernel"], seeds=2),
                     lambda r: {"consensus-kernel": 0.9, "consensus": 0.8}.get(r["method"], 0.5))
    for run in results["runs"]:
        run["seconds"] = 50.0 if run["method"] == "consensus-kernel" else 5.0
    advice = "took 3.3 min with consensus-kernel and 20.0 s with consensus, the next best, for each seed."
    assert advice in summary(report.page_of(resample(results)))
    results["runs"] = [run for run in results["runs"] if run["method"] != "consensus"]
    text = summary(report.page_of(results))
    assert "Take consensus-kernel" in text and "took" not in text


def test_intervals_are_over_what_was_drawn_several_times(report: Report) -> None:
    def said(seeds: int, resampled: bool = True) -> str:
        results = fake_results(methods=["absolute", "consensus"], seeds=seeds, sweep={"anchors": [50, 300]})
        page = report.page_of(resample(results) if resampled else results)
        return html.unescape(re.sub(r"<[^>]*>", "", page.split('<section id="made">')[0]))

    one, three, unsampled = said(1), said(3), said(3, resampled=False)
    assert one.count("95 % intervals over test rows.") == 2 and "and seeds" not in one and "over seeds" not in one
    assert "95 % interval over test rows;" in one and "Means over the zero-shot pairs that" in one
    assert three.count("95 % intervals over test rows and seeds.") == 2
    assert "95 % interval over test rows and seeds;" in three and "Means over the zero-shot pairs and seeds" in three
    assert unsampled.count("95 % intervals over seeds.") == 2 and "95 % interval over seeds;" in unsampled
    assert "intervals" not in said(1, resampled=False)


def test_settings_are_those_of_the_methods_that_ran(report: Report) -> None:
    results = fake_results(methods=["absolute", "random-cosine", "consensus"], seeds=1)
    results["settings"]["fit"] = {"ridge": "auto", "lr": 0.03, "weight_symnce": 0.7, "power": 0.5}

    def shown(results: Results) -> Any:
        return re.findall(r"<dt>fit (\w+)</dt>", report.page_of(results))

    assert shown(results) == ["ridge", "power"]
    for row in results["records"] + results["runs"]:
        row["method"] = row["method"].replace("consensus", "param-multi")
    assert shown(results) == ["ridge", "lr", "weight_symnce"]


def test_a_lower_cosine_of_wip_is_explained_by_what_was_measured(report: Report) -> None:
    def said(**similarities: tuple[float, float | None]) -> str:
        entries = [{"similarity": name, "points": {"a": [[0, 1], [1, 0]]}, "centred_cosine": cosine,
                    "found_first": found}
                   for name, (cosine, found) in similarities.items()]
        page = report.page_of(fake_results(methods=["consensus"], seeds=1), {"similarities": entries})
        return page.split('<section id="similarities">')[1].split("</section>")[0]

    text = said(wip=(0.59, 0.93), cosine=(0.84, 0.108), euclidean=(0.9, 0.72))
    assert ("The centred cosine of wip is lower than that of euclidean (0.59 and 0.90) because it weighs the weak"
            in text)
    assert "finds the same item first more often (93.0 % and 72.0 %)." in text
    assert "cosine <small>centred cosine 0.84, found first 10.8 %</small>" in text
    assert "do not help to find the same item first (20.0 % and 50.0 %)." in said(wip=(0.1, 0.2), inner=(0.3, 0.5))
    assert "strong ones." in said(wip=(0.1, None), inner=(0.3, 0.5))
    assert "because" not in said(wip=(0.9, 0.9), cosine=(0.8, 0.95)) + said(cosine=(0.8, 0.9))


def test_numbers_that_differ_look_different_and_those_that_hardly_do_look_alike(report: Report,
                                                                                undrawn: list[Figure]) -> None:
    def apart(low: float) -> float:
        rule = {"random-cosine": low, "consensus": 0.99}
        undrawn.clear()
        report.page_of(set_f1(fake_results(methods=list(rule), seeds=1), lambda r: rule[r["method"]]))
        ax = next(ax for figure in undrawn for ax in figure.axes if ax.get_xlabel() == "F1 %")
        left, right = ax.get_xlim()
        assert left < 100 * low and right > 99
        return (99 - 100 * low) / (right - left)

    assert apart(0.84) > 0.6 and apart(0.985) < 0.1
