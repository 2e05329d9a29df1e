# SPDX-License-Identifier: Apache-2.0
"""Places where nothing can be written: refused with a sentence, before long work if that can be known."""
import os
import shutil
import signal
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from commands import FILES, FOLDERS, words
from conftest import Kedge
from sanitized import SANITIZED
from tally import Tally

SECTION = "Output files"
COMMANDS = {**{case: command for case, (command, _) in FILES.items()}, **FOLDERS}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_folder_that_may_not_be_written_to(small: Kedge, as_nobody: Callable[[], None], tally: Tally,
                                             case: str) -> None:
    folder = small.folder / "closed"
    folder.mkdir()
    as_nobody()
    folder.chmod(0o555)
    small.refused(1, *words(COMMANDS[case], "closed"), as_nobody=True, says=["closed/", "Permission denied"])
    tally(SECTION, case, "folder closed: exit 1, says which")


@pytest.mark.parametrize("case", FILES)
def test_a_folder_that_is_not_there(small: Kedge, tally: Tally, case: str) -> None:
    small.refused(1, *words(COMMANDS[case], "missing"),
                  says=["missing/", "No such file or directory", "create the folder"])
    tally(SECTION, case, "no folder: exit 1, says to make it")


@pytest.mark.parametrize("case", FILES)
def test_a_folder_where_the_file_should_be(small: Kedge, tally: Tally, case: str) -> None:
    names = FILES[case][1]
    for name in names:
        (small.folder / "out" / name).mkdir(parents=True)
    small.refused(1, *words(COMMANDS[case], "out"), says=[names[0], "Is a directory"])
    tally(SECTION, case, "a folder in its place: exit 1, says which")


@pytest.mark.parametrize("case", FOLDERS)
def test_a_file_where_the_folder_should_be(small: Kedge, tally: Tally, case: str) -> None:
    (small.folder / "results").write_text("a file")
    small.refused(1, *words(COMMANDS[case]), says="results")
    tally(SECTION, case, "a file in its place: exit 1, says which")


FIT = "fit --space a=a.npy --space b=b.npy --method param --anchors 5 --epochs 1 --batch 64"
INPUTS = {
    "fit": "fit --space a=a.npy --space b=b.npy --method random --anchors 5 -o a.npy",
    "fit, its history": f"{FIT} --history a.npy -o new.kedge",
    "fit, its checkpoint": f"{FIT} --checkpoint a.npy -o new.kedge",
    "fit, over its support ids": f"{FIT} --support-ids ids.npy -o ids.npy",
    "fit, over a file with a # in its name":
        "fit --space a=a#b.npy --space b=b.npy --method random --anchors 5 -o a#b.npy",
    "transform": "transform x.kedge --space a -i a.npy -o x.kedge",
    "translate": "translate x.kedge --from a --to b -i a.npy -o x.kedge",
    "attach": "attach x.kedge --space c=c.npy -o c.npy",
    "export to safetensors": "export x.kedge --space a --format safetensors -o x.kedge",
    "transform, over a bundle with a # in its name": "transform x#y.npy --space a -i a.npy -o x#y.npy",
    "export to npy": "export x.weight.npy --space a -o x.npy",
    "export to onnx": "export x.kedge --space a --format onnx -o x.kedge",
}


@pytest.mark.parametrize("case", INPUTS)
def test_an_output_that_is_an_input(small: Kedge, tally: Tally, case: str) -> None:
    np.save(small.folder / "ids.npy", np.arange(60))
    for name, copy in (("a.npy", "a#b.npy"), ("x.kedge", "x#y.npy"), ("x.kedge", "x.weight.npy")):
        shutil.copy(small.folder / name, small.folder / copy)
    small.refused(2, *words(INPUTS[case]), says="is an input")
    tally(SECTION, case, "is an input: exit 2, input intact")


@pytest.mark.parametrize("options", ["--history new.kedge", "--checkpoint new.kedge", "--history x --checkpoint ./x"])
def test_two_results_in_one_file(small: Kedge, tally: Tally, options: str) -> None:
    small.refused(2, *words(f"{FIT} {options} -o new.kedge"), says="two results")
    tally(SECTION, "fit, two results in one file", "exit 2, nothing written")


def test_a_checkpoint_replaces_checkpoints_only(small: Kedge, tally: Tally) -> None:
    (small.folder / "notes.txt").write_text("not ours")
    for file in ("notes.txt", "x.kedge"):
        small.refused(2, *words(f"{FIT} --checkpoint {file} -o new.kedge"), says=[file, "not a checkpoint of kedge"])
        tally(SECTION, "fit, its checkpoint", "is a file of another kind: exit 2, file intact")


def test_a_link_that_leads_nowhere_is_followed(small: Kedge, tally: Tally) -> None:
    (small.folder / "link.npy").symlink_to("there.npy")
    small.ok(*words("transform x.kedge --space a -i a.npy -o link.npy"))
    assert (small.folder / "link.npy").is_symlink() and (small.folder / "there.npy").is_file()
    tally(SECTION, "transform", "is a link to nothing: written where it leads")


