"""Requantization in integers: products with a fixed-point multiplier, as LiteRT rounds them.

A real factor ``f`` is written ``multiplier * 2**(shift - 31)`` with a multiplier of 31 bits, and
``x * f`` is rounded twice: the high half of the doubled product to nearest, halves up, then
its division by a power of two to nearest, halves away from zero.  That is what LiteRT's
reference kernels compute (``MultiplyByQuantizedMultiplier``; B. Jacob et al., Quantization and
Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, 2018).  Sums of 64
bits have multipliers of 15 bits, and one rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Const, Expr
from weft.ops.elementwise import Domain, checked
from weft.ops.expr import axes, binary, cast, const, index, unary, variables
from weft.ops.quantization import is_single
from weft.ops.record import Call, Define, NoGrad, Op, Param
from weft.ops.support import axis_of
from weft.records import dataclass

DOMAIN = "weft.integers"
"""The operator set of integer ops in ONNX files that the standard does not have."""
SUMS = Domain("i32", frozenset({DType.I32}))
WIDE_SUMS = Domain("i32 or i64", frozenset({DType.I32, DType.I64}))
RESULTS = Domain("i8, u8, i16 or i32", frozenset({DType.I8, DType.U8, DType.I16, DType.I32}))
MOST_SHIFT = 31
_I32, _I64 = DType.I32, DType.I64


@dataclass(frozen=True, slots=True)
class RequantizeAttributes(Attributes):
    """Attributes of ``Requantize``.

    Attributes:
        axis: of multipliers and shifts, if there are several.
    """

    axis: int = 1


def fixed_point(factor: float) -> tuple[int, int]:
    """A positive factor as a multiplier of 31 bits and a shift, as LiteRT does it.

    Returns:
        ``multiplier, shift`` with ``factor`` nearly ``multiplier * 2**(shift - 31)``; both 0 for
        a factor too small for a shift of 31 to the right, the largest for one beyond 30 bits.
    """
    if factor == 0:
        return 0, 0
    fraction, shift = frexp(factor)
    # Halves away from zero, as C's round().
    multiplier = int(np.floor(fraction * (1 << 31) + 0.5))
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    if shift < -MOST_SHIFT:
        return 0, 0
    return ((1 << 31) - 1, 30) if shift > 30 else (multiplier, shift)


def _check_lines(call: Call, position: int, axis: int) -> None:
    found = call.type(position)
    extent = call.type(0).shape[axis] if call.type(0).shape else 1
    if not is_single(found) and found.shape != (extent,):
        raise call.error(
            f"input {position} must be one number or one for each of {extent} positions",
            got=str(found),
        )


def _infer(call: Call, sums: Domain = SUMS) -> tuple[TensorType, ...]:
    x = checked(call, 0, sums)
    rank = len(x.shape)
    axis = axis_of(call, call.attributes.axis, rank) if rank > 1 else 0
    for position in (1, 2):
        checked(call, position, SUMS)
        _check_lines(call, position, axis)
    zero = checked(call, 3, RESULTS)
    if not is_single(zero):
        raise call.error("the zero point must be one number", got=str(zero))
    return (TensorType(zero.dtype, x.shape),)


def requantized(x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """``x * multiplier * 2**(shift - 31)``, rounded twice.

    Args:
        x: of ``i32``, any shape; ``x << shift`` wraps in 32 bits.
        multiplier: of ``i32``, broadcasts to x; at least 0.
        shift: of ``i32``, broadcasts to x; -31 to 30, to the left where positive.

    Returns:
        ``i64``, of the shape of x, in the range of ``i32``.
    """
    wide = np.int64
    left, right = np.maximum(shift, 0).astype(wide), np.maximum(-shift, 0).astype(wide)
    shifted = (x.astype(wide) << left).astype(np.int32).astype(wide)
    high = (shifted * multiplier.astype(wide) + (1 << 30)) >> 31
    half = (np.int64(1) << right) >> 1
    return (high + half - np.minimum(half, high < 0)) >> right


def _reference(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    x, multiplier, shift, zero = inputs
    spread = [_spread(call, each) for each in (multiplier, shift)]
    value = requantized(x, *spread) + zero.reshape(()).astype(np.int64)
    low, high = DType.of(zero.dtype).limits
    return (np.clip(value, low, high).astype(zero.dtype),)


def _spread(call: Call, values: np.ndarray) -> np.ndarray:
    if values.size == 1:
        return values.reshape(())
    rank = len(call.type(0).shape)
    axis = int(call.attributes.axis) % rank if rank > 1 else 0
    return values.reshape((-1,) + (1,) * (rank - 1 - axis))


def _at(call: Call, position: int, point: Sequence[Expr]) -> Expr:
    found = call.type(position)
    if is_single(found):
        return call.load(position, *(index(0) for _ in found.shape))
    axis = int(call.attributes.axis) % len(point) if len(point) > 1 else 0
    return call.load(position, point[axis])


def requantization(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """The definition, in ``i64``, of ``i32`` expressions.

    ``(p + 2**30) >> 31`` of a product ``p`` is the saturating, rounding, doubling high half:
    only two smallest numbers would saturate, and multipliers are not negative.
    """
    none = const(0, _I32)
    if isinstance(shift, Const):
        left: Expr = const(max(int(shift.value), 0), _I32)
        right: Expr = const(max(-int(shift.value), 0), _I64)
    else:
        left = binary("max", shift, none)
        right = cast(_I64, binary("max", unary("neg", shift), none))
    one = const(1, _I64)
    product = binary("mul", cast(_I64, binary("shl", x, left)), cast(_I64, multiplier))
    high = binary("shr", binary("add", product, const(1 << 30, _I64)), const(31, _I64))
    half = binary("shr", binary("shl", one, right), one)
    # Halves go away from zero: below it, one less is added; nothing where nothing is divided.
    below = binary("min", half, cast(_I64, binary("lt", high, const(0, _I64))))
    return binary("shr", binary("sub", binary("add", high, half), below), right)


def _define(call: Call) -> tuple[Compute, ...]:
    found = _infer(call)[0]
    ranges = axes(found.dims)
    point = variables(ranges)
    scaled = requantization(call.load(0, *point), _at(call, 1, point), _at(call, 2, point))
    return (Compute(ranges, _held(call, found.dtype, scaled)),)


def _held(call: Call, dtype: DType, scaled: Expr) -> Expr:
    """A scaled number of ``i64`` plus the zero point, held within the output's type."""
    zero = cast(_I64, call.load(3, *(index(0) for _ in call.type(3).shape)))
    low, high = dtype.limits
    held = binary("max", binary("add", scaled, zero), const(low, _I64))
    return cast(dtype, binary("min", held, const(high, _I64)))


