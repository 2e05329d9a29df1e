# SPDX-License-Identifier: Apache-2.0
"""report: a page with the quality from today to everything embedded again, the map's errors, and what was done when."""
from __future__ import annotations

import datetime
from collections.abc import Callable

import matplotlib
from markupsafe import Markup

from .._errors import Error
from .._output_file import write_file
from ..report import html, style
from ..report.tables import Cell, Table
from .check import WHOLE_ROWS, TopUpCurve, in_the_store
from .migration import Migration
from .quality import Interval
from .say import EXPECTED, MEASURES, WAYS
from .status import state_and_next
from .top_up import expected
from .types import Found

LOOKS = {"old": ("#3d4550", "o"), "translated": ("#1f6fb2", "s"), "fused": ("#b8324f", "^"), "new": ("#2a9d8f", "D")}
# What a measure is, where it is first used.
TERMS = [("overlap@10", "how many of the new model's own ten nearest documents a search returns"),
         ("nDCG@10", "whether the right documents are at the top of the first ten; 1 is a perfect order"),
         ("translate", "search the new vectors alone: real ones where there are any, translated ones elsewhere"),
         ("translate and fuse", "the same, with the old model's scores added, each divided by its standard deviation")]


def report(migration: Migration, out: str | None = None) -> Found:
    """Writes the page; returns its path."""
    from .. import __version__

    path = migration.path.with_suffix(".html") if out is None else type(migration.path)(out)
    steps = migration.journal.steps()
    if not steps:
        raise Error("there is nothing to report yet; run 'kedge-migrate plan'")
    state, _ = state_and_next(migration.journal, migration.switched)
    checked = migration.journal.fact("check")
    last = {step: found for _, step, found in steps}
    rows, now = look_at(migration, last)
    share = min(migration.journal.count_real() / max(rows, 1), 1)
    with matplotlib.rc_context(style.STYLE):
        sections = [part for part in (quality(checked, share, rows, now), cut_offs(checked), errors(last.get("fit")),
                                      store(last.get("plan")), history(steps)) if part]
    text = html.page(
        title="kedge-migrate: report", heading="Changing the embedding model", headline=headline(migration, state),
        maker="kedge-migrate report", version=__version__, created=datetime.datetime.now(),
        terms=TERMS if checked else [],
        sentences=sentences(migration, checked, state, share), tiles=tiles(migration, checked, rows, share),
        sections=sections, source=f"All numbers come from {migration.journal.path}, the journal of this migration.")
    write_file(path, text)
    return {"file": str(path)}


def look_at(migration: Migration, last: dict[str, Found]) -> tuple[int, dict[str, Interval]]:
    """(rows, what searches give now); rows as they were last counted, and no searches, if the store does not answer."""
    try:
        rows = (migration.new if migration.switched else migration.old).describe().rows
    except Error:
        return int(last.get("plan", {}).get("rows") or last.get("apply", {}).get("rows") or 0), {}
    try:
        return rows, in_the_store(migration) if rows <= WHOLE_ROWS else {}
    except Error:  # the old vectors may be gone
        return rows, {}


def headline(migration: Migration, state: str) -> list[str]:
    return [migration.place.shown, state, f"{migration.journal.count_real():,} real vectors"]


def sentences(migration: Migration, checked: Found | None, state: str, share: float) -> list[str]:
    said = [f"The migration is at this point: {state}."]
    now = expected(migration, share)
    if checked and now:
        said[0] = f"Verdict: {checked['verdict']}: {checked['why']}."
        name = next(name for name in reversed(EXPECTED) if name in now["new"])
        values = "; ".join(f"{title}: {now[way][name]:.3f}" for way, title in WAYS.items() if way in now)
        said.append(f"With {share:.1%} of the documents embedded again, {EXPECTED[name]} is expected to be: {values}.")
    return said


def tiles(migration: Migration, checked: Found | None, rows: int, share: float) -> list[tuple[str, str]]:
    found = [(f"{rows:,}", "documents"), (f"{share:.1%}", "embedded again by the new model")]
    if migration.journal.fact("error") is not None:
        found.append((f"{migration.journal.fact('error'):.3f}",
                      f"error of the {migration.journal.fact('map')} map on rows left out"))
    if checked:
        found.append((checked["verdict"], "verdict of the check"))
    return found


