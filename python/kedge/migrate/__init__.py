# SPDX-License-Identifier: Apache-2.0
"""Changes the embedding model under a vector store; kedge-migrate is the command, docs/change-model.md the guide.

>>> from kedge import migrate
>>> with migrate.Migration("migrate.toml") as migration:
...     migration.apply(progress=True)
>>> ids, scores = migrate.search("migrate.toml", old_query, new_query, k=10)
"""
from .._errors import BadFile, Error, UsageError
from .api import Migration
from .config import Config
from .cut_offs import CutOffs, thresholds
from .fused import search
from .store import Contents, Missing, Rows, Store, open_store
from .stores.scores import fuse

__all__ = ["BadFile", "Config", "Contents", "CutOffs", "Error", "Migration", "Missing", "Rows", "Store", "UsageError",
           "fuse", "open_store", "search", "thresholds"]
