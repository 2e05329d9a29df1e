# SPDX-License-Identifier: Apache-2.0
"""Options, file kinds and the ways results and messages leave the command."""
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Kedge
from safetensors.numpy import save_file


def fit(kedge: Kedge, spaces: list[str], *more: object) -> Any:
    return kedge.json("fit", *spaces, "--anchors", 5, "--method", "random", *more, "-o", "y.kedge")


def test_help_and_version(kedge: Kedge) -> None:
    assert "attach" in kedge.ok("--help").stdout
    assert kedge.ok("--version").stdout.startswith("kedge 0.")
    for command in ("fit", "attach", "transform", "compare", "inspect", "export", "devices", "demo"):
        assert "--json" in kedge.ok(command, "--help").stdout


def test_openblas_uses_kernels_of_this_processor(kedge: Kedge, monkeypatch: pytest.MonkeyPatch) -> None:
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("OpenBLAS mistakes only x86 processors for older ones")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert "Prescott" not in kedge.ok("devices").stdout
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")  # the user's own choice stands
    assert "OpenBLAS for Haswell" in kedge.ok("devices").stdout


@pytest.mark.parametrize("arguments", [[], ["sail"], ["fit"], ["fit", "--space"], ["fit", "--sapce", "a=b"],
                                       ["compare", "a.npy"],
                                       ["fit", "--space", "a=a.npy", "--anchors", "many", "-o", "x"],
                                       ["fit", "--space", "a=a.npy", "--method", "magic", "-o", "x"]])
def test_wrong_usage_is_two_and_points_to_help(kedge: Kedge, arguments: list[str]) -> None:
    kedge.refused(2, *arguments, says="--help")


def test_the_wrong_word_is_named(kedge: Kedge, spaces: list[str]) -> None:
    kedge.refused(2, "fitt", says=["there is no command 'fitt'", "attach"])
    kedge.refused(2, "fit", "x.npy", says="'x.npy' was not expected")
    kedge.refused(2, "fit", *spaces, "-o", "y.kedge", "--support", 0, says="1 or more")
    kedge.refused(2, "attach", "x.kedge", "--space", "a=a.npy", "--space", "b=b.npy", "-o", "y.kedge", says="--space")


def test_results_to_stdout_messages_to_stderr(kedge: Kedge, spaces: list[str]) -> None:
    loud = kedge.ok("fit", *spaces, "--anchors", 5, "--method", "random", "-o", "y.kedge")
    assert loud.stdout == "" and "wrote y.kedge" in loud.stderr
    quiet = kedge.ok("fit", *spaces, "--anchors", 5, "-o", "y.kedge", "--quiet")
    assert quiet.stdout == quiet.stderr == ""
    both = kedge.ok("fit", *spaces, "--anchors", 5, "--method", "random", "-o", "y.kedge", "--json")
    assert json.loads(both.stdout)["anchors"] == 5 and "wrote" in both.stderr


def test_a_config_file_gives_options(kedge: Kedge, spaces: list[str]) -> None:
    (kedge.folder / "flat.toml").write_text(
        'space = ["a=a.npy", "b=b.npy"]\nanchors = 7\nmethod = "random"\nsimilarity = "cosine"\nout = "y.kedge"\n')
    assert kedge.json("fit", "--config", "flat.toml")["anchors"] == 7
    info = kedge.json("inspect", "y.kedge")
    assert info["similarity"] == "cosine" and len(info["spaces"]) == 2
    assert kedge.json("fit", "--config", "flat.toml", "--anchors", 6)["anchors"] == 6, "the command line wins"
    (kedge.folder / "many.toml").write_text(
        '[fit]\nspace = ["a=a.npy"]\nanchors = 8\nout = "y.kedge"\n[transform]\nrows = "0:3"\n')
    assert kedge.json("fit", "--config", "many.toml")["anchors"] == 8
    (kedge.folder / "wrong.toml").write_text("ankers = 3\n")
    kedge.refused(2, "fit", *spaces, "-o", "z.kedge", "--config", "wrong.toml", says="ankers")
    (kedge.folder / "section.toml").write_text("[fitt]\nanchors = 3\n")
    kedge.refused(2, "fit", *spaces, "-o", "z.kedge", "--config", "section.toml", says="[fitt]")
    kedge.refused(3, "fit", *spaces, "-o", "z.kedge", "--config", "missing.toml", says="missing.toml")


def test_spaces_are_named_by_their_files_unless_named(kedge: Kedge, spaces: list[str]) -> None:
    assert [s["name"] for s in fit(kedge, ["--space", "a.npy", "--space", "beta=b.npy"])["spaces"]] == ["a", "beta"]


