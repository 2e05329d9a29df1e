# SPDX-License-Identifier: Apache-2.0
"""Long work: progress, Ctrl-C, threads."""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import kedge
import numpy as np
import pytest


def test_a_function_is_told_how_it_goes(spaces: dict[str, np.ndarray]) -> None:
    seen = []
    kedge.fit(spaces, method="param", anchors=8, support=50, epochs=3, progress=lambda *report: seen.append(report))
    assert all(done <= total for _, done, total, _ in seen)
    learning = [report for report in seen if report[0] == "learning"]
    assert learning[-1][1] == learning[-1][2] and "epoch 3 total" in learning[-1][3]


def test_an_exception_of_that_function_ends_the_fit(spaces: dict[str, np.ndarray]) -> None:
    def stop(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kedge.fit(spaces, anchors=8, support=50, progress=stop)
    with pytest.raises(TypeError, match="progress must be"):
        kedge.fit(spaces, anchors=8, support=50, progress="yes")  # type: ignore[arg-type]  # which is the point


def test_a_bar_is_drawn_where_it_is_asked_for(spaces: dict[str, np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    kedge.fit(spaces, method="param", anchors=8, support=50, epochs=2, progress=True)
    assert "learning" in capfd.readouterr().err
    kedge.fit(spaces, method="param", anchors=8, support=50, epochs=2)
    assert capfd.readouterr().err == ""


def interrupted(code: str, folder: pathlib.Path, after: str = "started") -> tuple[int, str, str]:
    """Runs code, presses Ctrl-C half a second after its work has begun, and gives what it printed."""
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline().strip() == after
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=600)
    finally:
        child.kill()
    return child.returncode, out, err


SPACES = """
import numpy as np, kedge
rng = np.random.default_rng(0)
latent = rng.normal(size=(3000, 20))
spaces = {name: latent @ rng.normal(size=(20, 64)) for name in "abc"}
begun = []

def begin(*_):
    if not begun:
        begun.append(True)
        print("started", flush=True)
"""


def test_ctrl_c_stops_a_fit_and_leaves_a_checkpoint(tmp_path: pathlib.Path) -> None:
    long = SPACES + """
try:
    kedge.fit(spaces, method="param", anchors=100, support=2000, epochs=100000, checkpoint="c.checkpoint", batch=500,
              progress=begin)
except KeyboardInterrupt:
    print("stopped")
"""
    code, out, err = interrupted(long, tmp_path)
    assert (code, out.strip()) == (0, "stopped"), err
    assert (tmp_path / "c.checkpoint").exists()


def test_a_fit_that_was_stopped_ends_in_the_same_bits(spaces: dict[str, np.ndarray], tmp_path: pathlib.Path) -> None:
    class Enough(Exception):
        pass

    def stop(step: str, done: int, total: int, detail: str) -> None:
        if step == "learning" and done > total / 2:
            raise Enough

    options: dict[str, Any] = {"method": "param", "anchors": 8, "support": 50, "epochs": 6}
    with pytest.raises(Enough):
        kedge.fit(spaces, checkpoint=tmp_path / "c", progress=stop, **options)
    resumed = kedge.fit(spaces, checkpoint=tmp_path / "c", resume=True, **options)
    np.testing.assert_array_equal(resumed.mixture, kedge.fit(spaces, **options).mixture)


def test_ctrl_c_stops_a_stitch_on_its_worker_threads(tmp_path: pathlib.Path) -> None:
    code, out, err = interrupted(SPACES + """
try:
    kedge.stitch(spaces, train=slice(2000), test=slice(2000, 3000), methods=["param-multi"], epochs=100000, seeds=8,
                 progress=begin)
except KeyboardInterrupt:
    print("stopped")
""", tmp_path)
    assert (code, out.strip()) == (0, "stopped"), err


def test_ctrl_c_belongs_to_python_again_afterwards(tmp_path: pathlib.Path) -> None:
    code, out, err = interrupted(SPACES + """
import time
kedge.fit(spaces, method="consensus", anchors=10)
print("started", flush=True)
time.sleep(30)
""", tmp_path)
    assert code == -signal.SIGINT and "KeyboardInterrupt" in err


def test_a_handler_of_ones_own_is_called(tmp_path: pathlib.Path) -> None:
    code, out, err = interrupted(SPACES + """
import signal
signal.signal(signal.SIGINT, lambda *_: print("mine", flush=True))
try:
    kedge.fit(spaces, method="param", anchors=100, support=2000, epochs=100000, batch=500, progress=begin)
except KeyboardInterrupt:
    print("stopped")
""", tmp_path)
    assert out.split() == ["mine", "stopped"], err


def test_threads_may_share_a_map(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    rr, rows = bundle["vit"], spaces["vit"]
    expected = rr.transform(rows)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: rr.transform(rows), range(200)):
            np.testing.assert_array_equal(found, expected)


def test_threads_may_attach_to_one_bundle(spaces: dict[str, np.ndarray]) -> None:
    bundle = kedge.fit(spaces, method="consensus", anchors=4)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: bundle.attach(f"space {i}", spaces["rex"]), range(40)))
    assert len(bundle.spaces) == 43
    np.testing.assert_array_equal(bundle["space 7"].weight, bundle["space 39"].weight)


