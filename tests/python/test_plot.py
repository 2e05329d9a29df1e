# SPDX-License-Identifier: Apache-2.0
"""The figures: what they draw is what the table says, and nothing of the user's matplotlib changes."""
import io
import itertools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kedge
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from kedge import plot
from kedge._plot_inputs import checked

NAMES = ["vit", "rex$_1$", "clip_b"]  # text that would be read as mathematics
LEVELS = {"random-cosine": 0.1, "param-multi": 0.6, "consensus": 0.8}


def record(method: str, encoder: str, trained_on: str, seed: int, anchors: int | None, support: int | None,
           shrinkage: float | str | None, value: float) -> dict[str, Any]:
    own = encoder == trained_on
    return {"method": method, "encoder": encoder, "trained_on": trained_on, "zero_shot": not own, "seed": seed,
            "anchors": anchors, "support": support, "shrinkage": shrinkage, "mrr": None if own else value,
            "weighted_f1": value, "mse": None}


def records(seeds: Sequence[int] = (0, 1), anchors: Sequence[int] = (100,),
            shrinkage: Sequence[float | str] = (0.15,)) -> pd.DataFrame:
    rows = [record("absolute", encoder, encoder, seed, None, None, None, 0.9) for seed in seeds for encoder in NAMES]
    rows += [record(method, encoder, other, seed, count, 1000, pull, level + 0.01 * seed + count / 10000)
             for seed, count, pull in itertools.product(seeds, anchors, shrinkage)
             for method, level in LEVELS.items() for encoder in NAMES for other in NAMES]
    return pd.DataFrame(rows)


SWEPT = records(anchors=(10, 50, 100))


@pytest.fixture(autouse=True)
def leaves_matplotlib_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def shown(*_: object, **__: object) -> None:
        raise AssertionError("a figure was shown")

    monkeypatch.setattr(plt, "show", shown)
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def render(drawn: Any) -> None:
    """Names with $ would fail here, and text that leaves the figure would be cut."""
    figure = drawn if isinstance(drawn, matplotlib.figure.Figure) else drawn.figure
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.tell() > 1000