def test_seeds_repeat_and_differ(kedge: Kedge, spaces: list[str]) -> None:
    def ids(seed: int) -> list[int]:
        fit(kedge, spaces, "--support", 20, "--seed", seed)
        found: list[int] = kedge.json("inspect", "y.kedge")["support_ids"]
        return found

    assert ids(1) == ids(1) != ids(2)
    assert ids(1) == sorted(set(ids(1)))


def test_support_ids_are_used_as_given(kedge: Kedge, spaces: list[str]) -> None:
    np.save(kedge.folder / "ids.npy", np.array([9, 3, 150, 60, 8]))
    fit(kedge, spaces, "--support-ids", "ids.npy")
    assert kedge.json("inspect", "y.kedge")["support_ids"] == [9, 3, 150, 60, 8]


@pytest.mark.parametrize("rows, count", [("0:200", 200), ("10:", 190), (":30", 30), ("5:6", 1)])
def test_rows_are_half_open(kedge: Kedge, bundle: str, rows: str, count: int) -> None:
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "rr.npy", "--rows", rows)
    assert np.load(kedge.folder / "rr.npy").shape == (count, 10)


@pytest.mark.parametrize("similarity", ["wip", "cosine", "euclidean", "inner", "angular", "manhattan"])
@pytest.mark.parametrize("method", ["param", "consensus", "random", "kmeans", "fps"])
def test_every_method_with_every_similarity(kedge: Kedge, spaces: list[str], method: str, similarity: str) -> None:
    fit(kedge, spaces, "--method", method, "--similarity", similarity)
    kedge.ok("transform", "y.kedge", "--space", "b", "-i", "b.npy", "-o", "rr.npy")
    assert np.isfinite(np.load(kedge.folder / "rr.npy")).all()


def variants(x: np.ndarray) -> dict[str, Callable[[pathlib.Path], object]]:
    """The same matrix in every way kedge reads, as file name -> writer."""
    half = x.astype(np.float16)
    fvecs = np.hstack([np.full((len(x), 1), x.shape[1], dtype="<i4").view("<f4"), x.astype("<f4")])
    return {
        "f2.npy": lambda p: np.save(p, half),
        "f4.npy": lambda p: np.save(p, half.astype(np.float32)),
        "f8.npy": lambda p: np.save(p, half.astype(np.float64)),
        "big.npy": lambda p: np.save(p, half.astype(">f4")),
        "bigf2.npy": lambda p: np.save(p, half.astype(">f2")),
        "fortran.npy": lambda p: np.save(p, np.asfortranarray(half)),
        "x.fvecs": lambda p: fvecs.astype("<f4").tofile(p),
        "one.safetensors": lambda p: save_file({"x": half}, p),
        "two.safetensors": lambda p: save_file({"x": half.astype(np.float64), "y": half}, p),
    }


def test_every_file_kind_gives_the_same_result(kedge: Kedge, bundle: str) -> None:
    x = np.load(kedge.folder / "a.npy").astype(np.float16).astype(np.float32)
    results = {}
    for name, write in variants(x).items():
        write(kedge.folder / name)
        tensor = "#x" if name.startswith("two") else ""
        kedge.ok("transform", bundle, "--space", "a", "-i", name + tensor, "-o", "rr.npy")
        results[name] = np.load(kedge.folder / "rr.npy")
    for name, found in results.items():
        np.testing.assert_array_equal(found, results["f4.npy"], err_msg=name)


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_the_processor_has_one_precision(kedge: Kedge, bundle: str, precision: str) -> None:
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "rr.npy")
    kedge.ok("transform", bundle, "--space", "a", "-i", "a.npy", "-o", "same.npy", "--precision", precision)
    np.testing.assert_array_equal(np.load(kedge.folder / "same.npy"), np.load(kedge.folder / "rr.npy"))


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_a_fit_says_where_it_ran(kedge: Kedge, spaces: list[str], precision: str) -> None:
    summary = fit(kedge, spaces, "--precision", precision)
    assert summary["device"] == "cpu" and "precision" not in summary, "the two are one on a processor"


@pytest.mark.parametrize("method", ["consensus", "param"])
def test_bfloat16_is_for_gpus(kedge: Kedge, spaces: list[str], method: str) -> None:
    kedge.refused(2, "fit", *spaces, "--anchors", "8", "--support", "40", "--precision", "bf16", "--method", method,
                  "-o", "narrow.kedge", says=["bf16", "GPU", "--precision fp32", "--device cuda"])


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_fit_on_a_gpu_says_its_precision(kedge: Kedge, spaces: list[str], precision: str) -> None:
    if len(kedge.json("devices")) == 1:
        pytest.skip("this machine has no GPU")
    summary = fit(kedge, spaces, "--precision", precision, "--device", "cuda")
    assert (summary["device"], summary["precision"]) == ("cuda", precision)


def test_devices_lists_the_processor(kedge: Kedge) -> None:
    assert kedge.json("devices")[0]["device"] == "cpu"
