"""Modules whose forward is an attribute, not what their class defines."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import weft
from tests.torch.small import agrees, image, small


def test_a_forward_that_was_replaced_inside():
    module, fast, x = small()
    own = module.head.forward
    module.head.forward = lambda y: y.sum(1, keepdim=True)
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    module.head.forward = own  # as it was, but an attribute
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    captures = fast._weft._captures
    module.head.forward = module.head.__class__.forward.__get__(module.head)
    agrees(module, fast, x)
    assert fast._weft._captures == captures
    del module.head.forward
    agrees(module, fast, x, compiled=None)
    agrees(module, fast, x)
    module.forward = lambda y: y + 1
    with torch.no_grad():
        assert torch.equal(fast(x), x + 1)


class Choosing(nn.Module):
    """Its constructor chooses what is its forward, as those of some networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.forward = self.double

    def double(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.conv(x)

    def triple(self, x: torch.Tensor) -> torch.Tensor:
        return 3 * self.conv(x)


def test_forwards_that_constructors_choose():
    module: Any = nn.Sequential(Choosing(), nn.ReLU()).eval()
    x = image()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast: Any = weft.optimize(module, x, measure=False)
    agrees(module, fast, x)
    twin = copy.deepcopy(module)
    agrees(twin, weft.optimize(twin, x, measure=False), x)
    module[0].forward = module[0].triple
    agrees(module, fast, x)


@pytest.mark.parametrize("example", [(), (image(),)], ids=["later", "at once"])
def test_a_forward_that_is_an_attribute_of_the_module_itself_runs_and_a_warning_says_so(
    example: tuple[torch.Tensor, ...],
):
    module = Choosing().eval()
    x = image()
    told = "runs its own forward: an attribute, forward or"
    with pytest.warns(UserWarning, match=told) as warned:
        fast = weft.optimize(module, *example)
    assert warned[0].filename == __file__
    with torch.no_grad():
        assert torch.equal(fast(x), module(x))
