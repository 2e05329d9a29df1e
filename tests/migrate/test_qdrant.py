# SPDX-License-Identifier: Apache-2.0
"""Collections of Qdrant as stores."""
import uuid

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from contract import NEW_WIDTH, OLD_WIDTH, OWNER, ROWS, Filled, StoreContract, contents, order, unit_rows
from kedge.migrate.errors import Error, UsageError
from kedge.migrate.store import Missing, open_store


class TestLocal(StoreContract):
    tolerance = new_tolerance = 1e-6

    @pytest.fixture
    def filled(self, tmp_path):
        vectors = unit_rows(ROWS, OLD_WIDTH)
        ids = [3 * n for n in np.random.default_rng(7).permutation(ROWS).tolist()]
        texts = [f"document {key}" for key in ids]
        client = QdrantClient(path=tmp_path / "db")
        client.create_collection("docs.1", vectors_config=models.VectorParams(size=OLD_WIDTH, distance="Cosine"))
        client.upsert("docs.1", [models.PointStruct(id=key, vector=vector, payload={"body": text})
                               for key, vector, text in zip(ids, vectors.tolist(), texts)])
        client.update_collection_aliases([models.CreateAliasOperation(
            create_alias=models.CreateAlias(alias_name="docs", collection_name="docs.1"))])
        client.close()
        return Filled(open_store(f"qdrant:{tmp_path}/db#docs?text=body"), ids, vectors, texts)
