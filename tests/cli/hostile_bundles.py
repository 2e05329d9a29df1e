# SPDX-License-Identifier: Apache-2.0
"""Bundles as somebody might make them to harm who opens them: a good one, with one thing changed."""
import builtins
import functools
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

BIG = 2**63
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


class Parts:
    """A bundle taken apart: the header as a dictionary, the values as bytes."""

    def __init__(self, raw: bytes) -> None:
        length, = struct.unpack("<Q", raw[:8])
        self.header: dict[str, Any] = json.loads(raw[8:8 + length])
        self.values = bytearray(raw[8 + length:])

    @property
    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = self.header["__metadata__"]
        return found

    def place(self, name: str) -> slice:
        begin, end = self.header[name]["data_offsets"]
        return slice(begin, end)

    def array(self, name: str, dtype: npt.DTypeLike = np.float32) -> np.ndarray:
        return np.frombuffer(self.values[self.place(name)], dtype).copy()

    def set_array(self, name: str, values: np.ndarray) -> None:
        self.values[self.place(name)] = values.tobytes()

    def option(self, key: str, **changes: object) -> None:
        """Changes members of the JSON in a metadata entry."""
        inner = json.loads(self.meta[key])
        inner.update(changes)
        self.meta[key] = json.dumps(inner)

    def add(self, name: str, values: np.ndarray, dtype: str = "F32") -> None:
        begin = len(self.values)
        self.values += values.tobytes()
        self.header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [begin, len(self.values)]}

    def rename(self, old: str, new: str) -> None:
        self.header[new] = self.header.pop(old)

    def bytes(self, header: builtins.bytes | None = None, length: int | None = None) -> builtins.bytes:
        text = json.dumps(self.header).encode() if header is None else header
        return struct.pack("<Q", len(text) if length is None else length) + text + bytes(self.values)

    def text(self) -> str:
        return json.dumps(self.header)


Change = Callable[[Parts], object]  # in place, unless it returns bytes
ArrayChange = Callable[[np.ndarray], object]
Case = tuple[str, str, str | list[str], Change]  # group, name, what the sentence says, how the bundle is changed
CASES: list[Case] = []


def of_header(header: bytes) -> Change:
    return lambda p: p.bytes(header)


def of_meta(**changes: str) -> Change:
    return lambda p: p.meta.update(changes)


def without(key: str) -> Change:
    return lambda p: p.meta.pop(key)


def swap(name: str) -> Change:
    return lambda p: p.header[name]["shape"].reverse()


def flat(name: str) -> Change:
    return lambda p: p.header[name].update(shape=[1, p.array(name).size])


def renamed(old: str, new: str = "zzz") -> Change:
    return lambda p: p.rename(old, new)


def one_after_another(*changes: Change) -> Change:
    def run(p: Parts) -> None:
        for change in changes:
            change(p)

    return run


def with_value(place: int | slice, value: float) -> ArrayChange:
    return lambda x: x.__setitem__(place, value)


def case(group: str, name: str, says: str | list[str]) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        CASES.append((group, name, says, change))
        return change

    return add


def tensor(group: str, name: str, says: str | list[str], of: str, **entry: object) -> None:
    CASES.append((group, name, says, lambda p: p.header[of].update(entry)))


def meta(group: str, name: str, says: str | list[str], key: str, value: object) -> None:
    CASES.append((group, name, says, lambda p: p.meta.update({key: value})))


def option(group: str, name: str, says: str | list[str], key: str, **changes: object) -> None:
    CASES.append((group, name, says, lambda p: p.option(key, **changes)))


def values(group: str, name: str, says: str | list[str], of: str, dtype: npt.DTypeLike,
           change: ArrayChange) -> None:
    def run(p: Parts) -> None:
        array = p.array(of, dtype)
        change(array)
        p.set_array(of, array)

    CASES.append((group, name, says, run))


SIZES = "sizes and places that are not in the file"
for shape in ([2**40, 2**20], [BIG, 2], [2**32, 2**32], [2**62, 4], [1, 2**61]):
    tensor(SIZES, f"a shape of {shape[0]} x {shape[1]}", "mixture", "mixture", shape=shape)
