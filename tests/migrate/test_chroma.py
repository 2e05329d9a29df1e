# SPDX-License-Identifier: Apache-2.0
"""Collections of Chroma as stores."""
import socket
import subprocess
import sys
import time
import pathlib

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate.errors import Error, UsageError
from kedge.migrate.store import Missing, open_store

QUIET = Settings(anonymized_telemetry=False)


def fill(client, ids, vectors, texts, space="cosine"):
    found = client.create_collection("docs", embedding_function=None, metadata={"team": "search"},
                                     configuration={"hnsw": {"space": space, "ef_construction": 120}})
    found.add(ids=ids, embeddings=vectors, documents=texts, metadatas=[{"number": n} for n in range(len(ids))])


class TestFolder(StoreContract):
    tolerance = new_tolerance = 1e-6

    @pytest.fixture
    def filled(self, tmp_path):
        vectors = unit_rows(ROWS, OLD_WIDTH)
        ids = [f"doc {n}" for n in np.random.default_rng(7).permutation(ROWS)]
        texts = [f"text of {key}" for key in ids]
        client = chromadb.PersistentClient(tmp_path / "db", settings=QUIET)
        fill(client, ids, vectors, texts)
        client.close()
        return Filled(open_store(f"chroma:{tmp_path}/db#docs"), ids, vectors, texts)
