# SPDX-License-Identifier: Apache-2.0
"""'pip install .' in a fresh environment, and then the README's example, word for word."""
import os
import pathlib
import subprocess
import sys

import nanobind
import pytest

import readme_example

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # With the compiler's name and the headers of the tests' own build, so that ccache has most of the objects already.
    install = '. scripts/use-ccache && CXX=c++ exec "$0/bin/pip" install -C cmake.define.nanobind_DIR="$1" .'
    done = subprocess.run(["bash", "-c", install, folder, nanobind.cmake_dir()], cwd=ROOT, env=variables,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def run(environment, *words, folder):
    variables = {"PATH": f"{environment}/bin:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_example_prints_what_it_says(environment, tmp_path):
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "example.py").write_text(readme_example.CODE)
    readme_example.check(run(environment, "python", "example.py", folder=tmp_path))


def test_its_programs_are_there(environment, tmp_path):
    version = run(environment, "python", "-c", "import kedge; print(kedge.__version__)", folder=tmp_path).strip()
    assert run(environment, "kedge", "--version", folder=tmp_path).strip() == f"kedge {version}"
    assert "--model" in run(environment, "kedge-encode", "--help", folder=tmp_path)
    assert "results.json" in run(environment, "kedge-report", "--help", folder=tmp_path)


def test_the_command_of_the_package_makes_its_report(environment, tmp_path):
    slm = ROOT / "data" / "slm"
    run(environment, "kedge", "stitch", "--space", f"a={slm / 'minilm-l6.npy'}", "--space",
        f"b={slm / 'use-multilingual.npy'}", "--train", "0:500", "--test", "3000:3300", "--methods", "consensus",
        "--anchors", "20", "--support", "200", "-o", "out", folder=tmp_path)
    assert "</html>" in (tmp_path / "out" / "report.html").read_text()


def test_types_come_along(environment):
    package = next(environment.glob("lib/python3*/site-packages/kedge"))
    assert (package / "py.typed").exists()
    assert "class RelativeMap" in (package / "_core.pyi").read_text()
