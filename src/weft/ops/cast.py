"""Conversions between element types, and ops that change nothing."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.elementwise import FLOATS, checked, fitted
from weft.ops.expr import axes, const, variables
from weft.ops.record import Call, Define, Extern, ExternBody, NoGrad, Op, Param
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class CastAttributes(Attributes):
    """Attributes of ``Cast``.

    Attributes:
        to: the type to convert to.
    """

    to: DType = DType.F32


@dataclass(frozen=True, slots=True)
class BitCastAttributes(Attributes):
    """Attributes of ``BitCast``.

    Attributes:
        to: the type that the bits are read as, of the same size.
    """

    to: DType = DType.F32


def convert(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Conversion as the loop language's ``Cast`` does it.

    Numbers beyond an integer type give its ends and NaN gives 0; NumPy leaves that to the
    processor.
    """
    if not (dtype.is_integer and DType.of(array.dtype).is_float):
        return array.astype(dtype.numpy, copy=False)
    low, high = dtype.limits
    wide = array.astype(np.float64)
    # As doubles, the limits of 64 bits round to what is beyond.
    above, below = wide >= high + 1, wide <= low - 1
    whole = np.where(above | below | np.isnan(wide), 0, wide).astype(dtype.numpy)
    return np.where(above, dtype.numpy.type(high), np.where(below, dtype.numpy.type(low), whole))


def _cast(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (convert(x, call.attributes.to),)


def _cast_like(call: Call, x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    return (convert(x, DType.of(target.dtype)),)


def _identity(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x,)


def _dropout(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return x, np.ones(x.shape, np.bool_)


def _bitcast(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    to: DType = call.attributes.to
    return (np.ascontiguousarray(x).view(to.numpy).reshape(x.shape),)


def _copied(call: Call, dtype: DType) -> tuple[Compute, ...]:
    ranges = axes(call.type(0).dims)
    value = call.load(0, *variables(ranges))
    return (Compute(ranges, fitted(dtype, value, value.dtype)),)


def _infer_dropout(call: Call) -> tuple[TensorType, ...]:
    found = checked(call, 0, FLOATS)
    return (found, TensorType(DType.BOOL, found.shape))


def _define_dropout(call: Call) -> tuple[Compute, ...]:
    ranges = axes(call.type(0).dims)
    kept: Expr = const(True, DType.BOOL)
    computes = (*_copied(call, call.type(0).dtype), Compute(ranges, kept))
    return computes[: call.outputs]


def _infer_bitcast(call: Call) -> tuple[TensorType, ...]:
    found, to = call.type(0), call.attributes.to
    if found.dtype.bytes != to.bytes:
        raise call.error(
            "both types must have the same size", got=f"{found.dtype.value} to {to.value}"
        )
    return (TensorType(to, found.shape),)


def _bitcast_body(call: Call) -> ExternBody:
    return ExternBody(
        "    const unsigned char *from = (const unsigned char *)in0;\n"
        "    unsigned char *to = (unsigned char *)out0;\n"
        "    long i;\n"
        f"    for (i = 0; i < {call.type(0).bytes}; ++i)\n"
        "        to[i] = from[i];\n"
    )


OPS: tuple[Op, ...] = (
    Op(
        name="Cast",
        infer=lambda call: (TensorType(call.attributes.to, call.type(0).shape),),
        reference=_cast,
        compute=Define(lambda call: _copied(call, call.attributes.to)),
        doc="x in another element type: floats truncate to integers, bool is x != 0; floats beyond "
        "an integer type give its ends and NaN gives 0, integers beyond it wrap.",
        attributes=CastAttributes,
    ),
    Op(
        name="CastLike",
        inputs=(Param("x"), Param("target")),
        infer=lambda call: (TensorType(call.type(1).dtype, call.type(0).shape),),
        reference=_cast_like,
        compute=Define(lambda call: _copied(call, call.type(1).dtype)),
        doc="x in the element type of the target, as Cast converts.",
    ),
    Op(
        name="Identity",
        infer=lambda call: (call.type(0),),
        reference=_identity,
        compute=Define(lambda call: _copied(call, call.type(0).dtype)),
        doc="x itself.",
    ),
    Op(
        name="Dropout",
        infer=_infer_dropout,
        reference=_dropout,
        compute=Define(_define_dropout),
        doc="x itself, as inference leaves it, and a mask that keeps everything.",
        outputs=(Param("y"), Param("mask", optional=True)),
    ),
    Op(
        name="BitCast",
        infer=_infer_bitcast,
        reference=_bitcast,
        compute=Extern(_bitcast_body, along_axis=True),
        grad=NoGrad("the output's bits are not a smooth function of the input"),
        doc="The bits of x read as another type of the same size.",
        attributes=BitCastAttributes,
    ),
)