def test_other_threads_run_while_it_works(spaces: dict[str, np.ndarray]) -> None:
    count, done = 0, threading.Event()

    def work() -> None:
        kedge.fit(spaces, method="param", anchors=8, support=100, epochs=300)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        count += 1
    thread.join()
    assert count > 20


@pytest.mark.parametrize("variable", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_says_how_many_threads(variable: str) -> None:
    """Before and after work that takes BLAS' threads away for a while: results of a map do not change their last
    bits."""
    code = textwrap.dedent("""
        import numpy as np
        import kedge
        rng = np.random.default_rng(0)
        x = rng.standard_normal((400, 96)).astype("f4")
        spaces = {"a": x, "b": x @ rng.standard_normal((96, 80)).astype("f4")}
        bundle = kedge.fit(spaces, method="consensus", anchors=70, support=300)
        before = bundle["a"].transform(x)
        print(kedge.threads())
        kedge.stitch(spaces, labels=np.arange(400) % 4, train=slice(0, 300), test=slice(300, 400),
                     methods=["consensus"], head="linear", anchors=16, support=200)
        print(kedge.threads(), np.array_equal(bundle["a"].transform(x), before))
    """)
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env={**environment, variable: "1"}, capture_output=True,
                          text=True)
    assert done.stdout.split() == ["1", "1", "True"], done.stdout + done.stderr


def test_the_number_of_threads_can_be_set() -> None:
    before = kedge.threads()
    try:
        kedge.set_threads(1)
        assert kedge.threads() == 1
        for wrong in (0, 100000):
            with pytest.raises(ValueError):
                kedge.set_threads(wrong)
    finally:
        kedge.set_threads(before)
    assert before <= (os.cpu_count() or 1)


NO_COPY = """
import resource
import numpy as np, kedge

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

rng = np.random.default_rng(0)
kedge.set_threads(1)  # on x86 the buffers that OpenBLAS shares among threads grow with the product, to 128 MB each
X = rng.random((800_000, 64), dtype=np.float32)
options = dict(method="random", anchors=2, support=100)
rr = kedge.fit({"a": X[:20_000], "b": X[:20_000]}, **options)["a"]  # buffers and libraries that come but once
rr.transform(X[:20_000])
before = peak()
kedge.fit({"a": X, "b": X}, **options)
fitted = peak()
rr.transform(X)
print(X.nbytes, fitted - before, peak() - fitted)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is counted otherwise")
def test_float32_rows_are_not_copied() -> None:
    done = subprocess.run([sys.executable, "-c", NO_COPY], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    size, fit, transform = map(int, done.stdout.split())
    assert fit < size / 2 and transform < size / 2


CHILDREN = """
import multiprocessing, sys
import numpy as np
import kedge

def work(seed):
    bundle = kedge.fit({"a": X, "b": 2 * X}, method="consensus", anchors=8, seed=seed)
    return bundle["a"].transform(X)

X = np.random.default_rng(0).normal(size=(3000, 40)).astype(np.float32)
if __name__ == "__main__":
    expected = work(0)  # threads are there before the processes are
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        for found in pool.map(work, [0] * 4):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(work(0), expected)
    print("done")
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_may_be_started_after_use(how: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    child = subprocess.Popen([sys.executable, "-W", "ignore", "children.py", how], cwd=tmp_path, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # children that hang would outlive their parent
        child.communicate()
        pytest.fail(f"processes that {how} made hang")
    assert out == "done\n", err
