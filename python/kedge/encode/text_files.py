# SPDX-License-Identifier: Apache-2.0
"""Texts, one per row: lines of a .txt, one field of a .jsonl, one column of a .csv or .tsv."""
import csv
import hashlib
import io
import json
import re

from .errors import BadFile, UsageError

ENDINGS = (".txt", ".jsonl", ".csv", ".tsv")


def _decode(path, raw):
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadFile(f"{path} line {line} is not UTF-8; convert the file, for instance with iconv") from None


def _lines(text):
    """Lines as editors count them: other separators that str.splitlines knows may be part of a text."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _field(path, where, record, field, option):
    if field not in record or record[field] is None:
        there = ", ".join(sorted(str(key) for key in record if key is not None)[:20])
        raise BadFile(f"{path} {where} has no field '{field}'; it has: {there}; name another with {option}")
    return record[field]


def _objects(path, text):
    for number, line in enumerate(_lines(text), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"{path} line {number} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise BadFile(f"{path} line {number} is not an object such as {{\"text\": \"...\"}}")
        yield f"line {number}", record


def _table(path, text):
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        for number, record in enumerate(rows, 1):
            yield f"row {number} (line {rows.line_num})", record
    except csv.Error as error:
        raise BadFile(f"{path} line {rows.line_num}: {error}") from None


def numbers(path, wheres, values):
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


def open_text(path, field, label_field):
    """The Data of a file of texts; ids are line numbers (of a table: row numbers), from 1."""
    from .data import Data
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    text, ending = _decode(path, raw), path.suffix.lower()
    if ending in (".jsonl", ".csv", ".tsv"):
        found = list((_objects if ending == ".jsonl" else _table)(path, text))
        wheres = [where for where, _ in found]
        texts = [_field(path, where, record, field or "text", "--field") for where, record in found]
        labels = label_field and [_field(path, where, record, label_field, "--label-field") for where, record in found]
    else:
        if field or label_field:
            raise UsageError(f"{path} is read line by line and has no fields; leave out --field and --label-field, or "
                             "give a .jsonl or .csv")
        texts, labels = _lines(text), None
        wheres = [f"line {number}" for number in range(1, len(texts) + 1)]
    if not texts:
        raise BadFile(f"{path} has no rows")
    for where, value in zip(wheres, texts):
        if not isinstance(value, str) or not value.strip():
            raise BadFile(f"{path} {where} has no text; every row needs some, since rows are what encoders share")
    labels, names = numbers(path, wheres, labels) if labels else (None, None)
    return Data("text", ending[1:] if ending in ENDINGS else "txt", [str(n) for n in range(1, len(texts) + 1)],
                texts.__getitem__, labels, names, hashlib.sha256(raw).hexdigest(),
                lambda row: f"{path} {wheres[row]}")