tensor(SIZES, "nothing times very much", "hole", "mixture", shape=[2**60, 0], data_offsets=[480, 480])
tensor(SIZES, "a number beyond 64 bits", "whole number", "mixture", shape=[2**70, 1])
tensor(SIZES, "a negative length", "whole number", "mixture", shape=[-4, -60])
tensor(SIZES, "a length that is a fraction", "whole number", "mixture", shape=[2.5, 4])
tensor(SIZES, "a length that is text", "whole number", "mixture", shape=["2", 4])
tensor(SIZES, "a thousand dimensions", "values in one list", "mixture", shape=[1] * 1000)
tensor(SIZES, "offsets past the end", "only", "mixture", data_offsets=[0, 10**9])
tensor(SIZES, "offsets at 2^63", "only", "mixture", data_offsets=[BIG, BIG + 16])
tensor(SIZES, "negative offsets", "whole number", "mixture", data_offsets=[-16, 0])
tensor(SIZES, "offsets the wrong way round", "mixture", "mixture", data_offsets=[64, 0])
tensor(SIZES, "three offsets", "data_offsets", "mixture", data_offsets=[0, 8, 16])
tensor(SIZES, "a type that is not known", "unknown type", "mixture", dtype="F4096")
tensor(SIZES, "a type of another size", "bytes", "mixture", dtype="F64")


@case(SIZES, "two tensors at one place", "overlap")
def _(p: Parts) -> None:
    p.header["b.mean"] = dict(p.header["a.mean"])


@case(SIZES, "a hole", "hole")
def _(p: Parts) -> None:
    p.values += b"\0" * 4
    last = len(p.values)
    p.header["more"] = {"dtype": "U8", "shape": [2], "data_offsets": [last - 2, last]}


@case(SIZES, "bytes that belong to nothing", "account")
def _(p: Parts) -> None:
    p.values += b"#!/bin/sh\nrm -rf ~\n"


HEADER = "headers"
for length in (BIG, 2**64 - 1, 10**8 + 1, 0, 1):
    CASES.append((HEADER, f"a length of {length}", "evil", functools.partial(Parts.bytes, length=length)))
CASES.append((HEADER, "nothing at all", "too short", lambda p: b""))
CASES.append((HEADER, "a list", "dictionary", of_header(b"[]")))
CASES.append((HEADER, "no JSON", "JSON", lambda p: p.bytes(p.text().encode()[:-1])))
CASES.append((HEADER, "bytes that are no UTF-8", "JSON",
              lambda p: p.bytes(p.text().encode().replace(b"mixture", b"mix\xff\xfere"))))
CASES.append((HEADER, "a name twice", "twice", lambda p: p.bytes(p.text().replace('"b.mean"', '"a.mean"').encode())))
CASES.append((HEADER, "a metadata key twice", "twice",
              lambda p: p.bytes(p.text().replace('"seed":', '"method": "fps", "seed":').encode())))
for opening, closing in (("[", "]"), ('{"a":', "}")):
    deep = (opening * 100_000 + "1" + closing * 100_000)
    CASES.append((HEADER, f"100,000 times {opening}", "deep", of_header(('{"x":' + deep + "}").encode())))
    meta(HEADER, f"options of 100,000 times {opening}", "deep", "options", deep)
    meta(HEADER, f"attached of 100,000 times {opening}", "deep", "attached", '{"a":' + deep + "}")
CASES.append((HEADER, "ten million values", "list", of_header(b'{"x":[' + b"0," * 10_000_000 + b"0]}")))
meta(HEADER, "metadata that is no text", "not text", "method", 7)

KEPT = "rows that are kept"
KEPT_ROWS: list[tuple[str, str, Any, list[int] | None]] = [
    ("fewer than the support", "does not fit", lambda rows: rows[1:], None),
    ("of another width", "does not fit", lambda rows: rows[:, 1:], None),
    ("none", "does not fit", lambda rows: rows[:0], None),
    ("NaN", "NaN", lambda rows: rows * np.nan, None),
    ("fewer than their places", "does not fit", lambda rows: rows[:2], [0, 1, 2]),
    ("places out of order", "not in order", lambda rows: rows[:2], [1, 0]),
    ("a place twice", "not in order", lambda rows: rows[:2], [1, 1]),
    ("a place that is not there", "not one of", lambda rows: rows[:2], [0, BIG - 1]),
    ("a negative place", "not one of", lambda rows: rows[:2], [-1, 0]),
]


