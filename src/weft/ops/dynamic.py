"""Quantization to i8 whose scales come from the values, as LiteRT's hybrid kernels do it.

All positions along the axes from ``axis`` on share a scale: it has extent 1 there. Rounding is to
the nearest whole number, halves away from zero.
"""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.arithmetic import ClipAttributes
from weft.ops.cast import CastAttributes
from weft.ops.record import Builder, Call, Expand, NoGrad, Op, Param
from weft.ops.reduction import ReduceAttributes
from weft.ops.support import axis_of
from weft.records import dataclass

_LARGEST = 127.0
_LOW, _HIGH, _STEPS = -128.0, 127.0, 255.0
_FAR = 1024.0
"""Beyond every integer before its zero point is added."""


@dataclass(frozen=True, slots=True)
class DynamicQuantizeAttributes(Attributes):
    """Attributes of ``DynamicQuantizeSymmetric`` and ``DynamicQuantizeAsymmetric``.

    Attributes:
        axis: the first axis whose positions share a scale.
    """

    axis: int = 1


def _shared(call: Call) -> tuple[int, ...]:
    """The axes whose positions share a scale."""
    rank = len(call.type(0).shape)
    return tuple(range(axis_of(call, call.attributes.axis, rank), rank))


def _infer(call: Call, dtypes: tuple[DType, ...]) -> tuple[TensorType, ...]:
    x = call.type(0)
    if x.dtype is not DType.F32:
        raise call.error("x must be f32", got=str(x))
    axes = _shared(call)
    lines = (*x.shape[: axes[0]], *(1 for _ in axes))
    return (TensorType(DType.I8, x.shape), *(TensorType(dtype, lines) for dtype in dtypes))


def _half(dtype: np.dtype[np.generic]) -> np.ndarray:
    """The largest number below one half: with it, sums that round do not reach the next one."""
    return np.nextafter(np.array(0.5, dtype), np.array(0, dtype))


def _away(x: np.ndarray) -> np.ndarray:
    """The nearest whole numbers, halves away from zero."""
    return np.trunc(x + np.sign(x) * _half(x.dtype))


# --- the same as nodes ------------------------------------------------------------------------


class _Nodes:
    """Nodes of one expansion."""

    def __init__(self, call: Call, builder: Builder) -> None:
        self.build = builder
        self.axes = ReduceAttributes(axes=_shared(call), keepdims=1)

    def number(self, value: float, dtype: DType = DType.F32) -> str:
        return self.build.constant(np.array(value, dtype.numpy))

    def cast(self, x: str, dtype: DType) -> str:
        return self.build.op("Cast", x, attributes=CastAttributes(dtype))

    def away(self, x: str, dtype: DType) -> str:
        """In i8, which a conversion makes by truncation."""
        half = self.build.constant(_half(dtype.numpy))
        more = self.build.op("Mul", self.build.op("Sign", x), half)
        return self.cast(self.build.op("Add", x, more), DType.I8)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.build.op("Clip", x, attributes=ClipAttributes(low, high))

    def reduce(self, op: str, x: str) -> str:
        return self.build.op(op, x, attributes=self.axes)


# --- symmetric --------------------------------------------------------------------------------


