# SPDX-License-Identifier: Apache-2.0
"""Maps by kernel as modules: the same numbers, and a gradient for the input."""
import copy
import pickle
from typing import Any

import kedge
import numpy as np
import pytest
from conftest import assert_near

pytest.importorskip("torch", reason="torch is not installed")
import torch  # noqa: E402

pytestmark = pytest.mark.long


def test_makes_what_the_function_makes(function: tuple[Any, np.ndarray]) -> None:
    affine, x = function
    module = affine.to_torch()
    assert_near(module(torch.from_numpy(x)).numpy(), affine.transform(x))
    assert_near(affine.to_torch(normalize=True)(torch.from_numpy(x)).numpy(), affine.transform(x, normalize=True))
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert f"in_features={x.shape[1]}, out_features={affine.transform(x).shape[1]}" in repr(module)


def test_a_row_at_the_mean_and_far_ones(shared: kedge.Bundle) -> None:
    rr_map = shared["b"]
    x = np.stack([rr_map.mean, rr_map.mean + 1e15, rr_map.mean * 1e-15, np.zeros(8, np.float32)]).astype(np.float32)
    result = rr_map.to_torch()(torch.from_numpy(x)).numpy()
    assert np.isfinite(result).all()
    for row in range(len(x)):
        assert_near(result[row], rr_map.transform(x[row:row + 1])[0])
    rows = torch.from_numpy(x[:1]).requires_grad_()
    rr_map.to_torch()(rows).sum().backward()
    assert rows.grad is not None and torch.isfinite(rows.grad).all()


def test_gradients_flow_to_the_input(function: tuple[Any, np.ndarray]) -> None:
    affine, x = function
    rows = torch.from_numpy(x[:3]).double().requires_grad_()
    assert torch.autograd.gradcheck(affine.to_torch().double(), rows, atol=1e-4)


def test_half_precision_overflows_nowhere(pair: dict[str, np.ndarray], bent: dict[str, np.ndarray]) -> None:
    for width in (1, 16):
        rr_map = kedge.fit(pair, anchors=4, attach="kernel", kernel_width=width, kernel_strength=1e-2)["b"]
        for dtype, share in ((torch.float16, 2e-2), (torch.bfloat16, 1e-1)):
            x = torch.from_numpy(bent["b"]).to(dtype)
            result = rr_map.to_torch().to(dtype)(x)
            assert result.dtype == dtype
            assert_near(result.float().numpy(), rr_map.transform(x.float().numpy()), share)


def test_is_saved_exported_and_scripted(function: tuple[Any, np.ndarray]) -> None:
    affine, x = function
    module, rows = affine.to_torch(), torch.from_numpy(x)
    wanted = module(rows)
    torch.testing.assert_close(pickle.loads(pickle.dumps(module))(rows), wanted)
    other = copy.deepcopy(module)
    for tensor in other.state_dict().values():
        tensor.zero_()
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(rows), wanted)
    torch.testing.assert_close(module(rows.reshape(3, 100, -1)), wanted.reshape(3, 100, -1))
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    assert_near(program.module()(rows[:7]).numpy(), wanted[:7].numpy())


@pytest.mark.filterwarnings("ignore:.*TorchScript.*", "ignore:.*torch.jit.script.*")
def test_is_scripted(function: tuple[Any, np.ndarray]) -> None:
    affine, x = function
    assert_near(torch.jit.script(affine.to_torch())(torch.from_numpy(x)).numpy(), affine.transform(x))
