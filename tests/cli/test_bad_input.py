# SPDX-License-Identifier: Apache-2.0
"""What bad input gets: a clear sentence, the right exit code, and nothing lost."""
import json
import os
import select
import struct
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import Kedge
from safetensors.numpy import save_file

FIT = ("--anchors", 5, "--method", "random", "-o", "y.kedge")
TRANSFORM = ("transform", "x.kedge", "--space", "a", "-o", "rr.npy", "-i")


def test_row_counts_that_differ(kedge: Kedge, spaces: list[str]) -> None:
    np.save(kedge.folder / "short.npy", np.ones((150, 4), np.float32))
    kedge.refused(3, "fit", *spaces, "--space", "short=short.npy", *FIT,
                  says=["'a' has 200 rows", "'short' has 150", "same inputs"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_name_the_row(kedge: Kedge, spaces: list[str], bundle: str, value: float) -> None:
    x = np.load(kedge.folder / "a.npy")
    x[123, 4] = value
    np.save(kedge.folder / "bad.npy", x)
    words = ["row 123", "bad.npy", "NaN or infinite"]
    kedge.refused(3, "fit", "--space", "a=bad.npy", *FIT, says=words)
    kedge.refused(3, "attach", bundle, "--space", "c=bad.npy", "-o", bundle, says=words)
    kedge.refused(3, *TRANSFORM, "bad.npy", says=words)
    kedge.ok(*TRANSFORM, "bad.npy", "--rows", "0:123")
    kedge.refused(3, "compare", "bad.npy", "a.npy", says=words)


def test_dim_that_differs_from_the_map(kedge: Kedge, bundle: str) -> None:
    kedge.refused(3, *TRANSFORM, "b.npy", says=["'a' expects embeddings of 8 values", "b.npy has 5", "another encoder"])


def test_support_and_anchors_too_large(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, "--support", 201, says=["201", "only 200 rows"])
    kedge.refused(2, "fit", *spaces, *FIT, "--anchors", 61, "--support", 60,
                  says=["61 anchors", "only 60 support rows"])
    kedge.refused(2, "fit", *spaces, *FIT, "--anchors", 0, says="--anchors: 0 is too few")
    kedge.refused(2, "fit", *spaces, *FIT, "--support", 0, says="--support")


@pytest.mark.parametrize("code, ids, words",
                         [(2, [1, 2, 3, 4, 200], ["support id 200", "0:200"]), (2, [1, 2, 3, 4, -1], "support id -1"),
                          (2, [5, 1, 2, 3, 5], ["support id 5", "more than once"]),
                          (2, [1, 2], ["5 anchors", "only 2 support rows"]),
                          (3, [[1, 2]], "one-dimensional"), (3, [0.5, 1.5], "int64")])
def test_support_ids_that_cannot_be(kedge: Kedge, spaces: list[str], code: int, ids: list[Any],
                                    words: str | list[str]) -> None:
    np.save(kedge.folder / "ids.npy", np.array(ids))
    kedge.refused(code, "fit", *spaces, *FIT, "--support-ids", "ids.npy", says=words)


def test_no_support_ids_at_all(kedge: Kedge, spaces: list[str]) -> None:
    np.save(kedge.folder / "ids.npy", np.array([], np.int64))
    kedge.refused(3, "fit", *spaces, *FIT, "--support-ids", "ids.npy", says="no row numbers")


def test_an_output_never_destroys_an_input(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    kedge.refused(2, "fit", *spaces, "--anchors", 5, "-o", "a.npy", says=["'a.npy' is an input", "destroy"])
    kedge.refused(2, "attach", bundle, "--space", "c=a.npy", "-o", "a.npy", says="is an input")
    kedge.refused(2, "export", bundle, "--space", "a", "--format", "safetensors", "-o", bundle, says="is an input")


@pytest.mark.parametrize("scale, similarity, words",
                         [(1e120, "wip", "float32"), (1e160, "wip", "too large"), (1e39, "inner", "float32")])
def test_values_that_leave_float32(kedge: Kedge, spaces: list[str], scale: float, similarity: str,
                                   words: str | list[str]) -> None:
    np.save(kedge.folder / "big.npy", scale * np.load(kedge.folder / "a.npy").astype(np.float64))
    kedge.refused(3, "fit", "--space", "big=big.npy", *FIT, "--similarity", similarity, says=words)


def test_results_that_leave_float32(kedge: Kedge, spaces: list[str]) -> None:
    x = np.load(kedge.folder / "a.npy")
    np.save(kedge.folder / "big.npy", x * np.float32(1e18))
    kedge.ok("fit", "--space", "a=big.npy", *FIT, "--similarity", "inner")
    np.save(kedge.folder / "bigger.npy", x * np.float32(1e30))
    kedge.refused(3, "transform", "y.kedge", "--space", "a", "-i", "bigger.npy", "-o", "rr.npy",
                  says=["row 0", "does not fit in float32"])


@pytest.mark.parametrize("scale", [1e25, 1e-30])
def test_cosine_does_not_care_for_scale(kedge: Kedge, bundle: str, scale: float) -> None:
    kedge.ok("fit", "--space", "a=a.npy", *FIT, "--similarity", "cosine")
    np.save(kedge.folder / "scaled.npy", np.load(kedge.folder / "a.npy") * np.float32(scale))
    for name in ("a", "scaled"):
        kedge.ok("transform", "y.kedge", "--space", "a", "-i", f"{name}.npy", "-o", f"{name}_rr.npy")
    np.testing.assert_allclose(np.load(kedge.folder / "scaled_rr.npy"), np.load(kedge.folder / "a_rr.npy"), atol=1e-5)


def test_a_pipe_is_refused_at_once(kedge: Kedge, bundle: str) -> None:
    os.mkfifo(kedge.folder / "p.npy")
    kedge.refused(1, "transform", bundle, "--space", "a", "-i", "a.npy", "-o", "p.npy", says="p.npy")


def read_pipe(file: int, into: list[bytes]) -> None:
    """As any reader does: until nobody who writes has it open any more."""
    ready = select.poll()
    ready.register(file, select.POLLIN)
    while True:
        events = ready.poll()[0][1]
        if not events & select.POLLIN:
            break
        into.append(os.read(file, 1 << 16))
    os.close(file)


@pytest.mark.parametrize("command", ["fit", "attach", "export"])
def test_a_pipe_gets_the_whole_result(kedge: Kedge, command: str) -> None:
    np.save(kedge.folder / "long.npy", np.random.default_rng(0).normal(size=(20000, 100)).astype(np.float32))
    fit = ("fit", "--space", "a=long.npy", *FIT)
    kedge.ok(*fit)
    command_line = {"fit": fit[:-2], "attach": ("attach", "y.kedge", "--space", "c=long.npy"),
            "export": ("export", "y.kedge", "--space", "a")}[command]
    ending = "safetensors" if command == "export" else "kedge"
    kedge.ok(*command_line, "-o", f"file.{ending}")
    os.mkfifo(kedge.folder / f"pipe.{ending}")
    got: list[bytes] = []
    reader = threading.Thread(target=read_pipe, daemon=True, args=(
        os.open(kedge.folder / f"pipe.{ending}", os.O_RDONLY | os.O_NONBLOCK), got))
    reader.start()
    kedge.ok(*command_line, "-o", f"pipe.{ending}")
    reader.join(60)
    assert b"".join(got) == (kedge.folder / f"file.{ending}").read_bytes()


def test_a_pipe_that_nobody_reads_is_refused_before_the_work(kedge: Kedge) -> None:
    os.mkfifo(kedge.folder / "p.kedge")
    kedge.refused(1, "fit", "--space", "a=missing.npy", "--anchors", 5, "-o", "p.kedge", says="p.kedge")


def test_a_ridge_that_would_not_be_used(kedge: Kedge, bundle: str) -> None:
    words = "--ridge was given, but spaces are attached by mixture; give --attach ridge"
    kedge.refused(2, "attach", bundle, "--space", "c=a.npy", "-o", "c.kedge", "--ridge", 0.5, says=words)


def test_too_many_threads(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, "--threads", 100000, says="threads is 100000, expected 1 to 1024")


def test_unknown_spaces_list_the_known(kedge: Kedge, bundle: str) -> None:
    for command in (["transform", bundle, "-i", "a.npy", "-o", "rr.npy"], ["export", bundle, "-o", "c.npy"]):
        kedge.refused(2, *command, "--space", "clip", says=["no space 'clip'", "a, b"])


def test_names_that_clash_or_cannot_be(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    kedge.refused(2, "fit", *spaces, "--space", "a=b.npy", *FIT, says="two spaces are called 'a'")
    kedge.refused(2, "attach", bundle, "--space", "a=a.npy", "-o", bundle,
                  says=["already has a space 'a'", "--replace"])
    kedge.refused(2, "fit", "--space", "=a.npy", *FIT, says="space name ''")


def test_rows_that_are_not_there(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, "--rows", "0:300", says=["rows 0:300", "rows 0:200"])
    for rows in ("7", "5:5", "9:3", "a:b", "-1:5", "1:2:3", "1.5:9"):
        kedge.refused(2, "fit", *spaces, *FIT, f"--rows={rows}", says="rows")


def test_files_that_are_missing_or_of_no_known_kind(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(3, "fit", "--space", "a=nowhere.npy", *FIT, says=["nowhere.npy", "No such file"])
    (kedge.folder / "a.txt").write_text("1 2 3")
    kedge.refused(3, "fit", "--space", "a=a.txt", *FIT, says=[".npy", ".safetensors", ".fvecs"])
    (kedge.folder / "folder.npy").mkdir()
    kedge.refused(3, "fit", "--space", "a=folder.npy", *FIT, says="not a regular file")
    np.save(kedge.folder / "flat.npy", np.ones(200, np.float32))
    kedge.refused(3, "fit", "--space", "a=flat.npy", *FIT, says=["flat.npy", "rows x dim"])
    np.save(kedge.folder / "none.npy", np.ones((0, 5), np.float32))
    kedge.refused(3, "fit", "--space", "a=none.npy", *FIT, says="no rows")
    np.save(kedge.folder / "same.npy", np.ones((200, 5), np.float32))
    kedge.refused(3, "fit", "--space", "a=same.npy", *FIT, says="all the same")
    np.save(kedge.folder / "complex.npy", np.ones((20, 5), np.complex64))
    kedge.refused(3, "fit", "--space", "a=complex.npy", *FIT, says="'<c8'")


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


HOSTILE_NPY = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "header beyond the file": b"\x93NUMPY\x01\x00\xff\xff{}",
    "huge v2 header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "cut short": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2), }", b"\0" * 79),
    "oversized": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2), }", b"\0" * 81),
    "overflowing shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
    "negative shape": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }"),
    "pickled objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }", b"\0" * 8),
    "not a dictionary": npy("__import__('os').system('true')"),
    "deep nesting": npy("{'shape': " + "(" * 60000),
}


