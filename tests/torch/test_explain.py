"""``weft.explain``."""

import re

import pytest
import torch
from torch import nn

import weft
from weft.torch.eager import Times


@torch.library.custom_op("weft_test::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halve.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Mixed(nn.Module):
    """Two compiled parts around a foreign op."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(halve(torch.relu(self.conv(x))).mean((2, 3)))


@pytest.fixture(autouse=True)
def _all_contestants_run(monkeypatch):
    """Also where other programs make the runs take longer than a comparison may."""
    monkeypatch.setattr("weft.torch.eager.SECONDS", float("inf"))


def test_groups_kernels_fallbacks_copies_and_times():
    x = torch.randn(1, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    told = weft.explain(Mixed().eval(), x, threads=1)
    assert told.groups[0][0].ops[0] == "Conv"
    assert len(told.groups) == 2
    assert all(each.scheme for part in told.groups for each in part)
    (fallback,) = told.fallbacks
    assert fallback.op == "weft_test::halve"
    (copy,) = told.copies
    assert copy.bytes == 4 * x.numel()
    assert told.times is not None
    assert told.times.channels_last is not None
    assert told.own == told.times.kept


def test_it_prints_all_of_that():
    told = weft.explain(Mixed().eval(), torch.randn(1, 3, 8, 8), threads=1)
    text = str(told)
    assert text.splitlines()[0].startswith("Mixed: ")
    assert "2 compiled parts, 1 fallback" in text
    assert re.search(
        r"by PyTorch: weft_test::halve \(test_explain.py:\d+\): weft_test::halve", text
    )
    assert "channels-last" in text
    assert "conv" in text
    assert len(repr(told).splitlines()) <= 24
    record = told.record()
    assert record["fallbacks"][0]["op"] == "weft_test::halve"


def test_it_draws_both_parts_and_marks_what_pytorch_runs():
    told = weft.explain(Mixed().eval(), torch.randn(1, 3, 8, 8), threads=1)
    ops = [node.op for node in told.graph.nodes]
    assert ops.index("Conv") < ops.index("weft_test::halve") < ops.index("ReduceMean")
    picture = told.draw()
    assert picture.startswith("<svg")
    assert "run by PyTorch" in picture
    assert "halve" in told.draw(format="dot")
    assert "weft_test::halve" in told.draw(format="html")


def test_it_says_that_the_own_forward_runs_where_it_is_faster(monkeypatch):
    monkeypatch.setattr("weft.torch.specialise.times", lambda *_, **__: Times(9.0, 1.0))
    told = weft.explain(nn.Linear(3, 4).eval(), torch.randn(2, 3))
    assert told.own == "contiguous"
    assert "the module's own forward, which is faster" in str(told)
    assert "0.11 times as fast as PyTorch's best" in str(told)


def test_results_that_depend_on_data_are_drawn():
    class Nonzero(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.sigmoid(torch.exp(torch.relu(x)))
            return y, torch.nonzero(y)

    told = weft.explain(Nonzero(), torch.randn(4))
    assert [each.op for each in told.fallbacks] == ["aten::nonzero"]
    assert "nonzero" in told.draw()


def test_an_optimized_module_is_explained_for_what_it_was_compiled_for():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    fast = weft.optimize(module)
    with pytest.raises(weft.UserError, match="explained for an example; got none"):
        weft.explain(fast)
    fast = weft.optimize(module, torch.randn(5, 3), threads=1)
    told = weft.explain(fast)
    assert told.name == "Sequential"
    assert told.groups[0][-1].type == "f32[5,4]"
    assert weft.explain(fast, torch.randn(2, 3)).groups[0][-1].type == "f32[2,4]"
