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
    "migrate": ["psycopg[binary]>=3.2,<4", "qdrant-client>=1.16,<2", "lancedb>=0.30,<1", "chromadb>=1.3,<2",
                "faiss-cpu>=1.12,<2", "pyarrow>=15"],
    "ray": ["ray[data]>=2.60,<3", "pyarrow>=15"],
    "spark": ["pyspark>=4,<5", "pyarrow>=18"],
}


def what_is_missing(error: ImportError, extra: str | None) -> str:
    """What a program says of a failed import, and how to install what an extra brings."""
    advice = f"; {install(extra, error.name)}" if extra else ""
    return f"needs {error.name or error}, which is not installed{advice}"


def install(extra: str, missing: str | None = None) -> str:
    """The command that installs an extra's packages, or the one of them that has the missing module. It names them one
    by one: no index has kedge, so 'kedge[extra]' means something only where kedge is installed already."""
    module = (missing or "").split(".")[0]
    named = [package for package in PACKAGES[extra] if module and package.replace("-", "_").startswith(module)]
    on_path = os.path.dirname(shutil.which("pip") or "") == os.path.dirname(sys.executable)
    pip = "pip" if on_path else f"{sys.executable} -m pip"
    return f"{pip} install " + " ".join(f"'{package}'" for package in named or PACKAGES[extra])
