# pyright: basic
"""Quantizers of weights: symmetric, with one scale for each output channel."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import nn

from weft.torch.qat.marks import spread
from weft.torch.qat.rounding import TINY, fitted_step, gradient_scaled, positive, rounded

FEWEST, MOST = 2, 8
"""Bits of a weight or an activation."""


def largest_of(bits: float) -> int:
    """The largest integer of so many bits; the smallest is its negative."""
    return (1 << (int(bits) - 1)) - 1


class WeightQuantizer(nn.Module):
    """Rounds weights to integers of a number of bits times the scale of their output channel.

    Integers are symmetric, -7 to 7 for 4 bits: a batch normalization behind the layer, which may
    flip the sign of a channel, is later a factor of its scale.

    Learned bit widths are fractions between two whole ones, of which the weights are
    interpolated while training: Yang, Jin: FracBits, mixed precision quantization via fractional
    bit-widths, AAAI 2021.  In evaluation they are rounded.

    Args:
        weight: first values.
        axis: of the output channels.
        bits: 2 to 8; where to start if they are learned.
        learned: whether ``bits`` is a parameter.

    Attributes:
        axis: of the output channels.
        fixed: the bits, where they are not learned.
        bits: the parameter, or ``None``.
    """

    def __init__(self, weight: torch.Tensor, axis: int, bits: float, learned: bool) -> None:
        super().__init__()
        self.axis = axis
        self.fixed = int(bits)
        self.count = weight.numel()
        self.bits: nn.Parameter | None
        start = nn.Parameter(torch.tensor(float(bits))) if learned else None
        self.register_parameter("bits", start)

    @abstractmethod
    def quantized(self, weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Whole numbers of the weight's shape, and their scales as they broadcast."""

    @property
    def width(self) -> float:
        """The bits as they are now, a fraction while they are learned."""
        return self.fixed if self.bits is None else float(self.bits.detach().clamp(FEWEST, MOST))

    @property
    def is_settled(self) -> bool:
        """Whether the bits are a whole number."""
        return self.width == int(self.width)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Weights, rounded to steps."""
        if self.bits is None or not (self.training and self.bits.requires_grad):
            return self._with(weight, round(self.width))
        below = min(math.floor(self.width), MOST - 1)
        part = self.bits.clamp(FEWEST, MOST) - below
        lower, upper = self._with(weight, below), self._with(weight, below + 1)
        return lower + part * (upper - lower)

    def _with(self, weight: torch.Tensor, bits: int) -> torch.Tensor:
        whole, scale = self.quantized(weight, bits)
        return whole * scale

    def integers(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What weights are rounded to: i8 of their shape, and f32 scales ``[channels]``."""
        with torch.no_grad():
            whole, scale = self.quantized(weight, round(self.width))
            channels = weight.shape[self.axis]
            return whole.to(torch.int8), scale.reshape(-1).expand(channels).contiguous()

    def scale(self, weight: torch.Tensor) -> torch.Tensor:
        """Scales as in ``integers``, or one in all."""
        return self.quantized(weight, round(self.width))[1].reshape(-1)

    def rows(self, weight: torch.Tensor) -> torch.Tensor:
        """Weights as ``[channels, n]``."""
        return weight.movedim(self.axis, 0).flatten(1)

    def extra_repr(self) -> str:
        """Shown by ``print(module)``."""
        return f"bits={self.width:g}, axis={self.axis}"


class LsqWeightQuantizer(WeightQuantizer):
    """Learns the step size of each channel (LSQ; see ``ActivationQuantizer``).

    Learned bits share a bound instead, as fewer bits need larger steps.

    Attributes:
        step: step sizes ``[channels]`` at the bits that are fixed, or at those to start with.
    """

    def __init__(self, weight: torch.Tensor, axis: int, bits: float, learned: bool) -> None:
        super().__init__(weight, axis, bits, learned)
        top = largest_of(self.fixed)
        rows = self.rows(weight.detach())
        self.step = nn.Parameter(fitted_step(rows, -top, top))

    def quantized(self, weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As the base class says."""
        top = largest_of(bits)
        # Of the weights that share a step.
        factor = (weight.numel() / len(self.step) * top) ** -0.5
        step = positive(gradient_scaled(self.step, factor))
        if bits != self.fixed:
            step = step * (largest_of(self.fixed) / top)
        scale = spread(step, self.axis, weight.dim())
        return rounded((weight / scale).clamp(-top, top)), scale


class SatWeightQuantizer(WeightQuantizer):
    """Clamps weights by DoReFa's tanh and keeps their variance (scale-adjusted training).

    Jin, Yang, Liao: Towards efficient training for neural network quantization, 2019; the clamp
    is of Zhou et al.: DoReFa-Net, 2016, with a level at zero.  Rounded weights are scaled to the
    mean square that the channel had before: in the paper all are scaled to the variance of He's
    initialization, and only where no batch normalization follows.

    Attributes:
        size: root of the mean square of each channel ``[channels]``, a buffer.
    """

    def __init__(self, weight: torch.Tensor, axis: int, bits: float, learned: bool) -> None:
        super().__init__(weight, axis, bits, learned)
        self.size: torch.Tensor
        self.register_buffer("size", self._size(weight.detach()).clone())

    def _size(self, weight: torch.Tensor) -> torch.Tensor:
        return self.rows(weight).square().mean(1).sqrt()

    def quantized(self, weight: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As the base class says."""
        bent = weight.tanh()
        largest = self.rows(bent.detach()).abs().amax(1).clamp_min(TINY)
        part = bent / spread(largest, self.axis, weight.dim())
        whole = rounded(part * largest_of(bits))
        scale = self.size / self._size(whole.detach()).clamp_min(TINY)
        return whole, spread(scale, self.axis, weight.dim())
