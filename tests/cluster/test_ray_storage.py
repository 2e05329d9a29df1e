# SPDX-License-Identifier: Apache-2.0
"""kedge.ray on storage of S3's protocol that fails: the errors pass, and a driver that is killed goes on."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import kedge
import kedge.ray
import numpy as np
import pyarrow.parquet as pq
import pytest
from faulty_s3 import BUCKET, Storage
from kedge.parts import files
from made_up import COLUMNS, encoders, folder_of

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nodes")]

ROWS, PARTS, ERRORS = 3000, 6, 10
PARTS_KILLED = 200  # so many that a driver is killed in the middle


@pytest.fixture(scope="module")
def s3() -> Iterator[Storage]:
    from faulty_s3 import storage

    with storage() as server:
        yield server


def test_errors_of_reading_and_writing_pass(s3: Storage, tmp_path: pathlib.Path) -> None:
    folder = folder_of(tmp_path / "rows", encoders(ROWS), np.arange(ROWS), parts=PARTS)
    for path in sorted(folder.iterdir()):
        with s3.system.open_output_stream(f"{BUCKET}/rows/{path.name}") as stream:
            stream.write(path.read_bytes())
    with s3.failing("GET", "rows/part", ERRORS, cut=True) as cuts:
        bundle = kedge.ray.fit(s3.uri("rows"), COLUMNS, support=300)
    whole: dict[str, Any] = {"space": "a", "column": "emb_a", "into": "shared", "keep": ["id"]}
    kedge.ray.transform(bundle, str(folder), output=str(tmp_path / "out"), **whole)
    with s3.failing("GET", "rows/part", ERRORS) as reads, s3.failing("PUT", "partial", ERRORS) as writes:
        kedge.ray.transform(bundle, s3.uri("rows"), output=s3.uri("out"), **whole)
    assert cuts.count == reads.count == writes.count == ERRORS
    assert s3.names("out") == sorted(os.listdir(tmp_path / "out"))
    for path in sorted((tmp_path / "out").glob("*.parquet")):
        assert files.opened(files.inside(s3.uri("out"), path.name)).read() == pq.read_table(path)


DRIVER = """
import sys, kedge.ray, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
kedge.ray.transform(sys.argv[2], sys.argv[3], output=sys.argv[4], space="a", column="emb_a", into="shared", keep=["id"])
"""


def test_a_driver_that_is_killed_goes_on(tmp_path: pathlib.Path) -> None:
    import ray

    folder = folder_of(tmp_path / "rows", encoders(24_000), np.arange(24_000), parts=PARTS_KILLED)
    kedge.ray.fit(str(folder), COLUMNS, support=300).save(tmp_path / "shared.kedge")
    output = tmp_path / "out"
    words = [tmp_path / "shared.kedge", folder, output]
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, ray.get_runtime_context().gcs_address, *map(str, words)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while driver.poll() is None and len(list(output.glob("*.parquet"))) < 5:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL, "it was done before it was killed"
    there = {path.name: path.stat().st_ino for path in output.glob("*.parquet")}
    assert 5 <= len(there) < PARTS_KILLED and not (output / "_kedge.json").exists()
    for place in (output, tmp_path / "undisturbed"):
        kedge.ray.transform(tmp_path / "shared.kedge", folder, output=place, space="a", column="emb_a", into="shared",
                            keep=["id"])
    assert {name: (output / name).stat().st_ino for name in there} == there
    names = sorted(os.listdir(tmp_path / "undisturbed"))
    assert sorted(os.listdir(output)) == names
    assert all((output / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes() for name in names)
