# SPDX-License-Identifier: Apache-2.0
"""Texts, one per row: lines of a .txt, one field of a .jsonl, one column of a .csv or .tsv."""
from __future__ import annotations

import csv
import hashlib
import io
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .._errors import BadFile, UsageError
from .inputs import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENDINGS = (".txt", ".jsonl", ".csv", ".tsv")


def _decode(path: pathlib.Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadFile(f"{path} line {line} is not UTF-8; convert the file, for instance with iconv") from None


def _lines(text: str) -> list[str]:
    """Lines as editors count them: other separators that str.splitlines knows may be part of a text."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _field(path: pathlib.Path, where: str, record: dict[Any, Any], field: str, option: str) -> Any:
    if field not in record or record[field] is None:
        there = ", ".join(sorted(str(key) for key in record if key is not None)[:20])
        raise BadFile(f"{path} {where} has no field '{field}'; it has: {there}; name another with {option}")
    return record[field]


def _objects(path: pathlib.Path, text: str) -> Iterator[tuple[str, dict[Any, Any]]]:
    for number, line in enumerate(_lines(text), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{path} line {number} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise BadFile(f"{path} line {number} is not an object such as {{\"text\": \"...\"}}")
        yield f"line {number}", record


def _table(path: pathlib.Path, text: str) -> Iterator[tuple[str, dict[Any, Any]]]:
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        for number, record in enumerate(rows, 1):
            yield f"row {number} (line {rows.line_num})", record
    except csv.Error as error:
        raise BadFile(f"{path} line {rows.line_num}: {error}") from None


def numbers(path: pathlib.Path, wheres: Sequence[str],
            values: Sequence[Any]) -> tuple[NDArray[np.int64], list[str] | None]:
    """Labels as int64 and the names of the classes: whole numbers stay as they are, names are numbered sorted."""
    import numpy
    for where, value in zip(wheres, values):
        if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
            raise BadFile(f"{path} {where}: a label must be a whole number or a name, found {value!r}")
    if all(re.fullmatch(r"-?[0-9]{1,18}", str(value)) for value in values):
        return numpy.array([int(value) for value in values], numpy.int64), None
    names = sorted({str(value).replace("\n", " ") for value in values})
    number = {name: index for index, name in enumerate(names)}
    return numpy.array([number[str(value).replace("\n", " ")] for value in values], numpy.int64), names


def open_text(path: pathlib.Path, field: str | None, label_field: str | None) -> Data:
    """The Data of a file of texts; ids are line numbers (of a table: row numbers), from 1."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    text, ending = _decode(path, raw), path.suffix.lower()
    if ending in (".jsonl", ".csv", ".tsv"):
        found = list((_objects if ending == ".jsonl" else _table)(path, text))
        wheres = [where for where, _ in found]
        texts = [_field(path, where, record, field or "text", "--field") for where, record in found]
        classes = [_field(path, where, record, label_field, "--label-field") for where, record in found] \
            if label_field else []
    else:
        if field or label_field:
            raise UsageError(f"{path} is read line by line and has no fields; leave out --field and --label-field, or "
                             "give a .jsonl or .csv")
        texts, classes = _lines(text), []
        wheres = [f"line {number}" for number in range(1, len(texts) + 1)]
    if not texts:
        raise BadFile(f"{path} has no rows")
    for where, value in zip(wheres, texts):
        if not isinstance(value, str) or not value.strip():
            raise BadFile(f"{path} {where} has no text; every row needs some, since rows are what encoders share")
    labels, names = numbers(path, wheres, classes) if classes else (None, None)
    return Data("text", ending[1:] if ending in ENDINGS else "txt", [str(n) for n in range(1, len(texts) + 1)],
                texts.__getitem__, labels, names, hashlib.sha256(raw).hexdigest(),
                lambda row: f"{path} {wheres[row]}")
