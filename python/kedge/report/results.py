# SPDX-License-Identifier: Apache-2.0
"""Reads OUT/results.json and OUT/figures.json, and checks everything in them."""
from __future__ import annotations

import dataclasses
import datetime
import json
import numbers
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._errors import BadFile
from . import figures_file, tables

FORMAT_VERSION = 1
AXES = ["anchors", "support", "shrinkage"]
METRICS = ["weighted_f1", "accuracy", "macro_f1", "mrr", "recall@1", "recall@5", "recall@10", "nmse", "rr_std",
           "paired_cosine", "mse", "psnr", "linear_f1"]
METHODS = ["absolute", "ridge", "random-cosine", "random-wip", "kmeans-wip", "fps-cosine", "param-cosine",
           "param-single", "param-multi", "consensus"]


@dataclasses.dataclass
class Results:
    """What one 'kedge stitch' or 'kedge sweep' measured; names are in the order in which they are shown."""
    command: str
    version: str
    created: datetime.datetime
    settings: dict[str, Any]
    records: pd.DataFrame
    runs: list[dict[str, Any]]
    tables: list[dict[str, Any]]  # as tables.json has them
    warnings: list[str]
    drawings: dict[str, Any]
    trouble: str = ""         # why there are no drawings, if their file is damaged

    @property
    def encoders(self) -> list[str]:
        spaces = [space.get("name") for space in self.settings.get("spaces", []) if isinstance(space, dict)]
        given = [name for name in spaces if isinstance(name, str)]
        found = pd.unique(pd.concat([self.records.encoder, self.records.trained_on]))
        return [name for name in dict.fromkeys(given) if name in set(found)] + [n for n in found if n not in given]

    @property
    def methods(self) -> list[str]:
        found = list(pd.unique(self.records.method))
        return [name for name in METHODS if name in found] + [name for name in found if name not in METHODS]

    @property
    def seeds(self) -> int:
        return int(self.records.seed.nunique())

    @property
    def even(self) -> bool:
        """Whether all methods have the same seeds."""
        return bool(self.records.groupby("method").seed.agg(frozenset).nunique() == 1)

    @property
    def swept(self) -> list[str]:
        """The axes of the sweep: those on which the records take more than one value."""
        return [axis for axis in AXES if self.records[axis].nunique() > 1]


def load(path: pathlib.Path) -> Any:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}; make it with 'kedge stitch -o "
                         f"{path.parent}'") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        reason = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "it is not text"
        raise BadFile(f"{path} is not valid JSON ({reason}); make it again with 'kedge stitch' or "
                         "'kedge sweep'") from None


def expect(good: object, path: pathlib.Path, expected: str, found: object) -> None:
    if not good:
        raise BadFile(f"{path}: expected {expected}, found {shorten(found)}; make the file again with 'kedge "
                         "stitch' or 'kedge sweep'")


