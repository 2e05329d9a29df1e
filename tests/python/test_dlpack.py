# SPDX-License-Identifier: Apache-2.0
"""Arrays and tensors of every float type and layout, as they come through DLPack and the buffer protocol."""
import array
from collections.abc import Callable, Iterator
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import assert_near

pytest.importorskip("torch", reason="torch is not installed")
import torch  # noqa: E402

pytestmark = pytest.mark.long


def layouts(x: Any) -> Iterator[tuple[str, Any]]:
    """The same matrix, laid out in memory in many ways; x is numpy's or torch's."""
    empty = np.zeros if isinstance(x, np.ndarray) else lambda shape, dtype: torch.zeros(shape, dtype=dtype)
    rows, cols = x.shape
    wide, tall = empty((rows, cols + 5), x.dtype), empty((3 * rows, cols), x.dtype)
    thin = empty((rows, 2 * cols), x.dtype)
    wide[:, 2:cols + 2], tall[1::3], thin[:, ::2] = x, x, x
    yield "rows in order", x
    yield "columns in order", (np.asfortranarray(x) if isinstance(x, np.ndarray) else x.T.contiguous().T)
    yield "part of the columns", wide[:, 2:cols + 2]
    yield "every third row", tall[1::3]
    yield "every second column", thin[:, ::2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_layouts(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray], dtype: Any) -> None:
    x = spaces["vit"].astype(np.float16).astype(dtype)  # values that all of the types have
    for similarity, rr_map in maps.items():
        expected = rr_map.transform(x.astype(np.float32))
        for name, given in layouts(x):
            result = rr_map.transform(given)
            assert type(result) is np.ndarray and result.dtype == np.float32
            assert_near(result, expected, err_msg=f"{similarity}, {name}")
        assert_near(rr_map.transform(x[::-1]), expected[::-1])
        repeated = np.broadcast_to(x[0], (4, x.shape[1]))
        assert_near(rr_map.transform(repeated), np.repeat(expected[:1], 4, 0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_tensors_give_tensors(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray], dtype: Any) -> None:
    x = torch.from_numpy(spaces["vit"]).bfloat16().to(dtype)
    for similarity, rr_map in maps.items():
        expected = rr_map.transform(x.float().numpy())
        for name, given in layouts(x):
            result = rr_map.transform(given)
            assert type(result) is torch.Tensor and result.dtype == torch.float32, name
            assert_near(result.numpy(), expected, err_msg=f"{similarity}, {name}")


def test_integer_tensors_and_parameters_give_tensors(maps: dict[str, kedge.RelativeMap]) -> None:
    whole = torch.arange(48).reshape(2, 24)
    expected = maps["wip"].transform(whole.numpy())
    for given in (whole, whole.to(torch.int32), whole.to(torch.uint8), torch.nn.Parameter(whole.float(), False)):
        result = maps["wip"].transform(given)
        assert isinstance(result, torch.Tensor), type(given)
        assert_near(result.numpy(), expected)


def test_a_result_is_the_callers_own(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    x = torch.from_numpy(spaces["vit"].copy())
    result = maps["wip"].transform(x)
    kept = result.clone()
    x.zero_()
    assert torch.equal(result, kept)
    result += 1  # it may be written to
    assert result.requires_grad is False


def test_no_rows(maps: dict[str, kedge.RelativeMap]) -> None:
    for rr_map in maps.values():
        assert rr_map.transform(np.zeros((0, 24), np.float32)).shape == (0, 12)
        assert rr_map.transform(torch.zeros(0, 24)).shape == (0, 12)
        assert rr_map.transform(torch.zeros(0, 24, dtype=torch.float16)).shape == (0, 12)


def test_one_row(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    for rr_map in maps.values():
        whole = rr_map.transform(spaces["vit"])
        one = rr_map.transform(torch.from_numpy(spaces["vit"][5:6]))
        assert_near(one, whole[5:6])


REFUSED = {
    "a gradient": (lambda: torch.ones(2, 24, requires_grad=True), r"\.detach\(\), or map\.to_torch\(\)"),
    "part of a graph": (lambda: torch.ones(2, 24, requires_grad=True) * 2, r"\.detach\(\)"),
    "a parameter": (lambda: torch.nn.Parameter(torch.ones(2, 24)), r"\.detach\(\)"),
    "no values": (lambda: torch.ones(2, 24, device="meta"), "meta, which holds no values"),
    "sparse": (lambda: torch.eye(24).to_sparse(), r"\.to_dense\(\)"),
    "complex": (lambda: torch.ones(2, 24, dtype=torch.complex64), "complex numbers"),
    "one dimension": (lambda: torch.ones(24), r"X\[None, :\]"),
    "three dimensions": (lambda: torch.ones(1, 2, 24), "3 dimensions"),
    "another length": (lambda: torch.ones(2, 23), "expects embeddings of 24 values, got 23"),
    "not finite": (lambda: torch.full((2, 24), float("nan")), "row 0 .*NaN"),
}


@pytest.mark.parametrize("make, sentence", REFUSED.values(), ids=REFUSED)
def test_is_refused_with_a_sentence(maps: dict[str, kedge.RelativeMap], make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        maps["wip"].transform(make())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here to keep a tensor on")
def test_a_tensor_on_a_gpu_is_refused(maps: dict[str, kedge.RelativeMap]) -> None:
    with pytest.raises(ValueError, match=r"found one on cuda:0; use \.cpu\(\), or, to stay there, map\.to_torch\(\)"):
        maps["wip"].transform(torch.ones(2, 24, device="cuda"))


def test_a_view_with_flipped_signs_is_read_as_torch_reads_it(maps: dict[str, kedge.RelativeMap]) -> None:
    flipped = torch.complex(torch.zeros(2, 24), torch.ones(2, 24)).conj().imag
    assert flipped.is_neg() and flipped[0, 0] == -1
    np.testing.assert_array_equal(maps["wip"].transform(flipped), maps["wip"].transform(-np.ones((2, 24), np.float32)))


def test_out_is_written_to(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    expected = maps["wip"].transform(spaces["vit"])
    for out in (np.empty((400, 12), np.float32), torch.empty(400, 12)):
        result = maps["wip"].transform(spaces["vit"], out=out)
        np.testing.assert_array_equal(np.asarray(out), expected)
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_buffers_of_python_itself(maps: dict[str, kedge.RelativeMap]) -> None:
    flat = array.array("f", range(48))
    given = memoryview(flat).cast("B").cast("f", (2, 24))
    np.testing.assert_array_equal(maps["wip"].transform(given),
                                  maps["wip"].transform(np.arange(48, dtype=np.float32).reshape(2, 24)))
