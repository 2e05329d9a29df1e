# SPDX-License-Identifier: Apache-2.0
"""Config files, results folders and checkpoints made by somebody else: read or refused with a sentence, and no more."""
import json
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import Kedge
from hostile_bundles import ESCAPE, Change, Parts
from tally import Tally
from test_hostile import require_one_printable_line

CONFIG = {
    "endless, from a device": (3, "/dev/zero", "larger than"),
    "longer than a megabyte": (3, b"# comment\n" * 200_000, "larger than"),
    "a folder": (3, ".", "not readable"),
    "not there": (3, "nowhere.toml", "not readable"),
    "sections within sections, 100,000 deep": (2, b"[fit" + b".a" * 100_000 + b"]\nanchors = 3\n", "does not know"),
    "10,000 such sections": (2, b"[a.b.c.d]\n" * 10_000, "does not know"),
    "names 100,000 deep": (2, b"a." * 100_000 + b"anchors = 3\n", "does not know"),
    "a section of no command": (2, b"[evil]\nrun = 'rm -rf'\n", "[evil]"),
    "an unknown option": (2, b"on-load = 'rm -rf ~'\n", "on-load"),
    "escape sequences as a name": (2, f"{ESCAPE} = 3\n".encode(), "does not know"),
    "escape sequences as a value": (2, f"method = '{ESCAPE}'\n".encode(), "method"),
    "bytes that are no text": (2, bytes(range(1, 256)) * 50, "does not know"),
    "zero bytes": (3, b"anchors = \0 3\n", "contains a zero byte"),
    "no UTF-8": (2, b"method = '\xff\xfe'\n", "method"),
    "a list that does not end": (2, b"anchors = [1,\n" * 5_000, "anchors"),
    "an empty list where a number belongs": (2, b"threads = []\n", "threads: it is an empty list"),
    "an empty list where a list belongs": (2, b"space = []\n", "space: it is an empty list"),
    "a value of 500 KB": (2, b"method = '" + b"x" * 500_000 + b"'\n", "method"),
    "too large a number": (2, b"anchors = 99999999999999999999999\n", "anchors"),
    "a negative number": (2, b"anchors = -5\n", "anchors"),
    "an object of another config": (2, b"config = 'other.toml'\n", "config"),
    "help instead of work": (2, b"help = true\n", "help', which"),
    "the version instead of work": (2, b"version = true\n", "version"),
    "only brackets": (2, b"[[[[[[]]]]]]\nxyz\n", "does not know"),
    "names of 90 dots": (2, (b"a" + b".b" * 90 + b" = 1\n") * 5_000, "does not know"),
    "a section that looks like an option": (2, b"[a=" + b"." * 100_000 + b"]\n", "does not know"),
    "an expression": (2, b"anchors = __import__('os').system('true')\n", "anchors"),
    "a variable of the environment": (2, b"anchors = ${HOME}\n", "anchors"),
}


