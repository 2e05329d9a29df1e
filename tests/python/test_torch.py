# SPDX-License-Identifier: Apache-2.0
"""Maps and translators as modules: the same numbers, and a gradient for the input."""
import copy
import io
import pickle
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import SIMILARITIES

pytest.importorskip("torch", reason="torch is not installed")
import torch  # noqa: E402

pytestmark = pytest.mark.long
Case = tuple[kedge.RelativeMap, Any, np.ndarray]  # a map, its module, and rows


def close(result: torch.Tensor, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    expected = np.asarray(expected)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result.detach().float().numpy(), expected, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(params=SIMILARITIES)
def case(request: pytest.FixtureRequest, maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> Case:
    """A map, its module, and rows with one of zeros, a huge and a tiny one among them."""
    rr_map = maps[request.param]
    x = spaces["vit"][:60].copy()
    x[3] = 0
    x[4] *= 1e15
    x[5] *= 1e-15
    return rr_map, rr_map.to_torch(), x


def test_makes_what_the_map_makes(case: Case) -> None:
    rr_map, module, x = case
    for row in range(len(x)):  # each by its own size
        close(module(torch.from_numpy(x[row:row + 1])), rr_map.transform(x[row:row + 1]))


def test_kinds(maps: dict[str, kedge.RelativeMap]) -> None:
    for similarity, rr_map in maps.items():
        module = rr_map.to_torch()
        assert isinstance(module, torch.nn.Linear) == (similarity in ("wip", "inner"))
        assert not any(parameter.requires_grad for parameter in module.parameters())
        assert f"in_features={24}, out_features={12}" in repr(module)


def test_close_to_an_anchor(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    rr_map = maps["euclidean"]
    anchors = rr_map.weight + rr_map.mean
    x = torch.from_numpy(anchors).requires_grad_()
    result = rr_map.to_torch()(x)
    close(result, rr_map.transform(anchors))
    assert result.diagonal().abs().max() < 1e-5 * np.abs(anchors).max()
    result.sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_gradients_flow_to_the_input(case: Case) -> None:
    _, module, x = case
    module = module.double()
    rows = torch.from_numpy(x[6:10]).double().requires_grad_()
    assert torch.autograd.gradcheck(module, rows, atol=1e-4)


def test_zeros_get_a_finite_gradient(case: Case) -> None:
    _, module, _ = case
    x = torch.zeros(2, 24, requires_grad=True)
    module(x).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)], ids=str)
def test_half_precision(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray], dtype: Any,
                        tolerance: float) -> None:
    for rr_map in maps.values():
        x = torch.from_numpy(spaces["vit"]).to(dtype)
        result = rr_map.to_torch().to(dtype)(x)
        assert result.dtype == dtype
        close(result, rr_map.transform(x), tolerance)


def test_half_precision_does_not_overflow_on_long_rows(maps: dict[str, kedge.RelativeMap]) -> None:
    x = torch.full((1, 24), 6e4, dtype=torch.float16)
    result = maps["cosine"].to_torch().half()(x)
    close(result, maps["cosine"].transform(x), 5e-3)


def test_any_leading_dimensions(case: Case) -> None:
    rr_map, module, x = case
    rows = torch.from_numpy(x[6:18])
    expected = module(rows)
    torch.testing.assert_close(module(rows.reshape(3, 4, 24)), expected.reshape(3, 4, 12))
    torch.testing.assert_close(module(rows[0]), expected[0])
    assert module(rows[:0]).shape == (0, 12)


def test_moves_and_is_saved(case: Case) -> None:
    rr_map, module, x = case
    rows = torch.from_numpy(x[6:])
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(module)
    for tensor in other.state_dict().values():
        tensor.zero_()
    other.load_state_dict(torch.load(file))
    torch.testing.assert_close(other(rows), module(rows))
    torch.testing.assert_close(pickle.loads(pickle.dumps(module))(rows), module(rows))
    assert all(tensor.is_meta for tensor in copy.deepcopy(module).to("meta").state_dict().values())


def test_is_exported(case: Case) -> None:
    rr_map, module, x = case
    rows = torch.from_numpy(x[6:])
    batch = torch.export.Dim("rows", min=2)
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: batch},))
    close(program.module()(rows[:7]), rr_map.transform(x[6:13]))


@pytest.mark.filterwarnings("ignore:.*TorchScript.*", "ignore:.*torch.jit.script.*")
def test_is_scripted(case: Case) -> None:
    rr_map, module, x = case
    close(torch.jit.script(module)(torch.from_numpy(x[6:])), rr_map.transform(x[6:]))


def test_is_a_copy(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    rr_map = maps["wip"]
    before = rr_map.transform(spaces["vit"])
    module: Any = rr_map.to_torch()
    with torch.no_grad():
        module.weight.zero_()
    np.testing.assert_array_equal(rr_map.transform(spaces["vit"]), before)


def test_trains_when_asked(maps: dict[str, kedge.RelativeMap], spaces: dict[str, np.ndarray]) -> None:
    module: Any = maps["wip"].to_torch().requires_grad_()
    module(torch.from_numpy(spaces["vit"])).square().sum().backward()
    assert module.weight.grad.abs().sum() > 0 and module.bias.grad is not None


def test_a_translator_is_a_linear(bundle: kedge.Bundle, spaces: dict[str, np.ndarray]) -> None:
    translator = bundle.translator("vit", "rex")
    module = translator.to_torch()
    assert type(module) is torch.nn.Linear and not module.weight.requires_grad
    close(module(torch.from_numpy(spaces["vit"])), translator.transform(spaces["vit"]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here to move to")
def test_on_a_gpu(case: Case) -> None:
    rr_map, module, x = case
    close(module.cuda()(torch.from_numpy(x[6:]).cuda()).cpu(), rr_map.transform(x[6:]))
