# SPDX-License-Identifier: Apache-2.0
"""experiments/translation and bench/rivals on a made-up collection: their tables have the lines they should, and
kernels bend where lines cannot."""
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "experiments" / "translation"
DOCUMENTS, QUERIES = 700, 60


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two views of what texts mean; the old one is a curved function. Every query is about one document."""
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(DOCUMENTS, 4))
    relevant = rng.choice(DOCUMENTS, QUERIES, replace=False)
    asked = meaning[relevant] + 0.1 * rng.normal(size=(QUERIES, 4))
    bent, flat = rng.normal(size=(4, 12)), rng.normal(size=(4, 24))
    folder = tmp_path_factory.mktemp("made")
    for kind, rows in (("docs", meaning), ("queries", asked)):
        np.save(folder / f"bent-{kind}.npy", np.sin(0.8 * rows @ bent).astype(np.float16))
        np.save(folder / f"flat-{kind}.npy", (rows @ flat).astype(np.float16))
    np.save(folder / "qrels.npy", np.column_stack([np.arange(QUERIES), relevant, np.ones(QUERIES)]).astype(np.int32))
    return folder


def run(script: str, *argv: object) -> list[dict[str, str]]:
    """The lines of the table that a script prints, a dict for each."""
    code = f"import sys, runpy; sys.path.insert(0, {str(FOLDER)!r}); sys.argv = sys.argv[1:]\n"
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, FOLDER / script, *map(str, argv)], capture_output=True,
                          text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=1800)
    assert done.returncode == 0, done.stderr
    table = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in done.stdout.splitlines() if line.startswith("|")]
    return [dict(zip(table[0], cells, strict=True)) for cells in table[2:]]


def test_kernels_translate_what_is_curved(collection: pathlib.Path) -> None:
    table = run("translate.py", collection, "--pairs", "bent:flat", "--support", "100,300", "--seeds", "0,1")
    assert [line["K"] for line in table] == ["100"] * 8 + ["300"] * 8
    score = {line[""]: float(line["nDCG@10"]) for line in table[8:]}
    assert list(score)[0] == "old encoder alone" and list(score)[-1] == "all embedded again"
    assert score["kernel"] > score["ridge"] + 0.03
    assert score["all embedded again"] > score["kernel"]
    assert float(table[-1]["of the new one's"]) == 1
    kernel = next(line for line in table[8:] if line[""] == "kernel")
    assert float(kernel["fused, nDCG@10"]) > 0 and float(kernel["fit, s"]) >= 0


def test_folders_joined_are_one_store(collection: pathlib.Path) -> None:
    """Twice the same collection: a query's document and its copy are equally near, and one of them is relevant."""
    options = ("--pairs", "bent:flat", "--support", 200, "--seeds", 0, "--methods", "ridge")
    one, two = run("translate.py", collection, *options), run("translate.py", collection, collection, "--join",
                                                              *options)
    assert two[0]["collection"] == f"{collection.name} + {collection.name}"
    assert len(one) == len(two) == 3
    assert 0 < float(two[-1]["MRR@10"]) < float(one[-1]["MRR@10"])


def rivals(folder: pathlib.Path, support: int, without: Sequence[str]) -> str:
    """The page that bench/rivals makes of a folder, with one draw."""
    code = "import sys, runpy; sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[2:]\n"
    code += "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    scripts = FOLDER.parents[1] / "bench" / "rivals"
    done = subprocess.run([sys.executable, "-c", code, scripts, scripts / "run.py", "--data", folder, "--pairs",
                           "bent:flat", "--support", str(support), "--draws", "1", "--keep", folder / "kept.jsonl",
                           "-o", folder / "table.md"], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return (folder / "table.md").read_text()


OTHERS = ("isotrieve", "latentis", "drift", "vectormigrate", "cca_zoo", "mvlearn")


def test_rivals_have_a_line_or_a_sentence(collection: pathlib.Path, tmp_path: pathlib.Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """embspec is one that refuses; the others are not there."""
    sklearn = pytest.importorskip("sklearn")
    (tmp_path / "embspec.py").write_text(
        "class DriftAdapter:\n"
        "    @staticmethod\n"
        "    def fit(x, y):\n"
        "        raise ValueError('only equal widths')\n")
    (tmp_path / "embspec-1.0.dist-info").mkdir()
    (tmp_path / "embspec-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: embspec\nVersion: 1.0\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}")
    page = rivals(collection, 300, OTHERS)
    share = {name: float("0" + score) for name, score in
             re.findall(r"^\| ([^|]+) \| \**(\.\d+)(?: ± [.\d]+\**)? \|", page, re.MULTILINE)}
    for linear in ("kedge, ridge", f"scikit-learn {sklearn.__version__}, RidgeCV"):
        assert share["kedge, kernel"] > share[linear]
    assert "mvlearn was not measured, as it is not installed here" in page
    assert "embspec 1.0, DriftAdapter: only equal widths" in page
    kept = (collection / "kept.jsonl").read_text()
    assert rivals(collection, 300, OTHERS) == page
    assert (collection / "kept.jsonl").read_text() == kept, "what is known is not measured again"
