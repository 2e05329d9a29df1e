# SPDX-License-Identifier: Apache-2.0
"""Files made by somebody else can be refused or read, and nothing else: nothing is written, run or sent, and no more
memory is taken than the file is worth."""
import json
import os
import re
import resource
import shutil
import subprocess
from typing import Any

import hostile_bundles
import numpy as np
import pytest
from conftest import Kedge
from hostile_bundles import Parts
from sanitized import SANITIZED, WRITES_ITSELF
from tally import Tally

GROUPS = list(dict.fromkeys(group for group, *_ in hostile_bundles.CASES))
SECTION = "Hostile bundles"
MEMORY = 1 << 30


@pytest.fixture
def good(kedge: Kedge, spaces: list[str]) -> bytes:
    kedge.ok("fit", *spaces, "--anchors", 4, "--support", 60, "--method", "fps", "-o", "good.kedge")
    return (kedge.folder / "good.kedge").read_bytes()


def limit() -> None:
    if not WRITES_ITSELF:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


OPENS_A_BUNDLE = [
    ("inspect", "evil.kedge", "--json"),
    ("transform", "evil.kedge", "--space", "a", "-i", "a.npy", "-o", "rr.npy"),
    ("translate", "evil.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "b2.npy"),
    ("attach", "evil.kedge", "--space", "c=a.npy", "-o", "other.kedge"),
    ("export", "evil.kedge", "--space", "a", "--format", "onnx", "-o", "a.onnx"),
]


def require_one_printable_line(text: str) -> None:
    assert text.startswith("kedge: ") and text.endswith("\n") and len(text) > 20
    assert len(text) < 20_000 and "json.exception" not in text
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffd]", text[:-1]), ascii(text)


def require_refused(kedge: Kedge, good: bytes, tally: Tally, cases: list[hostile_bundles.Case]) -> None:
    limited: dict[str, Any] = {"preexec_fn": limit, "env": {**os.environ, "OPENBLAS_NUM_THREADS": "1"}}
    for number, (group, name, says, change) in enumerate(cases):
        (kedge.folder / "evil.kedge").write_bytes(hostile_bundles.make(change, good))
        before = kedge.snapshot()
        for arguments in (("inspect", "evil.kedge"), OPENS_A_BUNDLE[number % len(OPENS_A_BUNDLE)]):
            done = kedge.run(*arguments, **limited)
            assert done.returncode == 3, (name, arguments, done)
            require_one_printable_line(done.stderr)
            for word in [says] if isinstance(says, str) else says:
                assert word in done.stderr, (name, done.stderr)
            assert done.stdout == "" and kedge.snapshot() == before, name
        tally(SECTION, group, "exit 3, a sentence, nothing written")


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_hostile_bundles_are_refused(kedge: Kedge, good: bytes, tally: Tally, group: str) -> None:
    require_refused(kedge, good, tally, [case for case in hostile_bundles.CASES if case[0] == group])


def test_hostile_kernels_are_refused(kedge: Kedge, spaces: list[str], tally: Tally) -> None:
    kedge.ok("fit", *spaces, "--support", 60, "--method", "kernel", "--kernel-whitening", "0.5", "-o", "good.kedge")
    good = (kedge.folder / "good.kedge").read_bytes()
    kedge.ok("translate", "good.kedge", "--from", "b", "--to", "a", "-i", "b.npy", "-o", "a2.npy")
    require_refused(kedge, good, tally, hostile_bundles.KERNEL_CASES)


WRITES = re.compile(r"\b(O_WRONLY|O_RDWR|O_CREAT|O_TRUNC)\b|^\d+ +(unlink|rename|mkdir|rmdir|link|symlink|chmod|chown"
                    r"|truncate|mknod|creat|fchmod|fchown|mount|setxattr)")
LEAVES = re.compile(r"^\d+ +(socket|connect|bind|sendto|sendmsg|fork|vfork|ptrace|kill|memfd_create)\b")


