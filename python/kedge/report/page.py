# SPDX-License-Identifier: Apache-2.0
"""Puts sentences, tables and figures in their order; page.html says how they look."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from markupsafe import Markup

from . import figures, geometry, glossary, html, measure, style, summary, tables
from .html import Section
from .measure import ACCURACY, F1, MRR, MSE, NMSE, PSNR, R1
from .results import AXES, Results
from .style import Looks


def where(results: Results) -> list[str]:
    """In a sweep, the point at which tables and dots are taken."""
    point = measure.reference_point(results)
    return [f"Shown at one point of the sweep: {measure.point_words(point)}."] if point else []


def whiskers(records: pd.DataFrame) -> str:
    """What the intervals are over; nothing if that is unknown."""
    over = ["test rows"] if any(records.resampled) else []
    over += ["seeds"] if records.seed.nunique() >= (2 if over else measure.SEEDS_OF_STUDENT) else []
    return f" Whiskers are 95 % intervals over {' and '.join(over)}." if over else ""


def classification(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    return Section("heads", "Heads on encoders they have never seen", [
        "A head is a small classifier trained on the relative representation (RR) of one encoder. If all encoders "
        "share one language, the same head works on another encoder without any training.", *where(results)],
        [*map(tables.rendered, tables.of_kind(results, "heads"))])


def decoding(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    return Section("decoders", "Decoders on encoders they have never seen", [
        "A decoder is a head that reconstructs the target, for instance an image, from the RR.", *where(results)],
        [*map(tables.rendered, tables.of_kind(results, "decoders"))])


def means(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    metrics = [metric for metric in (F1, ACCURACY, MRR, R1, NMSE, MSE, PSNR) if measure.has(records, metric)]
    said = measure.comparison(records, metrics)
    return Section("means", "Methods side by side", [
        "Each number is a mean over all pairs of encoders (zero-shot) or over all encoders (own).", *where(results),
        *said], [*map(tables.rendered, tables.of_kind(results, "means"))], alone=bool(said))


def retrieval(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    return Section("retrieval", "Finding the same item across encoders", [
        "No head is trained here: an item is looked up by its RR alone, from one encoder into another that was held "
        "out.", *where(results)], [*map(tables.rendered, tables.of_kind(results, "retrieval"))])


def dots(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    found = {metric: measure.zero_shot(measure.compared(records, metric)) for metric in (F1, MRR, PSNR, R1)}
    metrics = [metric for metric in (F1, MRR, PSNR) if len(found[metric])]
    if not metrics and len(found[R1]):
        metrics = [R1]
    tested = found[metrics[0]] if metrics else found[F1]
    panels = [style.Panel(f"{metric.name}, zero-shot", figures.dots(results, records, metric, look))
              for metric in metrics]
    groups = [style.Group(panels)] if panels else []
    if panels and tested.encoder.nunique() > 1:
        panels = [style.Panel(metric.name, figures.grouped_dots(results, records, metric, look)) for metric in metrics]
        methods = [name for name in results.methods if name in set(tested.method)]
        groups.append(style.Group(panels, "By held-out encoder", legend=style.legend(methods, look)))
    dashes = " The dashed line is the absolute head: trained on the raw embeddings of the encoder it is used on." \
        if metrics and "absolute" in set(measure.compared(records, metrics[0]).method) else ""
    return Section("dots", "The methods in pictures", [
        f"Each dot is the mean over all zero-shot pairs.{whiskers(records)}{dashes} The axes show where the numbers "
        "lie and need not begin at 0.", *where(results),
        *measure.comparison(records, metrics)], [], groups)


def sweeps(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    return Section("sweep", "How much is enough", [
        "Each line is the mean over all zero-shot pairs; where it flattens, more anchors or support no longer help."
        f"{whiskers(results.records)} Dashed horizontal lines are methods that do not depend on the axis."],
        [tables.rendered(table, table["title"].removeprefix("Sweep: ")) for table in tables.of_kind(results, "sweep")],
        list(figures.sweeps(results, look)))


def losses(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    group = figures.loss_curves(results, look)
    return Section("losses", "How training went", [
        "The loss over epochs, and its parts before weighting. A thick line is the mean of a method's runs; thin lines "
        "are single runs (or a band from the lowest to the highest if there are many).", *where(results)],
        [], [group] if group else [])


def clouds(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    if results.trouble:
        return Section("geometry", "The geometry, before and after",
                       [f"The drawings are left out because their file is damaged: {results.trouble}."], alone=True)
    paint = geometry.Paint(results.drawings)
    easel = geometry.Easel(paint)
    relative = geometry.after(results.drawings, "relative", easel)
    relative.sort(key=lambda group: results.methods.index(group.title) if group.title in results.methods else 99)
    groups = geometry.before(results.drawings, easel) + relative
    text = ["Each panel shows the two main directions (PCA) of the test rows of one encoder. Before, every encoder has "
            "its own geometry. After, the RR of all encoders are drawn in one basis, that of the first: if they speak "
            "one language, the panels of a row look alike. The centred cosine is the mean cosine between two "
            "encoders' RR of the same item, each around its own mean: 1 if they agree, 0 if they have nothing in "
            "common. The outermost dots may lie outside the frame."] if relative else \
           ["Each panel shows the two main directions (PCA) of the test rows of one encoder, on its own."]
    if groups:
        text.append(paint.words())
    return Section("geometry", "The geometry, before and after", text, [], groups, [], paint.legend())


def similarities(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    paint = geometry.Paint(results.drawings)
    similar = geometry.after(results.drawings, "similarities", geometry.Easel(paint))
    return Section("similarities", "What the similarity does", [
        "The same random anchors with a different similarity in each row; again, all panels of a row share one basis. "
        "The centred cosine says how far encoders agree on the same item. Found first says how often it comes before "
        "all other items drawn when it is looked up in another encoder.", *geometry.why_wip(results.drawings)],
        [], similar, [], paint.legend())


def pictures(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    drawn = results.drawings.get("reconstructions")
    group = geometry.pictures(drawn, results.methods) if drawn else None
    source, encoder = (drawn["trained_on"], drawn["encoder"]) if drawn else ("", "")
    return Section("pictures", "What decoders reconstruct", [
        f"Test items of {encoder}, decoded from its RR by a decoder trained on {source}, which has never seen "
        f"{encoder}. The row absolute is from a decoder trained on {encoder} itself. The MSE is over the items "
        "shown."], [], [group] if group else [])


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as lines of name and value."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key} ")
        elif value is not None:
            between = {"train": ":", "test": ":", "shape": " x "}.get(key, ", ")
            yield f"{prefix}{key}", between.join(map(str, value)) if isinstance(value, list) else str(value)


USED_BY = {  # settings that do nothing without a method whose name begins so
    "param": ["epochs", "batch", "lr", "weight_decay", "temperature", "weight_symnce", "tau_symnce", "weight_coverage",
              "tau_coverage", "weight_orthogonality", "weight_length", "coverage_rows"],
    "consensus": ["power", "refine_epochs", "refine_rate", "refine_tau"],
}


def used(results: Results, fit: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the fit that a method of these results asks for."""
    idle = {name for start, names in USED_BY.items() for name in names
            if not any(method.startswith(start) for method in results.methods)}
    return {name: value for name, value in fit.items() if name not in idle}


