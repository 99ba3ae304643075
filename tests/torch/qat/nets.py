"""Small networks, and batches for them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import weft


class Residual(nn.Module):
    """Batch normalizations, a skip connection that is written inline, and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.BatchNorm2d(8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8 * 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.pointwise(torch.relu(self.norm(self.depthwise(x))))
        return self.head(nn.functional.max_pool2d(x, 2).flatten(1))


def residual() -> Residual:
    """With weights and statistics as after training, factors below zero among them."""
    module = Residual()
    with torch.no_grad():
        for each in module.modules():
            if isinstance(each, nn.BatchNorm2d):
                each.weight.copy_(torch.randn_like(each.weight))
                each.bias.normal_()
                each.running_mean.normal_(0, 0.1)
                each.running_var.uniform_(0.5, 2)
    return module


def images(count: int = 32) -> torch.Tensor:
    return torch.rand(count, 2, 8, 8)


def apart(net: weft.Net, module: nn.Module, x: torch.Tensor) -> np.ndarray:
    """How far a net's outputs are from a module's at most, for each image."""
    with torch.no_grad():
        expected = module.eval()(x).numpy()
    made = np.concatenate([net.reference(each[None].numpy())[0] for each in x])
    assert len(np.unique(expected)) > 10
    return np.abs(made - expected).max(1)
