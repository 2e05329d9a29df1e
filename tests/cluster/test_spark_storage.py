# SPDX-License-Identifier: Apache-2.0
"""kedge.spark on storage of S3's protocol that fails."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from faulty_s3 import BUCKET, Storage
from kedge.parts import files
from made_up import COLUMNS, encoders, folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ROWS, PARTS, ERRORS = 3000, 6, 10


@pytest.fixture(scope="module")
def s3() -> Iterator[Storage]:
    from faulty_s3 import storage

    with storage() as server:
        yield server


def test_errors_of_reading_and_writing_pass(spark: SparkSession, s3: Storage, tmp_path: pathlib.Path) -> None:
    import kedge.spark

    folder = folder_of(tmp_path / "rows", encoders(ROWS), np.arange(ROWS), parts=PARTS)
    for path in sorted(folder.iterdir()):
        with s3.system.open_output_stream(f"{BUCKET}/rows/{path.name}") as stream:
            stream.write(path.read_bytes())
    with s3.failing("GET", "rows/part", ERRORS, cut=True) as cuts:
        bundle = kedge.spark.fit(s3.uri("rows"), COLUMNS, support=300)
    whole: dict[str, Any] = {"space": "a", "column": "emb_a", "into": "shared", "keep": ["id"]}
    kedge.spark.transform(bundle, str(folder), output=str(tmp_path / "out"), **whole)
    with s3.failing("GET", "rows/part", ERRORS) as reads, s3.failing("PUT", "partial", ERRORS) as writes:
        kedge.spark.transform(bundle, s3.uri("rows"), output=s3.uri("out"), **whole)
    assert cuts.count == reads.count == writes.count == ERRORS
    assert s3.names("out") == sorted(os.listdir(tmp_path / "out"))
    for path in sorted((tmp_path / "out").glob("*.parquet")):
        assert files.opened(files.inside(s3.uri("out"), path.name)).read() == pq.read_table(path)
