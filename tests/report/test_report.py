# SPDX-License-Identifier: Apache-2.0
"""What the page says: every number is computed here a second time."""
import base64
import html
import io
import re
import statistics
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from conftest import ENCODERS, METHODS, Report, fake_figures, fake_results
from kedge.report import measure
from reading import Tables, loss, pairs, search, set_f1, summary, values, written

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("undrawn")]


def test_the_classification_table_holds_every_mean_and_deviation(report: Report) -> None:
    results = fake_results()
    rows = Tables(report.page_of(results)).sections["heads"]
    assert [text for text, _ in rows[0]] == ["Encoder", "Head trained on", *METHODS]
    assert len(rows) == 1 + len(ENCODERS) ** 2
    for (encoder, _), (source, _), *cells in rows[1:]:
        own = source.endswith(" own")
        source = source.replace(" own", "")
        assert own == (source == encoder)
        for method, (text, _) in zip(METHODS, cells):
            numbers = values(results, "weighted_f1", method=method, encoder=encoder, trained_on=source)
            assert text == (written(numbers) if numbers else "–"), (encoder, source, method)


def test_bold_is_the_best_zero_shot_of_each_row_and_never_an_own_head(report: Report) -> None:
    better = {("vgg16", "vit-s14"): "param-multi", ("tinyvit-sam", "vgg16"): "random-cosine"}
    results = set_f1(fake_results(seeds=3), lambda r: 0.9 if better.get((r["encoder"], r["trained_on"])) == r["method"]
                     else 0.8 if r["method"] == "consensus" else 0.5)
    for (encoder, _), (source, _), *cells in Tables(report.page_of(results)).sections["heads"][1:]:
        bold = [method for method, (_, is_bold) in zip(METHODS, cells) if is_bold]
        wanted = [] if source.endswith(" own") else [better.get((encoder, source), "consensus")]
        assert bold == wanted, (encoder, source)


def test_equal_numbers_are_not_bold(report: Report) -> None:
    results = set_f1(fake_results(seeds=3), lambda r: 0.7 if r["method"] in ("consensus", "param-multi") else 0.5)
    row = Tables(report.page_of(results)).sections["heads"][2]
    assert [text for text, bold in row if bold] == []


def test_the_means_and_the_retrieval_table_hold_what_was_measured(report: Report) -> None:
    results = fake_results()
    sections = Tables(report.page_of(results)).sections
    assert [text for text, _ in sections["means"][0]] == ["Metric", *METHODS]
    means = {row[0][0]: [text for text, _ in row[1:]] for row in sections["means"][1:]}
    for title, key, own, scale, digits in (("F1", "weighted_f1", False, 100, 1),
                                           ("F1 own", "weighted_f1", True, 100, 1),
                                           ("R@10", "recall@10", False, 100, 1), ("MRR", "mrr", False, 1, 3)):
        for method, text in zip(METHODS, means[title]):
            each = [statistics.mean(found) for seed in range(3)
                    if (found := values(results, key, method=method, zero_shot=not own, seed=seed))]
            assert text == (written(each, scale, digits) if each else "–"), (method, title)
    rows = sections["retrieval"]
    assert [text for text, _ in rows[1][2:5]] == ["R@1", "R@5", "MRR"]
    for (source, _), (encoder, _), *cells in rows[2:]:
        numbers = values(results, "recall@1", method="consensus", encoder=encoder, trained_on=source)
        assert cells[-3] == (written(numbers), True), (source, encoder)


def test_the_summary_has_the_right_numbers(report: Report) -> None:
    results = fake_results()
    text = summary(report.page_of(results))
    losses = {pair: loss(results, "consensus", *pair) for pair in pairs()}
    assert f"loses {statistics.mean(losses.values()):.1f} " in text
    assert "(12 pairs of encoders, 3 seeds)" in text
    for word, choose in (("best", min), ("worst", max)):
        encoder, source = choose(losses, key=losses.__getitem__)
        own = 100 * statistics.mean(values(results, "weighted_f1", method="absolute", encoder=encoder))
        assert (f"The {word} pair: a head trained on {source} loses {losses[encoder, source]:.1f} points of F1 on "
                f"{encoder}, which it has never seen (its own head: {own:.1f}).") in text
    baseline = statistics.mean(loss(results, "random-cosine", *pair) for pair in pairs())
    assert re.search(rf"random-cosine, loses {baseline:.1f}( ± \d\.\d)? points of F1 on the same pairs", text)
    found = 100 * statistics.mean(values(results, "recall@1", method="consensus", zero_shot=True))
    assert f"at rank 1 among 1,500 test rows in {found:.2f} % of lookups with consensus" in text


def test_a_negative_loss_is_a_gain_and_nothing_is_neither(report: Report) -> None:
    rule = {"absolute": 0.70, "consensus": 0.72, "random-cosine": 0.7001}
    results = set_f1(fake_results(methods=list(rule)), lambda r: rule[r["method"]])
    text = summary(report.page_of(results))
    assert "gains 2.0 points of F1 on average: 72.0 against 70.0" in text
    assert "random-cosine, neither loses nor gains F1 on the same pairs" in text
    assert "loses" not in text.replace("neither loses nor gains", "")


