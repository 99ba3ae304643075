# pyright: basic
"""Special values: rows treat them as PyTorch does, but for what docs/pytorch.md lists."""

from typing import Any

import pytest
import torch
from torch.nn import functional

import weft
from tests.torch.aten.checking import check

NAN, INF = float("nan"), float("inf")
ENDS = torch.tensor(
    [NAN, INF, -INF, 0.0, -0.0, 1.2e-38, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, -2.5, 7.0, 1e4, -1e5]
)
WHOLE = torch.tensor([0, 1, -1, 3, -7, 7, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)])
ROWS = torch.tensor([[1.0, NAN, 2.0], [NAN] * 3, [INF, 1.0, -INF], [-INF] * 3, [0.0, -0.0, 0.0]])

ACTIVATIONS = """
relu relu6 silu mish elu celu selu leaky_relu hardsigmoid hardtanh softplus softsign tanhshrink
logsigmoid hardshrink softshrink
""".split()
PAIRS = """
add sub mul div floor_divide minimum maximum fmin fmax atan2 hypot copysign xlogy eq lt ge
""".split()


def _pairs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of elements; of whole numbers those that can be divided."""
    left, right = x.repeat_interleave(len(x)), x.repeat(len(x))
    if x.is_floating_point():
        return left, right
    divisible = (right != 0) & ~((left == -(2**63)) & (right == -1))
    return left[divisible], right[divisible]


@pytest.mark.parametrize("compiled", [False, True])
def test_functions(compiled: bool):
    cases = {name: (getattr(functional, name), ENDS) for name in ACTIVATIONS}
    # Where PyTorch's intermediate values overflow, compiled code gives the limit.
    finite = ENDS[(ENDS.abs() < 3e38) | ENDS.isnan()]
    cases |= {name: (getattr(functional, name), finite) for name in ("gelu", "hardswish")}
    cases |= {f"{name}_pairs": (getattr(torch, name), *_pairs(ENDS)) for name in PAIRS}
    cases |= {
        "clamp": (lambda x: (x.clamp(-1, 2), x.clamp(min=0), x.clamp(max=0)), ENDS),
        "rows": (
            lambda x: (x.sum(1), x.mean(1), x.prod(1), x.logsumexp(1), x.softmax(1), x.cumsum(1)),
            ROWS,
        ),
        "orders": (lambda x: (*x.sort(1), *x.topk(2, 1), x.median(1).values), ROWS[:3]),
    }
    check(cases, compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_whole_numbers(compiled: bool):
    names = "add sub mul floor_divide remainder fmod minimum maximum eq lt ge".split()
    cases: dict[str, Any] = {name: (getattr(torch, name), *_pairs(WHOLE)) for name in names}
    cases["truncated"] = (lambda x, y: torch.div(x, y, rounding_mode="trunc"), *_pairs(WHOLE))
    cases["extremes"] = (lambda x: (x.max(), x.argmin(), x.abs(), x.neg(), x.sign()), WHOLE)
    check(cases, compiled=compiled)


def test_empty_tensors():
    empty = torch.zeros(0, 3)
    cases = {
        "sums": (lambda x: (x.sum(0), x.sum(1), x.prod(0), x.any(0), x.all(0)), empty),
        "layer": (lambda x: functional.linear(x, torch.ones(2, 3)), empty),
        "cat": (lambda x: (torch.cat([x, x]), x + 1, x.softmax(1)), empty),
        "grown": (lambda x: torch.cat([x, x.new_ones(2, 3)]), empty),
    }
    check(cases)


def test_the_largest_passes_over_nan():
    class Largest(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            places = x.argmax(1)
            return functional.max_pool1d(x, 3)[:, 0], x.amax(1), x.max(1).values, places

    x = torch.tensor([[1.0, NAN, 2.0], [NAN, 5.0, 4.0]])
    fast = weft.optimize(Largest().eval(), x, measure=False)
    *largest, places = fast(x)
    for found in largest:
        assert found.tolist() == [2.0, 5.0]
    assert places.tolist() == [2, 1]


def test_floats_beyond_an_integer_type_become_its_ends():
    class Whole(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 2).int()

    x = torch.tensor([NAN, INF, -INF, 1e20, -1.75])
    fast = weft.optimize(Whole().eval(), x, measure=False)
    assert fast(x).tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -3]


def test_remainders_of_huge_quotients_are_exact():
    class Remainders(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.fmod(x, 7.0), torch.remainder(x, -7.0)

    x = torch.tensor([3e38, -3e38, 1e30, 16777216.0, 8.5, -8.5, 0.0, INF])
    # In float64 these remainders are exact.
    expected = [each.float() for each in Remainders()(x.double())]
    fast = weft.optimize(Remainders().eval(), x, measure=False)
    torch.testing.assert_close(list(fast(x)), expected, rtol=0, atol=0, equal_nan=True)
