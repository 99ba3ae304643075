"""What forwards assign to attributes of their modules, and what captures leave of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import weft
from weft.errors import UserError
from weft.torch.capture import capture


class _Windowed(nn.Module):
    def __init__(self, fails: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.window, self.places, self.named = [2, 2], (1, [3]), {"shift": [1]}
        self.fails = fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fails and x.sum() > 0:
            return x
        return self.layer(x).view(-1, *self.window) + self.places[0]


@pytest.mark.parametrize("fails", [False, True])
def test_attributes_stay_the_objects_that_they_are(fails: bool) -> None:
    """PyTorch's export leaves copies of containers, which other code would take for changed."""
    module = _Windowed(fails).eval()
    spaces = [vars(each) for each in module.modules()]
    before = [{name: id(value) for name, value in space.items()} for space in spaces]
    with pytest.raises(UserError) if fails else nullcontext():
        capture(module, (torch.randn(3, 4),))
    assert [{name: id(value) for name, value in space.items()} for space in spaces] == before


@torch.no_grad()
def test_two_optimizations_of_a_module_leave_each_other_alone() -> None:
    module, x = _Windowed(False).eval(), torch.randn(3, 4)
    first: Any = weft.optimize(module, x, measure=False)
    (runner,) = first._weft.runners
    second = weft.optimize(module, x, measure=False)
    first(x)
    second(x)
    first(x)
    assert first._weft.runners == [runner]


def test_numbers_that_a_forward_changes_are_refused() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.size = 0, 3
            self.last: int | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.size = self.last = len(x)
            return x * self.calls

    module, x = nn.Sequential(Counter()).eval(), torch.ones(3)
    with pytest.raises(UserError) as error:
        capture(module, (x,))
    assert str(error.value) == (
        "the forward of Sequential computes with attributes that it changes; got 0.calls."
        " Make them buffers, which compiled code reads and writes."
    )
    fast = weft.optimize(module)
    with pytest.warns(UserWarning, match="computes with attributes"), torch.no_grad():
        made = [fast(x).tolist() for _ in range(3)]
    assert made == [[1.0] * 3, [2.0] * 3, [3.0] * 3]


class Assigning(nn.Module):
    """Its forward assigns numbers that it has from then on, and may compute with them before."""

    def __init__(self, before: str) -> None:
        super().__init__()
        self.size, self.ready, self.before = 1, False, before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old, first = self.size, not self.ready
        self.size, self.ready = len(x), True
        if self.before == "number":
            return x / old
        if self.before == "tensor":
            return x / torch.tensor([float(old)])
        return x * 0 if self.before == "branch" and first else x / self.size


def test_a_forward_may_count_its_calls() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + 1

    module, x = Counted().eval(), torch.ones(3)
    fast = weft.optimize(module, x, strict=True, measure=False)
    assert fast(x).tolist() == [2.0] * 3
    assert module.calls == 0


def test_a_forward_may_assign_numbers_that_it_then_finds() -> None:
    module, x = nn.Sequential(Assigning("")).eval(), torch.ones(3)
    fast = weft.optimize(module, x, strict=True, measure=False)
    torch.testing.assert_close(fast(x), x / 3)
    assert vars(module[0])["size"] == 1
    assert module[0].ready is False


@pytest.mark.parametrize("before", ["number", "tensor", "branch"])
def test_a_forward_that_computed_with_the_number_before_is_refused(before: str) -> None:
    module, x = Assigning(before).eval(), torch.ones(3)
    with pytest.raises(UserError, match="that it changes; got size, ready"):
        capture(module, (x,))
    assert (module.size, module.ready) == (1, False)
