# SPDX-License-Identifier: Apache-2.0
"""The table of rivals: means with 95 % intervals, from resamples of draws and queries at once."""
from __future__ import annotations

import pathlib
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from protocol import Outcome

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

NEW = "all embedded again by the new model"
RESAMPLES = 1000
Way: TypeAlias = tuple[str, str]                # the rival, and what it is called there
Found: TypeAlias = Mapping[str, Sequence[Outcome | str]]  # of every draw, by column
Results: TypeAlias = dict[tuple[str, str], dict[Way, dict[str, Sequence[Outcome | str]]]]


def resampled(draws: Sequence[Outcome]) -> np.ndarray:
    """The mean over draws and queries, and then that of each resample. All ways share the resamples, so that what is
    hard for all of them cancels in differences."""
    total = 1 + max(max(draw.queries) for draw in draws)
    rng = np.random.default_rng(0)
    weights = np.vstack([np.ones(total), rng.multinomial(total, np.full(total, 1 / total), RESAMPLES)])
    means = np.stack([weights[:, draw.queries] @ draw.scores / weights[:, draw.queries].sum(axis=1)
                      for draw in draws], axis=1)
    chosen = rng.integers(0, len(draws), (RESAMPLES, len(draws)))
    chosen = np.vstack([np.arange(len(draws)), chosen])
    mean: np.ndarray = np.take_along_axis(means, chosen, axis=1).mean(axis=1)
    return mean


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def half_width(resamples: np.ndarray) -> float:
    low, high = np.quantile(resamples[1:], (.025, .975))
    return float(high - low) / 2


def column(ways: Mapping[Way, Found], title: str) -> dict[Way, str]:
    """The cells of a column. The best way, and those that cannot be told from it, are bold."""
    found = {way: [one for one in draws[title] if isinstance(one, Outcome)]
             for way, draws in ways.items() if title in draws}
    means = {way: resampled(draws) for way, draws in found.items() if draws}
    whole = means.get(("", NEW))
    if whole is not None:
        means = {way: values / whole for way, values in means.items()}
    rivals = {way: values for way, values in means.items() if way[0]}
    best = max(rivals.values(), key=lambda values: float(values[0]))
    cells = {}
    for way, values in means.items():
        text = short(values[0]) + ("" if way == ("", NEW) else f" ± {short(half_width(values))}")
        level = way[0] and np.quantile((best - values)[1:], .025) <= 0
        cells[way] = f"**{text}**" if level else text
    return cells


def seconds(draws: Sequence[Outcome | str]) -> str:
    there = [one for one in draws if isinstance(one, Outcome)]
    if not there or not any(one.fit_s + one.apply_s for one in there):
        return ""
    return " + ".join(f"{statistics.median(getattr(one, name) for one in there):.1f}" for name in ("fit_s", "apply_s"))


def lines(ways: Mapping[Way, Found]) -> list[str]:
    titles = list(dict.fromkeys(title for draws in ways.values() for title in draws))
    columns = {title: column(ways, title) for title in titles}
    out = ["| | " + " | ".join((*titles, f"seconds, {titles[-1]}")) + " |", "|---|" + "---|" * (len(titles) + 1)]
    for way in sorted(ways, key=lambda way: (bool(way[0]), way[1] == NEW)):
        cells = [columns[title].get(way, "refused") for title in titles]
        name = f"{way[0]}, {way[1]}" if way[0] else way[1]
        out.append("| " + " | ".join((name, *cells, seconds(ways[way][titles[-1]]))) + " |")
    return out


def refusals(results: Results) -> list[str]:
    said = {f"{way[0]}, {way[1]}: {found}" for ways in results.values() for way, draws in ways.items()
            for outcomes in draws.values() for found in outcomes if isinstance(found, str)}
    return sorted(said)


def page(results: Results, missing: Sequence[str], draws: int, made_by: str) -> str:
    out = ["# kedge and its rivals", "",
           f"Made by `{made_by}` ({record.machine()}). [Choosing](../../docs/compare.md) says what each rival is "
           "and how to read this.", "",
           f"Each number is a mean over {draws} draw{'s' * (draws > 1)} of the rows to fit on; ± is half of its 95 % "
           f"interval, from {RESAMPLES:,} resamples of draws and queries. Bold: the best, and what cannot be told "
           "from it on the same resamples. Seconds are those of one processor thread, to fit and to map all rows."]
    for (group, measure), ways in results.items():
        share = " as a share of the new model's" if ("", NEW) in ways else ""
        out += ["", f"## {group}", f"{measure}{share}", "", *lines(ways)]
    notes = [*missing, *refusals(results)]
    if notes:
        out += ["", "## Not measured", *(f"- {note}" for note in notes)]
    return "\n".join(out) + "\n"