@pytest.mark.parametrize("name", CONFIG)
def test_hostile_config_files(kedge: Kedge, spaces: list[str], tally: Tally, name: str) -> None:
    code, content, says = CONFIG[name]
    path = content
    if isinstance(content, bytes):
        path = "evil.toml"
        (kedge.folder / path).write_bytes(content)
    before = kedge.snapshot()
    done = kedge.run("fit", *spaces, "-o", "x.kedge", "--config", path,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
    assert done.returncode == code, done
    lines = done.stderr.splitlines(keepends=True)
    assert len(lines) == (2 if code == 2 else 1), done.stderr  # the second shows where help is
    require_one_printable_line(lines[0])
    assert says in lines[0]
    assert done.stdout == "" and kedge.snapshot() == before
    tally("Hostile config files", name, f"exit {code}, a sentence, nothing written")


RESULTS = {
    "settings nested 100,000 deep": (
        '{"format":"kedge results","format_version":1,"settings":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}", "deep"),
    "a hundred thousand members": ('{"format":"kedge results",' + ",".join(f'"{i}":0' for i in range(100_000)) + "}",
                                   "members"),
    "a member twice": ('{"format":"kedge results","format":"kedge results"}', "twice"),
    "a later format": ('{"format":"kedge results","format_version":2,"kedge_version":"9.8.7"}',
                       "written by kedge 9.8.7"),
    "a format that is none": (json.dumps({"format": "kedge results", "format_version": ESCAPE.replace("\x07", "")}),
                              "damaged"),
    "another file": ('{"format":"pickle"}', "not a file of kedge results"),
    "an endless device": (None, "not a regular file"),
}
STITCH = ("--train", "0:150", "--test", "150:200", "--methods", "random-cosine", "--anchors", 10, "--support", 50,
          "--no-report", "-o", "out")


@pytest.mark.parametrize("name", RESULTS)
def test_hostile_results_folders(kedge: Kedge, spaces: list[str], tally: Tally, name: str) -> None:
    text, says = RESULTS[name]
    (kedge.folder / "out").mkdir()
    if text is None:
        (kedge.folder / "out" / "results.json").symlink_to("/dev/zero")
    else:
        (kedge.folder / "out" / "results.json").write_text(text)
    done = kedge.run("stitch", *spaces, *STITCH)
    assert done.returncode == 3, done
    require_one_printable_line(done.stderr.splitlines(keepends=True)[-1])
    assert says in done.stderr and "results.json" in done.stderr
    assert text is None or (kedge.folder / "out" / "results.json").read_text() == text
    tally("Hostile results folders", name, "exit 3, a sentence, the file as it was")


def test_settings_and_figures_that_are_no_such_thing(kedge: Kedge, spaces: list[str], tally: Tally) -> None:
    kedge.ok("stitch", *spaces, *STITCH)
    file = kedge.folder / "out" / "results.json"
    results = json.loads(file.read_text())
    (kedge.folder / "out" / "figures.json").write_text("[" * 200_000)
    kedge.ok("stitch", *spaces, *STITCH)
    tally("Hostile results folders", "figures nested 200,000 deep", "left out, results kept")
    file.write_text(json.dumps({**results, "settings": {**results["settings"], "spaces": [1, 2]}}))
    kedge.refused(3, "stitch", *spaces, *STITCH, says="damaged settings")
    tally("Hostile results folders", "settings of another kind", "exit 3, a sentence, the file as it was")


CHECKPOINTS: dict[str, tuple[int, Change, str]] = {
    "a later format": (3, lambda p: p.meta.update(format="kedge checkpoint 2", kedge_version="9.8.7"),
                       "written by kedge 9.8.7"),
    "a bundle": (3, lambda p: p.meta.update(format="kedge bundle"), "not a checkpoint"),
    "no format": (3, lambda p: p.meta.pop("format"), "not a checkpoint"),
    "a purpose nested 100,000 deep": (
        2, lambda p: p.meta.update(purpose='{"param":{"batch":' + "[" * 100_000 + "]" * 100_000 + "}}"),
        "a different training run"),
    "a purpose that a terminal obeys": (2, lambda p: p.meta.update(purpose=ESCAPE), "a different training run"),
    "NaN": (3, lambda p: p.set_array("logits", p.array("logits") * np.nan), "NaN"),
    "a place that is none": (3, lambda p: p.meta.update(place="[-1,0,0]"), "damaged"),
    "a place far away": (3, lambda p: p.meta.update(place="[18446744073709551615,1,18446744073709551615]"), "no sense"),
    "a place nested 100,000 deep": (3, lambda p: p.meta.update(place="[" * 100_000 + "]" * 100_000), "damaged"),
    "negative squares": (3, lambda p: p.set_array("second_moment", p.array("second_moment") - 1), "negative values"),
    "another shape": (3, lambda p: p.header["logits"]["shape"].reverse(), "anchors"),
    "no history": (3, lambda p: p.meta.update(history="7"), "damaged"),
}


def test_hostile_checkpoints(kedge: Kedge, spaces: list[str], tally: Tally) -> None:
    fit = ("fit", *spaces, "--method", "param", "--anchors", 4, "--support", 20, "--batch", 20, "--epochs", 1_000_000,
           "--checkpoint-every", 1,
           "-o", "p.kedge")
    file = kedge.folder / "p.kedge.checkpoint"
    process = subprocess.Popen([kedge.program, *map(str, fit), "--quiet"], cwd=kedge.folder, stderr=subprocess.PIPE)
    while not file.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    whole = file.read_bytes()
    for name, (code, change, says) in CHECKPOINTS.items():
        parts = Parts(whole)
        change(parts)
        file.write_bytes(parts.bytes())
        done = kedge.refused(code, *fit, "--resume", "--quiet", says=[says])
        require_one_printable_line(done.stderr)
        tally("Hostile checkpoints", name, f"exit {code}, a sentence, the file as it was")