def test_special_bits_are_not_passed_on(small: Kedge, tally: Tally) -> None:
    (small.folder / "rr.npy").write_bytes(b"old")
    (small.folder / "rr.npy").chmod(0o6750)
    small.ok(*words("transform x.kedge --space a -i a.npy -o rr.npy"))
    assert (small.folder / "rr.npy").stat().st_mode & 0o7777 == 0o750
    tally(SECTION, "transform", "replaces a setuid file: its permissions, without that")


@pytest.mark.parametrize("case,command", [("transform", "transform x.kedge --space a -i a.npy"),
                                          ("translate", "translate x.kedge --from a --to b -i a.npy")])
def test_rows_may_be_replaced_by_what_becomes_of_them(small: Kedge, tally: Tally, case: str, command: str) -> None:
    """Where that is asked for; the input is there until the result is whole."""
    small.ok(*words(command), "-o", "apart.npy")
    small.refused(2, *words(command), "-o", "a.npy", says=["is an input", "--in-place"])
    small.ok(*words(command), "-o", "a.npy", "--in-place")
    assert (small.folder / "a.npy").read_bytes() == (small.folder / "apart.npy").read_bytes()
    tally(SECTION, case, "is its own input: exit 2, or with --in-place replaced when whole")


def can_trace() -> bool:
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or not allowed to trace here")
@pytest.mark.skipif(SANITIZED, reason="a sanitizer opens files of its own")
@pytest.mark.parametrize("case,command", [("transform", "transform x.kedge --space a -i a.npy"),
                                          ("translate", "translate x.kedge --from a --to b -i a.npy")])
def test_what_replaces_its_input_is_on_the_disk_first(small: Kedge, tally: Tally, case: str, command: str) -> None:
    """A power cut may come between any two calls: the rows before the name, and then the name itself."""
    log = small.folder.parent / f"{small.folder.name}.strace"
    traced = ["strace", "-f", "-qq", "-y", "-o", str(log), "-e", "trace=fsync,/^rename,pwrite64", small.program]
    done = subprocess.run([*traced, *words(command), "-o", "a.npy", "--in-place"], cwd=small.folder,
                          capture_output=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    calls = [line.split(maxsplit=1)[1] for line in log.read_text().splitlines()]
    renamed, = [place for place, call in enumerate(calls) if call.startswith("rename")]  # renameat on Arm
    kinds = [call.split("(")[0] for call in calls]
    assert "pwrite64" not in kinds[renamed - 1:] and kinds[renamed - 1] == "fsync"
    assert kinds[renamed + 1:] == ["fsync"] and f"<{small.folder}>" in calls[renamed + 1]
    tally(SECTION, case, "--in-place: on the disk before the input is gone")


def test_attach_may_replace_its_bundle(small: Kedge, tally: Tally) -> None:
    small.ok(*words("attach x.kedge --space c=c.npy -o x.kedge"))
    assert "c" in small.ok("inspect", "x.kedge").stdout
    tally(SECTION, "attach", "is its own bundle: replaced")


@pytest.mark.parametrize("command", ["transform x.kedge --space a", "translate x.kedge --from a --to b"])
def test_a_folder_that_is_removed_while_it_is_written_to(small: Kedge, tally: Tally, command: str) -> None:
    np.save(small.folder / "long.npy", np.ones((1_000_000, 8), np.float32))
    (small.folder / "gone").mkdir()
    before = small.contents()
    process = small.stopped_after(*words(command + " -i long.npy -o gone/rr.npy --threads 1"))
    shutil.rmtree(small.folder / "gone")
    process.send_signal(signal.SIGCONT)
    message = process.communicate(timeout=600)[1].decode()
    assert process.returncode == 1, message
    assert "gone/rr.npy" in message and "No such file or directory" in message
    del before["gone"]
    assert small.contents() == before
    tally(SECTION, command.split()[0], "folder removed meanwhile: exit 1, says which")


@pytest.mark.parametrize("closed", [[1], [2], [1, 2], [0, 1, 2]], ids=lambda streams: "-".join(map(str, streams)))
def test_closed_streams_do_not_get_into_the_result(small: Kedge, tally: Tally, closed: list[int]) -> None:
    """A file opened next would take the number of a closed stream, and messages would go into it."""
    command = words("transform x.kedge --space a -i a.npy -o rr.npy --json")
    small.ok(*command)
    whole = (small.folder / "rr.npy").read_bytes()
    (small.folder / "rr.npy").unlink()
    assert small.run(*command, closed=closed).returncode == 0
    assert (small.folder / "rr.npy").read_bytes() == whole
    tally(SECTION, "transform", "streams closed: the same result")


def test_a_full_stderr_does_not_matter(small: Kedge, tally: Tally) -> None:
    command = words("transform x.kedge --space a -i a.npy -o rr.npy")
    with open("/dev/full", "wb") as full:
        assert small.run(*command, stderr=full).returncode == 0
        assert small.run(*words("inspect none.kedge"), stderr=full).returncode == 3
    tally(SECTION, "transform, inspect", "stderr full: the usual exit code", 2)