DRAW = {
    "history": lambda ax: plot.history({"total": [3, 2, 1], "symnce": [2, 1, 0.5]}, ax=ax),
    "scores": lambda ax: plot.scores(records(), ax=ax),
    "pairs": lambda ax: plot.pairs(records(), ax=ax),
    "sweep": lambda ax: plot.sweep(SWEPT, ax=ax),
    "compare": lambda ax: plot.compare(np.eye(5), np.eye(5), ax=ax),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_draws_where_it_is_told(draw: Callable[..., Any]) -> None:
    own = draw(None)
    render(own)
    named = {text.get_text() for text in own.get_yticklabels()}
    assert own.get_xlabel() and (own.get_ylabel() or set(LEVELS) <= named)
    figure, (left, right) = plt.subplots(1, 2)
    assert draw(right) is right
    assert not left.has_data()
    render(figure)


def test_history_of_a_bundle(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, method="param", anchors=10, epochs=4)
    ax: Any = plot.history(bundle)
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    assert set(lines) == {"total", "symnce", "coverage", "orthogonality", "length"}
    np.testing.assert_array_equal(lines["total"], bundle.history["total"])
    assert ax.get_lines()[0].get_xdata().tolist() == [1, 2, 3, 4]
    render(ax)


def test_history_of_a_refinement(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit({"vit": spaces["vit"], "rex": spaces["rex"]}, anchors=10, method="consensus", refine_epochs=2)
    ax: Any = plot.history(bundle)
    line, = ax.get_lines()
    assert line.get_xdata()[0] == 0  # before it began
    np.testing.assert_array_equal(line.get_ydata(), bundle.refine_losses)


def test_history_of_what_has_none(bundle: kedge.Bundle) -> None:
    with pytest.raises(ValueError, match="the method consensus is not learned in epochs"):
        plot.history(bundle)
    with pytest.raises(ValueError, match="has no history; only method='param' learns epoch by epoch"):
        plot.history(bundle.history)


def dots_of(ax: Any) -> list[tuple[float, float | None]]:
    """(value, half of the whisker or None) of each dot."""
    return [(dot.get_xdata()[0], np.ptp(bars[0].get_segments()[0][:, 0]) / 2 if bars else None)
            for dot, _, bars in (container.lines for container in ax.containers)]


def test_scores_are_means_over_pairs_with_their_interval_over_seeds() -> None:
    ax: Any = plot.scores(records(seeds=(0, 1, 2)))
    assert [text.get_text() for text in ax.get_yticklabels()] == list(LEVELS)
    expected = [level + 0.01 + 0.01 for level in LEVELS.values()]
    values, whiskers = zip(*dots_of(ax))
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(whiskers, 4.3027 * 0.01 / np.sqrt(3), rtol=1e-2)  # Student's t of three seeds
    assert ax.get_xlabel() == "MRR, mean over pairs of encoders"
    render(ax)


def test_scores_in_percent_with_the_encoders_own_heads() -> None:
    ax: Any = plot.scores(records(), "weighted_f1")
    np.testing.assert_allclose(dots_of(ax)[-1][0], 100 * (0.8 + 0.005 + 0.01))
    assert ax.get_xlabel().startswith("F1 %")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["absolute, own head 90.0"]
    np.testing.assert_allclose(ax.get_lines()[-1].get_xdata(), 90)
    render(ax)


def test_scores_of_a_sweep_are_taken_at_one_point() -> None:
    ax: Any = plot.scores(SWEPT)
    assert ax.get_xlabel().endswith("at 100 anchors")
    np.testing.assert_allclose(dots_of(ax)[-1][0], 0.8 + 0.005 + 0.01)


def test_scores_with_one_seed_have_no_whiskers() -> None:
    ax: Any = plot.scores(records(seeds=[3]))
    assert [whisker for _, whisker in dots_of(ax)] == [None] * len(LEVELS)
    render(ax)


def test_methods_are_compared_on_what_all_have() -> None:
    table = records()
    table.loc[(table.method == "consensus") & (table.encoder == "vit"), "mrr"] = None
    table.loc[(table.method == "param-multi") & (table.encoder == "vit"), "mrr"] = 0.0  # must not count
    np.testing.assert_allclose(dots_of(plot.scores(table))[1][0], 0.6 + 0.005 + 0.01)


def test_pairs_show_every_pair() -> None:
    table = records()
    table.loc[(table.encoder == "vit") & (table.trained_on == "clip_b") & (table.method == "consensus"), "mrr"] = 0.25
    ax: Any = plot.pairs(table)
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert shown.shape == (3, 3) and np.isnan(np.diag(shown)).all()
    assert ax.get_title(loc="left") == "consensus"
    assert [text.get_text() for text in ax.get_xticklabels()] == NAMES
    place = NAMES.index("vit"), NAMES.index("clip_b")  # row: the encoder, column: trained on
    assert shown[place] == 0.25 and np.nanmin(np.delete(shown.ravel(), 3 * place[0] + place[1])) > 0.8
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("looked up from", "found in")
    heads: Any = plot.pairs(table, "random-cosine", "weighted_f1")
    assert (heads.get_xlabel(), heads.get_ylabel()) == ("head trained on", "used on")
    assert np.isfinite(heads.images[0].get_array()).all()
    render(heads)


def test_a_sweep_has_a_line_per_method() -> None:
    ax: Any = plot.sweep(SWEPT)
    line = next(c for c in ax.containers if c.get_label() == "consensus").lines[0]
    assert line.get_xdata().tolist() == [10, 50, 100]
    np.testing.assert_allclose(line.get_ydata().astype(float), [0.806, 0.81, 0.815])
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("anchors", "MRR", "linear")
    assert plot.sweep(records(anchors=(10, 100, 1000))).get_xscale() == "log"


def test_a_sweep_over_rules_and_numbers() -> None:
    table = records(shrinkage=(0.1, "oas", 0.5))
    ax: Any = plot.sweep(table, "shrinkage", "weighted_f1")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "0.5", "oas"]
    assert "absolute, own head" in [text.get_text() for text in ax.get_legend().get_texts()]
    render(ax)


def test_two_axes_at_once() -> None:
    table = records(anchors=(10, 100), shrinkage=(0.15, 0.5))
    assert plot.sweep(table, "shrinkage").get_xlabel() == "shrinkage at 100 anchors"
    assert plot.sweep(table, "anchors").get_xlabel() == "anchors at shrinkage 0.15"


@pytest.mark.parametrize("draw, sentence", [
    (lambda: plot.scores(records(), "f1"), "scores: the table has no column 'f1'.*weighted_f1"),
    (lambda: plot.scores(records().drop(columns=["seed"])), "no column 'seed'"),
    (lambda: plot.scores(records(), "mse"), "mse was not measured between encoders; what was: weighted_f1, mrr"),
    (lambda: plot.pairs(records(), "consensu"), "no method 'consensu' in the table; it has absolute, random-cosine"),
    (lambda: plot.sweep(records()), "fewer than two values of x='anchors'; make one with kedge.sweep"),
    (lambda: plot.sweep(SWEPT, "support"), "it was swept over anchors"),
    (lambda: plot.sweep(SWEPT, "method"), "fewer than two values of x='method'"),
    (lambda: plot.spaces({"a": np.ones((5, 2)), "b": np.ones((4, 2))}), "5 rows of 'a', 4 rows of 'b'"),
    (lambda: plot.spaces({}), "found no space"),
    (lambda: plot.spaces({"a": np.ones(5)}), r"spaces: 'a': .*X\[None, :\]"),
    (lambda: plot.spaces({"a": np.ones((5, 2))}, [1, 2]), "a label for each of the 5 rows, found 2"),
    (lambda: plot.spaces({"a": np.ones((5, 2)), "b": np.ones((5, 3))}, shared=True), "found 2 and, of 'b', 3"),
    (lambda: plot.compare(np.ones((5, 2)), np.ones((5, 3))), "rows of one length, found 2 and 3")])
def test_is_refused_with_a_sentence(draw: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        draw()


@pytest.mark.parametrize("draw, sentence", [
    (lambda: plot.history(5), "history: expected a bundle or a dict such as bundle.history, found int"),
    (lambda: plot.scores(5), "scores: expected the table that kedge.stitch or kedge.sweep returns, found int"),
    (lambda: plot.pairs("results.csv"), "pairs: expected the table .* found str; .* pandas.read_csv"),
    (lambda: plot.sweep([SWEPT]), "sweep: expected the table .* found list"),
    (lambda: plot.spaces([np.ones((5, 2))]), "spaces: expected names with embeddings, .* found list"),
    (lambda: plot.spaces({"a": "rows.fvecs"}), "spaces: 'a': expected rows in memory, found the path 'rows.fvecs'"),
    (lambda: plot.compare(np.ones((5, 2)), pathlib.Path("b.npy")), "compare: 'B': .* found the path 'b.npy'"),
    (lambda: plot.compare(np.ones((5, 2)), 5), "compare: 'B': expected a matrix")])
def test_what_is_of_another_kind_is_refused_with_a_sentence(draw: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        draw()


def drawn_points(ax: Any) -> np.ndarray:
    return np.concatenate([np.asarray(part.get_offsets()) for part in ax.collections])


def test_spaces_are_seen_where_they_vary_most(spaces: dict[str, np.ndarray], labels: np.ndarray) -> None:
    figure = plot.spaces({**spaces, NAMES[1]: spaces["rex"].tolist()}, labels, max_rows=150)
    assert len(figure.axes) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0", "1", "2", "3"]
    for ax, rows in zip(figure.axes, spaces.values()):
        kept = rows[np.linspace(0, 399, 150).astype(int)].astype(float)
        values = np.linalg.svd(kept - kept.mean(axis=0), compute_uv=False)
        points = drawn_points(ax)
        assert points.shape == (150, 2)
        np.testing.assert_allclose(np.linalg.norm(points, axis=0), values[:2], rtol=1e-6)
        assert f"{(values[:2]**2).sum() / (values**2).sum():.0%} of the variance" in ax.get_title()
    render(figure)


def test_spaces_of_few_rows_and_many_values() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 50))
    figure = plot.spaces({"a": rows})
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(drawn_points(figure.axes[0]), axis=0), values[:2])
    render(plot.spaces({"a": rows[:, :1]}))  # a line
    render(plot.spaces({"a": rows[:1]}))     # a dot