def can_trace() -> bool:
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or not allowed to trace here")
@pytest.mark.skipif(SANITIZED, reason="a sanitizer starts processes and opens files of its own")
def test_reading_a_bundle_opens_nothing_to_write_and_starts_nothing(kedge: Kedge, good: bytes, tally: Tally) -> None:
    def calls(*arguments: str) -> tuple[int, list[str]]:
        log = kedge.folder.parent / f"{kedge.folder.name}.strace"
        done = subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=%file,%process,%network,%desc",
                               kedge.program, *arguments],
                              cwd=kedge.folder, capture_output=True, text=True, timeout=1200)
        lines = log.read_text().splitlines()
        log.unlink()
        return done.returncode, lines

    def require_harmless(name: str, lines: list[str]) -> None:
        for line in lines:
            assert not WRITES.search(line) and not LEAVES.search(line), (name, line)
            if re.match(r"\d+ +clone", line):
                assert "CLONE_THREAD" in line, (name, line)
            if re.match(r"\d+ +p?writev?(64)?\(", line):
                assert re.match(r"\d+ +writev?\([12],", line), (name, line)
        started = [line for line in lines if " execve(" in line]
        assert all('execve("/proc/self/exe"' in line for line in started[1:]), (name, started)  # for OpenBLAS's kernels

    code, lines = calls("inspect", "good.kedge")
    assert code == 0
    require_harmless("good", lines)
    tally(SECTION, "system calls of reading, under strace", "none that writes, runs or sends")
    code, lines = calls("transform", "good.kedge", "--space", "a", "-i", "a.npy", "-o", "rr.npy")
    assert code == 0 and any(WRITES.search(line) for line in lines)  # it would be seen
    for _, name, _, change in hostile_bundles.CASES[::7]:
        (kedge.folder / "evil.kedge").write_bytes(hostile_bundles.make(change, good))
        code, lines = calls("inspect", "evil.kedge")
        assert code == 3
        require_harmless(name, lines)
        tally(SECTION, "system calls of reading, under strace", "none that writes, runs or sends")


@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "org/model", "~", "-rf", "$(touch x)", "a b", "日本",
                                  "..", "CON"])
def test_names_of_spaces_are_names_and_never_paths(kedge: Kedge, good: bytes, tally: Tally, name: str) -> None:
    parts = Parts(good)
    for tensor in [key for key in parts.header if key.startswith("a.")]:
        parts.rename(tensor, name + tensor[1:])
    attached = json.loads(parts.meta["attached"])
    attached[name] = attached.pop("a")
    parts.meta.update(spaces=json.dumps([name, "b"]), sources=json.dumps([name, "b"]), attached=json.dumps(attached))
    (kedge.folder / "named.kedge").write_bytes(parts.bytes())
    around = set(kedge.folder.parent.iterdir())
    before = kedge.snapshot()
    assert kedge.json("inspect", "named.kedge")["spaces"][0]["name"] == name
    kedge.ok("transform", "named.kedge", f"--space={name}", "-i", "a.npy", "-o", "rr.npy")
    kedge.ok("export", "named.kedge", f"--space={name}", "--format", "npy", "-o", "map.npy")
    kedge.ok("attach", "named.kedge", "--space", "c=b.npy", "-o", "more.kedge")
    expected = {"rr.npy", "map.weight.npy", "map.bias.npy", "map.mean.npy", "more.kedge"}
    after = kedge.snapshot()
    assert set(after) - set(before) == expected and all(after[file] == before[file] for file in before)
    assert set(kedge.folder.parent.iterdir()) == around
    tally(SECTION, "names of spaces such as '../../escape'", "a name, never a path")


def test_what_a_later_version_adds_is_left_alone(kedge: Kedge, good: bytes, tally: Tally) -> None:
    parts = Parts(good)
    parts.meta["mood"] = "curious"
    parts.option("options", later=[1, 2, {"deep": True}])
    parts.option("attached", a={**json.loads(parts.meta["attached"])["a"], "later": 1})
    parts.add("future", np.arange(6, dtype=np.float64).reshape(2, 3), "F64")
    parts.add("a.future", np.full(3, np.nan, np.float32))
    (kedge.folder / "later.kedge").write_bytes(parts.bytes())
    for bundle in ("good", "later"):
        kedge.ok("transform", f"{bundle}.kedge", "--space", "a", "-i", "a.npy", "-o", f"{bundle}.npy")
    np.testing.assert_array_equal(np.load(kedge.folder / "good.npy"), np.load(kedge.folder / "later.npy"))
    tally(SECTION, "what a later version adds to format 1", "left alone, same results")


@pytest.mark.long
def test_a_header_of_100_megabytes_takes_a_multiple_of_its_size(kedge: Kedge, good: bytes, tally: Tally) -> None:
    def most_memory(text: bytes) -> int:
        (kedge.folder / "evil.kedge").write_bytes(Parts(good).bytes(text))
        process = subprocess.Popen([kedge.program, "inspect", "evil.kedge"], cwd=kedge.folder, stderr=subprocess.PIPE,
                                   text=True)
        assert process.stderr is not None
        with process.stderr:
            message = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 3, message
        require_one_printable_line(message)
        return used.ru_maxrss * 1024

    size = 20_000_000
    for name, entry in (("names", b'"%07d":{},'), ("texts", b'"%07d":"x",'), ("numbers", b"0,"), ("objects", b"{},")):
        if name in ("names", "texts"):
            text = b"{" + b"".join(entry % i for i in range(size // len(entry % 0))) + b'"x":{}}'
        else:
            options = "[" + entry.decode() * (size // len(entry)) + "0]"
            text = json.dumps({"__metadata__": {"format": "kedge bundle", "options": options}}).encode()
        taken = most_memory(text)
        if not SANITIZED:
            assert taken < 48 * size, (name, taken)
        tally(SECTION, "headers of 20 MB", "exit 3, less than 48 times its size in memory")
