# pyright: basic
"""Modules with complex inputs, outputs, parameters, and complex tensors between what runs where."""

import pytest
import torch
from torch import nn

import weft
from weft.torch.dynamo import backend
from weft.torch.specialise import Settings, specialise


class Turning(nn.Module):
    """Complex matrices, a complex parameter and a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6, dtype=torch.complex64))
        self.register_buffer("turns", torch.randn(6, dtype=torch.complex64))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.weight * self.turns


class Between(nn.Module):
    """Complex tensors go to PyTorch and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.turning = Turning()
        self.layer = nn.Linear(6, 6)

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.log(self.turning(z))
        return self.layer((y * y + 1).abs()), 2 * y


@pytest.fixture
def z() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 6, dtype=torch.complex64)


def optimized(module: nn.Module, z: torch.Tensor) -> nn.Module:
    with torch.no_grad():
        fast = weft.optimize(module, z, measure=False, strict=True)
        agrees(fast, module, z)
    return fast


def agrees(fast: nn.Module, module: nn.Module, z: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(z), module(z), rtol=1e-4, atol=1e-5)


def test_inputs_of_other_layouts(z: torch.Tensor):
    module = Turning().eval()
    fast = optimized(module, z)
    assert fast._weft.runners[0].fallbacks == []
    agrees(fast, module, torch.randn(6, 4, dtype=torch.complex64).t())
    agrees(fast, module, z.conj())
    with pytest.warns(UserWarning, match="lazy"):
        agrees(fast, module, torch._neg_view(z))
    agrees(fast, module, torch.randn(8, 6, dtype=torch.complex64)[::2])


def test_integers_of_the_same_size_are_no_complex_numbers(z: torch.Tensor):
    module = Turning().eval()
    fast = optimized(module, z)
    ones = torch.ones(4, 6, dtype=torch.int64)
    with torch.no_grad(), pytest.raises(RuntimeError, match="dtype"):
        _warned(fast, ones, "cannot be compiled")


def test_weights_that_change(z: torch.Tensor):
    module = Turning().eval()
    fast = optimized(module, z)
    with torch.no_grad():
        module.weight.mul_(1 + 2j)
        agrees(fast, module, z)
        module.turns.copy_(torch.randn(6, dtype=torch.complex64))
        agrees(fast, module, z)
        module.load_state_dict(Turning().state_dict())
        agrees(fast, module, z)
        module.weight.data = module.weight.data.conj().resolve_conj()
        agrees(fast, module, z)
        # The same memory, read otherwise.
        module.weight.data = module.weight.data.conj()
        with pytest.warns(UserWarning, match="lazy"):
            agrees(fast, module, z)
        module.weight.data = module.weight.data.conj()
        agrees(fast, module, z)


def test_complex_tensors_between_compiled_parts(z: torch.Tensor):
    module = Between().eval()
    runner = specialise(module, (z,), settings=Settings(measure=False))
    assert [each.op for each in runner.fallbacks] == ["aten::log"]
    assert len(runner.parts) == 2
    with torch.no_grad():
        for given in (z, z.conj()):
            for got, wanted in zip(runner.flat([given]), module(given), strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        fast = torch.compile(module, backend=backend)
        torch.testing.assert_close(fast(z), module(z), rtol=1e-4, atol=1e-5)


def test_double_precision_runs_the_modules_own_forward(z: torch.Tensor):
    module = Turning().eval()
    module.weight = nn.Parameter(module.weight.to(torch.complex128))
    module.turns = module.turns.to(torch.complex128)
    wide = z.to(torch.complex128)
    with torch.no_grad():
        with pytest.warns(UserWarning, match="complex128"):
            fast = weft.optimize(module, wide, measure=False)
        agrees(fast, module, wide)


def _warned(fast: nn.Module, z: torch.Tensor, match: str) -> torch.Tensor:
    with pytest.warns(UserWarning, match=match):
        return fast(z)