def quality(checked: Found | None, share: float, rows: int, now: dict[str, Interval]) -> html.Section | None:
    """The curves and tables of the check, and what searches of the store give now."""
    if not checked:
        return None
    names = [name for name in MEASURES if name in checked["scores"]["new"]]
    ways = {way: title for way, title in WAYS.items() if way in checked["scores"]}
    panels = [style.Panel(MEASURES[name], curve(checked["curve"], checked.get("ordered"), name, share))
              for name in names]
    keys = [style.Key(title, LOOKS[way][0], style.MARKS[LOOKS[way][1]]) for way, title in ways.items()]
    body = [[Cell(title, head=True, kind="group")] + [interval(checked["scores"][way][name]) for name in names]
            for way, title in ways.items()]
    harder = f" The store has {rows:,}, so its searches are harder." if rows > checked["rows"] else ""
    table = Table(f"Means over queries with 95 % intervals, among the {checked['rows']:,} documents of the sample."
                  f"{harder}",
                  [[Cell("", head=True, kind="group")] + [Cell(MEASURES[name], head=True) for name in names]], body)
    return html.Section("quality", "What search keeps", [
        "Each document of the sample was translated by a map that had not seen it. Then more and more translated "
        "vectors were replaced by real ones, at random" + (
            "; dashed, in the order of top-up, which came from half of the queries, while the other half asked"
            if "ordered" in checked else "") + ". The dotted line is where the store is now."],
        [table, *whole(checked, now)], [style.Group(panels, legend=keys)])


def whole(checked: Found, now: dict[str, Interval]) -> list[Table]:
    """The same in the whole store, where queries are judged: as the check foresaw it, and as searches find it now."""
    foreseen = checked["whole"]["scores"] if "whole" in checked else {}
    tables = []
    for caption, scores, words in (
            ("In the whole store, as apply makes it: real vectors of the sample, all others translated.", foreseen,
             WAYS),
            ("In the whole store as it is now, by searches of the old vectors, of the new ones and of both.", now,
             {"old": "the old vectors", "new": "the new vectors", "fused": "both"})):
        body = [[Cell(words[way], head=True, kind="group"), interval(value)] for way, value in scores.items()]
        if body:
            tables.append(Table(caption, [[Cell("", head=True, kind="group"), Cell(MEASURES["ndcg"], head=True)]],
                                body))
    return tables


def cut_offs(checked: Found | None) -> html.Section | None:
    """What takes the place of the old model's cut-offs."""
    if not checked or not checked.get("cut_offs"):
        return None
    ways = {"new": "the new model's own", "translated": "translated", "fused": "fused score"}
    head = [[Cell("old model", head=True, kind="group"), *(Cell(title, head=True) for title in ways.values())]]
    body = [[Cell(f"{one['old']:.3g}", head=True, kind="group"),
             *(Cell(f"{one['ways'][way]['at']:.3f}", f"{one['ways'][way]['agreement'][0]:.1%} alike "
                    f"({one['ways'][way]['agreement'][1]:.1%} to {one['ways'][way]['agreement'][2]:.1%}), "
                    f"{one['ways'][way]['kept']:.0%} still pass") for way in ways)] for one in checked["cut_offs"]]
    return html.Section("cut-offs", "Cut-offs", [
        "Programs that keep what is similar above a number need another number now. Each of these lets as many of the "
        "ten best documents pass as the old model's did. 'Alike' is the share of them that both decide alike, on "
        "queries that the number was not found with; 'still pass' is the share of what passed before that passes now."],
        [Table("", head, body)])


def interval(value: Interval) -> Cell:
    return Cell(f"{value[0]:.3f}", f"{value[1]:.3f} to {value[2]:.3f}")


