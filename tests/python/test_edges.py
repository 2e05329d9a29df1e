# SPDX-License-Identifier: Apache-2.0
"""Where C++ meets Python: memory that is written to, odd paths and numbers, the end of the process."""
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import kedge
import numpy as np
import pytest


class Unwilling:
    def __index__(self) -> None:
        raise RuntimeError("no number")


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([3.0]), Unwilling(), 2.5, None.__class__, [3]], ids=repr)
def test_a_count_that_is_none_is_refused(value: Any, spaces: dict[str, np.ndarray]) -> None:
    with pytest.raises(TypeError, match="anchors is .* expected a whole number"):
        kedge.fit(spaces, method="consensus", anchors=value)


def test_numpys_numbers_will_do(spaces: dict[str, np.ndarray]) -> None:
    options: dict[str, Any] = {"anchors": np.int16(5), "support": np.uint64(50), "shrinkage": np.float32(0.5)}
    bundle = kedge.fit(spaces, method="consensus", **options)
    assert bundle.n_anchors == 5 and len(bundle.support_ids) == 50


@pytest.mark.parametrize("name", ["résumé.kedge", "日本.kedge", os.fsdecode(b"\xff.kedge")], ids=ascii)
def test_paths_may_be_anything_the_system_takes(name: str, bundle: kedge.Bundle, tmp_path: pathlib.Path) -> None:
    path = tmp_path / name
    bundle.save(path)
    assert path.exists()
    written: list[Any] = [path, str(path), os.fsencode(path)]
    for same in written:
        assert repr(kedge.load(same)) == repr(bundle)


def test_paths_that_no_system_takes_are_refused(bundle: kedge.Bundle, tmp_path: pathlib.Path) -> None:
    bundle.save(tmp_path / "x.kedge")
    with pytest.raises(ValueError, match="zero byte"):
        kedge.load(str(tmp_path / "x.kedge") + "\0junk")
    with pytest.raises(OSError, match="cannot read"):
        kedge.fit({"a": os.fsdecode(b"/tmp/\xff.npy")}, anchors=2)
    with pytest.raises(TypeError):
        bundle.save(3)
    with pytest.raises(ValueError, match="name holds half a character"):
        kedge.fit({"\udcff": np.eye(3)}, anchors=2)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


OUTS = {"another type": lambda rows, cols: np.zeros((rows, cols)),
        "columns": lambda rows, cols: np.zeros((rows, cols), "f4", "F"),
        "every other": lambda rows, cols: np.zeros((rows, 2 * cols), "f4")[:, ::2],
        "too small": lambda rows, cols: np.zeros((rows - 1, cols), "f4"),
        "read-only": lambda rows, cols: read_only(np.zeros((rows, cols), "f4")), "a word": lambda rows, cols: "x"}


@pytest.mark.parametrize("make", OUTS.values(), ids=OUTS)
def test_an_out_that_cannot_hold_the_result_is_refused(make: Callable[[int, int], Any], bundle: kedge.Bundle,
                                                       spaces: dict[str, np.ndarray]) -> None:
    for function, rows in ((bundle["vit"], spaces["vit"]), (bundle.translator("rex", "vit"), spaces["rex"])):
        cols = function.weight.shape[0]
        with pytest.raises(ValueError,
                           match=f"out: expected a writable float32 array in C order of {len(rows)} x {cols}"):
            function.transform(rows, out=make(len(rows), cols))


IDENTITY: list[Any] = [np.eye(4), np.zeros(4), np.zeros(4)]  # of float64, which is converted


def test_an_out_that_is_the_input_is_refused() -> None:
    same = kedge.RelativeMap("same", "inner", *IDENTITY)
    memory = np.arange(44, dtype=np.float32).reshape(11, 4)
    for rows, out in ((memory, memory), (memory[:10], memory[1:]), (memory[::-1], memory)):
        with pytest.raises(ValueError, match="out: it shares memory with X"):
            same.transform(rows, out=out)
    same.transform(memory[:5], out=memory[6:])
    np.testing.assert_array_equal(memory[6:], np.arange(20, dtype=np.float32).reshape(5, 4))


def test_a_map_must_be_whole() -> None:
    for weight, name, says in ((np.full((2, 4), np.nan), "a", "finite"), (np.ones((2, 4)), "", "cannot be used"),
                               (np.ones((3, 4)), "a", "do not fit together")):
        parts: list[Any] = [weight, np.zeros(2), np.zeros(4)]
        with pytest.raises(ValueError, match=says):
            kedge.RelativeMap(name, "wip", *parts)


def test_a_pickled_map_remembers_how_it_was_made(bundle: kedge.Bundle) -> None:
    again = pickle.loads(pickle.dumps(bundle["clip"]))
    assert (again.attached_by, again.r2, again.ridge) == ("ridge", bundle["clip"].r2, bundle["clip"].ridge)


def test_views_cannot_be_written_to(bundle: kedge.Bundle) -> None:
    for view in (bundle.mixture, bundle.support_ids, bundle["vit"].weight, bundle["vit"].bias):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1


def test_sweeps_leave_out_what_cannot_be(spaces: dict[str, np.ndarray]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = kedge.sweep(spaces, train=slice(300), test=slice(300, 400), anchors=[6, 100], support=[50],
                            methods=["random-wip"])
    assert set(table.anchors.dropna()) == {6}
    assert "100 anchors need at least as many support rows" in str(said[0].message)


END = """
import threading, time
import numpy as np
import kedge

rng = np.random.default_rng(0)
spaces = {name: rng.normal(size=(4000, 64)) for name in "ab"}
rr = kedge.fit(spaces, method="random", anchors=50)["a"]

def forever():
    while True:
        rr.transform(spaces["a"])

def learn(**more):
    kedge.fit(spaces, method="param", epochs=100000, **more)

for work in (forever, learn, lambda: learn(progress=print)):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1)
"""


def test_daemon_threads_end_with_python() -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(END)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


def test_kedge_may_be_called_within_a_report_of_its_own(spaces: dict[str, np.ndarray]) -> None:
    inner: list[kedge.Bundle] = []

    def report(step: str, done: int, total: int, detail: str) -> None:
        if not inner:
            inner.append(kedge.fit(spaces, method="random", anchors=4))

    outer = kedge.fit(spaces, method="param", anchors=8, support=50, epochs=2, progress=report)
    assert inner[0].n_anchors == 4 and outer.n_anchors == 8
