"""Layers of bytes in fixed point, bit by bit as LiteRT's reference kernels compute them.

Scales are multipliers of 31 bits and shifts (``weft.ops.requantization``), computed when a graph is
made, so that a run has integers only.
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.ctext import C_TYPES, body_text
from weft.ops.elementwise import Domain, broadcast_inputs, checked, elementwise, same_dtypes
from weft.ops.expr import axes, binary, cast, clamp, const, index, variables
from weft.ops.gemmlowp import SUM_BITS, reciprocal
from weft.ops.record import Call, Define, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.requantization import (
    DOMAIN,
    requantization,
    requantized,
)
from weft.ops.support import axis_of
from weft.records import dataclass

BYTES = Domain("i8 or u8", frozenset({DType.I8, DType.U8}))
NARROW = Domain("i8, u8 or i16", frozenset({DType.I8, DType.U8, DType.I16}))
SUMS = Domain("i32", frozenset({DType.I32}))
NO_DERIVATIVE = NoGrad("integers have no derivative")
_I32, _I64 = DType.I32, DType.I64


# --- sums ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedPointAddAttributes(Attributes):
    """Attributes of ``FixedPointAdd``: for a, b and the output in this order.

    Attributes:
        zeros: zero points; multipliers: of 31 bits; shifts: to the left where positive.
        left_shift: of a and b before they are scaled.
        subtract: 1 for a - b.
    """

    zeros: tuple[int, ...]
    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    left_shift: int = 20
    subtract: int = 0


def _infer_add(call: Call) -> tuple[TensorType, ...]:
    dtype = same_dtypes(call, NARROW)
    given = call.attributes
    for name in ("zeros", "multipliers", "shifts"):
        found = getattr(given, name)
        if len(found) != 3:
            raise call.error(f"{name} must be three numbers", got=f"{name} {list(found)}")
    return (TensorType(dtype, broadcast_inputs(call)),)


def _reference_add(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    given, dtype = call.attributes, call.type(0).dtype

    def scaled(x: np.ndarray, place: int) -> np.ndarray:
        multiplier, shift = (
            np.array(each[place], np.int32) for each in (given.multipliers, given.shifts)
        )
        return requantized(x, multiplier, shift)

    a, b = (
        scaled((each.astype(np.int32) - given.zeros[place]) << given.left_shift, place)
        for place, each in enumerate(inputs)
    )
    sum = (a - b if given.subtract else a + b).astype(np.int32)
    return (np.clip(scaled(sum, 2) + given.zeros[2], *dtype.limits).astype(dtype.numpy),)


def _define_add(call: Call) -> tuple[Compute, ...]:
    found, given = _infer_add(call)[0], call.attributes

    def scaled(x: Expr, place: int) -> Expr:
        factors = (const(each[place], _I32) for each in (given.multipliers, given.shifts))
        return requantization(x, *factors)

    def wide(x: Expr, place: int) -> Expr:
        centred = binary("sub", cast(_I32, x), const(given.zeros[place], _I32))
        shifted = binary("shl", centred, const(given.left_shift, _I32))
        return cast(_I32, scaled(shifted, place))

    def value(a: Expr, b: Expr) -> Expr:
        sum = binary("sub" if given.subtract else "add", wide(a, 0), wide(b, 1))
        moved = binary("add", scaled(sum, 2), const(given.zeros[2], _I64))
        low, high = (const(each, _I64) for each in found.dtype.limits)
        return cast(found.dtype, clamp(moved, low, high))

    return elementwise(call, found.dims, value)


# --- tables -------------------------------------------------------------------------------------


def _infer_lookup(call: Call) -> tuple[TensorType, ...]:
    x, table = checked(call, 0, BYTES), call.type(1)
    if table.shape != (256,):
        raise call.error("the table must have 256 elements", got=str(table))
    return (TensorType(table.dtype, x.shape),)


def _reference_lookup(call: Call, x: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, ...]:
    return (table[x.astype(np.int32) - call.type(0).dtype.limits[0]],)


def _define_lookup(call: Call) -> tuple[Compute, ...]:
    x = call.type(0)
    ranges = axes(x.dims)
    place = binary("sub", cast(_I64, call.load(0, *variables(ranges))), index(x.dtype.limits[0]))
    return (Compute(ranges, call.load(1, place)),)


# --- softmax ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedPointSoftmaxAttributes(Attributes):
    """``axis`` along which outputs add up to 1."""

    axis: int = -1


def _infer_softmax(call: Call) -> tuple[TensorType, ...]:
    x, table = checked(call, 0, BYTES), checked(call, 1, SUMS)
    axis_of(call, call.attributes.axis, len(x.shape))
    if table.shape != (256,):
        raise call.error("the table must have 256 elements", got=str(table))
    return (x,)


def _reference_softmax(call: Call, x: np.ndarray, powers: np.ndarray) -> tuple[np.ndarray, ...]:
    axis, dtype = call.attributes.axis, call.type(0).dtype
    rows = np.moveaxis(x, axis, -1).astype(np.int32)
    table = powers.astype(np.int64)
    below = rows.max(-1, keepdims=True) - rows
    sums = ((table + (1 << (SUM_BITS - 1))) >> SUM_BITS)[below].sum(-1)
    found = [reciprocal(int(sum)) for sum in sums.reshape(-1)]
    factors, shifts = (
        np.array([each[place] for each in found], np.int64).reshape(*sums.shape, 1)
        for place in (0, 1)
    )
    shifts = shifts + 31 - 8 * dtype.bytes
    share = ((factors * table[below] + (1 << 30)) >> 31) + (np.int64(1) << (shifts - 1)) >> shifts
    low, high = dtype.limits
    made = np.clip(share + low, low, high).astype(dtype.numpy)
    return (np.moveaxis(made, -1, axis),)


def _softmax_body(call: Call) -> ExternBody:
    x = call.type(0)
    axis = axis_of(call, call.attributes.axis, len(x.shape))
    words = {
        "outer": prod(x.dims[:axis]),
        "extent": x.dims[axis],
        "inner": prod(x.dims[axis + 1 :]),
        "low": x.dtype.limits[0],
        "type": C_TYPES[x.dtype],
    }
    return ExternBody(body_text("fixed_point", "softmax", **words))


OPS: tuple[Op, ...] = (
    Op(
        name="FixedPointAdd",
        inputs=(Param("a"), Param("b")),
        infer=_infer_add,
        reference=_reference_add,
        compute=Define(_define_add),
        grad=NO_DERIVATIVE,
        attributes=FixedPointAddAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="The sum or difference of quantized tensors: each is shifted to the left, scaled by a "
        "multiplier and a shift, and so is the sum.",
    ),
    Op(
        name="Lookup",
        inputs=(Param("x"), Param("table")),
        infer=_infer_lookup,
        reference=_reference_lookup,
        compute=Define(_define_lookup),
        grad=NO_DERIVATIVE,
        domain=DOMAIN,
        doc="The element of a table that a byte stands for; the smallest byte is the first.",
    ),
    Op(
        name="FixedPointSoftmax",
        inputs=(Param("x"), Param("powers")),
        infer=_infer_softmax,
        reference=_reference_softmax,
        compute=Extern(_softmax_body, along_axis=True),
        grad=NO_DERIVATIVE,
        attributes=FixedPointSoftmaxAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="Softmax of bytes in fixed point, 1 as 256 steps: exponentials by a table of how far a "
        "byte is below the largest, their sum's reciprocal by Newton's division.",
    ),
)