def shorten(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def number(value: Any, path: pathlib.Path, where: str) -> float:
    """A float; null, NaN, infinity and absurdly large numbers are 'not measured'."""
    if value is None:
        return np.nan
    expect(isinstance(value, numbers.Real) and not isinstance(value, bool), path, f"a number or null in {where}", value)
    return float(value) if abs(value) < 1e30 else np.nan


def shrinkage(value: Any, path: pathlib.Path, where: str) -> float | str:
    """A number, or the name of a rule, which stays text until all values are known."""
    if not isinstance(value, str):
        return number(value, path, where)
    expect(value.strip(), path, f"a number, a name or null in {where}", value)
    return value


def as_names(rows: Iterable[dict[str, Any]]) -> None:
    """If one value of shrinkage is a name, all become names, since they no longer lie on one line."""
    if any(isinstance(row["shrinkage"], str) for row in rows):
        for row in rows:
            value = row["shrinkage"]
            row["shrinkage"] = value if isinstance(value, str) else np.nan if np.isnan(value) else f"{value:g}"


def read_record(record: Any, index: int, path: pathlib.Path) -> dict[str, Any]:
    expect(isinstance(record, dict), path, f"an object as record {index}", record)
    row = {}
    for key in ("method", "encoder", "trained_on"):
        expect(isinstance(record.get(key), str), path, f"a name in '{key}' of record {index}", record.get(key))
        row[key] = record[key]
    for key in ["seed", *AXES, *METRICS]:
        row[key] = (shrinkage if key == "shrinkage" else number)(record.get(key), path, f"'{key}' of record {index}")
    zero_shot = record.get("zero_shot", row["encoder"] != row["trained_on"])
    expect(isinstance(zero_shot, bool), path, f"true or false in 'zero_shot' of record {index}", zero_shot)
    row["zero_shot"] = zero_shot and row["method"] != "absolute"
    return row


def read_run(run: Any, index: int, path: pathlib.Path) -> dict[str, Any]:
    expect(isinstance(run, dict) and isinstance(run.get("method"), str), path, f"a method in run {index}", run)
    sources = run.get("sources")  # absent: nobody knows
    expect(sources is None or isinstance(sources, list) and all(isinstance(name, str) for name in sources), path,
           f"a list of names in 'sources' of run {index}", sources)
    history = run.get("history") or []
    expect(isinstance(history, list) and all(isinstance(epoch, dict) for epoch in history), path,
           f"a list of epochs in 'history' of run {index}", history)
    row = {"method": run["method"], "sources": sources}
    for key in ["seed", "seconds", *AXES]:
        row[key] = (shrinkage if key == "shrinkage" else number)(run.get(key), path, f"'{key}' of run {index}")
    row["seed"] = 0.0 if np.isnan(row["seed"]) else row["seed"]  # as in records
    row["history"] = [{key: number(value, path, f"'{key}' of epoch {epoch} of run {index}")
                       for key, value in losses.items()} for epoch, losses in enumerate(history)]
    return row


def read_resamples(document: Mapping[str, Any], records: Sequence[Any],
                   path: pathlib.Path) -> list[dict[str, NDArray[np.float64]]]:
    """What each record became in resamples of the test rows: lists by metric, all of one length. Files of older
    versions have none."""
    resamples = document.get("resamples")
    if resamples is None:
        return [{} for _ in records]
    expect(isinstance(resamples, list) and len(resamples) == len(records), path, "'resamples' for every record",
           resamples)
    found = []
    for index, one in enumerate(resamples):
        expect(isinstance(one, dict) and all(isinstance(values, list) for values in one.values()), path,
               f"lists in 'resamples' of record {index}", one)
        found.append({key: np.array([number(value, path, f"resample '{key}' of record {index}") for value in values])
                      for key, values in one.items()})
    return found


def read_drawings(path: pathlib.Path) -> tuple[dict[str, Any], str]:
    """What there is to draw, or what is wrong with it: the numbers are worth showing without drawings."""
    try:
        return (figures_file.check(load(path), path) if path.exists() else {}), ""
    except BadFile as error:
        return {}, str(error)


def read(folder: pathlib.Path) -> Results:
    path = folder / "results.json"
    document = load(path)
    expect(isinstance(document, dict) and document.get("format") == "kedge results", path,
           "\"format\": \"kedge results\"", document.get("format") if isinstance(document, dict) else document)
    version = document.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise BadFile(f"{path}: this report reads format version {FORMAT_VERSION}, found {shorten(version)}; use "
                         "the report of the kedge that wrote it, or make the file again")
    records, runs, settings = document.get("records"), document.get("runs", []), document.get("settings") or {}
    expect(isinstance(records, list), path, "a list in 'records'", records)
    expect(isinstance(runs, list), path, "a list in 'runs'", runs)
    expect(isinstance(settings, dict), path, "an object in 'settings'", settings)
    expect(isinstance(settings.get("spaces", []), list), path, "a list in 'spaces'", settings.get("spaces"))
    if not records:
        raise BadFile(f"{path}: expected at least one record, found none; did the command end before its first "
                         "measurement? run it again")
    records = [read_record(record, index, path) for index, record in enumerate(records)]
    runs = [read_run(run, index, path) for index, run in enumerate(runs)]
    as_names(records + runs)
    table = pd.DataFrame(records)
    if table[METRICS].isna().all(axis=None):
        raise BadFile(f"{path}: expected measurements, found nothing but null in every record; give 'kedge stitch' "
                         "labels, targets or at least two spaces")
    table["seed"] = table.seed.fillna(0)
    table["resampled"] = read_resamples(document, document["records"], path)
    finished, warnings = tables.check(load(folder / "tables.json"), folder / "tables.json", len(records))
    return Results(str(document.get("command", "stitch")), str(document.get("kedge_version", "unknown")),
                   datetime.datetime.fromtimestamp(path.stat().st_mtime), settings, table, runs,
                   finished, warnings, *read_drawings(folder / "figures.json"))