def curve(points: TopUpCurve, ordered: TopUpCurve | None, name: str, share: float) -> Markup:
    figure, ax = style.axes(4.4, 3.0)
    shares = [100 * point for point, _ in points]
    for way, title in WAYS.items():
        if way not in points[0][1]:
            continue
        colour, mark = LOOKS[way]
        level = way in ("old", "new")
        ax.plot(shares, [scores[way][name] for _, scores in points], color=colour, marker=None if level else mark,
                linestyle=(0, (4, 3)) if level else "-", label=title)
        if ordered and not level:
            ax.plot([100 * point for point, _ in ordered], [scores[way][name] for _, scores in ordered], color=colour,
                    linestyle=(0, (2, 2)), linewidth=1)
    ax.axvline(100 * share, color=style.SOFT, linewidth=1, linestyle=":")
    ax.set_xlabel("documents embedded again, %")
    ax.set_ylabel(MEASURES[name])
    return style.svg(figure, f"{MEASURES[name]} against the share of documents embedded again")


def errors(fitted: Found | None) -> html.Section | None:
    """How the map's error falls with the sample."""
    if not fitted:
        return None
    figure, ax = style.axes(4.4, 2.6)
    ax.plot([rows for rows, _ in fitted["curve"]], [error for _, error in fitted["curve"]], marker="o")
    ax.set_xlabel("documents in the sample")
    ax.set_ylabel("error")
    ax.set_ylim(bottom=0)
    body = [[Cell(method, head=True, kind="group"), Cell(f"{error:.4f}", best=method == fitted["map"])]
            for method, error in fitted["errors"].items()]
    return html.Section("map", "The map and its sample", [
        f"Learned from {fitted['rows']:,} documents that both models have embedded. The error is the share of the new "
        "vectors' variance that the map misses on rows left out; it falls as the sample grows."],
        [Table("", [[Cell("map", head=True, kind="group"), Cell("error", head=True)]], body)],
        [style.Group([style.Panel("Error by sample size", style.svg(figure, "error against sample size"))])])


def store(planned: Found | None) -> html.Section | None:
    if not planned:
        return None
    length = planned["length"]
    facts = [("store", planned["store"]), ("rows", f"{planned['rows']:,}"),
             ("values in a row", planned["width"]), ("kept as", planned["kind"]), ("compared by", planned["metric"]),
             ("index", planned["index"] or "none"), ("duplicates", f"{planned['duplicates']:,}"),
             ("rows of zeros", f"{planned['zeros']:,}"), ("NaN or infinity", f"{planned['nan']:,}")]
    if length["mean"] is not None:
        facts.append(("lengths", f"{length['least']:.3g} to {length['largest']:.3g}"))
    return html.Section("store", "The store before", ["As 'kedge-migrate plan' found it."], facts=facts)


def history(steps: list[tuple[str, str, Found]]) -> html.Section:
    """What was done when."""
    body = [[Cell(at.replace("T", " ").replace("+00:00", " UTC"), head=True, kind="group"), Cell(step),
             Cell(short(step, found))] for at, step, found in steps]
    head = [[Cell("when", head=True, kind="group"), Cell("step", head=True), Cell("what came of it", head=True)]]
    return html.Section("history", "What was done when", [], [Table("", head, body)])


def short(step: str, found: Found) -> str:
    """One step in a few words."""
    words: dict[str, Callable[[], str]] = {
        "plan": lambda: f"{found['rows']:,} rows of {found['width']} values",
        "sample": lambda: f"{found['embedded']:,} of {found['drawn']:,} documents embedded",
        "fit": lambda: f"{found['map']}, error {found['errors'][found['map']]:.3f}",
        "check": lambda: str(found["verdict"]),
        "apply": lambda: (f"{found['rows']:,} rows, {found['rows_per_second']:,.0f} rows/s; {found['arrived']:,} "
                          "arrived meanwhile"),
        "verify": lambda: "whole" if found["whole"] else "not whole",
        "cutover": lambda: f"{found['arrived']:,} rows had arrived before it",
        "finish": lambda: "others' changes are no longer noted",
        "rollback": lambda: "new vectors removed" if found["dropped"] else "old vectors back",
        "top-up": lambda: f"{found['real']:,} real vectors, {found['share']:.1%}",
    }
    return words[step]()
