# pyright: basic
"""``weft.torch.convert``: a trained module as a graph of quantized layers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import nn

from weft.api.net import Net
from weft.errors import UserError
from weft.torch.qat.activations import ActivationQuantizer
from weft.torch.qat.layers import QuantizedLayer
from weft.torch.qat.prepare import state_of
from weft.torch.tracing import trace


def convert(module: nn.Module, example: Any, *, kwargs: Mapping[str, Any] | None = None) -> Net:
    """The network that a module from ``prepare_qat`` became: QuantizeLinear and DequantizeLinear.

    Weights are integers with a scale for each output channel, into which batch normalizations
    behind the layer go exactly; biases are i32 of the scale of the products.  Of fewer than 8
    bits, they are i8 within a narrower range; activations are i8, bounded by a Clip.
    ``save("q.onnx")`` writes standard ONNX, ``apply("integers")`` computes in integers.

    Args:
        module: trained; it does not change.
        example: a tensor, or a tuple of all arguments; they decide sizes.
        kwargs: arguments by name.

    Returns:
        A net that gives what the module gives in evaluation mode, within a step of its
        outputs: biases are rounded.

    Raises:
        UserError: the module was not prepared, its bits are still being learned, or an op
            cannot be imported (all are listed).
    """
    state = state_of(module, "convert")
    copy: Any = deepcopy(module).eval()
    for path in state.layers:
        layer: Any = copy.get_submodule(path)
        if not layer.weight_quantizer.is_settled:
            raise UserError(
                "bits must be whole numbers to be exported",
                got=f"{layer.weight_quantizer.width:.2f} bits in {path}",
                fix="Call weft.torch.freeze_bits(module), and train on for a few epochs.",
            )
    for each in copy.modules():
        if isinstance(each, QuantizedLayer):
            each.settle()
        elif isinstance(each, ActivationQuantizer):
            each.settle()
            each.exporting = True
    return trace(copy, example, kwargs=kwargs).apply("quantized-form")
