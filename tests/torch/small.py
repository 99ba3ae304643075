"""A module that notes when its own forward runs, and what compares it with its optimized twin."""

import warnings
from typing import Any

import torch
from torch import nn

import weft
from weft.torch.module import Optimized

OWN: list[str] = []
"""An entry for each run of a module's own forward."""


class Small(nn.Module):
    """A convolution, a batch normalization and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        OWN.append("Small")
        return self.scale * self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def image() -> torch.Tensor:
    return torch.randn(1, 3, 6, 6)


def small() -> tuple[Any, Any, torch.Tensor]:
    """A module, its optimized twin, and an input."""
    module: Any = Small().eval()
    x = image()
    with torch.no_grad():
        for tensor in (module.norm.running_mean, module.norm.running_var):
            tensor.add_(torch.rand(8))
    return module, weft.optimize(module, x, measure=False), x


def agrees(module: nn.Module, fast: Any, *args: Any, compiled: bool | None = True) -> None:
    """Checks that a call gives what the module gives.

    Args:
        module: the original.
        fast: its twin.
        args: of the call.
        compiled: whether compiled code must run; either may if ``None``.
    """
    with torch.no_grad():
        expected = module(*args)
        OWN.clear()
        assert isinstance(fast, Optimized)
        with warnings.catch_warnings():
            if compiled is not True:
                warnings.simplefilter("ignore")
            got = fast(*args)
    if compiled is not None:
        assert bool(OWN) != compiled, "compiled code must run" if compiled else "must not run"
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
