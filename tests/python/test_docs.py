# SPDX-License-Identifier: Apache-2.0
"""What the site, the guides and the notebook show is what the code does."""
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import kedge
import pytest

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDES = ["swap-encoder", "join-vector-stores"]
NOTEBOOK = ROOT / "notebooks" / "five-minute-tour.ipynb"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
MKDOCS = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet would let warnings pass
BETWEEN = "\n--- the next block ---\n"  # in what a guide prints

# Five test rows of 300: other versions of BLAS and scikit-learn move heads a little.
TOLERANCE = 0.017


def environment() -> dict[str, str]:
    """The built package for processes of our own, which do not fight over the processor's cores."""
    package = str(pathlib.Path(kedge.__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": package, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg", "NO_MKDOCS_2_WARNING": "1"}


def run(command: list[Any], folder: pathlib.Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blocks(guide: str) -> list[tuple[str, str]]:
    """(kind, text) of every Python block and of every block that shows what one prints."""
    return re.findall(r"^```(python|text)\n(.*?)^```$", (DOCS / f"{guide}.md").read_text(), re.MULTILINE | re.DOTALL)


def require_same(shown: str, printed: str) -> None:
    """The same words, the same lines, and numbers as close as tolerance has it."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split(), f"shown:\n{shown}\nprinted:\n{printed}"
    for expected, found in zip(map(float, NUMBER.findall(shown)), map(float, NUMBER.findall(printed))):
        assert found == pytest.approx(expected, abs=TOLERANCE), f"shown:\n{shown}\nprinted:\n{printed}"


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_prints_what_it_shows(guide: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("pyarrow")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    (tmp_path / "data").symlink_to(ROOT / "data", target_is_directory=True)
    found = blocks(guide)
    code = [text for kind, text in found if kind == "python"]
    (tmp_path / "guide.py").write_text(f"\nprint({BETWEEN!r}, flush=True)\n".join(code))
    printed = run([sys.executable, "guide.py"], tmp_path).split(BETWEEN)
    assert len(printed) == len(code)
    place = -1
    shows = {}
    for kind, text in found:
        if kind == "python":
            place += 1
        else:
            shows[place] = text
    assert len(shows) > 5
    for place, text in enumerate(printed):
        require_same(shows.get(place, ""), text)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_number_in_the_words_of_a_guide_is_one_it_prints(guide: str) -> None:
    """Shares are written .990; a block of the guide or search-scores.md has each, except those named here."""
    text = (DOCS / f"{guide}.md").read_text()
    words = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    there = " ".join(shown for kind, shown in blocks(guide) if kind == "text")
    measured = (DOCS / "search-scores.md").read_text()
    elsewhere = {"swap-encoder": {".003", ".77"}, "join-vector-stores": {".94"}}[guide]  # one row, scores.md, measured
    for share in set(re.findall(r"(?<![\d\w])\.\d{2,3}\b", words)) - elsewhere:
        assert "0" + share in there or share in measured, share


def test_the_notebook_is_kept_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.cell_type != "code" or (cell.outputs == [] and cell.execution_count is None)


@pytest.mark.parametrize("folder", [ROOT, NOTEBOOK.parent], ids=["root", "own"])
def test_the_notebook_runs(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MPLBACKEND")  # the notebook's own draws into it
    before = sorted(os.listdir(folder))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3",
                                     resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 4
    text = "".join(output.get("text", "") for output in outputs)
    assert "share of rows: 1.000" in text and text.rstrip().endswith("True")
    assert sorted(os.listdir(folder)) == before


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    run([*MKDOCS, "-d", folder], ROOT)
    return folder


def test_the_site_builds_without_a_warning(site: pathlib.Path) -> None:
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}


def test_the_site_fetches_nothing(site: pathlib.Path) -> None:
    for page in site.glob("*.html"):
        assert not re.search(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//", page.read_text()), page
        assert not re.search(r"<link[^>]*href=\"?(?:https?:)?//", page.read_text()), page


@pytest.mark.parametrize("link", [
    None, "nowhere.md", "nowhere.png", "#nowhere", "other.md#nowhere", "../nowhere.md", "/other.md"])
def test_a_dead_link_fails_the_build(link: str | None, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("material")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Other\n## Here\n")
    (tmp_path / "docs" / "index.md").write_text(
        f"# Links\n[a](other.md#here), [b](#links), [c](../CONTRIBUTING.md), [d]({link or 'other.md'})\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT}/mkdocs.yml\nhooks: [{ROOT}/scripts/docs_site.py]\nnav: [index.md, other.md]\n")
    done = subprocess.run(MKDOCS, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    if link is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert link in done.stderr


def test_every_page_is_reached_from_the_front(site: pathlib.Path) -> None:
    front = (site / "index.html").read_text()
    for page in DOCS.glob("*.md"):
        assert page.stem == "index" or f'href="{page.stem}.html"' in front, page.stem


def test_every_public_name_is_in_the_reference(site: pathlib.Path) -> None:
    reference = (site / "python.html").read_text()
    for name in kedge.__all__:
        assert f'id="kedge.{name}"' in reference, name
    for name in kedge.plot.__all__:
        assert f'id="kedge.plot.{name}"' in reference, name


def test_every_option_of_fit_is_in_the_reference(site: pathlib.Path) -> None:
    import inspect

    reference = (site / "python.html").read_text()
    for name in inspect.signature(kedge.fit).parameters:
        assert f"<strong>{name}</strong>" in reference, name
