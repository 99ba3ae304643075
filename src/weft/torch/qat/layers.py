# pyright: basic
"""Layers that quantize their weights and their input, and stay what they were otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from weft.torch.qat.activations import ActivationQuantizer
from weft.torch.qat.marks import dequantize
from weft.torch.qat.rounding import positive
from weft.torch.qat.weights import WeightQuantizer

_TRANSPOSED: dict[type[nn.Module], Callable[..., torch.Tensor]] = {
    nn.ConvTranspose1d: functional.conv_transpose1d,
    nn.ConvTranspose2d: functional.conv_transpose2d,
    nn.ConvTranspose3d: functional.conv_transpose3d,
}
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)


class QuantizedLayer(nn.Module):
    """What ``prepare_qat`` adds to the class of a layer; its parameters keep their names.

    Attributes:
        weight_quantizer: rounds the weights.
        input_quantizer: rounds the input; ``None`` where what makes it does so.
        given: the quantizer of the input, this layer's or another module's, in a tuple.
        norm: the batch normalization that follows, in a tuple; empty if none does.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    weight_quantizer: WeightQuantizer
    input_quantizer: ActivationQuantizer | None
    # In tuples, so that they are no submodules of this one too.
    given: tuple[ActivationQuantizer, ...]
    norm: tuple[nn.Module, ...]
    _base: type[nn.Module]

    def quantized(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Input, weights and bias as the layer computes with them."""
        if self.input_quantizer is not None:
            x = self.input_quantizer(x)
        integers = self._buffers.get("weight_integers")
        if integers is None:
            return x, self.weight_quantizer(self.weight), self._rounded_bias()
        scale = self._buffers["weight_scale"]
        assert scale is not None
        return x, dequantize(integers, scale, self.weight_quantizer.axis), self.bias

    def _rounded_bias(self) -> torch.Tensor | None:
        """The bias by which the layer and its normalization add whole steps of the products.

        Integer layers add so; in evaluation only, as a normalization's statistics change before.
        """
        if self.training or not self.given or self.given[0].observing:
            return self.bias
        with torch.no_grad():
            scale = self.weight_quantizer.scale(self.weight) * positive(self.given[0].step)
            bias = torch.zeros_like(scale) if self.bias is None else self.bias
            if len(scale) not in (1, len(bias)):
                return self.bias
            added = bias + offset_of(self.norm[0]) if self.norm else bias
            change = torch.round(added / scale) * scale - added
            # Not of channels that a normalization makes constant.
            change = torch.where(change.isfinite(), change, 0)
        return change if self.bias is None else self.bias + change

    def settle(self) -> None:
        """Replaces the weights by integers, for good."""
        integers, scale = self.weight_quantizer.integers(self.weight)
        self.register_buffer("weight_integers", integers)
        self.register_buffer("weight_scale", scale)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (type(self)._base,), self.__getstate__()


class _Linear(QuantizedLayer):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return functional.linear(*self.quantized(input))


class _Conv(QuantizedLayer):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        layer: Any = self
        return layer._conv_forward(*self.quantized(input))


class _ConvTranspose(QuantizedLayer):
    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        layer: Any = self
        sizes = (layer.stride, layer.padding, layer.kernel_size)
        rank = len(layer.kernel_size)
        extra = layer._output_padding(input, output_size, *sizes, rank, layer.dilation)
        (function,) = (each for base, each in _TRANSPOSED.items() if isinstance(self, base))
        rest = (layer.stride, layer.padding, extra, layer.groups, layer.dilation)
        return function(*self.quantized(input), *rest)


def offset_of(norm: Any) -> torch.Tensor:
    """What a batch normalization adds to each channel before it scales: by running statistics."""
    if norm.running_mean is None:
        return torch.zeros(())
    if norm.weight is None:
        return -norm.running_mean
    spread = (norm.running_var + norm.eps).sqrt() / norm.weight
    return norm.bias * spread - norm.running_mean


def problem(module: nn.Module) -> str | None:
    """Why a layer cannot be quantized; ``""`` for what is no layer with weights."""
    base = next((each for each in _LAYERS if isinstance(module, each)), None)
    if base is None:
        return ""
    if type(module).forward is not base.forward:
        return "its class has a forward of its own"
    if getattr(module, "padding_mode", "zeros") != "zeros":
        return "it pads with other values than zeros"
    weight: Any = module.weight
    if isinstance(weight, nn.UninitializedParameter):
        return "it has no weights yet: call the module first"
    if "weight" not in module._parameters or hasattr(module, "parametrizations"):
        return "its weight is computed from other parameters"
    return None if weight.dtype == torch.float32 else f"its weights are {weight.dtype}"


def become_quantized(layer: Any, quantizer: WeightQuantizer) -> QuantizedLayer:
    """Makes a layer one that quantizes, in place."""
    layer.__class__ = _quantized_class(type(layer))
    layer.weight_quantizer = quantizer
    layer.input_quantizer = None
    layer.given = layer.norm = ()
    return layer


def channel_axis(layer: nn.Module) -> int:
    """The axis of the weights that counts output channels."""
    return 1 if isinstance(layer, tuple(_TRANSPOSED)) else 0


@cache
def _quantized_class(base: type[nn.Module]) -> type[nn.Module]:
    own: type[QuantizedLayer] = _Conv
    if issubclass(base, nn.Linear):
        own = _Linear
    elif issubclass(base, tuple(_TRANSPOSED)):
        own = _ConvTranspose
    # The class's own name: what looks at it by name finds what it was.
    made: Any = type(base.__name__, (own, base), {"__module__": __name__, "_base": base})
    return made


def _rebuilt(base: type[nn.Module]) -> nn.Module:
    cls = _quantized_class(base)
    return cls.__new__(cls)
