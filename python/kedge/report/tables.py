# SPDX-License-Identifier: Apache-2.0
"""The tables: cells with a text, a heat from 0 to 1 and a bold best; the page turns them into HTML."""
import dataclasses
import typing

import numpy as np

from . import measure
from .measure import ACCURACY, F1, MRR, MSE, NMSE, PSNR, R1, R5, R10, RR_STD


@dataclasses.dataclass
class Cell:
    text: str
    spread: str = ""
    heat: typing.Optional[float] = None
    best: bool = False
    head: bool = False
    rows: int = 1
    columns: int = 1
    kind: str = ""


@dataclasses.dataclass
class Table:
    caption: str
    head: list
    body: list
    title: str = ""


class Heat:
    """0 for the worst of the values, 1 for the best."""

    def __init__(self, values, better):
        values = np.asarray(values, float)
        values = values[np.isfinite(values)]
        self.low, self.high = (values.min(), values.max()) if len(values) else (0, 0)
        self.better = better

    def __call__(self, value):
        if not self.better or not np.isfinite(value) or self.high <= self.low:
            return None
        heat = (value - self.low) / (self.high - self.low)
        return round(heat if self.better > 0 else 1 - heat, 3)


def mark_best(cells, estimates, metric):
    """Bold what is better than all others beyond noise, if anything is."""
    best = measure.beyond_noise(estimates, metric)
    if best is not None:
        cells[best].best = True


def same_seeds(records, metric, keys):
    """The pairs (named by 'keys') whose methods were all measured with the same seeds: there the best may be marked."""
    rows = records.dropna(subset=[metric.key])
    seeds = rows.groupby([*keys, "method"]).seed.agg(frozenset)
    kinds = seeds.groupby(level=[0, 1]).nunique()
    return set(kinds.index[kinds == 1])


def value_cell(table, key, metric, heat):
    if key not in table.index:
        return Cell("–", kind="absent")
    mean, std = table.loc[key, "mean"], table.loc[key, "std"]
    return Cell(metric.text(mean), metric.spread(std, mean), heat(mean))


def pair_table(results, records, metric):
    """The paper's classification table: encoder x the encoder its head was trained on, a column per method."""
    table = measure.over_seeds(records, metric, ["encoder", "trained_on", "method"])
    if table.empty:
        return None
    heat = Heat(table["mean"], metric.better)
    methods = [name for name in results.methods if name in table.index.get_level_values("method")]
    pairs = {(encoder, source) for encoder, source, _ in table.index}
    fair = same_seeds(measure.zero_shot(records), metric, ["encoder", "trained_on"])
    body = []
    for encoder in results.encoders:
        sources = [source for source in results.encoders if (encoder, source) in pairs]
        for index, source in enumerate(sources):
            cells = [value_cell(table, (encoder, source, method), metric, heat) for method in methods]
            if (encoder, source) in fair and encoder != source:
                mark_best(cells, [table["estimate"].get((encoder, source, method)) if method != "absolute" else None
                                  for method in methods], metric)
            names = [Cell(encoder, head=True, rows=len(sources), kind="group")] if index == 0 else []
            own = Cell(source, "own" if source == encoder else "", head=True, kind="source")
            body.append(names + [own] + cells)
    head = [[Cell("Encoder", head=True, kind="group"), Cell("Head trained on", head=True, kind="source"),
             *(Cell(method, head=True) for method in methods)]]
    unit = f", in{metric.unit}," if metric.unit else ""
    words = [f"{metric.name}{unit} on the test rows of the encoder on the left, with a head trained on the RR of the "
             f"encoder next to it{over(results)}.", "Rows marked own are heads on their own encoder; all others are "
             "zero-shot.", "Larger is better." if metric.better > 0 else "Smaller is better."]
    if "absolute" in methods:
        words.append("Absolute is a head on the raw embeddings of the encoder itself.")
    if any(cell.best for row in body for cell in row):
        words.append("Bold marks a zero-shot value that is better than all others in its row beyond noise.")
    if any(cell.kind == "absent" for row in body for cell in row):
        words.append("– means not measured.")
    return Table(" ".join(words), head, body)


