# SPDX-License-Identifier: Apache-2.0
"""Bundles as somebody might make them to harm who opens them: a good one, with one thing changed."""
import json
import struct

import numpy as np

BIG = 2**63
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


class Parts:
    """A bundle taken apart: the header as a dictionary, the values as bytes."""

    def __init__(self, raw):
        length, = struct.unpack("<Q", raw[:8])
        self.header = json.loads(raw[8:8 + length])
        self.values = bytearray(raw[8 + length:])

    @property
    def meta(self):
        return self.header["__metadata__"]

    def place(self, name):
        begin, end = self.header[name]["data_offsets"]
        return slice(begin, end)

    def array(self, name, dtype=np.float32):
        return np.frombuffer(self.values[self.place(name)], dtype).copy()

    def put(self, name, values):
        self.values[self.place(name)] = values.tobytes()

    def option(self, key, **changes):
        """Changes members of the JSON in a metadata entry."""
        inner = json.loads(self.meta[key])
        inner.update(changes)
        self.meta[key] = json.dumps(inner)

    def add(self, name, values, dtype="F32"):
        begin = len(self.values)
        self.values += values.tobytes()
        self.header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [begin, len(self.values)]}

    def rename(self, old, new):
        self.header[new] = self.header.pop(old)

    def bytes(self, header=None, length=None):
        text = json.dumps(self.header).encode() if header is None else header
        return struct.pack("<Q", len(text) if length is None else length) + text + bytes(self.values)

    def text(self):
        return json.dumps(self.header)


CASES = []  # (group, name, what the sentence says, how the bundle is changed)


def case(group, name, says):
    def keep(change):
        CASES.append((group, name, says, change))
        return change

    return keep


def tensor(group, name, says, of, **entry):
    CASES.append((group, name, says, lambda p: p.header[of].update(entry)))


def meta(group, name, says, key, value):
    CASES.append((group, name, says, lambda p: p.meta.update({key: value})))


def option(group, name, says, key, **changes):
    CASES.append((group, name, says, lambda p: p.option(key, **changes)))


def values(group, name, says, of, dtype, change):
    def run(p):
        array = p.array(of, dtype)
        change(array)
        p.put(of, array)

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
def _(p):
    p.header["b.mean"] = dict(p.header["a.mean"])


@case(SIZES, "a hole", "hole")
def _(p):
    p.values += b"\0" * 4
    last = len(p.values)
    p.header["more"] = {"dtype": "U8", "shape": [2], "data_offsets": [last - 2, last]}


@case(SIZES, "bytes that belong to nothing", "account")
def _(p):
    p.values += b"#!/bin/sh\nrm -rf ~\n"


HEADER = "headers"
for length in (BIG, 2**64 - 1, 10**8 + 1, 0, 1):
    CASES.append((HEADER, f"a length of {length}", "evil", lambda p, length=length: p.bytes(length=length)))
CASES.append((HEADER, "nothing at all", "too short", lambda p: b""))
CASES.append((HEADER, "a list", "dictionary", lambda p: p.bytes(b"[]")))
CASES.append((HEADER, "no JSON", "JSON", lambda p: p.bytes(p.text().encode()[:-1])))
CASES.append((HEADER, "bytes that are no UTF-8", "JSON", lambda p: p.bytes(p.text().encode().replace(b"mixture", b"mix\xff\xfere"))))
CASES.append((HEADER, "a name twice", "twice", lambda p: p.bytes(p.text().replace('"b.mean"', '"a.mean"').encode())))
CASES.append((HEADER, "a metadata key twice", "twice", lambda p: p.bytes(p.text().replace('"seed":', '"method": "fps", "seed":').encode())))
for opening, closing in (("[", "]"), ('{"a":', "}")):
    deep = (opening * 100_000 + "1" + closing * 100_000)
    CASES.append((HEADER, f"100,000 times {opening}", "deep", lambda p, deep=deep: p.bytes(('{"x":' + deep + "}").encode())))
    meta(HEADER, f"options of 100,000 times {opening}", "deep", "options", deep)
    meta(HEADER, f"attached of 100,000 times {opening}", "deep", "attached", '{"a":' + deep + "}")
