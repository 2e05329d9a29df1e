# SPDX-License-Identifier: Apache-2.0
"""The support drawn by id: parts, summed up by separate commands, make the bundle that one fit over all rows makes."""
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Kedge
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, SUPPORT = 900, 150
CUTS = [0, 1, 300, 307, 700, ROWS]


def views(rows: int = ROWS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(rows, 6))
    return {name: (hidden @ random.normal(size=(6, dim)) + 0.3 * random.normal(size=(rows, dim)) + 2).astype(np.float32)
            for name, dim in (("a", 9), ("b", 12), ("c", 7))}


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    """All rows in one file for each encoder, with ids that are numbers and ids that are texts."""
    for name, x in views().items():
        np.save(tmp_path / f"{name}.npy", x)
    np.save(tmp_path / "ids.npy", np.random.default_rng(1).choice(10**9, ROWS, replace=False))
    (tmp_path / "ids.txt").write_text("".join(f"doc-{row}\n" for row in range(ROWS)))
    return tmp_path


AB = ["--space", "a=a.npy", "--space", "b=b.npy"]
DRAW = ["--ids", "ids.npy", "--support", SUPPORT, "--seed", 3]


def parts(kedge: Kedge, *arguments: Any) -> list[str]:
    names = []
    for first, end in zip(CUTS, CUTS[1:]):
        names.append(f"{first}{arguments[1][0]}.moments")
        kedge.ok("moments", *arguments, "--rows", f"{first}:{end}", "-o", names[-1])
    return names[::-1]


def assert_same(found: pathlib.Path, expected: pathlib.Path) -> None:
    a, b = load_file(found), load_file(expected)
    assert a.keys() == b.keys() and np.array_equal(a["support_ids"], b["support_ids"])
    for name in b:
        assert np.abs(a[name] - b[name]).max() <= 1e-6 * np.abs(b[name]).max(), name


@pytest.mark.parametrize("ids", ["ids.npy", "ids.txt"])
@pytest.mark.parametrize("method", ["consensus", "random"])
def test_parts_make_the_bundle_of_all_rows(kedge: Kedge, files: pathlib.Path, ids: str, method: str) -> None:
    draw = ["--ids", ids, "--support", SUPPORT, "--seed", 3]
    options = ["--anchors", 6, "--method", method, "--seed", 3]
    kedge.ok("fit", *AB, *draw, *options[:-2], "-o", "whole.kedge")
    moments = parts(kedge, *AB, *draw)
    kedge.ok("moments", "--moments", *moments[:2], "-o", "some.moments")
    kedge.ok("fit", "--moments", "some.moments", *moments[2:], *options, "-o", "parts.kedge")
    assert_same(files / "parts.kedge", files / "whole.kedge")

    kedge.ok("attach", "whole.kedge", "--space", "c=c.npy", "--ids", ids, "-o", "whole.kedge")
    support = parts(kedge, "--space", "c=c.npy", "--ids", ids, "--support-of", "parts.kedge")
    kedge.ok("attach", "parts.kedge", "--moments", *support, "-o", "parts.kedge")
    assert_same(files / "parts.kedge", files / "whole.kedge")


def test_the_support_is_told(kedge: Kedge, files: pathlib.Path) -> None:
    done = kedge.ok("moments", *AB, *DRAW, "-o", "all.moments", "--json")
    assert json.loads(done.stdout)["support"] == SUPPORT and f"{SUPPORT} support rows" in done.stderr
    summary = kedge.json("fit", "--moments", "all.moments", "-o", "x.kedge")
    assert summary["rows"] == ROWS and summary["support"] == SUPPORT
    assert [space["name"] for space in summary["spaces"]] == ["a", "b"]
    assert set(kedge.json("inspect", "x.kedge")["support_ids"]) <= set(np.load(files / "ids.npy").tolist())