def test_spaces_that_are_shared_keep_one_plane(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    rr = {name: bundle[name].transform(rows) for name, rows in spaces.items()}
    figure = plot.spaces(rr, shared=True)
    first, second = (drawn_points(ax) for ax in figure.axes[:2])
    assert np.mean(np.linalg.norm(first - second, axis=1)) < 0.3 * np.mean(np.linalg.norm(first, axis=1))
    assert len({ax.get_xlim() for ax in figure.axes}) == 1


def test_compare_says_how_many_are_found() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(100, 30))
    b = a.copy()
    b[:50] = rng.normal(size=(50, 30))
    ax: Any = plot.compare(a, 3 * b)
    cosines = (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T
    found = np.mean(cosines.argmax(axis=1) == np.arange(100))
    assert 0.5 <= found < 0.7
    assert ax.get_title(loc="left") == f"{found:.1%} of 100 rows found at rank 1"
    heights = [sum(bar.get_height() for bar in container) for container in ax.containers]
    np.testing.assert_allclose(heights, [100, 100])  # different inputs, the same


def test_the_report_draws_with_the_same_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    from kedge.report import draw, figures, style

    drawn: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def draws(*given: Any) -> Any:
            drawn.append(name)
            return function(*given)

        return draws

    for name in ("dots", "lines"):
        monkeypatch.setattr(draw, name, noted(name, getattr(draw, name)))
    metric, look = checked(SWEPT, "mrr", "")[1], style.looks(["absolute", *LEVELS])
    results: Any = types.SimpleNamespace(methods=list(look))
    plot.scores(records())
    figures.dots(results, records(), metric, look)
    plot.sweep(SWEPT)
    figures.sweep_panel(results, SWEPT, "anchors", metric, look)
    assert drawn == ["dots", "dots", "lines", "lines"]
