"""One runner a signature, within a bound."""

import pytest
import torch
from torch import nn

from weft.torch.specialise import Runners, Settings


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor, factor: float = 1.0) -> dict[str, torch.Tensor]:
        return {"y": torch.relu(self.layer(x) * factor)}


def test_each_signature_is_compiled_once_and_no_more_than_the_bound():
    module = Scaled().eval().requires_grad_(False)
    runners = Runners(module, Settings(signatures=2))
    calls = [((torch.randn(3, 6),), {}), ((torch.randn(3, 6),), {"factor": 2.0})]
    for args, kwargs in calls * 2:
        got, expected = runners.call(args, kwargs), module(*args, **kwargs)
        torch.testing.assert_close(got, expected)
    assert len(runners.known) == 2
    beyond = torch.randn(4, 6)
    with pytest.warns(UserWarning, match="its cache of 2 signatures is full"):
        torch.testing.assert_close(runners.call((beyond,), {}), module(beyond))
    assert runners.find((beyond,), {}) is None
    assert len(runners.known) == 2


def test_in_the_background_the_own_forward_runs_until_a_signature_is_compiled():
    module = Scaled().eval().requires_grad_(False)
    runners = Runners(module, Settings(background=True))
    x = torch.randn(5, 6)
    torch.testing.assert_close(runners.call((x,), {}), module(x))
    runners.wait()
    assert runners.find((x,), {}) is not None
    torch.testing.assert_close(runners.call((x,), {}), module(x))