# --- of wide sums -------------------------------------------------------------------------------


def narrow_multiplier(multiplier: int, shift: int) -> tuple[int, int]:
    """A multiplier of 31 bits in 15 bits, and how far its products are shifted to the right.

    Args:
        multiplier: of ``fixed_point``.
        shift: likewise, at most 14.
    """
    narrow = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return narrow, 15 - shift


def _infer_wide(call: Call) -> tuple[TensorType, ...]:
    return _infer(call, WIDE_SUMS)


def _reference_wide(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    x, multiplier, shift, zero = inputs
    factor, right = (_spread(call, each).astype(np.int64) for each in (multiplier, shift))
    value = (x.astype(np.int64) * factor + (np.int64(1) << (right - 1))) >> right
    value = value + zero.reshape(()).astype(np.int64)
    return (np.clip(value, *DType.of(zero.dtype).limits).astype(zero.dtype),)


def _define_wide(call: Call) -> tuple[Compute, ...]:
    found = _infer_wide(call)[0]
    ranges = axes(found.dims)
    point = variables(ranges)
    factor, right = (cast(_I64, _at(call, place, point)) for place in (1, 2))
    one = const(1, _I64)
    product = binary("mul", cast(_I64, call.load(0, *point)), factor)
    # A half is added where it is a whole: that takes no shift of a half.
    doubled = binary("shr", product, binary("sub", right, one))
    scaled = binary("shr", binary("add", doubled, one), one)
    return (Compute(ranges, _held(call, found.dtype, scaled)),)


OPS: tuple[Op, ...] = (
    Op(
        name="RequantizeWide",
        inputs=(Param("x"), Param("multiplier"), Param("shift"), Param("zero_point")),
        infer=_infer_wide,
        reference=_reference_wide,
        compute=Define(_define_wide),
        grad=NoGrad("integers have no derivative"),
        attributes=RequantizeAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="x * multiplier * 2^-shift in integers, rounded to nearest, halves up, as LiteRT's "
        "reference kernels do with sums of 64 bits and multipliers of 15; plus the zero point, "
        "held within its type. Shifts are 1 and more.",
    ),
    Op(
        name="Requantize",
        inputs=(Param("x"), Param("multiplier"), Param("shift"), Param("zero_point")),
        infer=_infer,
        reference=_reference,
        compute=Define(_define),
        grad=NoGrad("integers have no derivative"),
        attributes=RequantizeAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="x * multiplier * 2^(shift - 31) in integers, rounded to nearest twice as LiteRT's "
        "reference kernels do, plus the zero point, held within its type.",
    ),
)