def test_the_last_line_of_a_file_of_ids_may_end_in_any_way(kedge: Kedge, files: pathlib.Path) -> None:
    kedge.ok("fit", *AB, "--ids", "ids.txt", "--support", SUPPORT, "-o", "whole.kedge")
    text = (files / "ids.txt").read_text()
    for other in (text.rstrip("\n"), text.replace("\n", "\r\n")):
        (files / "other.txt").write_bytes(other.encode())
        kedge.ok("fit", *AB, "--ids", "other.txt", "--support", SUPPORT, "-o", "other.kedge")
        assert_same(files / "other.kedge", files / "whole.kedge")


@pytest.mark.parametrize("words, code, arguments", [
    ("no support was asked for", 2, ["moments", *AB, "--ids", "ids.npy"]),
    ("give --ids", 2, ["moments", *AB, "--support", 5]),
    ("give --ids", 2, ["moments", *AB, "--support-of", "x.kedge"]),
    ("0 is too few", 2, ["moments", *AB, "--ids", "ids.npy", "--support", 0]),
    ("--support-of", 2, ["moments", *AB, "--ids", "ids.npy", "--support", 5, "--support-of", "x.kedge"]),
    (f"9 ids, but {ROWS} rows", 2, ["moments", *AB, "--ids", "few.npy", "--support", 5]),
    (f"9 ids, but {ROWS} rows", 2, ["fit", *AB, "--ids", "few.npy"]),
    ("twice.txt: rows 0 and 899 have the same id 'doc-0'", 2,
     ["moments", *AB, "--ids", "twice.txt", "--support", ROWS]),
    ("twice.txt: rows 0 and 899 have the same id 'doc-0'", 2, ["fit", *AB, "--ids", "twice.txt", "--support", ROWS]),
    ("gap.txt: line 2 is empty", 3, ["moments", *AB, "--ids", "gap.txt", "--support", 5]),
    (["large.npy", str(2**63 + 5), "int64"], 3, ["moments", *AB, "--ids", "large.npy", "--support", 5]),
    ("none.txt: it holds no ids", 3, ["moments", *AB, "--ids", "none.txt", "--support", 5]),
    ("absent.txt", 3, ["moments", *AB, "--ids", "absent.txt", "--support", 5]),
    ("belongs to more than one row", 2, ["moments", "--moments", "all.moments", "all.moments"]),
    ("which was added before", 2, ["moments", *AB, "--ids", "ids.npy", "--moments", "all.moments"]),
    ("--ids says something about the rows of --space", 2, ["moments", "--moments", "all.moments", "--ids", "ids.npy"]),
    ("--support says something", 2, ["moments", "--moments", "all.moments", "--support", 5]),
    ("other.moments: one part keeps", 2, ["fit", "--moments", "all.moments", "other.moments"]),
    ("another no support rows", 2, ["fit", "--moments", "all.moments", "--moments", "none.moments"]),
    ("carry no support rows", 2, ["fit", "--moments", "none.moments"]),
    (f"asked for a support of {ROWS + 9} rows, but there are {ROWS}", 2, ["fit", "--moments", "many.moments"]),
    (f"carry only {SUPPORT}", 2, ["fit", "--moments", "all.moments", "--support", SUPPORT + 1]),
    ("param learns from batches", 2, ["fit", "--moments", "all.moments", "--method", "param"]),
    ("refinement learns from batches", 2, ["fit", "--moments", "all.moments", "--refine-epochs", 3]),
    ("select the support by fps", 2, ["fit", "--moments", "all.moments", "--support-select", "fps"]),
    ("select the support by fps", 2, ["fit", *AB, "--ids", "ids.npy", "--support-select", "fps"]),
    ("--rows is about the rows of --space", 2, ["fit", "--moments", "all.moments", "--rows", "0:9"]),
    ("--ids is about", 2, ["fit", "--moments", "all.moments", "--ids", "ids.npy"]),
    ("--validate is about", 2, ["fit", "--moments", "all.moments", "--validate"]),
    ("nothing to draw by --ids", 2,
     ["fit", "--moments", "all.moments", *AB, "--support-rows", "--support-ids", "few.npy", "--ids", "few.npy"]),
    ("there is nothing to fit", 2, ["fit"]),
    ("is an input", 2, ["moments", *AB, *DRAW, "-o", "ids.npy"]),
    ("there is nothing to attach", 2, ["attach", "x.kedge"]),
    (f"of {SUPPORT} support rows are missing, those with the ids", 2,
     ["attach", "x.kedge", "--moments", "c-part.moments"]),
    ("--support-of BUNDLE", 2, ["attach", "x.kedge", "--moments", "c-none.moments"]),
    ("one space is attached at a time", 2, ["attach", "x.kedge", "--moments", "all.moments"]),
    ("already has a space 'a'", 2, ["attach", "x.kedge", "--moments", "a.moments"]),
    ("leave them out, or give --space", 2, ["attach", "x.kedge", "--moments", "c-part.moments", "--rows", "0:9"]),
    ("leave out one of them", 2, ["attach", "x.kedge", "--moments", "c-part.moments", "--ids", "ids.npy"]),
    ("are missing", 2, ["attach", "x.kedge", "--space", "c=c.npy", "--ids", "ids.txt"]),
    ("by row number", 2, ["attach", "numbered.kedge", "--space", "c=c.npy", "--ids", "ids.npy"]),
    ("by row number", 2, ["attach", "numbered.kedge", "--moments", "c.moments"]),
    ("by row number", 2, ["moments", "--space", "c=c.npy", "--ids", "ids.npy", "--support-of", "numbered.kedge"]),
])
def test_what_does_not_fit_is_refused_with_a_sentence(kedge: Kedge, files: pathlib.Path, words: str | list[str],
                                                      code: int, arguments: list[str]) -> None:
    np.save(files / "few.npy", np.arange(9))
    np.save(files / "large.npy", np.arange(ROWS, dtype=np.uint64) + np.uint64(2**63 + 5))
    (files / "twice.txt").write_text("".join(f"doc-{row % (ROWS - 1)}\n" for row in range(ROWS)))
    (files / "gap.txt").write_text("a\n\nb\n")
    (files / "none.txt").write_text("")
    commands: dict[str, list[Any]] = {
        "all": [*AB, *DRAW], "other": [*AB, *DRAW[:-1], 4], "none": AB, "c-none": ["--space", "c=c.npy"],
        "many": [*AB, "--ids", "ids.npy", "--support", ROWS + 9], "c": ["--space", "c=c.npy", *DRAW]}
    needed = {name for name in commands if f"{name}.moments" in arguments}
    if "numbered.kedge" in arguments:
        kedge.ok("fit", *AB, "--support", SUPPORT, "-o", "numbered.kedge")
    if "x.kedge" in arguments:
        kedge.ok("fit", *AB, *DRAW, "-o", "x.kedge")
        commands |= {"c-part": ["--space", "c=c.npy", "--rows", "0:500", "--ids", "ids.npy", "--support-of", "x.kedge"],
                 "a": ["--space", "a=a.npy", "--ids", "ids.npy", "--support-of", "x.kedge"]}
        needed |= {name for name in ("c-part", "a") if f"{name}.moments" in arguments}
    for name in needed:
        kedge.ok("moments", *commands[name], "-o", f"{name}.moments")
    kedge.refused(code, *arguments, *([] if "-o" in arguments else ["-o", "out"]), says=words)