def keep(change: Any, places: list[int] | None) -> Change:
    def keep_rows(p: Parts) -> None:
        support, dim = p.header["support_ids"]["shape"][0], p.header["a.mean"]["shape"][0]
        p.add("a.support", change(np.ones((support, dim), np.float32)))
        if places is not None:
            p.add("a.support_places", np.array(places, np.int64), "I64")
    return keep_rows


for name, says, change, places in KEPT_ROWS:
    CASES.append((KEPT, name, says, keep(change, places)))

FORMAT = "what it claims to be"
meta(FORMAT, "another format", "not a bundle", "format", "kedge bungle")
meta(FORMAT, "format 3, of a later version", ["format version 3", "reads versions up to 2", "written by kedge 9.8.7",
                                              "use that or a newer one"], "format_version", "3")
meta(FORMAT, "format 2^64", "format version", "format_version", str(2**64))
meta(FORMAT, "format 0", "damaged", "format_version", "0")
meta(FORMAT, "format -1", "damaged", "format_version", "-1")
meta(FORMAT, "no format", "damaged", "format_version", "")
meta(FORMAT, "a method of a later version", ["unknown method 'telepathy'", "written by kedge 9.8.7"], "method",
     "telepathy")
meta(FORMAT, "an unknown similarity", "unknown similarity", "similarity", "likeness")
meta(FORMAT, "a version that is none", "not a version of kedge", "kedge_version", "9.8.7; rm -rf ~")
CASES.append((FORMAT, "no metadata", "not a bundle", lambda p: p.header.pop("__metadata__") and None))
for key in ("format_version", "kedge_version", "method", "similarity", "seed", "options", "sources", "spaces"):
    CASES.append((FORMAT, f"no {key}", f"'{key}'", without(key)))

OPTIONS = "options out of range"
for key, value in (("shrinkage", 1.5), ("shrinkage", -0.1), ("epsilon", -1), ("power", -1), ("refine_tau", -1)):
    option(OPTIONS, f"{key} {value}", "out of range", "options", **{key: value})
option(OPTIONS, "shrinkage as text", "damaged", "options", shrinkage="0.15")
option(OPTIONS, "no rows", "which is an empty range", "options", rows=[5, 5])
option(OPTIONS, "rows that are no range", "damaged", "options", rows=7)
option(OPTIONS, "rows below zero", "whole number", "options", rows=[-5, 5])
option(OPTIONS, "keep 1e300", "whole number", "options", keep=1e300)
meta(OPTIONS, "a number beyond a double", "JSON", "options", '{"shrinkage": 1e999}')
meta(OPTIONS, "NaN, which JSON does not have", "JSON", "options", '{"shrinkage": NaN}')
meta(OPTIONS, "an option twice", "twice", "options", '{"shrinkage": 0.1, "shrinkage": 0.2}')
meta(OPTIONS, "seed 2^64", "whole number", "seed", str(2**64))
meta(OPTIONS, "seed -1", "whole number", "seed", "-1")
option(OPTIONS, "a space shrunk by 2", "out of range", "attached", a={"by": "mixture", "shrinkage": 2})
option(OPTIONS, "a space attached by glue", "'glue'", "attached", a={"by": "glue", "shrinkage": 0})

CONTENT = "values and ids"
for value in (np.nan, np.inf, -np.inf):
    for name in ("mixture", "a.weight", "b.bias", "a.mean", "targets", "b.decode_weight"):
        values(CONTENT, f"{value} in {name}", ["NaN or infinity", name], name, np.float32, with_value(3, value))
values(CONTENT, "a mixture that is not convex", "convex", "mixture", np.float32, with_value(0, 7))
values(CONTENT, "negative weights", "convex", "mixture", np.float32, lambda x: x.__imul__(-1))
for value in (-1, -BIG, BIG - 1, 10**6):
    values(CONTENT, f"support id {value}", "support id", "support_ids", np.int64, with_value(5, value))