def complete(results: Results, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings in words, with those that only the records tell, and what 0 or auto means."""
    if isinstance(settings.get("fit"), dict):
        settings = {**settings, "fit": used(results, settings["fit"])}
    settings = {**settings, "seeds": ", ".join(f"{seed:g}" for seed in sorted(results.records.seed.unique()))}
    for axis in AXES:
        values = measure.ordered(results.records[axis].dropna())
        if values:
            settings[axis] = ", ".join(measure.amount(value, axis) for value in values)
    head = settings.get("head")
    if isinstance(head, dict) and head.get("kind") == "mlp":
        words = {"auto": "until a held-out tenth of the train rows stops improving", 0: "9 for labels, 40 for targets"}
        epochs = head.get("epochs")
        hidden = "as many as features for labels, 512 for targets" if head.get("hidden") == 0 else head.get("hidden")
        settings["head"] = {**head, "epochs": words.get(epochs, epochs) if isinstance(epochs, (int, str)) else epochs,
                            "hidden": hidden}
    return settings


def words_of(section: Section) -> str:
    cells = [cell.text + cell.spread for table in section.tables for row in table.head + table.body for cell in row]
    return " ".join([*section.text, *(table.caption for table in section.tables), *cells,
                     *(panel.title or "" for group in section.groups for panel in group.panels)])


def learns(method: str) -> bool:
    """Whether a method takes anything from the encoders it is fitted on."""
    return method != "absolute" and (not method.startswith("random") or method.endswith(("-ridge", "-kernel")))


def held_out(results: Results) -> list[str]:
    """Whether P never saw the tested encoder: each zero-shot record of a method that learns needs a run of that method,
    seed and point without the encoder. Other runs, for other hold-outs, may well contain it."""
    tested = measure.zero_shot(results.records)
    if tested.empty:
        return []

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(None if pd.isna(row[name]) else row[name] for name in ("method", "seed", *AXES))

    sources: dict[tuple[Any, ...], list[list[str] | None]] = {}
    for run in results.runs:
        sources.setdefault(key(run), []).append(run["sources"])
    seen: dict[str, dict[str, bool]] = {}
    for row in tested[tested.method.map(learns)].to_dict("records"):
        if not any(names is not None and row["encoder"] not in names for names in sources.get(key(row), [])):
            seen.setdefault(row["method"], {})[row["encoder"]] = True
    if seen:
        names = "; ".join(f"{method} on {', '.join(encoders)}" for method, encoders in seen.items())
        return ["Take care: as far as the runs tell, this is not all zero-shot. For some numbers, no run of the same "
                f"method, seed and point learned without the tested encoder: {names}."]
    return ["In every zero-shot number, the tested encoder was held out: the mixture P was learned on other encoders "
            "and never saw it, and the head was trained on another encoder. The held-out encoder's anchors are made "
            "only from its own support rows and statistics, by that same P."]


def provenance(results: Results, records: pd.DataFrame, look: Looks) -> Section:
    settings = dict(results.settings)
    spaces = [space for space in settings.pop("spaces", []) if isinstance(space, dict)]
    cell = tables.Cell
    found = [tables.Table("", [[cell("Encoder", head=True, kind="group"), cell("Values", head=True),
                                cell("Fingerprint", head=True)]],
                          [[cell(str(space.get("name")), head=True, kind="group"), cell(str(space.get("dim", "–"))),
                            cell(str(space.get("fingerprint", "–"))[:16], kind="code")] for space in spaces],
                          "Encoders")] if spaces else []
    times: dict[str, list[float]] = {}
    for run in results.runs:
        if np.isfinite(run["seconds"]):
            times.setdefault(run["method"], []).append(run["seconds"])
    if times:
        order = sorted(times, key=lambda name: results.methods.index(name) if name in results.methods else 99)
        found.append(tables.Table("Seconds of one run on the machine that made these results: the fit, attaching all "
                                  "encoders and the heads. Methods that share a fit, such as param-multi and "
                                  "param-cosine, each count it, so the numbers do not add up to the total time.",
                                  [[cell("Method", head=True, kind="group"), cell("Runs", head=True),
                                    cell("Mean seconds of one run", head=True)]],
                                  [[cell(name, head=True, kind="group"), cell(f"{len(times[name]):,}"),
                                    cell(summary.seconds(float(np.mean(times[name]))))] for name in order], "Time"))
    return Section("made", "How it was made", held_out(results), found, [], list(flat(complete(results, settings))))


def headline(results: Results) -> list[str]:
    """The line under the title: how many of what."""
    settings, count = results.settings, summary.count
    given = settings.get("spaces", [])
    parts = [count(max(len(given), len(results.encoders)), "encoder")]
    for key, word in (("train", "training row"), ("test", "test row")):
        limits = settings.get(key)
        if isinstance(limits, list) and len(limits) == 2 and all(isinstance(n, int) for n in limits):
            parts.append(count(limits[1] - limits[0], word))
    labels, targets = settings.get("labels"), settings.get("targets")
    if isinstance(labels, dict) and isinstance(labels.get("classes"), int):
        classes = labels["classes"]
        parts.append(f"{classes:,} class{'' if classes == 1 else 'es'}")
    if isinstance(targets, dict) and isinstance(targets.get("dim"), int):
        parts.append(f"targets of {count(targets['dim'], 'value')}")
    return parts + [count(len(results.methods), "method"), count(results.seeds, "seed")]


def render(results: Results) -> str:
    records = measure.at(results.records, measure.reference_point(results))
    look = style.looks(results.methods)
    with matplotlib.rc_context(style.STYLE):
        sections = [make(results, records, look) for make in (classification, decoding, means, retrieval, dots, sweeps,
                                                              losses, clouds, similarities, pictures, provenance)]
    said: set[str] = set()
    sentences, tiles = summary.sentences(results), summary.tiles(results)
    known = [(method, glossary.of_method(method)) for method in results.methods if glossary.of_method(method)]
    known += glossary.terms(Markup(" ").join([*sentences, *(says for _, says in tiles)]).striptags(), said)
    for section in filter(None, sections):
        section.terms = glossary.terms(words_of(section), said)
    return html.page(
        title=f"kedge {results.command}: report",
        heading="How much is enough" if results.command == "sweep" else "One language for all encoders",
        headline=headline(results), maker=f"kedge {results.command}", version=results.version, created=results.created,
        sentences=sentences, tiles=tiles, terms=known, sections=[section for section in sections if section],
        source=Markup("All numbers come from <code>results.json</code> next to this page; "
                      "<code>python -m kedge.report</code> rebuilds it."))
