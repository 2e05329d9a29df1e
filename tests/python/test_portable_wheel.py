# SPDX-License-Identifier: Apache-2.0
"""The wheel of 'make wheel', where nothing of the machine that built it can be seen."""
import pathlib
import shutil
import subprocess
import sys

import pytest

import readme_example
from bare_root import BareRoot, needed_by

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIP = ROOT / ".venv" / "bin" / "pip"
# What the build machine has, and the wheel must bring along.
LIBRARIES = ("libopenblas", "libblas", "liblapack", "libfaiss", "libgomp", "libgfortran", "libfmt", "libspdlog")

SEEN = """
import pathlib, re, runpy

pytestmark = pytest.mark.long
runpy.run_path("example.py")
maps = set(re.findall(r"/.*\\.so.*", pathlib.Path("/proc/self/maps").read_text()))
pathlib.Path("maps").write_text("\\n".join(maps))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    for step in ([ROOT / "scripts" / "setup", "wheel"], [ROOT / "scripts" / "wheel", folder]):
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return next(folder.glob("kedge-*.whl"))


@pytest.fixture(scope="module")
def root(wheel, tmp_path_factory):
    root = BareRoot(tmp_path_factory.mktemp("root"))
    works = root.run(root.python, "-c", "")
    if "unshare" in works.stderr or "mount" in works.stderr:
        pytest.skip(f"a root folder of its own is not permitted here: {works.stderr.strip()}")
    assert works.returncode == 0, works.stderr
    wheels = root.inside("/wheels")
    subprocess.run([PIP, "download", "--quiet", "--only-binary=:all:", "-d", wheels, wheel], check=True)
    for step in ([root.python, "-m", "venv", "/env"],
                 ["pip", "install", "--no-compile", "--no-index", "--find-links=/wheels", "kedge"]):
        done = root.run(*step)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return root


def printed_by(root, *words):
    done = root.run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_small(wheel):
    assert wheel.stat().st_size < 30e6


def test_nothing_of_the_build_machine_can_be_seen(root):
    present = {file.name for file in root.folder.rglob("*.so*") if root.inside("/env") not in file.parents}
    assert "libc.so.6" in present and not [name for name in present if name.startswith((*LIBRARIES, "libstdc++"))]
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    for library in ("libopenblas.so.0", "liblapacke.so.3", "libgomp.so.1", "libfmt.so.9", "libstdc++.so.6"):
        subprocess.run([sys.executable, "-c", load, library], check=True)
        assert "cannot open shared object file" in root.run("python", "-c", load, library).stderr


def test_the_command_needs_nothing_but_glibc(root):
    assert "stitch" in printed_by(root, "kedge", "--help")


@pytest.fixture(scope="module")
def root_with_data(root):
    """Also with libstdc++, which numpy's wheel counts on; ours has its own."""
    numpy = next(root.inside("/env").rglob("_multiarray_umath*.so"))
    for library in needed_by([numpy]):
        if library.name.startswith("libstdc++"):
            root.add(library)
    shutil.copytree(ROOT / "data", root.inside("/here/data"))
    return root


def test_the_readme_example_prints_what_it_says(root_with_data):
    work = root_with_data.inside("/here")
    (work / "example.py").write_text(readme_example.CODE)
    (work / "seen.py").write_text(SEEN)
    readme_example.check(printed_by(root_with_data, "python", "seen.py"))
    loaded = (work / "maps").read_text().splitlines()
    ours = [file for file in loaded if pathlib.Path(file).name.startswith(LIBRARIES)]
    assert any("openblas" in file for file in loaded) and all(file.startswith("/env/") for file in ours), loaded


def test_the_command_makes_its_report(root_with_data):
    printed_by(root_with_data, "/env/bin/kedge", "stitch", "--space", "a=data/slm/minilm-l6.npy", "--space",
               "b=data/slm/use-multilingual.npy", "--train", "0:500", "--test", "3000:3300", "--methods", "consensus",
               "--anchors", "20", "--support", "200", "-o", "out")
    assert "</html>" in root_with_data.inside("/here/out/report.html").read_text()


def test_the_command_and_the_package_give_the_same_bits(root_with_data):
    work = root_with_data.inside("/here")
    printed_by(root_with_data, "kedge", "fit", "--method", "consensus", "--anchors", "20", "--space",
               "a=data/slm/minilm-l6.npy", "--space", "b=data/slm/use-multilingual.npy", "-o", "command.kedge")
    fit = ("import kedge; kedge.fit({'a': 'data/slm/minilm-l6.npy', 'b': 'data/slm/use-multilingual.npy'}, "
           "method='consensus', anchors=20).save('python.kedge')")
    printed_by(root_with_data, "python", "-c", fit)
    assert (work / "command.kedge").read_bytes() == (work / "python.kedge").read_bytes()