def test_one_seed_has_no_deviation_and_the_words_agree_in_number(report: Report) -> None:
    results = fake_results(encoders=ENCODERS[:2], methods=["absolute", "consensus"], seeds=1)
    page = report.page_of(results)
    assert "±" not in page and "standard deviation" not in page
    assert "(2 pairs of encoders, 1 seed)" in summary(page)
    results["records"] = [r for r in results["records"] if not (r["zero_shot"] and r["encoder"] == ENCODERS[0])]
    text = summary(report.page_of(results))
    assert "(1 pair of encoders, 1 seed)" in text and "on average" not in text and "best pair" not in text


def test_deviations_are_those_of_a_sample(report: Report) -> None:
    def shown(seeds: int, step: float, start: float = 0.5) -> Any:
        results = set_f1(fake_results(seeds=seeds, methods=["absolute", "consensus"]),
                         lambda r: start + step * r["seed"])
        return Tables(report.page_of(results)).sections["heads"][2][3][0]

    assert shown(3, 0.02) == "52.0 ± 4.9"  # Student's t of three seeds, ddof 1
    assert shown(2, 0.02) == "51.0"  # two alone say too little of their spread
    assert shown(3, 0.3, 0.3) == "60.0 ± 60.0"  # no interval beyond all values


def test_two_seeds_have_the_interval_of_a_normal_distribution() -> None:
    rows = np.array([0.60, 0.62] * 50)
    found = measure.Estimate(pd.Series({0: 0.41, 1: 0.81}), rows).noise
    assert found == pytest.approx(1.96 * (0.04 + 0.0001) ** 0.5, rel=0.01)


def test_without_the_absolute_head_the_method_is_held_against_its_own_heads(report: Report) -> None:
    results = set_f1(fake_results(methods=["consensus"], seeds=1), lambda r: 0.6 if r["zero_shot"] else 0.65)
    text = summary(report.page_of(results))
    assert "loses 5.0 points of F1 on average: 60.0 against 65.0 with a head on that encoder's own RR" in text
    assert "random-cosine" not in text


def test_without_labels_the_page_is_about_retrieval(report: Report) -> None:
    page = report.page_of(fake_results(labels=False), fake_figures(classes=0))
    sections = Tables(page).sections
    assert "heads" not in sections and "retrieval" in sections
    assert "F1" not in html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", page, flags=re.S))
    assert summary(page).count("found at rank 1") >= 1
    assert "There are no labels, so an item" in page and "colour is its place along the first axis" in page


def test_targets_give_errors_and_pictures(report: Report) -> None:
    results = fake_results(labels=False, targets=True)
    page = report.page_of(results, fake_figures(pictures=True))
    mse = statistics.mean(values(results, "mse", method="consensus", zero_shot=True))
    own = statistics.mean(values(results, "mse", method="absolute"))
    assert f"have an MSE of {mse:.4f} (PSNR" in summary(page)
    assert f"decoders trained on those encoders themselves: {own:.4f} (PSNR" in summary(page)
    rows = Tables(page).sections["decoders"]
    (encoder, _), (source, _), *cells = rows[2]
    best = statistics.mean(values(results, "mse", method="consensus", encoder=encoder, trained_on=source))
    assert [text.split(" ± ")[0] for text, bold in cells if bold] == [f"{best:.4f}"]
    strips = search(r'(?s)<section id="pictures">(.*?)</section>', page)[1]
    assert re.findall(r"<figcaption>([\w-]+)", strips) == ["original", *METHODS]
    assert strips.count("<img ") == len(METHODS) + 1 and strips.count("MSE ") >= len(METHODS)


@pytest.mark.parametrize("shape", [[4, 6], [4, 6, 3], [3, 4, 6]])
def test_pictures_are_drawn_with_their_own_pixels(report: Report, shape: list[int]) -> None:
    """Three samples of bytes, one too bright and one too dark, as grey and with the channels last and first."""
    colour = np.zeros((4, 6, 3)) + ([255, 102, 0] if len(shape) == 3 else [102, 102, 102])
    sample = colour[..., 0] if len(shape) == 2 else colour.transpose(2, 0, 1) if shape[0] == 3 else colour
    figures = {"reconstructions": {"shape": shape, "trained_on": "a", "encoder": "b", "methods": {},
                                   "original": [(sample + 153).ravel().tolist(), sample.ravel().tolist(),
                                                [-3.0] * sample.size]}}
    page = report.page_of(fake_results(methods=["absolute"], seeds=1), figures)
    strip = search(r'(?s)<section id="pictures">.*?base64,([^"]*)"', page)[1]
    pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(strip)))
    assert pixels.shape == (4, 3 * 6 + 2, 4)
    np.testing.assert_allclose(pixels[:, :6, :3], np.clip(colour + 153, 0, 255) / 255, atol=0.004)
    np.testing.assert_allclose(pixels[:, 7:13, :3], colour / 255, atol=0.004)
    assert (pixels[:, [6, 13], 3] == 0).all() and (pixels[:, 14:, :3] == 0).all()