def retrieval_table(results, records):
    """The paper's language-model table: source x zero-shot encoder; R@1, R@5 and MRR under each method."""
    tested = measure.zero_shot(records)
    metrics = [metric for metric in (R1, R5, MRR) if measure.has(tested, metric)]
    if not metrics:
        return None
    tables = {metric: measure.over_seeds(tested, metric, ["trained_on", "encoder", "method"]) for metric in metrics}
    heats = {metric: Heat(table["mean"], metric.better) for metric, table in tables.items()}
    found = {method for table in tables.values() for method in table.index.get_level_values("method")}
    methods = [name for name in results.methods if name in found]
    pairs = {key[:2] for table in tables.values() for key in table.index}
    fair = {metric: same_seeds(tested, metric, ["trained_on", "encoder"]) for metric in metrics}
    body = []
    for source in results.encoders:
        targets = [encoder for encoder in results.encoders if (source, encoder) in pairs]
        for index, encoder in enumerate(targets):
            cells = {}
            for metric in metrics:
                keys = [(source, encoder, method) for method in methods]
                row = [value_cell(tables[metric], key, metric, heats[metric]) for key in keys]
                if (source, encoder) in fair[metric]:
                    mark_best(row, [tables[metric]["estimate"].get(key) for key in keys], metric)
                cells.update({(method, metric): cell for method, cell in zip(methods, row)})
            names = [Cell(source, head=True, rows=len(targets), kind="group")] if index == 0 else []
            names.append(Cell(encoder, head=True, kind="source"))
            body.append(names + [cells[method, metric] for method in methods for metric in metrics])
    head = [[Cell("Source", head=True, rows=2, kind="group"),
             Cell("Zero-shot encoder", head=True, rows=2, kind="source"),
             *(Cell(method, head=True, columns=len(metrics)) for method in methods)],
            [Cell(metric.name, head=True) for _ in methods for metric in metrics]]
    caption = ("Each test row's RR in the source is looked up among the RR of all test rows in the other encoder. R@1 "
               "and R@5, in %, say how often the same item comes first, or among the first five; MRR is the mean of "
               f"1 / rank{over(results)}. Bold marks a method that is better than all others in its row beyond noise.")
    return Table(caption, head, body)


def means_table(results, records):
    """Method x metric: the mean over the pairs that all have, and over encoders for heads on their own encoder."""
    tested, own = measure.zero_shot, measure.own
    columns = [(F1, tested, "F1 zero-shot"), (F1, own, "F1 own"), (ACCURACY, tested, "Accuracy zero-shot"),
               (MRR, tested, "MRR"), (R1, tested, "R@1"), (R5, tested, "R@5"), (R10, tested, "R@10"),
               (NMSE, tested, "nMSE"), (RR_STD, tested, "RR_std"), (MSE, tested, "MSE zero-shot"),
               (MSE, own, "MSE own"), (PSNR, tested, "PSNR zero-shot"), (PSNR, own, "PSNR own")]
    columns = [(metric, measure.common(part(measure.compared(records, metric)), metric), title)
               for metric, part, title in columns]
    columns = [column for column in columns if len(column[1])]
    if not columns:
        return None
    measured = {method for metric, rows, _ in columns for method in rows.dropna(subset=[metric.key]).method}
    methods = [method for method in results.methods if method in measured]
    body = [[Cell(method, head=True, kind="group")] for method in methods]
    for metric, rows, _ in columns:
        table = measure.over_seeds(rows, metric, ["method"])
        heat = Heat(table["mean"], metric.better)
        cells = [value_cell(table, method, metric, heat) for method in methods]
        relative = [i for i, method in enumerate(methods) if method != "absolute"]
        mark_best([cells[i] for i in relative], [table["estimate"].get(methods[i]) for i in relative], metric)
        for row, cell in zip(body, cells):
            row.append(cell)
    head = [[Cell("Method", head=True, kind="group"), *(Cell(title, head=True) for _, _, title in columns)]]
    words = {F1: "F1 and accuracy are in %.", R1: "R@k is in %.",
             NMSE: "nMSE is the squared difference between two encoders' RR of the same item over their variance: "
             "smaller is better.", RR_STD: "RR_std is the spread of the RR features.", PSNR: "PSNR is in dB."}
    shown = {metric for metric, _, _ in columns}
    notes = " ".join(text for metric, text in words.items() if metric in shown)
    seeds = max(rows.seed.nunique() for _, rows, _ in columns)
    spread = f"; ± is half of its 95 % interval over test rows and {seeds} seeds" if seeds > 1 else ""
    caption = (f"Means over all pairs{spread}. {notes} Bold marks what is better than all others in its column beyond noise.")
    return Table(caption, head, body)


def grid_table(results, method, metric, axes, point):
    """Two swept axes at once: one metric of one method on their grid."""
    fixed = {axis: value for axis, value in point.items() if axis not in axes}
    records = measure.zero_shot(measure.at(results.records[results.records.method == method], fixed))
    records = measure.common(records.dropna(subset=list(axes)), metric, axes)
    table = measure.over_seeds(records, metric, list(axes))
    heat = Heat(table["mean"], metric.better)
    down, across = (measure.ordered(table.index.get_level_values(axis)) for axis in axes)
    if len(down) < 2 or len(across) < 2:
        return None
    head = [[Cell(f"{axes[0]} \\ {axes[1]}", head=True, kind="group"),
             *(Cell(measure.amount(value, axes[1]), head=True) for value in across)]]
    body = [[Cell(measure.amount(value, axes[0]), head=True, kind="group"),
             *(value_cell(table, (value, other), metric, heat) for other in across)] for value in down]
    rest = f" Everything else stays at {measure.point_words(fixed)}." if fixed else ""
    caption = (f"{metric.name} of {method} for {axes[0]} (down) and {axes[1]} (across), over all zero-shot pairs"
               f"{over(results)}.{rest}")
    return Table(caption, head, body, f"{axes[0].capitalize()} and {axes[1]} together")


def over(results):
    """The words after a number that is a mean over seeds; with one seed there is nothing to say."""
    most = f"{results.seeds} seeds"
    if not results.even:
        most = f"up to {most} (no best is marked where they differ)"
    return f", mean ± half of its 95 % interval over test rows and {most}" if results.seeds > 1 else ""
