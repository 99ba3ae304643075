# pyright: basic
"""Rows of activation functions."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch.aten.checking import check, refusals

X = torch.cat([torch.linspace(-25, 25, 21), torch.linspace(-2, 2, 18), torch.tensor([0.0])])
NAN = torch.tensor([float("nan"), 1.0, -1.0])
IMAGE = torch.randn(2, 4, 3, 3)


@pytest.mark.parametrize("compiled", [False, True])
def test_activations(compiled: bool):
    modules = [
        *(nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-2, 3), nn.Hardswish(), nn.Hardsigmoid(), nn.SiLU()),
        *(nn.Mish(), nn.ELU(0.7), nn.SELU(), nn.CELU(1.3), nn.LeakyReLU(0.2), nn.PReLU()),
        *(nn.Softplus(), nn.Softplus(2, 5), nn.Softsign(), nn.LogSigmoid(), nn.Tanhshrink()),
        *(nn.Softshrink(0.3), nn.Hardshrink(0.3), nn.Threshold(0.5, -2), nn.RReLU(), nn.GELU()),
        *(nn.GELU("tanh"), nn.Sigmoid(), nn.Tanh(), nn.Identity(), nn.Softmax(0)),
        *(nn.LogSoftmax(-1), nn.Softmin(0), nn.GLU(0)),
    ]
    cases = {f"{place}_{type(each).__name__}": (each, X) for place, each in enumerate(modules)}
    cases["channels"] = (nn.PReLU(4, 0.1), IMAGE)
    cases["glu_channels"] = (nn.GLU(1), IMAGE)
    cases["softmax_2d"] = (nn.Softmax2d(), IMAGE)
    cases["elu"] = (lambda x: torch.ops.aten.elu(x, 0.5, 2.0, 0.25), X)
    check(cases, compiled=compiled)


def test_nan_goes_through():
    functions = {
        "hardshrink": functional.hardshrink,
        "threshold": lambda x: functional.threshold(x, 0, 5),
        "softmax": lambda x: x.softmax(0),
    }
    check({name: (function, NAN) for name, function in functions.items()})


def test_softmax_in_another_type_and_of_a_number():
    x = torch.arange(6).reshape(2, 3)
    check(
        {
            "typed": (lambda x: functional.softmax(x, -1, dtype=torch.float32), x),
            "zero": (lambda x: x.softmax(0), torch.tensor(2.0)),
        }
    )


def test_rows_without_anything_give_zeros():
    x = torch.randn(3, 4)
    x[1] = -torch.inf
    check({"safe": (lambda x: torch.ops.aten._safe_softmax(x, -1), x)})


def test_rrelu_in_training_is_refused():
    assert refusals(lambda x: functional.rrelu(x, training=True), X)
