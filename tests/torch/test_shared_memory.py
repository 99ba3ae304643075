"""Arguments that are one tensor, lie in each other's memory, or belong to the module."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.small import OWN, agrees


class _Two(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        OWN.append("_Two")
        return a * 2 - b


@torch.no_grad()
def test_an_example_may_give_a_tensor_twice():
    module, x, y = _Two(), torch.randn(2, 4), torch.randn(2, 4)
    fast = weft.optimize(module.eval(), x, x, measure=False)
    for args in ((x, y), (y, x), (x, x), (y, y)):
        agrees(module, fast, *args)


@torch.no_grad()
def test_an_example_of_attention_to_itself_serves_others():
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    q, k, v = torch.randn(3, 1, 5, 8).unbind()
    fast = weft.optimize(module, q, q, q, measure=False)
    for args in ((q, k, v), (v, k, k), (k, k, k)):
        torch.testing.assert_close(fast(*args), module(*args), rtol=1e-4, atol=1e-5)


class _Weighted(nn.Module):
    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("table", torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        OWN.append("_Weighted")
        return x * 2 - self.weight + self.table * 3


@pytest.mark.parametrize("name", ["weight", "table"])
@torch.no_grad()
def test_an_example_may_be_a_weight(name: str):
    module = _Weighted().eval()
    own = getattr(module, name)
    fast = weft.optimize(module, own, measure=False)
    for x in (torch.randn(4), own, torch.randn(4)):
        agrees(module, fast, x)


class _Writing(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        OWN.append("_Writing")
        a.add_(1)
        return a * b


@pytest.mark.parametrize(
    "arguments",
    [
        lambda x: (x, x),
        lambda x: (x, x.view(4)),
        lambda x: (x.view(4), x),
        lambda x: (x[:3], x[1:]),
    ],
)
@torch.no_grad()
def test_writes_into_an_argument_are_seen_through_others(
    arguments: Callable[[torch.Tensor], tuple[torch.Tensor, ...]],
):
    module, x = _Writing().eval(), torch.randn(4)
    # The example's, too.
    fast = weft.optimize(module, *arguments(x.clone()), measure=False)
    a, b = (each.clone() for each in arguments(x))
    expected = (a + 1) * b
    OWN.clear()
    torch.testing.assert_close(fast(a, b), expected)
    assert not OWN
    own, got = x.clone(), x.clone()
    expected = module(*arguments(own))
    with pytest.warns(UserWarning, match="an argument shares memory with what the call writes"):
        found = fast(*arguments(got))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(got, own)


@torch.no_grad()
def test_parts_of_one_memory_that_lie_apart_are_no_reason():
    module, both = _Writing().eval(), torch.randn(2, 4)
    fast = weft.optimize(module, both[0].clone(), both[1].clone(), measure=False)
    own = both.clone()
    expected = module(*own)
    OWN.clear()
    torch.testing.assert_close(fast(*both), expected)
    torch.testing.assert_close(both, own)
    assert not OWN


class _Counted(nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(self.weight)
        return x * 2 + self.total


class _Scaling(_Counted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + self.weight


@pytest.mark.parametrize(("kind", "name"), [(_Counted, "total"), (_Scaling, "weight")])
@torch.no_grad()
def test_what_a_module_writes_may_be_an_argument(kind: Any, name: str):
    module, other = kind().eval(), kind().eval()
    other.load_state_dict(module.state_dict())
    fast = weft.optimize(module, torch.randn(4), measure=False)
    for _ in range(2):
        with pytest.warns(UserWarning, match="an argument shares memory"):
            found = fast(getattr(module, name))
        torch.testing.assert_close(found, other(getattr(other, name)))
    torch.testing.assert_close(module.state_dict(), other.state_dict())
