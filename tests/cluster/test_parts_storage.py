# SPDX-License-Identifier: Apache-2.0
"""Maps of folders on storage that fails, without an engine: what is tried again, and where a second run goes on."""
from __future__ import annotations

import errno
import json
import os
import pathlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from bad_rows import broken
from conftest import ROWS
from faulty_s3 import BUCKET, Storage
from kedge import Bundle
from kedge._arrow import ReadError
from kedge.parts import apply, files, folder, manifest, storage
from made_up import Spaces, folder_of

PARTS = 4


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAITS", (0, 0, 0))


@pytest.fixture
def application(bundle: Bundle) -> apply.Application:
    return apply.transformation(bundle, "a", "emb_a", "shared", False)


@pytest.fixture
def source(tmp_path: pathlib.Path, spaces: Spaces) -> str:
    return str(folder_of(tmp_path / "rows", spaces, np.arange(ROWS), parts=PARTS))


@pytest.fixture(scope="module")
def s3() -> Iterator[Storage]:
    from faulty_s3 import storage as started

    with started() as server:
        yield server


def run(plan: folder.Plan, parts: int | None = None) -> list[str]:
    """Writes some of what is left, or all, and says what that was."""
    for part in plan.left[:parts]:
        plan.writer(part)
    if parts is None:
        plan.finish()
    return [part.name for part in plan.left[:parts]]


def test_a_second_run_goes_on(application: apply.Application, source: str, tmp_path: pathlib.Path) -> None:
    output, whole = tmp_path / "out", tmp_path / "whole"
    run(folder.planned(application, source, str(whole), ["id"]))
    assert len(run(folder.planned(application, source, str(output), ["id"]), 3)) == 3
    assert not (output / manifest.NAME).exists()
    cut = output / "part-001.parquet"
    cut.write_bytes(cut.read_bytes()[:-100])
    short = output / "part-002.parquet"
    pq.write_table(pq.read_table(short).slice(0, 5), short)  # of the same map by its words, with fewer rows
    kept = (output / "part-000.parquet").stat().st_ino
    again = run(folder.planned(application, source, str(output), ["id"]))
    assert again == ["part-001.parquet", "part-002.parquet", "part-003.parquet"]
    assert (output / "part-000.parquet").stat().st_ino == kept
    listed = json.loads((output / manifest.NAME).read_text())["parts"]
    for path in sorted(whole.iterdir()):
        assert (output / path.name).read_bytes() == path.read_bytes()
        if path.suffix == ".parquet":
            assert listed[path.name] == {"rows": pq.read_metadata(path).num_rows, "bytes": path.stat().st_size}
    assert run(folder.planned(application, source, str(output), ["id"])) == []  # all is there


def test_bytes_that_are_missing_inside(application: apply.Application, source: str, tmp_path: pathlib.Path) -> None:
    run(folder.planned(application, source, str(tmp_path / "out"), ["id"]))
    cut = tmp_path / "out" / "part-001.parquet"
    cut.write_bytes(cut.read_bytes()[:100] + cut.read_bytes()[200:])
    assert run(folder.planned(application, source, str(tmp_path / "out"), ["id"])) == ["part-001.parquet"]
    cut.write_bytes(b"")  # as a crash of the machine may leave it
    assert run(folder.planned(application, source, str(tmp_path / "out"), ["id"])) == ["part-001.parquet"]


