"""Convolutions with their weights."""

from __future__ import annotations

from math import prod
from typing import Literal, TypeAlias

from weft.errors import UserError
from weft.ir.types import Symbol, TensorType
from weft.layers.initial import Array, Sizes, bias, float_type, parameter, size_at, spatial
from weft.layers.parameters import checked
from weft.ops.convolution import ConvAttributes, ConvTransposeAttributes
from weft.ops.table import OPS
from weft.ops.values import Initial, Value, apply
from weft.records import dataclass

Padding: TypeAlias = Sizes | Literal["same"]
"""Zeros on both sides of every axis; ``same`` keeps ``ceil(size / stride)``, as ONNX's
``SAME_UPPER`` does."""


@checked
@dataclass(frozen=True, eq=False)
class Conv:
    """Convolution over any number of spatial axes; channels come from the input.

    Attributes:
        channels: of the output.
        kernel: extents of the window; one number is for all axes.
        strides: steps of the window.
        padding: zeros around the input, or ``same``.
        dilations: distances of taps.
        groups: of channels; ``channels`` of the input for a depthwise convolution.
        weight: ``[channels, input channels / groups, *kernel]``; drawn if not given.
        bias: ``[channels]``; ``True`` for zeros, ``False`` for none.
        initial: how the weight is drawn.
        name: of the node.
    """

    channels: int
    kernel: Sizes
    strides: Sizes = 1
    padding: Padding = 0
    dilations: Sizes = 1
    groups: int = 1
    weight: Array | None = None
    bias: bool | Array = True
    initial: Initial = "he"
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        dtype, inputs = float_type("Conv", x), size_at("Conv", x, 1)
        kernel = spatial("Conv", "kernel", self.kernel, x)
        strides = spatial("Conv", "strides", self.strides, x)
        dilations = spatial("Conv", "dilations", self.dilations, x)
        if self.groups < 1 or inputs % self.groups or self.channels % self.groups:
            raise UserError(
                "Conv: groups must divide the channels of input and output",
                got=f"groups {self.groups}, {inputs} and {self.channels} channels",
            )
        shape = (self.channels, inputs // self.groups, *kernel)
        taps = prod(kernel)
        fans = (shape[1] * taps, self.channels // self.groups * taps)
        w = parameter("Conv", "weight", TensorType(dtype, shape), self.weight, self.initial, fans)
        b = bias("Conv", self.bias, x.type, self.channels)
        attributes = ConvAttributes(
            kernel, strides, dilations, self._pads(x, kernel, strides, dilations), self.groups
        )
        return apply(OPS["Conv"], (x, w, b), attributes, name=self.name)[0]

    def _pads(
        self, x: Value, kernel: tuple[int, ...], strides: tuple[int, ...], spread: tuple[int, ...]
    ) -> tuple[int, ...]:
        if not isinstance(self.padding, str):
            around = spatial("Conv", "padding", self.padding, x)
            return around + around
        if self.padding != "same":
            raise UserError("Conv: padding must be numbers or same", got=repr(self.padding))
        begins: list[int] = []
        ends: list[int] = []
        for size, taps, step, apart in zip(x.type.shape[2:], kernel, strides, spread, strict=True):
            assert not isinstance(size, Symbol)  # only the leading size may be one
            missing = max((-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size, 0)
            begins.append(missing // 2)
            ends.append(missing - missing // 2)
        return (*begins, *ends)


@checked
@dataclass(frozen=True, eq=False)
class ConvTranspose:
    """Transposed convolution.

    Attributes:
        channels: of the output.
        kernel: extents of the window; one number is for all axes.
        strides: how far apart the windows of neighbouring inputs are.
        padding: cut off on both sides of every axis.
        output_padding: added at the end of every axis.
        groups: of channels.
        weight: ``[input channels, channels / groups, *kernel]``; drawn if not given.
        bias: ``[channels]``; ``True`` for zeros, ``False`` for none.
        initial: how the weight is drawn.
        name: of the node.
    """

    channels: int
    kernel: Sizes
    strides: Sizes = 1
    padding: Sizes = 0
    output_padding: Sizes = 0
    groups: int = 1
    weight: Array | None = None
    bias: bool | Array = True
    initial: Initial = "he"
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        word = "ConvTranspose"
        dtype, inputs = float_type(word, x), size_at(word, x, 1)
        kernel = spatial(word, "kernel", self.kernel, x)
        if self.groups < 1 or self.channels % self.groups or inputs % self.groups:
            raise UserError(
                f"{word}: groups must divide the channels of input and output",
                got=f"groups {self.groups}, {inputs} and {self.channels} channels",
            )
        shape = (inputs, self.channels // self.groups, *kernel)
        fans = (inputs // self.groups * prod(kernel), shape[1] * prod(kernel))
        w = parameter(word, "weight", TensorType(dtype, shape), self.weight, self.initial, fans)
        b = bias(word, self.bias, x.type, self.channels)
        attributes = ConvTransposeAttributes(
            kernel=kernel,
            strides=spatial(word, "strides", self.strides, x),
            pads=spatial(word, "padding", self.padding, x) * 2,
            output_padding=spatial(word, "output_padding", self.output_padding, x),
            groups=self.groups,
        )
        return apply(OPS[word], (x, w, b), attributes, name=self.name)[0]
