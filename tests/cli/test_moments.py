# SPDX-License-Identifier: Apache-2.0
"""Moments of parts, summed up by separate commands, make the bundle that one fit over all rows makes."""
import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import Kedge
from safetensors.numpy import load_file

SHARDS = [(0, 1), (1, 400), (400, 407), (407, 900), (900, 1100), (1100, 1101), (1101, 1200)]


def views(rows: int = 1200, dims: Sequence[int] = (9, 12, 7, 10), seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(rows, 6))
    return [(hidden @ random.normal(size=(6, dim)) + 0.3 * random.normal(size=(rows, dim)) + 2).astype(np.float32)
            for dim in dims]


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, x in zip("abcd", views()):
        np.save(tmp_path / f"{name}.npy", x)
    ids = np.random.default_rng(1).permutation(1200)[:300].astype(np.int64)
    np.save(tmp_path / "ids.npy", ids)
    for name, x in zip("abcd", views()):
        np.save(tmp_path / f"sup_{name}.npy", x[ids])
    return tmp_path


def spaces(files: pathlib.Path, names: str = "abc", prefix: str = "") -> list[str]:
    return [part for name in names for part in ("--space", f"{name}={files / f'{prefix}{name}.npy'}")]


def shards(kedge: Kedge, files: pathlib.Path, names: str = "abc") -> list[pathlib.Path]:
    parts = []
    for i, (first, end) in enumerate(SHARDS):
        part = files / f"part{i}-{names}.moments"
        kedge.ok("moments", *spaces(files, names), "--rows", f"{first}:{end}", "-o", part)
        parts.append(part)
    return parts[::-2] + parts[-2::-2]  # any order


def given(parts: list[pathlib.Path]) -> list[object]:
    return [word for part in parts for word in ("--moments", part)]


def assert_same(found: pathlib.Path, expected: pathlib.Path, names: str) -> None:
    a, b = load_file(found), load_file(expected)
    for name in names:
        for tensor in ("weight", "bias", "decode_weight", "decode_bias"):
            key = f"{name}.{tensor}"
            assert np.abs(a[key] - b[key]).max() <= 1e-6 * np.abs(b[key]).max(), key


@pytest.mark.parametrize("method", ["consensus", "random"])
def test_seven_uneven_shards_make_the_same_bundle(kedge: Kedge, files: pathlib.Path, method: str) -> None:
    options = ["--support-ids", files / "ids.npy", "--anchors", "6", "--method", method]
    kedge.ok("fit", *spaces(files), *options, "-o", files / "whole.kedge")
    kedge.ok("fit", *given(shards(kedge, files)), *spaces(files, prefix="sup_"), "--support-rows", *options, "-o",
          files / "parts.kedge")
    assert_same(files / "parts.kedge", files / "whole.kedge", "abc")


def test_attach_takes_moments_too(kedge: Kedge, files: pathlib.Path) -> None:
    kedge.ok("fit", *spaces(files), "--support-ids", files / "ids.npy", "-o", files / "whole.kedge")
    kedge.ok("attach", files / "whole.kedge", "--space", f"d={files / 'd.npy'}", "-o", files / "one.kedge")
    said = kedge.ok("attach", files / "whole.kedge", *given(shards(kedge, files, "d")), "--space",
                    f"d={files / 'sup_d.npy'}",
                 "--support-rows", "-o", files / "two.kedge", "--json")
    assert json.loads(said.stdout)["statistics_rows"] == 1200
    assert_same(files / "two.kedge", files / "one.kedge", "d")


def test_moments_of_the_support_alone_are_known_for_what_they_are(kedge: Kedge, files: pathlib.Path) -> None:
    kedge.ok("fit", *spaces(files), "--support-ids", files / "ids.npy", "-o", files / "whole.kedge")
    support = ["--space", f"d={files / 'sup_d.npy'}"]
    kedge.ok("moments", *support, "-o", files / "d.moments")
    kedge.ok("attach", files / "whole.kedge", *support, "--support-rows", "-o", files / "one.kedge")
    kedge.ok("attach", files / "whole.kedge", *support, "--support-rows", "--moments", files / "d.moments", "-o",
             files / "two.kedge")
    assert_same(files / "two.kedge", files / "one.kedge", "d")


