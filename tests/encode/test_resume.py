# SPDX-License-Identifier: Apache-2.0
"""Interrupted runs: the same command continues to the same bytes, another is refused, and no half file is ever seen."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, SENTENCES, Run
from kedge.encode import encode, transformers_model

pytestmark = pytest.mark.long

Interrupt = Callable[[Any, int], Callable[[], None]]  # of an encoder, in its nth window; gives what mends it
REST = (".ids.txt", ".labels.npy", ".labels.txt")


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers_model, "BATCHES_PER_WINDOW", 2)


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Ctrl-C in the nth window."""
    def at(encoder: Any, number: int) -> Callable[[], None]:
        plain, calls = encoder.embed, []

        def embed(self: Any, inputs: Any) -> Any:
            calls.append(1)
            if len(calls) == number:
                raise KeyboardInterrupt
            return plain(self, inputs)
        monkeypatch.setattr(encoder, "embed", embed)
        return lambda: monkeypatch.setattr(encoder, "embed", plain)
    return at


def test_texts_continue_to_the_same_bytes(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path,
                                          run: Run, small_windows: None, interrupt: Interrupt) -> None:
    encode(models["bert"], sentences, tmp_path / "whole.npy", batch=4)
    command = ["--model", models["bert"], "--data", sentences, "-o", tmp_path / "o.npy", "--batch", 4]
    mend = interrupt(transformers_model.TransformersEncoder, 3)
    code, _, err = run(*command)
    assert code == 130 and f"interrupted after 16 of {len(SENTENCES)} rows; the same command continues" in err
    assert sorted(p.name for p in tmp_path.glob("o.*")) == ["o.npy.partial", "o.npy.partial.json"]
    mend()
    code, out, err = run(*command, "--json")
    assert code == 0 and "continuing after 16 rows" in err and json.loads(out)["resumed_after"] == 16
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert sorted(p.name for p in tmp_path.glob("o.*")) == ["o.ids.txt", "o.json", "o.npy"]


def test_images_continue_to_the_same_bytes_and_labels(models: dict[str, str], pictures: pathlib.Path,
                                                      tmp_path: pathlib.Path, run: Run, interrupt: Interrupt) -> None:
    from kedge.encode.timm_model import TimmEncoder
    encode(models["timm"], pictures, tmp_path / "whole.npy", batch=2)
    command = ["--model", models["timm"], "--data", pictures, "-o", tmp_path / "o.npy", "--batch", 2, "--quiet"]
    mend = interrupt(TimmEncoder, 2)
    assert run(*command)[0] == 130
    mend()
    assert run(*command) == (0, "", "")
    for ending in (".npy", *REST):
        found, expected = ((tmp_path / name).with_suffix(ending).read_bytes() for name in ("o", "whole"))
        assert found == expected


def test_rows_after_the_last_state_are_made_again(models: dict[str, str], sentences: pathlib.Path,
                                                  tmp_path: pathlib.Path, small_windows: None,
                                                  interrupt: Interrupt) -> None:
    encode(models["gpt2"], sentences, tmp_path / "whole.npy", batch=4)
    mend = interrupt(transformers_model.TransformersEncoder, 3)
    with pytest.raises(KeyboardInterrupt):
        encode(models["gpt2"], sentences, tmp_path / "o.npy", batch=4)
    mend()
    with open(tmp_path / "o.npy.partial", "ab") as file:
        file.write(b"half a row that a power cut left")
    encode(models["gpt2"], sentences, tmp_path / "o.npy", batch=4)
    assert (tmp_path / "o.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_lost_or_damaged_state_starts_anew(models: dict[str, str], sentences: pathlib.Path,
                                             tmp_path: pathlib.Path) -> None:
    whole = encode(models["bert"], sentences, tmp_path / "whole.npy")
    for state in (None, "{", "[]", '{"settings": {}}'):
        (tmp_path / "o.npy.partial").write_bytes(b"whatever")
        if state:
            (tmp_path / "o.npy.partial.json").write_text(state)
        options = {"fresh": state == '{"settings": {}}'}
        assert np.array_equal(whole, encode(models["bert"], sentences, tmp_path / "o.npy", **options))
        (tmp_path / "o.npy").unlink()