@pytest.mark.parametrize("content, error, sentence", [
    (b"not rows", FileExistsError, "already has Parquet files, such as part-001.parquet, that are not of this map"),
    (b"PAR1 of nobody knows whom PAR1", ReadError, "cannot read '.*part-001.parquet'"),
])
def test_files_that_cannot_be_read_stay(application: apply.Application, source: str, tmp_path: pathlib.Path,
                                        content: bytes, error: type[OSError], sentence: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-001.parquet").write_bytes(content)
    with pytest.raises(error, match=sentence):
        folder.planned(application, source, str(tmp_path / "out"), ["id"])
    assert (tmp_path / "out" / "part-001.parquet").read_bytes() == content


def test_the_name_of_a_map_is_of_what_it_is_told(application: apply.Application, source: str, tmp_path: pathlib.Path,
                                                 bundle: Bundle) -> None:
    bundle.save(tmp_path / "shared.kedge")
    again = apply.transformation(tmp_path / "shared.kedge", "a", "".join(["emb_", "a"]), "shared", False)
    names = {folder.planned(one, source, str(tmp_path / "out"), [column]).writer.name
             for one in (application, again) for column in (application.column, again.column)}
    assert len(names) == 1


def test_all_is_there_only_when_it_is(application: apply.Application, source: str, tmp_path: pathlib.Path,
                                      bundle: Bundle) -> None:
    output = tmp_path / "out"
    run(folder.planned(application, source, str(output), ["id"]))
    (output / "part-001.parquet").unlink()
    plan = folder.planned(application, source, str(output), ["id"])
    assert not (output / manifest.NAME).exists()
    other = folder.planned(application, source, str(output), ["id"])
    run(other, 1)
    (output / "part-002.parquet").unlink()
    with pytest.raises(OSError, match="has lost part-002.parquet while others were written; run it again"):
        run(plan)
    assert not (output / manifest.NAME).exists()


def test_two_maps_at_once(application: apply.Application, source: str, tmp_path: pathlib.Path, bundle: Bundle) -> None:
    other = apply.transformation(bundle, "a", "emb_a", "shared", True)
    plans = [folder.planned(one, source, str(tmp_path / "out"), ["id"]) for one in (application, other)]
    run(plans[0], 2)
    plans[1].writer(plans[1].parts[-1])
    for plan in plans:
        with pytest.raises(FileExistsError, match="already has Parquet files, such as .*, that are not of this map"):
            plan.finish()
    assert not (tmp_path / "out" / manifest.NAME).exists()


def test_rows_that_change_while_they_are_mapped(application: apply.Application, source: str,
                                                tmp_path: pathlib.Path) -> None:
    plan = folder.planned(application, source, str(tmp_path / "out"), ["id"])
    path = os.path.join(source, "part-000.parquet")
    rows = pq.read_table(path)
    pq.write_table(rows.slice(0, 100), path, row_group_size=5)
    with pytest.raises(ValueError, match=f"part-000.parquet has changed .* rows where it had {rows.num_rows}; run"):
        plan.writer(plan.parts[0])
    assert os.listdir(tmp_path / "out") == []


def test_why_a_map_failed_is_told(application: apply.Application, source: str, tmp_path: pathlib.Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    broken(pathlib.Path(source), "not_a_number")
    monkeypatch.setattr(storage, "clear", failing(9, OSError("AWS Error ACCESS_DENIED during ListObjectsV2")))
    plan = folder.planned(application, source, str(tmp_path / "out"), ["id"])
    with pytest.raises(ValueError, match="row 7 has a vector that holds NaN"), plan.writing():
        plan.writer(plan.parts[1])


@pytest.mark.parametrize("change", ["bundle", "option", "rows", "a file of someone else's"])
def test_files_of_another_map_stay(application: apply.Application, source: str, tmp_path: pathlib.Path, bundle: Bundle,
                                   change: str) -> None:
    output = tmp_path / "out"
    run(folder.planned(application, source, str(output), ["id"]), 2)
    if change == "bundle":
        application = apply.transformation(bundle, "b", "emb_b", "shared", False)
    elif change == "option":
        application = apply.transformation(bundle, "a", "emb_a", "shared", True)
    elif change == "rows":
        path = os.path.join(source, "part-003.parquet")
        pq.write_table(pq.read_table(path).slice(1), path)
    else:
        pq.write_table(pq.read_table(os.path.join(source, "part-003.parquet")), output / "x.parquet")
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    with pytest.raises(FileExistsError, match="already has Parquet files, such as .*, that are not of this map"):
        folder.planned(application, source, str(output), ["id"])
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before


def failing(times: int, error: OSError) -> Any:
    left = [error] * times

    def work(*arguments: Any) -> str:
        if left:
            raise left.pop()
        return "done"

    return work


def test_what_may_pass_is_tried_again() -> None:
    slow, local = OSError("AWS Error SLOW_DOWN during PutObject"), OSError(errno.EIO, "input/output error")
    assert storage.retried("s3://bucket/x", failing(3, slow)) == "done"
    assert storage.retried("/x", failing(3, local)) == "done"
    with pytest.raises(OSError, match=r"SLOW_DOWN.*\(tried 4 times\)"):
        storage.retried("s3://bucket/x", failing(4, slow))
    for path, error in (("/x", slow), ("/x", OSError(errno.ENOSPC, "full")),
                        ("s3://bucket/x", PermissionError(errno.EACCES, "no")),
                        ("s3://bucket/x", OSError("AWS Error ACCESS_DENIED during PutObject")),
                        ("s3://bucket/x", OSError("Bucket 'bucket' not found. To create buckets, enable the")),
                        ("s3://bucket/x", OSError("Unable to parse ExceptionName: ExpiredToken Message: it has")),
                        ("hdfs://name/x", OSError("Unable to load libjvm")),
                        ("hdfs://name/x", OSError("Prior attempt to load libhdfs failed"))):
        with pytest.raises(OSError) as caught:
            storage.retried(path, failing(1, error))
        assert caught.value is error


def test_nothing_is_tried_again_by_whoever_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=failing(100, OSError("AWS Error SLOW_DOWN"))))
    with pytest.raises(OSError, match=r"^cannot read 's3://bucket/x': AWS Error SLOW_DOWN \(tried 4 times\)$"):
        storage.retried("s3://bucket/x", lambda: storage.system_of("s3://bucket/x"))
    assert len(slept) == 3


