# pyright: basic
"""Quantizers of activations: one learned step size and a fixed zero point."""

from __future__ import annotations

import torch
from torch import nn

from weft.errors import UserError
from weft.torch.qat.marks import quantize_dequantize
from weft.torch.qat.rounding import fitted_step, gradient_scaled, positive, rounded

SAMPLES = 1 << 16
"""So many elements of a batch are kept to find a first step size."""


class ActivationQuantizer(nn.Module):
    """Rounds activations to ``2**bits`` steps, whose size is learned (LSQ).

    Esser, McKinstry, Bablani, Appuswamy, Modha: Learned step size quantization, ICLR 2020.  With
    steps of ``range / (2**bits - 1)`` the gradient is also that of a learned clipping bound,
    corrected as in scale-adjusted training (CG-PACT; Jin, Yang, Liao: Towards efficient
    training for neural network quantization, 2019).  The zero point is what the first samples
    need: 0 after ReLU.

    Args:
        bits: 2 to 8.

    Attributes:
        step: the step size, a parameter without dimensions.
        zero_point: the integer that stands for zero, a buffer without dimensions.
        observing: whether a call only notes what it gets.
        exporting: whether a call leaves its mark in an exported graph.
    """

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.largest = (1 << bits) - 1
        self.step = nn.Parameter(torch.ones(()))
        self.zero_point: torch.Tensor
        self.register_buffer("zero_point", torch.zeros((), dtype=torch.int32))
        self.observing = self.exporting = False
        self._samples: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Activations of any shape, the batch first, rounded to steps."""
        if self.observing:
            self._observe(x.detach())
            return x
        if self.exporting:
            return quantize_dequantize(x, self.step, self.zero_point, self.largest)
        features = x.numel() // x.shape[0] if x.dim() > 1 else x.numel()
        factor = (max(features, 1) * self.largest) ** -0.5
        step = positive(gradient_scaled(self.step, factor))
        # As ONNX rounds: the quotient, then the zero point.
        return rounded((x / step).clamp(-self.zero_point, self.largest - self.zero_point)) * step

    def _observe(self, x: torch.Tensor) -> None:
        flat = x.flatten().float()
        kept = flat[:: max(1, flat.numel() // SAMPLES)]
        # The extremes decide the zero point.
        self._samples.append(torch.cat([kept, flat.amin()[None], flat.amax()[None]]))

    def start(self) -> None:
        """Decides zero point and step size of what was observed."""
        if not self._samples:
            raise UserError(
                "a quantizer needs values to find its range",
                got="none: its layer was not called",
                fix="Give prepare_qat an example that reaches every layer.",
            )
        samples = torch.cat(self._samples)
        self._samples = []
        if not bool(samples.isfinite().all()):
            raise UserError("activations must be finite numbers", got="NaN or infinity")
        low, high = float(samples.amin().clamp_max(0)), float(samples.amax().clamp_min(0))
        zero = round(-low / (high - low) * self.largest) if high > low else 0
        if low < 0 < high:
            zero = min(max(zero, 1), self.largest - 1)
        with torch.no_grad():
            self.zero_point.fill_(zero)
            self.step.copy_(fitted_step(samples[None], -zero, self.largest - zero)[0])
        self.observing = False

    def settle(self) -> None:
        """Makes the step size what it is used as."""
        with torch.no_grad():
            self.step.copy_(positive(self.step))

    def extra_repr(self) -> str:
        """Shown by ``print(module)``."""
        return f"bits={self.bits}"
