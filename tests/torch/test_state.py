"""Weights that the code itself depends on, and buffers that modules change."""

from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.small import OWN, agrees
from weft.torch.execution import CompiledPart


class _Indexed(nn.Module):
    """Its indices are computed from an integer buffer, its offset from an attribute."""

    index: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("index", torch.tensor([[0, 1], [2, 3]]))
        self.shift = torch.tensor([1.0, 2.0])
        self.filled = torch.zeros(80, 80)
        self.empty = torch.zeros(0, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        OWN.append("_Indexed")
        bias = self.table[self.index.view(-1) % 4].view(2, 2, 3).permute(2, 0, 1)
        moved = x @ bias + self.shift * 2 + (self.filled @ x[0, 0, 0].expand(80))[0]
        return torch.cat((self.empty, moved[0]))


@pytest.mark.parametrize("name", ["index", "index =", "shift", "filled"])
@torch.no_grad()
def test_weights_that_folding_consumed_are_watched(name: str):
    module: Any = _Indexed().eval()
    x = torch.randn(3, 2, 2)
    fast = weft.optimize(module, x, measure=False)
    agrees(module, fast, x)
    before = fast(x)
    if name == "index":
        module.index.copy_(torch.tensor([[3, 3], [0, 2]]))
    elif name == "index =":
        module.index = torch.tensor([[1, 1], [0, 2]])
    else:
        getattr(module, name).add_(1)
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    assert not torch.allclose(before, fast(x))


class _Counting(nn.Module):
    steps: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.layer(x))
        self.steps += 1
        self.mean.mul_(0.5).add_(y.mean(0), alpha=0.5)
        return y * self.steps + self.mean


class _Cached(nn.Module):
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(5, 4), persistent=False)
        self.register_buffer("values", torch.zeros(5, 4), persistent=False)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(0, at, self.key(x))
        self.values[at] = self.value(x)
        weights = (x @ self.keys.T).masked_fill(torch.arange(5) > at, float("-inf"))
        return weights.softmax(-1) @ self.values


@pytest.mark.parametrize("kind", [_Counting, _Cached])
@torch.no_grad()
def test_buffers_that_a_module_changes(kind: Any, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    module, other = kind().eval(), kind().eval()
    other.load_state_dict(module.state_dict())
    refreshed: list[CompiledPart] = []
    refresh = CompiledPart.refresh
    monkeypatch.setattr(
        CompiledPart, "refresh", lambda part, held: (refreshed.append(part), refresh(part, held))
    )
    fast: Any = weft.optimize(module, measure=False)
    x = torch.randn(5, 1, 4)
    for step in range(5):
        arguments = (x[step], torch.tensor([step])) if kind is _Cached else (x[step],)
        torch.testing.assert_close(fast(*arguments), other(*arguments), rtol=1e-4, atol=1e-5)
        if step == 2:
            # A state that is replaced is read where it is now.
            name, _ = next(iter(module.named_buffers()))
            for each in (module, other):
                setattr(each, name, getattr(each, name) * 2)
    for (name, each), (_, expected) in zip(
        module.named_buffers(), other.named_buffers(), strict=True
    ):
        torch.testing.assert_close(each, expected, rtol=1e-4, atol=1e-5, msg=name)
    # States are no weights to prepare.
    assert len(refreshed) <= 2
    assert fast._weft.runners[0].parts
