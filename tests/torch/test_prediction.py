"""Estimates of how long compiled code and PyTorch take, from figures that the tests choose."""

import pytest
import torch
from torch import nn

import weft
from weft.runtime.limits import Level, Limits
from weft.targets.find import host
from weft.torch import prediction

ROOFS = Limits("a machine", 64, 1, 1.0, (Level("L1", 1000, 0.01), Level("DRAM", 0, 0.001)))


@pytest.fixture(autouse=True)
def _figures(monkeypatch):
    """10 bytes a microsecond from 1000 bytes of cache, else 1; PyTorch moves 8."""
    monkeypatch.setattr(prediction, "limits", lambda *_: ROOFS)
    rates = prediction._Rates(convolution=2.0, product=0.5, moved=8.0, call=3.0)
    monkeypatch.setattr(prediction, "_rates", lambda _: rates)


class Views(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.view(4, 6).t())


class Foreign(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(torch.exp(torch.sigmoid(x)))
        return torch.nonzero(y)


class Bare(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)


@pytest.mark.parametrize(
    ("module", "shape", "eager"),
    [
        # 2 * 5 * 3 * 4 operations of a product, more than 204 bytes take.
        (nn.Linear(3, 4), (5, 3), 3 + 120 / 0.5),
        # 2 * 2 * 36 * 27 operations of a convolution.
        (nn.Conv2d(3, 2, 3), (1, 3, 8, 8), 3 + 2 * 2 * 36 * 27 / 2),
        # Bytes read and written, from the cache and from memory.
        (nn.ReLU(), (100,), 3 + 800 / 8),
        (nn.ReLU(), (200,), 3 + 1600 / 1),
        # Views are called, and move nothing.
        (Views(), (24,), 3 * 3 + 192 / 8),
    ],
)
def test_pytorch_takes_its_calls_and_what_each_op_computes_or_moves(module, shape, eager):
    told = weft.explain(module.eval(), torch.randn(*shape), threads=1)
    assert told.predicted is not None
    assert told.predicted.eager == pytest.approx(eager)


@pytest.mark.parametrize("bound", ["compute", "memory"])
def test_compiled_code_takes_the_cycles_of_its_plan_or_its_bytes(monkeypatch, bound):
    fast = 1e9
    roofs = {
        "compute": Limits("a machine", 64, 1, 1.0, (Level("DRAM", 0, fast),)),
        "memory": Limits("a machine", 64, 1, fast, (Level("DRAM", 0, 0.001),)),
    }
    monkeypatch.setattr(prediction, "limits", lambda *_: roofs[bound])
    told = weft.explain(nn.Linear(30, 40).eval(), torch.randn(50, 30), threads=1)
    ((layer,),) = told.groups
    offered = [each for answer in layer.answers for each in answer.alternatives]
    (cycles,) = [each.cycles for each in offered if each.chosen]
    assert told.predicted is not None
    assert cycles is not None
    machine = host("")
    # A cycle of the record does so many operations, which take a nanosecond each.
    operations = 2 * machine.multiply_adds * machine.vector_bytes / 4
    expected = cycles * operations / 1000 if bound == "compute" else 4 * (1500 + 1200 + 40 + 2000)
    assert told.predicted.weft == pytest.approx(expected)
    assert told.predicted.gain == told.predicted.eager / told.predicted.weft


def test_ops_that_pytorch_runs_between_count_for_both():
    told = weft.explain(Foreign(), torch.randn(100), threads=1)
    assert [each.op for each in told.fallbacks] == ["aten::nonzero"]
    assert told.predicted is not None
    # Its result depends on data: only what it reads is known.
    nonzero = 3 + 400 / 8
    assert told.predicted.eager == pytest.approx(3 * (3 + 800 / 8) + nonzero)
    assert told.predicted.weft > nonzero


def test_where_nothing_is_compiled_nothing_is_predicted():
    told = weft.explain(Bare(), torch.randn(100), threads=1)
    assert told.predicted is None
    assert "predicted" not in str(told)


def test_the_prediction_stands_beside_the_measured_times():
    told = weft.explain(nn.Linear(3, 4).eval(), torch.randn(5, 3), threads=1)
    assert told.predicted is not None
    (line,) = [each for each in str(told).splitlines() if "predicted" in each]
    assert "243.0 µs by PyTorch" in line
    assert f"{told.predicted.gain:.2f} times as fast" in line
    assert told.record()["predicted"] == {
        "weft": told.predicted.weft,
        "eager": told.predicted.eager,
    }
    assert told.times is not None
    picture = told.draw()
    assert f"Linear: gain {told.times.gain:.2f}, predicted {told.predicted.gain:.2f}" in picture
