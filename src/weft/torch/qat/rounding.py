# pyright: basic
"""What quantizers share: rounding that gradients pass, and step sizes that fit samples."""

from __future__ import annotations

from typing import Any

import torch

TINY = 1e-10
"""The smallest step size."""
_FRACTIONS = 40
"""Step sizes that are compared, as parts of the one that just holds all samples."""


class _Round(torch.autograd.Function):
    """Rounds to the nearest integer, halves to even; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradients[0]


def rounded(x: torch.Tensor) -> torch.Tensor:
    """Rounds half to even, with the straight-through estimator as its gradient.

    Bengio, Léonard, Courville: Estimating or propagating gradients through stochastic neurons
    for conditional computation, 2013.
    """
    made = _Round.apply(x)
    assert isinstance(made, torch.Tensor)
    return made


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradients[0] * ctx.factor, None


def gradient_scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The same numbers, whose gradient is multiplied by a factor."""
    made = _ScaledGradient.apply(x, factor)
    assert isinstance(made, torch.Tensor)
    return made


def positive(step: torch.Tensor) -> torch.Tensor:
    """A step size that an optimizer may have made negative or zero, as it is used."""
    return step.abs().clamp_min(TINY)


def fitted_step(samples: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """The step size by which integers represent samples with the least mean square error.

    Args:
        samples: ``[rows, n]``, f32; each row gets its own step size.
        low: the smallest integer.
        high: the largest.

    Returns:
        ``[rows]``; 1 for rows of zeros.
    """
    above = samples.amax(1).clamp_min(0) / max(high, 1)
    below = (-samples.amin(1)).clamp_min(0) / max(-low, 1) if low < 0 else torch.zeros_like(above)
    whole = torch.maximum(above, below)
    best, error = whole, torch.full_like(whole, float("inf"))
    for place in range(_FRACTIONS):
        step = (whole * (1 - place / _FRACTIONS)).clamp_min(TINY)
        held = (samples / step[:, None]).round().clamp(low, high) * step[:, None]
        now = (held - samples).square().mean(1)
        best, error = torch.where(now < error, step, best), torch.minimum(now, error)
    return torch.where(whole > 0, best, torch.ones_like(best))
