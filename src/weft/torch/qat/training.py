# pyright: basic
"""What a training loop calls: groups of parameters, the budget's term, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from weft.errors import UserError
from weft.records import dataclass
from weft.screen import Screen, Shown
from weft.torch.qat.activations import ActivationQuantizer
from weft.torch.qat.bit_widths import Budget, freeze, penalty, quantizers_of
from weft.torch.qat.prepare import QatState, state_of
from weft.torch.qat.weights import WeightQuantizer

BITS_RATE = 10.0
"""The learning rate of bits, as a multiple of that of weights."""


def qat_parameters(
    module: nn.Module,
    lr: float,
    *,
    weight_decay: float = 0.0,
    step_lr: float | None = None,
    bits_lr: float | None = None,
) -> list[dict[str, Any]]:
    """Groups of parameters of a prepared module, for an optimizer.

    Args:
        module: from ``prepare_qat``.
        lr: of weights.
        weight_decay: of weights; step sizes and bits have none.
        step_lr: of step sizes, ``lr`` if not given.
        bits_lr: of learned bits, ``10 * lr`` if not given.
    """
    state_of(module, "qat_parameters")
    steps: dict[int, nn.Parameter] = {}
    bits: dict[int, nn.Parameter] = {}
    for each in module.modules():
        if isinstance(each, ActivationQuantizer | WeightQuantizer):
            for name, parameter in each.named_parameters(recurse=False):
                (bits if name == "bits" else steps)[id(parameter)] = parameter
    rest = [each for each in module.parameters() if id(each) not in steps and id(each) not in bits]
    step_lr = lr if step_lr is None else step_lr
    bits_lr = lr * BITS_RATE if bits_lr is None else bits_lr
    groups = [
        {"params": rest, "lr": lr, "weight_decay": weight_decay},
        {"params": list(steps.values()), "lr": step_lr, "weight_decay": 0.0},
        {"params": list(bits.values()), "lr": bits_lr, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def bit_penalty(module: nn.Module) -> torch.Tensor:
    """How far learned bit widths are from their budget, as a part of it: a term of the loss.

    FracBits adds it to the loss, times a factor of about 1.
    """
    state, budget = _learning(module, "bit_penalty")
    return penalty(quantizers_of(module, state.layers), budget)


def freeze_bits(module: nn.Module) -> None:
    """Rounds learned bit widths within the budget, for good; train on for a few epochs then."""
    state, budget = _learning(module, "freeze_bits")
    freeze(quantizers_of(module, state.layers), budget)


def _learning(module: nn.Module, action: str) -> tuple[QatState, Budget]:
    state = state_of(module, action)
    if state.budget is None:
        raise UserError(
            f"{action} is for learned bit widths",
            got="a module prepared without a budget",
            fix="prepare_qat(module, example, budget=weft.torch.Budget(mean_bits=4))",
        )
    return state, state.budget


# --- summary ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class QatLayer:
    """A quantized layer.

    Attributes:
        path: in the module.
        weights: how many.
        weight_bits: a fraction while they are learned.
        input_bits: those of what it reads.
        bytes: of the weights, packed.
    """

    path: str
    weights: int
    weight_bits: float
    input_bits: int | None
    bytes: float


@dataclass(frozen=True, repr=False)
class QatSummary(Shown):
    """What is quantized in a prepared module.

    Attributes:
        layers: in the order of their calls.
        floats: by path, why a layer or a value stays in floats.
    """

    layers: Sequence[QatLayer]
    floats: Mapping[str, str]

    @property
    def mean_bits(self) -> float:
        """Bits of a weight, on average."""
        weights = sum(each.weights for each in self.layers)
        return sum(each.weights * each.weight_bits for each in self.layers) / max(weights, 1)

    @property
    def bytes(self) -> float:
        """Of all weights of quantized layers, packed."""
        return sum(each.bytes for each in self.layers)

    def screen(self) -> Screen:
        """A row for each layer."""
        floats = "; ".join(f"{path or 'the module'}: {why}" for path, why in self.floats.items())
        facts = [("weights", f"{self.mean_bits:.2f} bits on average, {self.bytes:,.0f} bytes")]
        rows = [
            (
                each.path,
                f"{each.weights:,}",
                f"{each.weight_bits:.3g}",
                "as given" if each.input_bits is None else str(each.input_bits),
                f"{each.bytes:,.0f}",
            )
            for each in self.layers
        ]
        title = f"{len(rows)} quantized layers"
        headings = ("layer", "weights", "bits", "bits of the input", "bytes")
        more = [("in floats", floats)] if floats else []
        return Screen(title, [*facts, *more], headings, rows, numbers=(1, 2, 3, 4))


def qat_summary(module: nn.Module) -> QatSummary:
    """Bits and sizes of a prepared module, layer by layer, and what stays in floats."""
    state = state_of(module, "qat_summary")
    found: list[QatLayer] = []
    for path in state.layers:
        layer: Any = module.get_submodule(path)
        quantizer: WeightQuantizer = layer.weight_quantizer
        given: ActivationQuantizer | None = layer.input_quantizer
        bits = None if given is None else given.bits
        size = quantizer.count * quantizer.width / 8
        found.append(QatLayer(path, quantizer.count, quantizer.width, bits, size))
    return QatSummary(found, state.floats)