def test_parts_are_merged_into_one_file(kedge: Kedge, files: pathlib.Path) -> None:
    parts = shards(kedge, files)
    said = kedge.ok("moments", *given(parts[:3]), "-o", files / "some.moments", "--json")
    rows = json.loads(said.stdout)["rows"]
    kedge.ok("moments", *given([files / "some.moments", *parts[3:]]), "-o", files / "all.moments")
    kedge.ok("moments", *spaces(files), "-o", files / "whole.moments")
    a, b = load_file(files / "all.moments"), load_file(files / "whole.moments")
    assert 0 < rows < 1200
    for tensor in b:
        assert np.abs(a[tensor] - b[tensor]).max() <= 1e-11 * np.abs(b[tensor]).max(), tensor
    x = np.hstack([x.astype(np.float64) for x in views()[:3]])
    assert np.allclose(b["scatter"] / 1200, np.cov(x.T, bias=True), rtol=1e-10, atol=1e-12)
    assert np.allclose(b["mean"], x.mean(0), rtol=1e-12)


def test_statistics_of_all_rows_and_a_sample_to_learn_from(kedge: Kedge, files: pathlib.Path) -> None:
    kedge.ok("moments", *spaces(files), "-o", files / "all.moments")
    kedge.ok("fit", "--moments", files / "all.moments", *spaces(files), "--rows", "0:300", "--method", "param",
             "--epochs", "2",
          "--batch", "100", "--anchors", "5", "--support", "200", "-o", files / "param.kedge")
    ids = load_file(files / "param.kedge")["support_ids"]
    assert len(ids) == 200 and ids.max() < 300


@pytest.mark.parametrize("words, code, arguments", [
    ("give --moments FILE", 2, ["fit", "--support-rows", "--support-ids", "ids.npy", "SUPPORT"]),
    ("needs --support-ids", 2, ["fit", "--support-rows", "--moments", "all.moments", "SUPPORT"]),
    ("the moments have no space 'x'", 2,
     ["fit", "--moments", "all.moments", "--space", "x=a.npy", "--space", "b=b.npy"]),
    ("param learns from batches", 2, ["fit", "--method", "param", "--moments", "all.moments", "--support-rows",
                                      "--support-ids", "ids.npy", "SUPPORT"]),
    ("rows of 9 values, but", 2, ["fit", "--moments", "all.moments", "--space", "a=b.npy", "--space", "b=a.npy"]),
    ("cannot be merged with", 2,
     ["fit", "--moments", "all.moments", "--moments", "d.moments", "SUPPORT", "--support-rows",
      "--support-ids", "ids.npy"]),
    ("not moments of kedge", 3,
     ["fit", "--moments", "bundle.kedge", "SUPPORT", "--support-rows", "--support-ids", "ids.npy"]),
    ("is a part of the moments missing", 2, ["fit", "--moments", "few.moments", "ALL"]),
    ("leave out --moments", 2, ["fit", "--moments", "all.moments", "ALL", "--validate"]),
    ("these come from --moments", 2,
     ["attach", "bundle.kedge", "--moments", "d.moments", "--space", "d=d.npy", "--rows",
      "0:900"]),
    ("no space 'e'", 2, ["attach", "bundle.kedge", "--moments", "d.moments", "--space", "e=d.npy"]),
    ("nothing to sum up", 2, ["moments"]),
    ("1200 rows", 3, ["moments", "--space", "a=a.npy", "--space", "b=sup_b.npy"]),
    ("is an input", 2, ["moments", "--space", "a=a.npy", "-o", "a.npy"]),
    ("not moments of kedge", 2, ["moments", "--space", "a=a.npy", "-o", "bundle.kedge"]),
])
def test_what_does_not_fit_is_refused_with_a_sentence(kedge: Kedge, files: pathlib.Path, words: str | list[str],
                                                      code: int, arguments: list[str]) -> None:
    kedge.ok("moments", *spaces(files), "-o", "all.moments")
    kedge.ok("moments", *spaces(files, "d"), "-o", "d.moments")
    kedge.ok("fit", *spaces(files), "-o", "bundle.kedge")
    kedge.ok("moments", *spaces(files), "--rows", "0:50", "-o", "few.moments")
    stands_for = {"SUPPORT": spaces(files, prefix="sup_"), "ALL": spaces(files)}
    full = [word for part in arguments for word in stands_for.get(part, [part])]
    if "-o" not in full:
        full += ["-o", "out.kedge"]
    kedge.refused(code, *full, says=words)