@pytest.mark.parametrize("damage, words", [
    (lambda t, m: t.pop("support_ids"), "no 'support_ids'"),
    (lambda t, m: t.pop("support"), "support"),
    (lambda t, m: m.pop("support"), "support"),
    (lambda t, m: t.update(support_ids=t["support_ids"][::-1].copy()), "not in the order of the draw"),
    (lambda t, m: t.update(support_ids=t["support_ids"][:-1].copy()), "support ids and 21 values to a row"),
    (lambda t, m: t.update(support_ids=t["support_ids"][:-1].copy(), support=t["support"][:-1].copy()),
     "cannot be drawn out of"),
    (lambda t, m: t["support_ids"].__setitem__(1, t["support_ids"][0]), "belongs to more than one row"),
    (lambda t, m: t["support_ids"].__setitem__(0, -4), "negative"),
    (lambda t, m: t["support"].__setitem__((3, 4), np.nan), "NaN"),
    (lambda t, m: m.update(support='{"rows": 0, "seed": 0}'), "support of 0 rows"),
    (lambda t, m: m.update(support='{"rows": 150, "seed": 4}'), "not in the order of the draw"),
    (lambda t, m: t.update(support_wanted=t["support_ids"][1:].copy()), "cannot be drawn out of"),
    (lambda t, m: t.update(support_wanted=t["support_ids"] + 1), "not among those wanted"),
    (lambda t, m: t.update(support=t["support"][:, 1:].copy()), "x 20"),
])
def test_damaged_support_rows_are_refused(kedge: Kedge, files: pathlib.Path,
                                          damage: Callable[[dict[str, np.ndarray], dict[str, Any]], object],
                                          words: str) -> None:
    kedge.ok("moments", *AB, *DRAW, "-o", "good.moments")
    raw = (files / "good.moments").read_bytes()
    metadata = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    tensors = {name: values.copy() for name, values in load_file(files / "good.moments").items()}
    damage(tensors, metadata)
    save_file(tensors, files / "bad.moments", metadata)
    kedge.refused(3, "fit", "--moments", "bad.moments", "-o", "x.kedge", says=["bad.moments", words])


