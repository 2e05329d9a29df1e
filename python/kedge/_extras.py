# SPDX-License-Identifier: Apache-2.0
"""What kedge needs beyond its own requirements, by the extras of pyproject.toml, and how a message says so."""
from __future__ import annotations

import os
import shutil
import sys

PACKAGES = {
    "sklearn": ["scikit-learn>=1.6,<2"],
    "torch": ["torch>=2.4,<3"],
    "arrow": ["pyarrow>=15"],
    "encode": ["torch>=2.4,<3", "timm>=1.0.15,<2", "transformers>=4.56,<6", "sentence-transformers>=5,<7", "pillow>=9"],
    "postgresql": ["psycopg[binary]>=3.2,<4"],
    "qdrant": ["qdrant-client>=1.16,<2"],
    "lancedb": ["lancedb>=0.30,<1", "pylance>=14,<15", "pyarrow>=15"],
    "chroma": ["chromadb>=1.3,<2"],
    "faiss": ["faiss-cpu>=1.12,<2"],
    "parquet": ["pyarrow>=15"],
    "milvus": ["pymilvus>=2.6,<4", "milvus-lite>=3.2,<4"],
    "duckdb": ["duckdb>=1.5,<3", "pyarrow>=15"],
    "sqlite-vec": ["sqlite-vec>=0.1.9,<1", "apsw>=3.46"],
    "openai": ["openai>=1.40,<4"],
    "langchain": ["langchain-core>=1,<2"],
    "llama-index": ["llama-index-core>=0.14,<1"],
    "ray": ["ray[data]>=2.60,<3", "pyarrow>=15"],
    "spark": ["pyspark>=3.5,<5", "pyarrow>=18"],
}
# An extra for each; 'migrate' is all of them.
STORES = ("postgresql", "qdrant", "lancedb", "chroma", "faiss", "parquet", "milvus", "duckdb", "sqlite-vec")
PACKAGES["migrate"] = list(dict.fromkeys(package for store in STORES for package in PACKAGES[store]))


def what_is_missing(error: ImportError, extra: str | None) -> str:
    """What a program says of a failed import, and how to install what an extra brings."""
    advice = f"; {install(extra, error.name)}" if extra else ""
    return f"needs {error.name or error}, which is not installed{advice}"


def install(extra: str, missing: str | None = None) -> str:
    """The command that installs an extra's packages, or the one of them that has the missing module. It names them one
    by one: no index has kedge, so 'kedge[extra]' means something only where kedge is installed already."""
    module = (missing or "").split(".")[0]
    named = [package for package in PACKAGES[extra]  # pylance has the module lance
             if module and package.replace("-", "_").startswith((module, "py" + module))]
    on_path = os.path.dirname(shutil.which("pip") or "") == os.path.dirname(sys.executable)
    pip = "pip" if on_path else f"{sys.executable} -m pip"
    return f"{pip} install " + " ".join(f"'{package}'" for package in named or PACKAGES[extra])
