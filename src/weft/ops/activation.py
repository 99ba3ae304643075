"""Activation functions."""

from __future__ import annotations

import numpy as np

from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.ops.expr import axes, binary, const, variables
from weft.ops.record import Call, Define, NoGrad, Op, Param


def same_type(call: Call) -> tuple[TensorType, ...]:
    """The output has the type of the first input."""
    return (call.type(0),)


def _relu(call: Call) -> tuple[Compute, ...]:
    ranges = axes(call.type(0).dims)
    x = call.load(0, *variables(ranges))
    return (Compute(ranges, binary("max", x, const(0, x.dtype))),)


OPS: tuple[Op, ...] = (
    Op(
        name="Relu",
        inputs=(Param("x"),),
        infer=same_type,
        reference=lambda call, x: (np.maximum(x, x.dtype.type(0)),),
        compute=Define(_relu),
        grad=NoGrad("gradients come with autodiff"),
        doc="The larger of x and 0, elementwise.",
    ),
)
