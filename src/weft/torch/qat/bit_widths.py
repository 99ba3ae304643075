# pyright: basic
"""Learned bit widths: what they may cost, the term of the loss, and rounding them for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from weft.errors import UserError
from weft.records import dataclass
from weft.torch.qat.weights import FEWEST, MOST, WeightQuantizer


@dataclass(frozen=True)
class Budget:
    """What the weights of quantized layers may take; one of the two is given.

    Attributes:
        mean_bits: bits of a weight, on average over all whose bits are learned.
        bytes: of all weights of quantized layers, packed.
    """

    mean_bits: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.mean_bits is None) == (self.bytes is None):
            raise UserError(
                "a budget is either mean_bits or bytes",
                got="neither" if self.bytes is None else "both",
            )
        mean = self.mean_bits
        if mean is not None and not FEWEST <= mean <= MOST:
            raise UserError(f"mean_bits must be {FEWEST} to {MOST}", got=f"{mean:g}")

    def allowed(self, quantizers: Sequence[WeightQuantizer]) -> float:
        """Bits of all weights whose bits are learned, in sum."""
        if self.mean_bits is not None:
            return self.mean_bits * sum(each.count for each in _learned(quantizers))
        assert self.bytes is not None
        fixed = sum(each.count * each.fixed for each in quantizers if each.bits is None)
        return self.bytes * 8 - fixed

    def check(self, module: nn.Module, paths: Sequence[str]) -> None:
        """Refuses a budget that no bit widths meet."""
        quantizers = quantizers_of(module, paths)
        learned = _learned(quantizers)
        if not learned:
            raise UserError(
                "a budget needs layers whose bits can be learned",
                got="none besides the first, the last and those of `layers`",
                fix="Give ends=None, or fewer entries of `layers`.",
            )
        fewest = FEWEST * sum(each.count for each in learned)
        if self.allowed(quantizers) < fewest:
            fixed = sum(each.count * each.fixed for each in quantizers if each.bits is None)
            least = -(-(fewest + fixed) // 8)
            raise UserError(
                f"weights take at least {least} bytes with {FEWEST} bits where bits are learned",
                got=f"a budget of {self.bytes} bytes",
            )


def quantizers_of(module: nn.Module, paths: Sequence[str]) -> list[WeightQuantizer]:
    """Quantizers of the weights of layers, in order."""
    layers: list[Any] = [module.get_submodule(path) for path in paths]
    return [layer.weight_quantizer for layer in layers]


def _learned(quantizers: Sequence[WeightQuantizer]) -> list[WeightQuantizer]:
    return [each for each in quantizers if each.bits is not None]


def penalty(quantizers: Sequence[WeightQuantizer], budget: Budget) -> torch.Tensor:
    """How far bits are from a budget, as a part of it."""
    learned = _learned(quantizers)
    spent = torch.stack(
        [each.count * each.bits.clamp(FEWEST, MOST) for each in learned if each.bits is not None]
    ).sum()
    return (spent / budget.allowed(quantizers) - 1).abs()


def freeze(quantizers: Sequence[WeightQuantizer], budget: Budget) -> None:
    """Makes learned bits whole numbers within a budget.

    All are rounded down; then they are rounded up, the largest fractions first, as long as the
    budget lasts.
    """
    learned = _learned(quantizers)
    room = budget.allowed(quantizers)
    widths = {id(each): int(each.width) for each in learned}
    room -= sum(each.count * widths[id(each)] for each in learned)
    while room < 0:
        # Training has not met the budget: take from the widest.
        widest = max(learned, key=lambda each: (widths[id(each)], each.count))
        widths[id(widest)] -= 1
        room += widest.count
    for each in sorted(learned, key=lambda each: widths[id(each)] - each.width):
        up = widths[id(each)] < each.width
        if up and each.count <= room:
            widths[id(each)] += 1
            room -= each.count
    for each in learned:
        assert each.bits is not None
        with torch.no_grad():
            each.bits.fill_(widths[id(each)])
        each.bits.requires_grad_(False)
        each.bits.grad = None
