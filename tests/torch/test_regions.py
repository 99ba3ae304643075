"""Graphs that Weft compiles in part: PyTorch runs the rest, in the right order."""

import copy

import pytest
import torch
from torch import nn

from weft.errors import UserError
from weft.torch.specialise import Settings, specialise


@torch.library.custom_op("weft_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Between(nn.Module):
    """A foreign op between two layers, beside a branch without one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        foreign = double(self.second(y))
        return self.last(foreign + y), y.unsqueeze(0)


class Writing(nn.Module):
    """Writes in place around a foreign op, and into a buffer."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        view = y[0]
        y.relu_()
        z = double(y)
        z.add_(1)
        view.mul_(3)
        self.calls.add_(z.sum(0))
        return z + y + self.calls


class Sized(nn.Module):
    """Sizes that depend on data, and numbers that are read from tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(self.layer(x) + 1)
        return y[y[:, 0] > 0.5].sum(0)


def _agrees(module: nn.Module, *args: torch.Tensor, runs: int = 1):
    module = module.eval()
    fresh = copy.deepcopy(module)
    runner = specialise(module, args, settings=Settings(measure=False))
    with torch.no_grad():
        for _ in range(runs):
            got = runner.flat([each.clone() for each in args])
            expected = fresh(*args)
            expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    return runner


def test_a_foreign_op_runs_between_two_compiled_parts():
    runner = _agrees(Between(), torch.randn(5, 6))
    assert len(runner.parts) == 2
    assert runner.part is None
    (told,) = runner.fallbacks
    assert told.op == "weft_test::double"
    assert "weft_test::double.default is not supported" in told.reason
    assert "test_regions.py:" in told.where


def test_a_graph_without_foreign_ops_is_one_part():
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    runner = _agrees(module, torch.randn(5, 6))
    assert runner.part is runner.parts[0]
    assert (runner.reads, runner.gives, runner.fallbacks) == ([0], [0], [])


def test_writes_in_place_around_foreign_ops_are_followed():
    runner = _agrees(Writing(), torch.randn(2, 4), runs=3)
    assert "weft_test::double" in [each.op for each in runner.fallbacks]


def test_sizes_that_depend_on_data_are_left_to_pytorch():
    runner = _agrees(Sized(), torch.randn(9, 4))
    ops = [each.op for each in runner.fallbacks]
    assert "aten::index.Tensor" in ops
    # Checks that PyTorch adds are run, but are no news.
    assert not any("_assert" in op for op in ops)


def test_strict_refuses_and_lists_all():
    class Two(Between):
        def forward(self, x: torch.Tensor):
            y, z = super().forward(x)
            return double(y), z

    with pytest.raises(UserError, match="strict=True") as told:
        specialise(Two().eval(), (torch.randn(5, 6),), settings=Settings(strict=True))
    assert told.value.got.count("weft_test::double.default is not supported") == 2