def _symmetric(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    one, most = np.float32(1), np.float32(_LARGEST)
    reach = np.max(np.abs(x), axis=_shared(call), keepdims=True, initial=0)
    none = reach == 0
    scaled = x * (most / np.where(none, one, reach))
    whole = _away(np.clip(scaled, -most, most)).astype(np.int8)
    return whole, np.where(none, one, reach / most)


def _expand_symmetric(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    g = _Nodes(call, build)
    most, one = g.number(_LARGEST), g.number(1)
    reach = g.reduce("ReduceMax", build.op("Abs", inputs[0]))
    none = build.op("Equal", reach, g.number(0))
    inverse = build.op("Div", most, build.op("Where", none, one, reach))
    # The bounds keep the product apart from the sum that rounds: fused, it would round once.
    scaled = g.clip(build.op("Mul", inputs[0], inverse), -_LARGEST, _LARGEST)
    scale = build.op("Where", none, one, build.op("Div", reach, most))
    return g.away(scaled, DType.F32), scale


# --- asymmetric -------------------------------------------------------------------------------


def _asymmetric(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    axes = _shared(call)
    low = np.min(x, axis=axes, keepdims=True, initial=0).astype(np.float64)
    high = np.max(x, axis=axes, keepdims=True, initial=0).astype(np.float64)
    none = low == high
    step = np.asarray(np.where(none, 1.0, high - low), np.float64) / _STEPS
    before, after = low / step, high / step
    nearer = np.abs(before) - _LOW < np.abs(after) + _HIGH
    found = np.asarray(np.where(nearer, _LOW - before, _HIGH - after), np.float64)
    zero = np.where(none, 0.0, _away(np.clip(found, _LOW, _HIGH))).astype(np.int8)
    scale = np.where(none, np.float32(1), step.astype(np.float32))
    scaled = np.clip(x * (np.float32(1) / scale), np.float32(-_FAR), np.float32(_FAR))
    moved = np.clip(scaled + zero.astype(np.float32), np.float32(_LOW), np.float32(_HIGH))
    return _away(moved).astype(np.int8), scale, zero


def _expand_asymmetric(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    g, wide = _Nodes(call, build), DType.F64
    (x,) = inputs
    zero_f32, one = g.number(0), g.number(1)
    low = g.cast(build.op("Min", g.reduce("ReduceMin", x), zero_f32), wide)
    high = g.cast(build.op("Max", g.reduce("ReduceMax", x), zero_f32), wide)
    none = build.op("Equal", low, high)
    spread = build.op("Where", none, g.number(1, wide), build.op("Sub", high, low))
    step = build.op("Div", spread, g.number(_STEPS, wide))
    before, after = build.op("Div", low, step), build.op("Div", high, step)
    nearer = build.op(
        "Less",
        build.op("Add", build.op("Abs", before), g.number(-_LOW, wide)),
        build.op("Add", build.op("Abs", after), g.number(_HIGH, wide)),
    )
    found = build.op(
        "Where",
        nearer,
        build.op("Sub", g.number(_LOW, wide), before),
        build.op("Sub", g.number(_HIGH, wide), after),
    )
    nothing = build.op("Where", none, g.number(0, wide), g.clip(found, _LOW, _HIGH))
    zero = g.away(nothing, wide)
    scale = build.op("Where", none, one, g.cast(step, DType.F32))
    # The bounds keep the product apart from the sum: fused, it would round once.
    scaled = g.clip(build.op("Mul", x, build.op("Div", one, scale)), -_FAR, _FAR)
    moved = g.clip(build.op("Add", scaled, g.cast(zero, DType.F32)), _LOW, _HIGH)
    return g.away(moved, DType.F32), scale, zero


_FLAT = NoGrad("the derivative is zero wherever there is one")

OPS: tuple[Op, ...] = (
    Op(
        name="DynamicQuantizeSymmetric",
        infer=lambda call: _infer(call, (DType.F32,)),
        reference=_symmetric,
        compute=Expand(_expand_symmetric),
        grad=_FLAT,
        doc="x quantized to -127 to 127 by the scale that just holds it; halves away from zero.",
        attributes=DynamicQuantizeAttributes,
        outputs=(Param("y"), Param("scale")),
    ),
    Op(
        name="DynamicQuantizeAsymmetric",
        infer=lambda call: _infer(call, (DType.F32, DType.I8)),
        reference=_asymmetric,
        compute=Expand(_expand_asymmetric),
        grad=_FLAT,
        doc="x quantized to i8 by the scale and zero point that just hold it and 0; halves away "
        "from zero.",
        attributes=DynamicQuantizeAttributes,
        outputs=(Param("y"), Param("scale"), Param("zero_point")),
    ),
)