@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_hostile_npy(kedge: Kedge, bundle: str, name: str) -> None:
    (kedge.folder / "evil.npy").write_bytes(HOSTILE_NPY[name])
    kedge.refused(3, *TRANSFORM, "evil.npy", says="evil.npy")
    kedge.refused(3, "fit", "--space", "a=evil.npy", *FIT, says="evil.npy")


def safetensors(header: dict[str, Any] | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin: int, end: int, shape: Sequence[int] = (2, 2), dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


HOSTILE_SAFETENSORS = {
    "empty": b"",
    "huge header": safetensors({}, length=2**63),
    "not json": safetensors(b"{"),
    "deep nesting": safetensors(b'{"x":' + b"[" * 100000 + b"]" * 100000 + b"}"),
    "overlap": safetensors({"x": tensor(0, 16), "y": tensor(8, 24)}, b"\0" * 24),
    "hole": safetensors({"x": tensor(0, 16), "y": tensor(20, 36)}, b"\0" * 36),
    "beyond the file": safetensors({"x": tensor(0, 16)}, b"\0" * 15),
    "oversized": safetensors({"x": tensor(0, 16)}, b"\0" * 17),
    "negative": safetensors({"x": tensor(-16, 0)}, b"\0" * 16),
    "overflow": safetensors({"x": tensor(0, 0, (2**62, 2**62))}),
    "twice": safetensors(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                         b'"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4),
}


@pytest.mark.parametrize("name", HOSTILE_SAFETENSORS)
def test_hostile_safetensors(kedge: Kedge, bundle: str, name: str) -> None:
    for file in ("evil.safetensors", "evil.kedge"):
        (kedge.folder / file).write_bytes(HOSTILE_SAFETENSORS[name])
    kedge.refused(3, *TRANSFORM, "evil.safetensors#x", says="evil.safetensors")
    kedge.refused(3, "inspect", "evil.kedge", says="evil.kedge")


def test_tensors_that_are_not_named_or_not_there(kedge: Kedge, bundle: str) -> None:
    save_file({"x": np.ones((3, 8), np.float32), "y": np.ones((3, 8), np.float32)}, kedge.folder / "two.safetensors")
    kedge.refused(3, *TRANSFORM, "two.safetensors", says=["2 tensors", "two.safetensors#NAME", "x, y"])
    kedge.refused(3, *TRANSFORM, "two.safetensors#z", says=["no tensor 'z'", "x, y"])


def test_files_that_are_no_bundles(kedge: Kedge, bundle: str) -> None:
    kedge.refused(3, "inspect", "a.npy", says="a.npy: this is an .npy file, not a bundle")
    np.savez(kedge.folder / "a.npz", x=np.ones(3))
    kedge.refused(3, "inspect", "a.npz", says="this is a zip archive, as .npz and .pt files are, not a bundle")
    for name, first, kind in (("a.parquet", b"PAR1\x15\x04\x15\x80", "a Parquet file"),
                              ("a.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
                              ("a.csv", b"id,vector\n1,2\n", "a text file"),
                              ("a.onnx", b"\x08\x0a\x12\x07pytorch", "an ONNX model")):
        (kedge.folder / name).write_bytes(first + bytes(100))
        kedge.refused(3, "inspect", name, says=f"{name}: this is {kind}, not a bundle")
    kedge.ok("export", bundle, "--space", "a", "-o", "map.onnx")
    kedge.refused(3, "inspect", "map.onnx", says="this is an ONNX model, not a bundle")
    save_file({"x": np.ones(3, np.float32)}, kedge.folder / "model.safetensors")
    kedge.refused(3, "inspect", "model.safetensors", says="not a bundle of kedge")
    whole = (kedge.folder / bundle).read_bytes()
    (kedge.folder / "cut.kedge").write_bytes(whole[:-100])
    kedge.refused(3, "attach", "cut.kedge", "--space", "c=a.npy", "-o", "cut.kedge", says="cut.kedge")


def test_a_full_disk(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    kedge.refused(1, "fit", *spaces, "--anchors", 5, "-o", "/dev/full",
                  says=["/dev/full", "No space left", "free some space"])
    limited = ["bash", "-c", 'ulimit -f 4; exec "$@"', "_", kedge.program]  # 4 KB a file
    before = kedge.snapshot()
    for command in (("attach", bundle, "--space", "c=a.npy", "-o", bundle), (*TRANSFORM, "a.npy")):
        done = subprocess.run([*limited, *command], cwd=kedge.folder, capture_output=True, text=True)
        assert done.returncode == 1 and "cannot write" in done.stderr, done.stderr
        assert kedge.snapshot() == before


def test_outputs_that_cannot_be_written(kedge: Kedge, spaces: list[str], bundle: str) -> None:
    kedge.refused(1, "fit", *spaces, "--anchors", 5, "-o", "no/such/folder/x.kedge",
                  says=["no/such/folder", "create the folder first"])
    (kedge.folder / "taken").mkdir()
    kedge.refused(1, "fit", *spaces, "--anchors", 5, "-o", "taken", says="directory")
    kedge.refused(2, *TRANSFORM[:-2], "rr.bin", "-i", "a.npy", says="rr.bin.npy")
    kedge.refused(2, "export", bundle, "--space", "a", "-o", "a.onnxx", says="--format")


def test_attach_of_too_few_rows(kedge: Kedge, bundle: str) -> None:
    np.save(kedge.folder / "few.npy", np.random.default_rng(0).normal(size=(30, 4)))
    kedge.refused(2, "attach", bundle, "--space", "c=few.npy", "-o", bundle,
                  says=["few.npy has rows 0:30", "same order"])
    kedge.refused(3, "attach", bundle, "--space", "c=few.npy", "--support-rows", "-o", bundle,
                  says=["60 support rows", "few.npy has 30"])


def test_labels_of_text_are_told_how_to_become_numbers(kedge: Kedge, spaces: list[str]) -> None:
    np.save(kedge.folder / "y.npy", np.array(["c3", "c1"] * 100))
    kedge.refused(3, "stitch", *spaces, "--labels", "y.npy", "--train", "0:150", "--test", "150:200", "-o", "out",
                  says=["y.npy: it holds text (numpy type '<U2')", "np.unique(labels, return_inverse=True)[1]"])


def test_compare_calls_files_by_their_names(kedge: Kedge, spaces: list[str]) -> None:
    rows = np.load(kedge.folder / "a.npy")
    rows[7, 2] = np.nan
    np.save(kedge.folder / "b=2.npy", rows)
    kedge.refused(3, "compare", "a.npy", "b=2.npy", says="space 'b_2.npy': row 7 of b=2.npy holds a value that is NaN")


def test_compare_of_different_shapes(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(3, "compare", "a.npy", "b.npy", says=["200 x 8", "200 x 5", "one bundle"])


def test_shrinkage_out_of_range(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fit", *spaces, *FIT, "--shrinkage", "1.5", says="shrinkage is 1.5")
    kedge.refused(2, "fit", *spaces, *FIT, "--epsilon=-1", says="epsilon is -1")


STITCH = ("--train", "0:150", "--test", "150:", "--methods", "random-wip", "-o", "out")
ON_A_DEVICE = {
    "fit": ("--space", "a=a.npy", *FIT),
    "attach": ("x.kedge", "--space", "c=a.npy", "-o", "y.kedge"),
    "transform": (*TRANSFORM[1:], "a.npy"),
    "translate": ("x.kedge", "--from", "a", "--to", "b", "-i", "a.npy", "-o", "b2.npy"),
    "compare": ("a.npy", "a.npy"),
    "stitch": ("--space", "a=a.npy", "--space", "b=b.npy", *STITCH),
    "sweep": ("--space", "a=a.npy", "--space", "b=b.npy", *STITCH),
}


@pytest.mark.parametrize("command", ON_A_DEVICE)
def test_cuda_says_how_to_get_it(kedge: Kedge, bundle: str, command: str) -> None:
    if len(kedge.json("devices")) > 1:
        pytest.skip("this machine has a GPU")
    kedge.refused(1, command, *ON_A_DEVICE[command], "--device", "cuda", says="--device cpu")
    kedge.refused(2, command, *ON_A_DEVICE[command], "--device", "tpu", says=["tpu", "cuda"])


@pytest.mark.parametrize("command", ["fit", "transform", "translate", "stitch", "sweep"])
def test_unknown_precisions_are_refused(kedge: Kedge, bundle: str, command: str) -> None:
    kedge.refused(2, command, *ON_A_DEVICE[command], "--precision", "fp8", says=["fp8", "fp32"])


@pytest.mark.parametrize("command", ["transform", "translate"])
def test_bfloat16_is_for_learning_alone(kedge: Kedge, bundle: str, command: str) -> None:
    kedge.refused(2, command, *ON_A_DEVICE[command], "--precision", "bf16", says=["bf16", "tf32"])
    assert "bf16" not in kedge.ok(command, "--help").stdout
