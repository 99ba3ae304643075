"""Ops of images whose channels are the last axis, ``[batch, spatial..., channels]``.

Each is an op of ``[batch, channels, spatial...]`` between two transposes; weights and
attributes are as there.  Plans choose physical layouts on their own: these ops are for graphs
that come from, or go to, tools whose logical layout this is.
"""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.ir.types import TensorType
from weft.ops import (
    convolution,
    global_pooling,
    integer,
    integer16,
    normalization,
    ordering,
    pooling,
)
from weft.ops.ordering import TransposeAttributes
from weft.ops.record import WITH_AUTODIFF, Builder, Call, Expand, NoGrad, Op, Param

DOMAIN = "weft.channels_last"
"""The operator set of these ops in ONNX files, where they have their usual names."""


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation that moves channels from axis 1 to the end."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation that moves channels from the end to axis 1."""
    return (0, rank - 1, *range(1, rank - 1))


def _permuted(type: TensorType, perm: tuple[int, ...]) -> TensorType:
    return TensorType(type.dtype, tuple(type.shape[axis] for axis in perm))


def _channels_last(base: Op) -> Op:
    def usual(call: Call) -> Call:
        """The call of the op as it is with the channels first."""
        x = call.type(0)
        if len(x.shape) < 3:
            raise call.error("input must be [batch, spatial..., channels]", got=f"x {x}")
        first = _permuted(x, to_first(len(x.shape)))
        return changed(call, op=base.name, inputs=(first, *call.inputs[1:]))

    def infer(call: Call) -> tuple[TensorType, ...]:
        (found,) = base.infer(usual(call))
        return (_permuted(found, to_last(len(found.shape))),)

    def reference(call: Call, x: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
        found = base.reference(usual(call), np.moveaxis(x, -1, 1), *rest)[0]
        return (np.moveaxis(found, 1, -1),)

    def expand(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
        rank = len(call.type(0).shape)
        first = TransposeAttributes(to_first(rank))
        x = build.op("Transpose", inputs[0], attributes=first)
        y = build.op(base.name, x, *inputs[1:], attributes=call.attributes)
        last = TransposeAttributes(to_last(rank))
        return (build.op("Transpose", y, attributes=last),)

    return Op(
        name=f"{base.name}ChannelsLast",
        inputs=base.inputs,
        outputs=(Param("y"),),
        infer=infer,
        reference=reference,
        compute=Expand(expand),
        grad=base.grad if isinstance(base.grad, NoGrad) else WITH_AUTODIFF,
        attributes=base.attributes,
        implied=base.implied,
        doc=f"{base.name} of images whose channels are the last axis; weights are as there.",
        domain=DOMAIN,
        onnx_name=base.name,
        rounding=base.rounding,
    )


_NAMES = (
    "Conv",
    "ConvInteger",
    "ConvInteger16",
    "QLinearConv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "IntegerAveragePool",
    "LpPool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "BatchNormalization",
    "InstanceNormalization",
    "DepthToSpace",
    "SpaceToDepth",
)
_FAMILIES = (
    *(
        convolution.OPS,
        integer.OPS,
        integer16.OPS,
        pooling.OPS,
        global_pooling.OPS,
        normalization.OPS,
        ordering.OPS,
    ),
)

OPS: tuple[Op, ...] = tuple(
    _channels_last(op) for family in _FAMILIES for op in family if op.name in _NAMES
)

LAST: dict[str, str] = {op.onnx_name: op.name for op in OPS}
"""The op with the channels last for each with the channels first."""
_CHANNELS_LAST = frozenset(LAST.values())


def channel_axis(call: Call) -> int:
    """The axis of the channels of the first input of an op of images."""
    return len(call.type(0).shape) - 1 if call.op in _CHANNELS_LAST else 1