values(CONTENT, "a support id twice", "repeated", "support_ids", np.int64, lambda x: x.__setitem__(5, x[4]))

PARTS = "parts that do not fit together"
for name in ("mixture", "targets", "a.weight", "b.decode_weight"):
    CASES.append((PARTS, f"{name} turned round", "evil", swap(name)))
tensor(PARTS, "ids as a matrix", "dimension", "support_ids", shape=[6, 10])
tensor(PARTS, "ids as floats", "int64", "support_ids", dtype="F64")
tensor(PARTS, "a mixture of another type", "float32", "mixture", dtype="I32")
for name in ("mixture", "support_ids", "a.weight", "b.mean", "b.decode_bias"):
    CASES.append((PARTS, f"no {name}", f"no tensor '{name}'", renamed(name)))
meta(PARTS, "a space without a map", "damaged", "spaces", '["a", "b", "c"]')
meta(PARTS, "a space twice", "twice", "spaces", '["a", "b", "a"]')
meta(PARTS, "a source without a map", "no map", "sources", '["a", "c"]')
meta(PARTS, "spaces that are numbers", "damaged", "spaces", "[1, 2]")
meta(PARTS, "attached that is a list", "damaged", "attached", "[1, 2]")

NAMES = "names that a terminal would obey"
for what, name in (("escape sequences", ESCAPE), ("a C1 control", "\x9b2J"), ("a new line", "a\nkedge: all is well"),
                   ("a carriage return", "a\rkedge: ok"), ("writing turned round", "a\u202egnp.exe"), ("nothing", ""),
                   ("an end of text", "a\0b")):
    for key in ("spaces", "sources"):
        meta(NAMES, f"{what} in {key}", "evil", key, json.dumps([name, "a", "b"]))
    meta(NAMES, f"{what} in the version", "not a version", "kedge_version", name)
    meta(NAMES, f"{what} in the method", "unknown method", "method", name)
    CASES.append((NAMES, f"{what} in a tensor's name", "evil", renamed("mixture", name)))
    tensor(NAMES, f"{what} in a type", "unknown type", "mixture", dtype=name)
meta(NAMES, "a name of a million letters", "evil", "method", "x" * 1_000_000)

KERNEL_CASES: list[Case] = []  # the same, of a bundle by the method kernel


def kernel_case(name: str, says: str | list[str], change: Change) -> None:
    KERNEL_CASES.append(("kernels", name, says, change))


def said_of_a(part: str | None = None, **changes: object) -> Change:
    """Changes members of what is said of the space a, or of one part of that; None takes a member away."""
    def run(p: Parts) -> None:
        attached = json.loads(p.meta["attached"])
        of = attached["a"] if part is None else attached["a"].setdefault(part, {})
        of.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del of[key]
        p.meta["attached"] = json.dumps(attached)

    return run


def changed(name: str, change: ArrayChange) -> Change:
    def run(p: Parts) -> None:
        array = p.array(name)
        change(array)
        p.set_array(name, array)

    return run


def cut(name: str) -> Change:
    """One row less, with the bytes after it moved up."""
    def run(p: Parts) -> None:
        shape, place = p.header[name]["shape"], p.place(name)
        row = (place.stop - place.start) // shape[0]
        shape[0] -= 1
        del p.values[place.stop - row:place.stop]
        for entry in (entry for key, entry in p.header.items() if key != "__metadata__"):
            entry["data_offsets"] = [at - row if at >= place.stop else at for at in entry["data_offsets"]]

    return run


for prefix in ("a.", "a.reverse_"):
    for part in ("kernel_rows", "kernel_coefficients", "weight", "bias", "mean"):
        kernel_case(f"no {prefix}{part}", f"no tensor '{prefix}{part}'", renamed(prefix + part))
        for value in (np.nan, np.inf):
            kernel_case(f"{value} in {prefix}{part}", ["NaN or infinity", prefix + part],
                        changed(prefix + part, with_value(3, value)))
    for part in ("kernel_rows", "kernel_coefficients"):
        kernel_case(f"a row less of {prefix}{part}", ["kernel", "do not fit"], cut(prefix + part))
        kernel_case(f"{prefix}{part} turned round", ["kernel", "do not fit"], swap(prefix + part))
    kernel_case(f"a whitener of {prefix} that is not square", ["whitener", "do not fit"],
                flat(f"{prefix}kernel_whitener"))
    kernel_case(f"NaN in the whitener of {prefix}", ["NaN or infinity", "kernel_whitener"],
                changed(f"{prefix}kernel_whitener", with_value(0, np.nan)))
