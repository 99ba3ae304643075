# pyright: basic
"""Rows of recurrent layers."""

import pytest
import torch
from torch import nn

from tests.torch.aten.checking import check, refusals
from tests.torch.version import PYTORCH

X = torch.randn(4, 3, 5)
START = torch.randn(2, 3, 6)
LSTM_GIVES = slice(None) if PYTORCH >= (2, 13) else slice(1)
"""Without the last states where PyTorch infers wrong shapes for them."""


@pytest.mark.parametrize("compiled", [False, True])
def test_layers(compiled: bool):
    lstm, both = nn.LSTM(5, 6, 2), nn.LSTM(5, 3, 1, bidirectional=True, batch_first=True)
    cases = {
        "lstm": (lambda x, h, c: lstm(x, (h, c))[LSTM_GIVES], X, START, START + 1),
        "gru": (nn.GRU(5, 6, 2, bias=False), X, START),
        "tanh": (nn.RNN(5, 6, bidirectional=True), X, START),
        "relu": (nn.RNN(5, 6, bidirectional=True, nonlinearity="relu"), X, START),
        "lstm_both": (lambda x, h: both(x, (h, h))[LSTM_GIVES], X, torch.randn(2, 4, 3)),
        "gru_deep": (
            nn.GRU(5, 2, 3, bidirectional=True, batch_first=True, dropout=0.5).eval(),
            X,
            torch.randn(6, 4, 2),
        ),
    }
    check(cases, compiled=compiled)


def test_a_batch_of_none():
    check({"gru": (nn.GRU(5, 6), X[:, :0])}, compiled=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_cells(compiled: bool):
    h, lstm = torch.randn(3, 6), nn.LSTMCell(5, 6)
    cases = {
        "lstm": (lambda x, h: lstm(x, (h, h + 1)), X[0], h),
        "gru": (nn.GRUCell(5, 6), X[0], h),
        "tanh": (nn.RNNCell(5, 6, bias=False), X[0], h),
        "relu": (nn.RNNCell(5, 6, nonlinearity="relu"), X[0], h),
    }
    check(cases, compiled=compiled)


@pytest.mark.skipif(PYTORCH < (2, 13), reason="PyTorch infers wrong shapes, refused before")
def test_projections_are_refused():
    layer = nn.LSTM(5, 6, proj_size=2)
    (why,) = refusals(lambda x, h, c: layer(x, (h, c)), X, START[:1, :, :2], START[:1])
    assert "projections" in why