def uploaded(s3: Storage, source: str, name: str) -> str:
    for path in sorted(os.listdir(source)):
        with s3.system.open_output_stream(f"{BUCKET}/{name}/{path}") as stream:
            stream.write(pathlib.Path(source, path).read_bytes())
    return s3.uri(name)


@pytest.mark.long
@pytest.mark.parametrize("method, path, cut", [("PUT", "partial", False), ("POST", "partial", False),
                                               ("PUT", "out-", False), ("GET", "rows-", False), ("GET", "rows-", True)])
def test_errors_of_storage_pass(s3: Storage, application: apply.Application, source: str, tmp_path: pathlib.Path,
                                method: str, path: str, cut: bool) -> None:
    """More of them than pyarrow itself tries again."""
    name = f"{method}-{len(path)}-{cut}"
    given, output = uploaded(s3, source, f"rows-{name}"), s3.uri(f"out-{name}")
    run(folder.planned(application, source, str(tmp_path / "local"), ["id"]))
    with s3.failing(method, path, 10, cut) as fault:
        run(folder.planned(application, given, output, ["id"]))
    assert fault.count == 10
    assert s3.names(f"out-{name}") == sorted(os.listdir(tmp_path / "local"))
    for number in range(PARTS):
        file = f"part-{number:03d}.parquet"
        assert files.opened(files.inside(output, file)).read() == pq.read_table(tmp_path / "local" / file)


@pytest.mark.long
def test_an_attempt_that_fails_leaves_what_another_one_wrote(s3: Storage, application: apply.Application,
                                                             source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAITS", ())
    given, output = uploaded(s3, source, "rows-twice"), s3.uri("out-twice")
    plan = folder.planned(application, given, output, ["id"])
    run(plan)
    before = {name: s3.system.open_input_file(f"{BUCKET}/out-twice/{name}").read() for name in s3.names("out-twice")}
    with s3.failing("PUT", "out-twice", 1000), pytest.raises(OSError, match="tried once"):
        plan.writer(plan.parts[1])
    plan.finish()
    assert before == {name: s3.system.open_input_file(f"{BUCKET}/out-twice/{name}").read()
                      for name in s3.names("out-twice")}


@pytest.mark.long
def test_an_attempt_that_fails_leaves_nothing(s3: Storage, application: apply.Application, source: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a part of a file at its name, which a reader would take for whole."""
    monkeypatch.setattr(storage, "WAITS", ())
    given, output = uploaded(s3, source, "rows-none"), s3.uri("out-none")
    plan = folder.planned(application, given, output, ["id"])
    with s3.failing("GET", "rows-none/part-000", 10_000, cut=True), pytest.raises(OSError, match="cannot read"):
        plan.writer(plan.parts[0])
    assert s3.names("out-none") == []


@pytest.mark.long
def test_a_file_of_another_map_stays_while_it_cannot_be_read(s3: Storage, application: apply.Application, source: str,
                                                             bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAITS", ())
    output = s3.uri("out-other")
    run(folder.planned(application, source, output, ["id"]), 1)
    other = apply.transformation(bundle, "a", "emb_a", "shared", True)
    with s3.failing("GET", "out-other/part-000", 10_000), pytest.raises(ReadError, match="cannot read .*part-000"):
        folder.planned(other, source, output, ["id"])


def without_copies(s3: Storage) -> Any:
    """As S3 answers for objects above its limit."""
    def answer(environ: dict[str, Any], start: Any) -> Any:
        if "HTTP_X_AMZ_COPY_SOURCE" not in environ:
            return s3.answer(environ, start)
        start("400 Bad Request", [("Content-Type", "application/xml")])
        return [b"<Error><Code>InvalidRequest</Code><Message>The copy source is larger</Message></Error>"]

    return answer


@pytest.mark.long
def test_what_s3_does_not_copy(s3: Storage, application: apply.Application, source: str,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAITS", ())
    monkeypatch.setattr(storage, "COPIED_AT_ONCE", 100)
    monkeypatch.setattr(s3.server, "app", without_copies(s3))
    plan = folder.planned(application, source, s3.uri("out-large"), ["id"])
    with s3.failing("GET", "partial", 10_000, cut=True), pytest.raises(OSError, match="tried once"):
        plan.writer(plan.parts[0])
    assert s3.names("out-large") == []
    run(plan)
    assert s3.names("out-large") == sorted([manifest.NAME, *os.listdir(source)])