for part in ("kernel", "reverse"):
    for width in (0, -1, 1e-9, 65, 1e9, 1e300):
        kernel_case(f"a {part} of width {width}", "out of range", said_of_a(part, width=width))
    for no_width in ("2", [2], True):
        kernel_case(f"a {part} of width {no_width!r}", "evil", said_of_a(part, width=no_width))
    kernel_case(f"a {part} of no width", "evil", said_of_a(part, width=None))
    kernel_case(f"a {part} that is no object", "damaged", said_of_a(None, **{part: 7}))
kernel_case("a width that JSON does not have", "JSON",
            lambda p: p.meta.update(attached=p.meta["attached"].replace('"width":', '"width": NaN, "was":', 1)))
for key, value in (("strength", -1), ("whitening", 2), ("r2", 3), ("error", -1)):
    kernel_case(f"a {key} of {value}", "out of range", said_of_a("kernel", **{key: value}))
kernel_case("a kernel that nothing is said of", "nothing is said of", said_of_a(kernel=None, by="direct"))
kernel_case("a kernel by ridge", "kernel", said_of_a(by="ridge"))
kernel_case("a way back that nothing is said of", "nothing is said of", said_of_a(reverse=None))
kernel_case("a map by kernel without one", "no tensor",
            one_after_another(*(renamed(f"a.kernel_{part}", part) for part in ("rows", "coefficients", "whitener"))))
kernel_case("a kernel described where there is none", "evil",
            lambda p: p.option("attached", b={**json.loads(p.meta["attached"])["b"], "by": "kernel",
                                              "kernel": json.loads(p.meta["attached"])["a"]["kernel"]}))
kernel_case("by auto", "auto", said_of_a(by="auto"))
kernel_case("a choice below zero", "out of range", said_of_a("choice", ridge_error=-1, kernel_error=0))
kernel_case("a choice that was not taken", ["by kernel", "choice"],
            said_of_a("choice", ridge_error=0.1, kernel_error=0.2))
kernel_case("half a choice", "damaged", said_of_a("choice", ridge_error=0.5))
kernel_case("a way back from a space that is not there", "no map", said_of_a("reverse", space="c"))
kernel_case("a way back from itself", "way back", said_of_a("reverse", space="a"))
kernel_case("a way back from escape sequences", "evil", said_of_a("reverse", space=ESCAPE))
kernel_case("a way back from a number", "damaged", said_of_a("reverse", space=7))
kernel_case("a way back of other outputs", "evil", one_after_another(*(
    renamed(old, new) for part in ("weight", "bias", "mean")
    for old, new in ((f"a.reverse_{part}", "zzz"), (f"a.{part}", f"a.reverse_{part}"), ("zzz", f"a.{part}")))))
kernel_case("a cosine with a kernel", "evil", of_meta(similarity="cosine"))
kernel_case("format 3", ["format version 3", "written by kedge 9.8.7"], of_meta(format_version="3"))


for version in ("1", "01"):
    kernel_case(f"kernels in format {version}", "format version 1", of_meta(format_version=version))
for prefix in ("a.", "a.reverse_"):
    kernel_case(f"a support row less of {prefix}", "support rows",
                one_after_another(cut(f"{prefix}kernel_rows"), cut(f"{prefix}kernel_coefficients")))
    kernel_case(f"a long row of {prefix}", "length",
                changed(f"{prefix}kernel_rows", with_value(slice(-2, None), 1)))


def make(change: Change, raw: bytes) -> bytes:
    """The bundle with the change, as bytes; it says that a later version wrote it."""
    parts = Parts(raw)
    if "kedge_version" in parts.meta:
        parts.meta["kedge_version"] = "9.8.7"
    changed = change(parts)
    return changed if isinstance(changed, bytes) else parts.bytes()
