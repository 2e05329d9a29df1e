# SPDX-License-Identifier: Apache-2.0
"""Maps and translators as modules: the same numbers, and a gradient for the input."""
import copy
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.long
SIMILARITIES = ["wip", "inner", "cosine", "euclidean", "angular", "manhattan"]


def close(made, expected, tolerance=1e-5):
    expected = np.asarray(expected)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(made.detach().float().numpy(), expected, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(params=SIMILARITIES)
def case(request, maps, spaces):
    """A map, its module, and rows with one of zeros, a huge and a tiny one among them."""
    map = maps[request.param]
    x = spaces["vit"][:60].copy()
    x[3] = 0
    x[4] *= 1e15
    x[5] *= 1e-15
    return map, map.to_torch(), x


def test_makes_what_the_map_makes(case):
    map, module, x = case
    for row in range(len(x)):  # each by its own size
        close(module(torch.from_numpy(x[row:row + 1])), map.transform(x[row:row + 1]))


def test_kinds(maps):
    for similarity, map in maps.items():
        module = map.to_torch()
        assert isinstance(module, torch.nn.Linear) == (similarity in ("wip", "inner"))
        assert not any(parameter.requires_grad for parameter in module.parameters())
        assert f"in_features={24}, out_features={12}" in repr(module)


def test_close_to_an_anchor(maps, spaces):
    map = maps["euclidean"]
    anchors = map.weight + map.mean
    x = torch.from_numpy(anchors).requires_grad_()
    made = map.to_torch()(x)
    close(made, map.transform(anchors))
    assert made.diagonal().abs().max() < 1e-5 * np.abs(anchors).max()
    made.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_gradients_flow_to_the_input(case):
    _, module, x = case
    module = module.double()
    rows = torch.from_numpy(x[6:10]).double().requires_grad_()
    assert torch.autograd.gradcheck(module, rows, atol=1e-4)


def test_zeros_get_a_finite_gradient(case):
    _, module, _ = case
    x = torch.zeros(2, 24, requires_grad=True)
    module(x).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)], ids=str)
def test_half_precision(maps, spaces, dtype, tolerance):
    for map in maps.values():
        x = torch.from_numpy(spaces["vit"]).to(dtype)
        made = map.to_torch().to(dtype)(x)
        assert made.dtype == dtype
        close(made, map.transform(x), tolerance)


def test_half_precision_does_not_overflow_on_long_rows(maps):
    x = torch.full((1, 24), 6e4, dtype=torch.float16)
    made = maps["cosine"].to_torch().half()(x)
    close(made, maps["cosine"].transform(x), 5e-3)


def test_any_leading_dimensions(case):
    map, module, x = case
    rows = torch.from_numpy(x[6:18])
    expected = module(rows)
    torch.testing.assert_close(module(rows.reshape(3, 4, 24)), expected.reshape(3, 4, 12))
    torch.testing.assert_close(module(rows[0]), expected[0])
    assert module(rows[:0]).shape == (0, 12)


def test_moves_and_is_saved(case):
    map, module, x = case
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


def test_is_exported(case):
    map, module, x = case
    rows = torch.from_numpy(x[6:])
    batch = torch.export.Dim("rows", min=2)
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: batch},))
    close(program.module()(rows[:7]), map.transform(x[6:13]))


@pytest.mark.filterwarnings("ignore:.*TorchScript.*", "ignore:.*torch.jit.script.*")
def test_is_scripted(case):
    map, module, x = case
    close(torch.jit.script(module)(torch.from_numpy(x[6:])), map.transform(x[6:]))


def test_is_a_copy(maps, spaces):
    map = maps["wip"]
    before = map.transform(spaces["vit"])
    module = map.to_torch()
    with torch.no_grad():
        module.weight.zero_()
    np.testing.assert_array_equal(map.transform(spaces["vit"]), before)


def test_trains_when_asked(maps, spaces):
    module = maps["wip"].to_torch().requires_grad_()
    module(torch.from_numpy(spaces["vit"])).square().sum().backward()
    assert module.weight.grad.abs().sum() > 0 and module.bias.grad is not None


def test_a_translator_is_a_linear(bundle, spaces):
    translator = bundle.translator("vit", "rex")
    module = translator.to_torch()
    assert type(module) is torch.nn.Linear and not module.weight.requires_grad
    close(module(torch.from_numpy(spaces["vit"])), translator.transform(spaces["vit"]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here to move to")
def test_on_a_gpu(case):
    map, module, x = case
    close(module.cuda()(torch.from_numpy(x[6:]).cuda()).cpu(), map.transform(x[6:]))
