# SPDX-License-Identifier: Apache-2.0
"""The store of docs/new-store.md passes the contract, and docs/langchain.md prints what it shows."""
import os
import pathlib
import re
import subprocess
import sys
import types
from collections.abc import Iterator

import kedge
import pytest
from kedge.migrate import store

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def example_store() -> Iterator[None]:
    """What adding the file and the line in the table would do."""
    name = "kedge.migrate.stores.sqlite"
    module = types.ModuleType(name)
    exec(compile(blocks("new-store.md", "python")[0], "new-store.md", "exec"), module.__dict__)
    sys.modules[name] = module
    store.STORES["sqlite"] = ("sqlite", "SqliteStore")
    yield
    del sys.modules[name], store.STORES["sqlite"]


# The test class of the page becomes one of this file.
exec(compile(blocks("new-store.md", "python")[1], "new-store.md", "exec"), globals())


def test_the_page_names_every_method() -> None:
    table = re.search(r"^\| method.*?\n\n", (DOCS / "new-store.md").read_text(), re.MULTILINE | re.DOTALL)
    methods = {name for name, value in vars(store.Store).items() if callable(value) and not name.startswith("_")}
    assert table and methods - {"frozen"} == set(re.findall(r"`(\w+)\(", table[0]))


@pytest.mark.long
def test_the_page_for_langchain_prints_what_it_shows(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    (tmp_path / "page.py").write_text("\n".join(blocks("langchain.md", "python")))
    package = str(pathlib.Path(kedge.__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    shown = "".join(blocks("langchain.md", "text"))
    assert done.stdout.split() == shown.split(), done.stdout