CASES.append((HEADER, "ten million values", "list", lambda p: p.bytes(b'{"x":[' + b"0," * 10_000_000 + b"0]}")))
meta(HEADER, "metadata that is no text", "not text", "method", 7)

FORMAT = "what it claims to be"
meta(FORMAT, "another format", "not a bundle", "format", "kedge bungle")
meta(FORMAT, "format 2, of a later version", ["format version 2", "written by kedge 9.8.7", "use that or a newer one"], "format_version", "2")
meta(FORMAT, "format 2^64", "format version", "format_version", str(2**64))
meta(FORMAT, "format 0", "damaged", "format_version", "0")
meta(FORMAT, "format -1", "damaged", "format_version", "-1")
meta(FORMAT, "no format", "damaged", "format_version", "")
meta(FORMAT, "a method of a later version", ["unknown method 'telepathy'", "written by kedge 9.8.7"], "method", "telepathy")
meta(FORMAT, "an unknown similarity", "unknown similarity", "similarity", "likeness")
meta(FORMAT, "a version that is none", "not a version of kedge", "kedge_version", "9.8.7; rm -rf ~")
CASES.append((FORMAT, "no metadata", "not a bundle", lambda p: p.header.pop("__metadata__") and None))
for key in ("format_version", "kedge_version", "method", "similarity", "seed", "options", "sources", "spaces"):
    CASES.append((FORMAT, f"no {key}", f"'{key}'", lambda p, key=key: p.meta.pop(key) and None))

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
        values(CONTENT, f"{value} in {name}", ["NaN or infinity", name], name, np.float32, lambda x, v=value: x.__setitem__(3, v))
values(CONTENT, "a mixture that is not convex", "convex", "mixture", np.float32, lambda x: x.__setitem__(0, 7))
values(CONTENT, "negative weights", "convex", "mixture", np.float32, lambda x: x.__imul__(-1))
for value in (-1, -BIG, BIG - 1, 10**6):
    values(CONTENT, f"support id {value}", "support id", "support_ids", np.int64, lambda x, v=value: x.__setitem__(5, v))
values(CONTENT, "a support id twice", "repeated", "support_ids", np.int64, lambda x: x.__setitem__(5, x[4]))

PARTS = "parts that do not fit together"


def swap(name):
    return lambda p: p.header[name]["shape"].reverse()


for name in ("mixture", "targets", "a.weight", "b.decode_weight"):
    CASES.append((PARTS, f"{name} turned round", "evil", swap(name)))
tensor(PARTS, "ids as a matrix", "dimension", "support_ids", shape=[6, 10])
tensor(PARTS, "ids as floats", "int64", "support_ids", dtype="F64")
tensor(PARTS, "a mixture of another type", "float32", "mixture", dtype="I32")
for name in ("mixture", "support_ids", "a.weight", "b.mean", "b.decode_bias"):
    CASES.append((PARTS, f"no {name}", f"no tensor '{name}'", lambda p, name=name: p.rename(name, "zzz")))
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
    CASES.append((NAMES, f"{what} in a tensor's name", "evil", lambda p, name=name: p.rename("mixture", name)))
    CASES.append((NAMES, f"{what} in a type", "unknown type", lambda p, name=name: p.header["mixture"].update(dtype=name)))
meta(NAMES, "a name of a million letters", "evil", "method", "x" * 1_000_000)


def make(change, raw):
    """The bundle with the change, as bytes; it says that a later version wrote it."""
    parts = Parts(raw)
    if "kedge_version" in parts.meta:
        parts.meta["kedge_version"] = "9.8.7"
    changed = change(parts)
    return changed if isinstance(changed, bytes) else parts.bytes()