@pytest.fixture
def half_done(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path, run: Run, small_windows: None,
              interrupt: Interrupt) -> list[Any]:
    """A command that was interrupted half way."""
    command = ["--model", models["bert"], "--data", sentences, "-o", tmp_path / "o.npy", "--batch", 4]
    mend = interrupt(transformers_model.TransformersEncoder, 2)
    assert run(*command)[0] == 130
    mend()
    return command


def test_other_settings_are_refused_with_what_differs(half_done: list[Any], sentences: pathlib.Path,
                                                      tmp_path: pathlib.Path, run: Run) -> None:
    code, _, err = run(*half_done, "--pooling", "cls")
    assert code == 2 and "pooling (was None, is cls)" in err and "--fresh to start over" in err
    sentences.write_text(sentences.read_text().replace("dog", "cat"))
    code, _, err = run(*half_done)
    assert code == 2 and "data content" in err
    assert run(*half_done, "--fresh")[0] == 0 and (tmp_path / "o.npy").exists()


def test_another_version_of_a_library_is_refused_only_half_way(half_done: list[Any], tmp_path: pathlib.Path,
                                                               run: Run) -> None:
    path = tmp_path / "o.npy.partial.json"
    state = json.loads(path.read_text())
    state["versions"]["torch"] = "0.1"
    path.write_text(json.dumps(state))
    code, _, err = run(*half_done)
    assert code == 2 and "torch (was 0.1" in err and (tmp_path / "o.npy.partial").exists()


def test_what_is_there_is_not_made_again(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path,
                                         run: Run) -> None:
    command = ["--model", models["bert"], "--data", sentences, "-o", tmp_path / "o.npy"]
    assert run(*command)[0] == 0
    when = os.stat(tmp_path / "o.npy").st_mtime_ns
    code, out, err = run(*command, "--json")
    assert code == 0 and "already exists, made by the same command" in err and json.loads(out)["made"] is False
    assert os.stat(tmp_path / "o.npy").st_mtime_ns == when
    assert run(*command, "--fresh")[0] == 0 and os.stat(tmp_path / "o.npy").st_mtime_ns != when
    assert run(*command, "--pooling", "cls")[0] == 0  # another command makes the file anew
    assert json.loads((tmp_path / "o.json").read_text())["settings"]["pooling"] == "cls"


def test_the_old_file_stays_where_anything_goes_wrong(models: dict[str, str], pictures: pathlib.Path,
                                                      tmp_path: pathlib.Path, run: Run) -> None:
    command = ["--model", models["timm"], "--data", pictures, "-o", tmp_path / "o.npy", "--batch", 2]
    assert run(*command)[0] == 0
    before = (tmp_path / "o.npy").read_bytes()
    (pictures / "cat" / "2.png").write_bytes(b"damaged")
    assert run(*command)[0] == 3
    assert (tmp_path / "o.npy").read_bytes() == before


def test_two_at_once_are_refused(models: dict[str, str], sentences: pathlib.Path, tmp_path: pathlib.Path,
                                 run: Run) -> None:
    import fcntl
    with open(tmp_path / "o.npy.partial", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, _, err = run("--model", models["bert"], "--data", sentences, "-o", tmp_path / "o.npy")
    assert code == 1 and "another kedge-encode" in err


def test_a_real_ctrl_c(models: dict[str, str], tmp_path: pathlib.Path) -> None:
    """A process of its own gets the signal in the middle of its work."""
    (tmp_path / "many.txt").write_text("\n".join(SENTENCES * 2000) + "\n")
    command = [sys.executable, "-m", "kedge.encode", "--model", models["bert"], "--data", str(tmp_path / "many.txt"),
               "-o", str(tmp_path / "o.npy"), "--batch", "8", "--threads", "1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    partial = tmp_path / "o.npy.partial"
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and not (partial.exists() and partial.stat().st_size > 10000):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=600)[1]
    assert child.returncode == 130 and "the same command continues" in err and "Traceback" not in err
    assert not (tmp_path / "o.npy").exists() and json.loads((tmp_path / "o.npy.partial.json").read_text())["done"] > 0
