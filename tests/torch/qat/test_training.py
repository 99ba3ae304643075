"""Training with rounding gives back what rounding alone takes, on scikit-learn's digits."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.turns import a_few
from weft.torch import (
    Budget,
    bit_penalty,
    convert,
    freeze_bits,
    prepare_qat,
    qat_parameters,
    qat_summary,
)

datasets = pytest.importorskip("sklearn.datasets")

Digits = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def digits() -> tuple[Digits, Digits]:
    pixels, labels = datasets.load_digits(return_X_y=True)
    x = torch.from_numpy((pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32))
    y = torch.from_numpy(labels)
    held_out = torch.arange(len(x)) % 5 == 4
    return (x[~held_out], y[~held_out]), (x[held_out], y[held_out])


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
            *(nn.Conv2d(8, 16, 3, stride=2, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        )
        self.head = nn.Linear(16 * 9, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


def fit(module: Any, data: Digits, groups: Any, epochs: int, factor: float = 0) -> None:
    x, y = data
    optimizer = torch.optim.Adam(groups, lr=0.01)
    # Steps as large at the end as at the beginning leave the result to chance.
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.05, epochs)
    module.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(x[chosen]), y[chosen])
            if factor:
                loss = loss + factor * bit_penalty(module)
            loss.backward()
            optimizer.step()
        slower.step()


def accuracy(module: Any, data: Digits) -> float:
    with torch.no_grad():
        return float((module.eval()(data[0]).argmax(1) == data[1]).float().mean())


@pytest.fixture(scope="module")
def trained(digits: tuple[Digits, Digits]) -> Small:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    module = Small()
    fit(module, digits[0], module.parameters(), 8)
    return module


@pytest.mark.parametrize("method", a_few(["lsq", "sat"], 1))
def test_training_regains_what_rounding_to_two_bits_loses(trained, digits, method):
    learnt, held_out = digits
    whole = accuracy(trained, held_out)
    x = learnt[0][:256]
    made = prepare_qat(trained, x, weights=2, activations=2, ends=None, method=method)
    lost = whole - accuracy(made, held_out)
    fit(made, learnt, qat_parameters(made, 0.003), 8)
    left = whole - accuracy(made, held_out)
    assert whole > 0.96
    assert lost > 0.05
    assert left < 0.5 * lost
    net = convert(made, x[:1])
    with torch.no_grad():
        expected = made(held_out[0][:40]).numpy()
    found = np.concatenate([net.reference(each[None].numpy())[0] for each in held_out[0][:40]])
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.95


def test_learned_bits_differ_and_cost_no_more_than_the_budget(trained, digits):
    learnt, held_out = digits
    budget = Budget(mean_bits=3.5)
    made = prepare_qat(trained, learnt[0][:256], weights=4, activations=4, ends=None, budget=budget)
    fit(made, learnt, qat_parameters(made, 0.005), 4, factor=1)
    freeze_bits(made)
    fit(made, learnt, qat_parameters(made, 0.002), 2)
    summary = qat_summary(made)
    assert summary.mean_bits <= 3.5
    assert len({each.weight_bits for each in summary.layers}) > 1
    assert accuracy(made, held_out) > accuracy(trained, held_out) - 0.03
