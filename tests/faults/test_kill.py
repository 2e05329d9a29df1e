# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment loses at most the work since the last save: old files stay whole, and going on leads to the
very same result."""
import json
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from commands import RESULTS, words
from conftest import Kedge, write_spaces
from tally import Tally

pytestmark = pytest.mark.long

SECTION = "kill -9 at random moments"
FEW, MANY = 5, 50


def measured(kedge: Kedge, prepare: Callable[[], object], *arguments: object) -> float:
    """Of two, as the first also reads files that are not in the cache yet."""
    seconds = []
    for _ in range(2):
        prepare()
        start = time.monotonic()
        kedge.ok(*arguments)
        seconds.append(time.monotonic() - start)
    return min(seconds)


def moments(seconds: float, all_moments: bool) -> list[float]:
    """Spread over the whole run, each at a random place in its share of it."""
    count = MANY if all_moments else FEW
    chance = random.Random(count)
    return [seconds * (i + chance.random()) / count for i in range(count)]


def killed(kedge: Kedge, seconds: float, prepare: Callable[[], object], *arguments: object) -> None:
    """Kills it after so many seconds; a little earlier if it was done by then."""
    while True:
        prepare()
        process = kedge.start(*arguments)
        time.sleep(seconds)
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            return
        assert process.returncode == 0
        seconds *= 0.9


def names(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def is_whole_tensors(content: bytes) -> bool:
    """A safetensors file that holds all its header announces."""
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = [entry for name, entry in json.loads(content[8:begin]).items() if name != "__metadata__"]
    return begin + max(int(entry["data_offsets"][1]) for entry in tensors) == len(content)


def is_whole_text(content: bytes) -> bool:
    """One of a folder of results: JSON that can be read, or lines that all end."""
    return bool(json.loads(content)) if content.startswith(b"{") else content.endswith(b"\n")


def passed_over(folder: pathlib.Path, is_whole: Callable[[bytes], bool]) -> str:
    """Takes away what was killed in the very moment of taking its place, which has another name then; it must be
    whole."""
    found = list(folder.glob(".kedge-*.partial"))
    for path in found:
        assert is_whole(path.read_bytes()), path
        path.unlink()
    return ", a whole file beside it" if found else ""


def test_fit_goes_on_from_its_checkpoint(kedge: Kedge, tally: Tally, all_moments: bool) -> None:
    write_spaces(kedge.folder, 3000, {"a": 48, "b": 32})
    command = words("fit --space a=a.npy --space b=b.npy --method param --anchors 60 --support 1000 --epochs 40 "
                    "--batch 500 --checkpoint-every 2 --history losses.csv --quiet -o new.kedge")
    bundle, checkpoint, losses = (kedge.folder / name for name in ("new.kedge", "new.kedge.checkpoint", "losses.csv"))
    kedge.ok(*words("fit --space a=a.npy --method random --anchors 3 --quiet -o new.kedge"))
    old = bundle.read_bytes()
    bundle.unlink()
    inputs = names(kedge.folder)

    def prepare() -> None:
        checkpoint.unlink(missing_ok=True)
        losses.unlink(missing_ok=True)
        bundle.write_bytes(old)

    seconds = measured(kedge, prepare, *command)
    whole, whole_losses = bundle.read_bytes(), losses.read_bytes()
    for moment in moments(seconds, all_moments):
        killed(kedge, moment, prepare, *command)
        assert bundle.read_bytes() in (old, whole)
        beside = passed_over(kedge.folder, lambda content: content == whole_losses or is_whole_tensors(content))
        assert names(kedge.folder) <= inputs | {"new.kedge", "new.kedge.checkpoint", "losses.csv"}
        resumed = checkpoint.exists()
        kedge.ok(*command, *(["--resume"] if resumed else []))
        assert bundle.read_bytes() == whole and losses.read_bytes() == whole_losses
        assert names(kedge.folder) == inputs | {"new.kedge", "losses.csv"}
        how = "resumed" if resumed else "begun anew, no checkpoint there"
        tally(SECTION, "fit (PARAM) with checkpoints", f"{how}{beside}, same bytes")


def test_transform_leaves_the_old_file_or_the_new_one(kedge: Kedge, tally: Tally, all_moments: bool) -> None:
    write_spaces(kedge.folder, 500, {"a": 8, "b": 5})
    kedge.ok("fit", "--space", "a=a.npy", "--space", "b=b.npy", "--method", "random", "--anchors", 20, "-o", "x.kedge")
    np.save(kedge.folder / "long.npy", np.random.default_rng(1).normal(size=(600_000, 8)).astype(np.float16))
    command = words("transform x.kedge --space a -i long.npy -o rr.npy --threads 1 --quiet")
    result = kedge.folder / "rr.npy"
    inputs = names(kedge.folder)

    def prepare() -> None:
        result.write_bytes(b"the old rows")

    seconds = measured(kedge, prepare, *command)
    whole = result.read_bytes()
    for moment in moments(seconds, all_moments):
        killed(kedge, moment, prepare, *command)
        state = {b"the old rows": "old file intact", whole: "new file whole"}[result.read_bytes()]
        beside = passed_over(kedge.folder, lambda content: content == whole) or ", nothing else left"
        assert names(kedge.folder) == inputs | {"rr.npy"}
        kedge.ok(*command)
        assert result.read_bytes() == whole
        tally(SECTION, "transform", f"{state}{beside}, same bytes again")


def without_timings(text: str | bytes) -> Any:
    results = json.loads(text)
    for run in results["runs"]:
        del run["seconds"]
    return results


def timings(text: str) -> set[float]:
    return {run["seconds"] for run in json.loads(text)["runs"]}


def test_stitch_goes_on_where_it_was(kedge: Kedge, tally: Tally, all_moments: bool) -> None:
    """All files must be the same but for how long each run took; runs that were saved keep even that."""
    write_spaces(kedge.folder, 1200, {"a": 24, "b": 16, "c": 20})
    begun = words("stitch --space a=a.npy --space b=b.npy --space c=c.npy --labels labels.npy --train 0:1000 "
                  "--test 1000:1200 --methods absolute,random-cosine,param-multi,consensus --anchors 24 --epochs 12 "
                  "--batch 250 --head linear --no-report --quiet -o results --seeds")
    results, old = kedge.folder / "results", kedge.folder / "old"
    kedge.ok(*begun, 1)
    results.rename(old)
    earlier = timings((old / "results.json").read_text())
    inputs = names(kedge.folder)

    def prepare() -> None:
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(old, results)

    command = [*begun, 4]
    seconds = measured(kedge, prepare, *command)
    whole = {name: (results / name).read_bytes() for name in RESULTS}
    for moment in moments(seconds, all_moments):
        killed(kedge, moment, prepare, *command)
        assert names(kedge.folder) <= inputs | {"results"}
        saved = results / "results.json"
        beside = passed_over(results, is_whole_text)
        assert names(results) == set(RESULTS)
        kept = timings(saved.read_text())
        assert earlier <= kept, "an old measurement was lost"
        kedge.ok(*command)
        assert names(results) == set(RESULTS)
        for name in RESULTS[1:]:
            assert (results / name).read_bytes() == whole[name], name
        assert without_timings(saved.read_text()) == without_timings(whole["results.json"])
        assert kept <= timings(saved.read_text())
        how = "went on from what was saved" if kept > earlier else "went on from the old results"
        tally(SECTION, "stitch", f"{how}{beside}, same results")
