# SPDX-License-Identifier: Apache-2.0
"""The ways to install kedge for Python, each in an empty environment, and then the README's example, word for word:
the wheels of 'make wheel', where nothing of the machine that built them can be seen, and 'pip install .'."""
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import nanobind
import pytest
import readme_example
from bare_root import BareRoot, needed_by

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIP = ROOT / ".venv" / "bin" / "pip"
# What the build machine has, and the wheel must bring along.
LIBRARIES = ("libopenblas", "libblas", "liblapack", "libfaiss", "libgomp", "libgfortran", "libfmt", "libspdlog")
SPACES = ("--space", "a=data/slm/minilm-l6.npy", "--space", "b=data/slm/use-multilingual.npy")
SEEN = """
import pathlib, re, runpy
runpy.run_path("example.py")
maps = set(re.findall(r"/.*\\.so.*", pathlib.Path("/proc/self/maps").read_text()))
pathlib.Path("maps").write_text("\\n".join(maps))
"""


def must(words: Sequence[str | pathlib.Path], **options: Any) -> None:
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


class Environment:
    """A virtual environment of this machine, and a folder with the data to work in."""

    wheel: pathlib.Path  # what is installed in it, if it is a wheel

    def __init__(self, folder: pathlib.Path, python: pathlib.Path) -> None:
        self.env, self.work = folder / "env", folder / "here"
        subprocess.run([python, "-m", "venv", self.env], check=True)
        shutil.copytree(ROOT / "data", self.work / "data")

    def run(self, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{self.env}/bin:{os.environ['PATH']}", "HOME": str(self.work)}
        return subprocess.run(words, cwd=self.work, env=variables, capture_output=True, text=True)

    def ok(self, *words: str | pathlib.Path) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


class Bare(Environment):
    """The same in a root folder of its own; /env and /here are in it."""

    def __init__(self, root: BareRoot) -> None:
        self.root = root
        self.env, self.work = self.root.inside("/env"), self.root.inside("/here")
        self.ok(self.root.python, "-m", "venv", "/env")
        shutil.copytree(ROOT / "data", self.work / "data")

    def run(self, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return self.root.run(*words)


def emptiest(folder: pathlib.Path, python: pathlib.Path) -> Environment:
    """A root folder of its own, or a plain environment if that is not permitted."""
    root = BareRoot(folder / "root", python)
    works = root.run(root.python, "-c", "")
    if works.returncode == 0:
        return Bare(root)
    assert "unshare" in works.stderr or "mount" in works.stderr, works.stderr
    return Environment(folder, python)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Version of Python -> the wheel that was made with it."""
    folder = tmp_path_factory.mktemp("dist")
    must([ROOT / "scripts" / "setup", "wheel"])
    must([ROOT / "scripts" / "wheel", folder])
    by_python = {"3.12 or later" if "-abi3-" in file.name else "3.11": file for file in folder.glob("kedge-*.whl")}
    assert by_python
    return by_python


def python_of(wheel: pathlib.Path) -> pathlib.Path:
    """A Python that takes this wheel: the latest that scripts/wheel made an environment of."""
    pythons = {int(folder.name.split(".")[1]): folder for folder in (ROOT / "build" / "wheel").glob("python3.*")}
    fits = [minor for minor in pythons if minor >= 12] if "-abi3-" in wheel.name else [11]
    return pythons[max(fits)] / "bin" / "python"


@pytest.fixture(scope="module", params=["3.11", "3.12 or later"])
def bare(request: pytest.FixtureRequest, wheels: dict[str, pathlib.Path],
         tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Where a wheel is installed without an index."""
    if request.param not in wheels:
        pytest.skip(f"scripts/wheel found no Python {request.param} here")
    wheel = wheels[request.param]
    python = python_of(wheel)
    place = emptiest(tmp_path_factory.mktemp("wheel"), python)
    must([PIP, "--python", python, "download", "--quiet", "--only-binary=:all:", "-d", place.work / "wheels", wheel])
    place.ok("pip", "install", "--no-compile", "--no-index", "--find-links=wheels", "kedge")
    place.wheel = wheel
    return place


@pytest.fixture(scope="module")
def from_source(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    place = Environment(tmp_path_factory.mktemp("source"), pathlib.Path(sys.executable))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # With the compiler's name and the headers of the tests' own build, so that ccache has most of the objects already.
    install = '. scripts/use-ccache && CXX=c++ exec "$0/bin/pip" install -C cmake.define.nanobind_DIR="$1" .'
    must(["bash", "-c", install, place.env, nanobind.cmake_dir()], cwd=ROOT, env=variables)
    return place


def test_nothing_of_the_build_machine_is_needed(bare: Environment) -> None:
    assert bare.wheel.stat().st_size < 30e6
    assert "stitch" in bare.ok("kedge", "--help")
    if not isinstance(bare, Bare):
        pytest.skip("a root folder of its own is not permitted here")
    present = {file.name for file in bare.root.folder.rglob("*.so*") if bare.env not in file.parents}
    assert "libc.so.6" in present and not [name for name in present if name.startswith((*LIBRARIES, "libstdc++"))]
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    for library in ("libopenblas.so.0", "liblapacke.so.3", "libgomp.so.1", "libfmt.so.9", "libstdc++.so.6"):
        subprocess.run([sys.executable, "-c", load, library], check=True)
        assert "cannot open shared object file" in bare.run("python", "-c", load, library).stderr


@pytest.fixture(scope="module")
def installed_wheel(bare: Environment) -> Environment:
    """Also with libstdc++, which numpy's wheel counts on; ours has its own."""
    numpy = next(bare.env.rglob("_multiarray_umath*.so"))
    if isinstance(bare, Bare):
        for library in needed_by([numpy]):
            if library.name.startswith("libstdc++"):
                bare.root.add(library)
    return bare


def test_a_wheel_runs_the_readme_example_with_its_own_libraries(installed_wheel: Environment) -> None:
    work = installed_wheel.work
    (work / "example.py").write_text(readme_example.CODE)
    (work / "seen.py").write_text(SEEN)
    readme_example.check(installed_wheel.ok("python", "seen.py"))
    loaded = (work / "maps").read_text().splitlines()
    ours = [file for file in loaded if pathlib.Path(file).name.startswith(LIBRARIES)]
    home = "/env/" if isinstance(installed_wheel, Bare) else str(installed_wheel.env)
    assert any("openblas" in file for file in loaded) and all(file.startswith(home) for file in ours), loaded


def test_the_command_and_the_package_give_the_same_bits(installed_wheel: Environment) -> None:
    installed_wheel.ok("kedge", "fit", "--method", "consensus", "--anchors", "20", *SPACES, "-o", "command.kedge")
    fit = ("import kedge; kedge.fit({'a': 'data/slm/minilm-l6.npy', 'b': 'data/slm/use-multilingual.npy'}, "
           "method='consensus', anchors=20).save('python.kedge')")
    installed_wheel.ok("python", "-c", fit)
    bundles = [(installed_wheel.work / name).read_bytes() for name in ("command.kedge", "python.kedge")]
    assert bundles[0] == bundles[1]


def test_pip_install_from_source_runs_the_readme_example(from_source: Environment) -> None:
    (from_source.work / "example.py").write_text(readme_example.CODE)
    readme_example.check(from_source.ok("python", "example.py"))


def check_programs(place: Environment) -> None:
    version = place.ok("python", "-c", "import kedge; print(kedge.__version__)").strip()
    assert place.ok("kedge", "--version").strip() == f"kedge {version}"
    assert "--model" in place.ok("kedge-encode", "--help")
    assert "results.json" in place.ok("kedge-report", "--help")
    place.ok("kedge", "stitch", *SPACES, "--train", "0:500", "--test", "3000:3300", "--methods", "consensus",
             "--anchors",
             "20", "--support", "200", "-o", "out")
    assert "</html>" in (place.work / "out" / "report.html").read_text()
    package = next(place.env.glob("lib/python3*/site-packages/kedge"))
    assert (package / "py.typed").exists()
    assert "class RelativeMap" in (package / "_core.pyi").read_text()


def test_the_programs_and_types_of_a_wheel_are_there(installed_wheel: Environment) -> None:
    check_programs(installed_wheel)


def test_the_programs_and_types_from_source_are_there(from_source: Environment) -> None:
    check_programs(from_source)
