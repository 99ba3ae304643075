"""Models that are trained for some steps before they are compared."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)

from bench import torch_digits
from bench.torch_catalog import built

torch = pytest.importorskip("torch")


def test_pixels_have_the_class_of_their_digit_or_none():
    torch.manual_seed(0)
    images, classes, of_pixels = torch_digits.Digits().draw(5, 32)
    assert images.shape == (5, 3, 32, 32)
    assert of_pixels.shape == (5, 32, 32)
    for digit, pixels in zip(classes, of_pixels, strict=True):
        assert pixels.unique().tolist() == [0, digit + 1]


def test_a_model_learns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_digits, "STEPS", 2)
    module, (args, kwargs) = torch_digits.trained("squeezenet1_1")
    assert not module.training
    assert not any(each.requires_grad for each in module.parameters())
    assert args[0].shape == (1, 3, 224, 224)
    assert not kwargs
    before, _ = built("squeezenet1_1")
    pairs = zip(module.parameters(), before.parameters(), strict=True)
    assert not any(torch.equal(one, other) for one, other in pairs)