def shell_blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", (ROOT / "docs" / "parts.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_on_parts_runs_as_it_stands(kedge: Kedge, tmp_path: pathlib.Path) -> None:
    rows = 5600
    spaces, ids = views(rows), np.arange(rows)[::-1] * 7
    for part, (first, end) in enumerate(zip(range(0, rows, 280), range(280, rows + 1, 280))):
        folder = tmp_path / "parts" / f"{part:03}"
        folder.mkdir(parents=True)
        for name, x in spaces.items():
            np.save(folder / f"{name}.npy", x[first:end])
        np.save(folder / "ids.npy", ids[first:end])
    program = pathlib.Path(kedge.program).resolve().parent
    python = pathlib.Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{program}:{python}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def run(script: str, **more: str) -> str:
        done = subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, env={**environment, **more},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    blocks = shell_blocks("sh")
    assert len(blocks) == 6
    for block in blocks:
        run(block)
    for name, x in spaces.items():
        np.save(tmp_path / f"{name}.npy", x)
    np.save(tmp_path / "ids.npy", ids)
    kedge.ok("fit", *AB, "--ids", "ids.npy", "--support", 5000, "-o", "whole.kedge")
    kedge.ok("attach", "whole.kedge", "--space", "c=c.npy", "--ids", "ids.npy", "-o", "whole.kedge")
    assert_same(tmp_path / "shared.kedge", tmp_path / "whole.kedge")
    kedge.ok("transform", "whole.kedge", "--space", "c", "-i", "c.npy", "-o", "rr.npy")
    rr = np.load(tmp_path / "rr.npy")
    found = np.vstack([np.load(tmp_path / "parts" / f"{part:03}" / "c.rr.npy") for part in range(20)])
    assert np.abs(found - rr).max() <= 1e-6 * np.abs(rr).max()

    look_for_repeated, = (block for block in blocks if "uniq" in block)
    assert run(look_for_repeated) == ""
    np.save(tmp_path / "parts" / "019" / "ids.npy", np.append(ids[-279:], ids[5]))
    assert run(look_for_repeated) == f"{ids[5]}\n"

    task, = shell_blocks("slurm")
    before = load_file(tmp_path / "sums" / "007.moments")
    (tmp_path / "sums" / "007.moments").unlink()
    run(task, SLURM_ARRAY_TASK_ID="7")
    again = load_file(tmp_path / "sums" / "007.moments")
    assert np.array_equal(again["support"], before["support"]) and len(again["support_ids"]) == 280
    assert np.allclose(again["mean"], before["mean"], rtol=1e-12)
