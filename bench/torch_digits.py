"""A short training on scikit-learn's handwritten digits, for models that random weights spoil.

Deep networks of random weights with batch norms are chaotic: a difference grows from layer to
layer (Yang and others, "A Mean Field Theory of Batch Normalization", 2019), and rounding with it,
so that PyTorch's own results are as far from double precision as a bound on errors allows.
Some steps of training end that.
"""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from sklearn.datasets import load_digits  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from bench.torch_catalog import CATALOG, Example
from bench.zoo import SEED, settle_batch_norms, vary_constants

STEPS, RATE, MOMENTUM = 60, 0.02, 0.9
CLASSIFIED, SEGMENTED = (32, 32), (16, 32)
"""Images of a step and their side, for classification and for segmentation."""


class Digits:
    """Drawn at random, with their classes.

    Attributes:
        pixels: from -1 to 1, (1797, 1, 8, 8).
        classes: 0 to 9.
    """

    def __init__(self) -> None:
        data: Any = load_digits()
        self.pixels = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1
        self.classes = torch.tensor(data.target)

    def draw(self, count: int, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Images of three channels with some noise, their classes, and those of their pixels.

        A pixel's class is one more than its digit's, and 0 beside the strokes.
        """
        chosen = torch.randint(0, len(self.classes), (count,))
        grown = nn.functional.interpolate(self.pixels[chosen], (side, side), mode="bilinear")
        classes = self.classes[chosen]
        of_pixels = torch.where(grown[:, 0] > 0, classes[:, None, None] + 1, 0)
        return grown + 0.1 * torch.randn(count, 3, side, side), classes, of_pixels


def trained(name: str) -> tuple[nn.Module, Example]:
    """A model of the catalog after a short training, in evaluation mode, and an example.

    Args:
        name: of a classification or segmentation model that is called with one image.
    """
    torch.manual_seed(SEED)
    what, digits = CATALOG[name], Digits()
    module = what.build()
    vary_constants(module)
    _train(module, digits)
    ((example,), _) = what.example(1)
    side = example.shape[-1]
    with torch.no_grad():
        settle_batch_norms(module, lambda: module(digits.draw(4, side)[0]), 2)
    torch.manual_seed(SEED + 1)
    return module.eval().requires_grad_(False), ((digits.draw(1, side)[0],), {})


def _train(module: nn.Module, digits: Digits) -> None:
    """Trains by plain descent with momentum."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), RATE, MOMENTUM)
    for _ in range(STEPS):
        optimizer.zero_grad()
        _loss(module, digits).backward()
        optimizer.step()


def _loss(module: nn.Module, digits: Digits) -> torch.Tensor:
    """The cross entropy of a batch; segmentation models give a dictionary of them."""
    segments = "segmentation" in type(module).__module__
    images, classes, of_pixels = digits.draw(*(SEGMENTED if segments else CLASSIFIED))
    entropy = nn.functional.cross_entropy
    if segments:
        return sum((entropy(each, of_pixels) for each in module(images).values()), torch.zeros(()))
    return entropy(module(images), classes)
