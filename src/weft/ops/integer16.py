"""Layers of 16-bit integers, bit by bit as LiteRT's reference kernels compute them.

Activations are ``i16`` with a zero point of 0, weights ``i8`` ("16x8").
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr
from weft.ops.convolution import ConvAttributes, conv_compute, conv_shape, conv_window, convolve
from weft.ops.ctext import body_text
from weft.ops.elementwise import Domain, checked
from weft.ops.expr import axes, binary, cast, clamp, const, select, unary, variables
from weft.ops.fixed_point import FixedPointSoftmaxAttributes
from weft.ops.record import Call, Define, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.requantization import DOMAIN, requantized
from weft.ops.support import axis_of
from weft.ops.window import implied_window
from weft.records import dataclass

HALVES = Domain("i16", frozenset({DType.I16}))
BYTES = Domain("i8", frozenset({DType.I8}))
NO_DERIVATIVE = NoGrad("integers have no derivative")
_I32, _I64 = DType.I32, DType.I64


# --- convolutions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvInteger16Attributes(ConvAttributes):
    """Of ``ConvInteger16``; ``sums`` is the type of the output, ``i32`` or ``i64``."""

    sums: DType = DType.I64


def _infer_conv(call: Call) -> tuple[TensorType, ...]:
    data, weight = checked(call, 0, HALVES), checked(call, 1, BYTES)
    sums = call.attributes.sums
    if sums not in (_I32, _I64):
        raise call.error("sums must be i32 or i64", got=sums.value)
    return (TensorType(sums, conv_shape(call, data, weight)),)


def _reference_conv(call: Call, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    window = conv_window(call, call.type(1))
    # Sums of products of 24 bits are exact in f64.
    found = convolve(x.astype(np.float64), w.astype(np.float64), window, call.attributes.groups)
    return (found.astype(np.int64).astype(call.attributes.sums.numpy),)


def half_products(call: Call, weight: int, sums: DType) -> tuple[tuple[Axis, ...], Expr]:
    """Axes and sum of a convolution of ``i16`` by ``i8``, both without zero points.

    Args:
        call: its first input is the data.
        weight: the position of the weights.
        sums: the type in which products are added.
    """
    return conv_compute(
        call.type(0).dims,
        call.type(weight).dims,
        conv_window(call, call.type(weight)),
        call.attributes.groups,
        activation=lambda at: cast(_I32, call.load(0, *at)),
        weight=lambda at: cast(_I32, call.load(weight, *at)),
        outside=const(0, _I32),
        sums=None if sums is _I32 else sums,
    )


def _define_conv(call: Call) -> tuple[Compute, ...]:
    return (Compute(*half_products(call, 1, call.attributes.sums)),)


# --- logistic and tanh --------------------------------------------------------------------------

TABLE = 256
"""Entries of the table of the logistic function, of 24 steps to 1."""


@dataclass(frozen=True, slots=True)
class FixedPointSigmoidAttributes(Attributes):
    """Attributes of ``FixedPointSigmoid``: x times ``multiplier * 2**-shift`` counts 1 / 12288.

    Attributes:
        multiplier: of 15 bits.
        shift: to the right, rounded to nearest.
        tanh: 1 for the hyperbolic tangent.
    """

    multiplier: int
    shift: int = 0
    tanh: int = 0


def sigmoid_table() -> np.ndarray:
    """The logistic function of 0, 1/24, 2/24 ...; ``u16[256]`` in steps of 1/65536.

    Entries are raised by half of what a straight line between them lacks in the middle; the last
    is 1, nearly.
    """

    def steps(at: np.ndarray) -> np.ndarray:
        return 65536 / (1 + np.exp(-at / 24))

    places = np.arange(TABLE, dtype=np.float64)
    lacking = steps(places + 0.5) - (steps(places) + steps(places + 1)) / 2
    table = np.floor(steps(places) + lacking / 2 + 0.5)
    table[-1] = 65535
    return table.astype(np.uint16)


def _infer_sigmoid(call: Call) -> tuple[TensorType, ...]:
    x, table = checked(call, 0, HALVES), call.type(1)
    if table != TensorType(DType.U16, (TABLE,)):
        raise call.error(f"the table must be u16[{TABLE}]", got=str(table))
    given = call.attributes
    if not (0 <= given.shift <= 31 and 0 < given.multiplier < 1 << 15):
        got = f"multiplier {given.multiplier}, shift {given.shift}"
        raise call.error("the multiplier must have 15 bits, the shift 0 to 31", got=got)
    return (x,)


def _nudge(given: FixedPointSigmoidAttributes) -> int:
    return 1 << (given.shift - 1) if given.shift else 0


def _reference_sigmoid(call: Call, x: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, ...]:
    given = call.attributes
    data = (x.astype(np.int64) * given.multiplier + _nudge(given)) >> given.shift
    bits = 8 if given.tanh else 9
    size = np.abs(data)
    step = np.minimum(size >> bits, TABLE - 2)
    low, high = (table[step + more].astype(np.int64) for more in (0, 1))
    most = (0xFFFF << 8) if given.tanh else (0x7FFF << 10)
    between = (low << bits) + (size - (step << bits)) * (high - low)
    found = np.where(size >> bits >= TABLE - 1, most, between)
    if given.tanh:
        found = found - (1 << 23)
        return ((np.where(data >= 0, found + 128, 127 - found) >> 8).astype(np.int16),)
    return ((np.where(data >= 0, found + 512, (1 << 25) + 511 - found) >> 10).astype(np.int16),)


def _define_sigmoid(call: Call) -> tuple[Compute, ...]:
    (found,), given = _infer_sigmoid(call), call.attributes
    ranges = axes(found.dims)
    bits = 8 if given.tanh else 9

    def number(value: int) -> Expr:
        return const(value, _I32)

    def wide(value: int) -> Expr:
        return const(value, _I64)

    product = binary("mul", cast(_I64, call.load(0, *variables(ranges))), wide(given.multiplier))
    data = cast(_I32, binary("shr", binary("add", product, wide(_nudge(given))), wide(given.shift)))
    size = unary("abs", data)
    place = binary("shr", size, number(bits))
    # Not below 0, which bounds cannot tell of the smallest number's.
    step = clamp(place, number(0), number(TABLE - 2))
    low, high = (
        cast(_I32, call.load(1, binary("add", cast(_I64, step), wide(more)))) for more in (0, 1)
    )
    rest = binary("sub", size, binary("shl", step, number(bits)))
    risen = binary("mul", rest, binary("sub", high, low))
    most = number((0xFFFF << 8) if given.tanh else (0x7FFF << 10))
    above = binary("ge", place, number(TABLE - 1))
    made = select(above, most, binary("add", binary("shl", low, number(bits)), risen))
    up, down = (128 - (1 << 23), (1 << 23) + 127) if given.tanh else (512, (1 << 25) + 511)
    signed = select(
        binary("ge", data, number(0)),
        binary("add", made, number(up)),
        binary("sub", number(down), made),
    )
    last = binary("shr", signed, number(8 if given.tanh else 10))
    return (Compute(ranges, cast(found.dtype, last)),)


# --- tables -------------------------------------------------------------------------------------

SLOPES = 513
"""Entries of a table between which is interpolated."""


def between(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """What a table of ``SLOPES`` entries gives for every ``i16``, interpolated; ``i64``."""
    wide, entries = x.astype(np.int64), table.astype(np.int64)
    place = 256 + (wide >> 7)
    low = entries[place]
    return low + (((entries[place + 1] - low) * (wide & 127) + 64) >> 7)


def _check_table(call: Call, place: int) -> None:
    if call.type(place) != TensorType(DType.I16, (SLOPES,)):
        raise call.error(f"a table must be i16[{SLOPES}]", got=str(call.type(place)))


def _infer_interpolated(call: Call) -> tuple[TensorType, ...]:
    x = checked(call, 0, HALVES)
    _check_table(call, 1)
    return (x,)


def _reference_interpolated(call: Call, x: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, ...]:
    return (between(x, table).astype(np.int16),)


def _define_interpolated(call: Call) -> tuple[Compute, ...]:
    (found,) = _infer_interpolated(call)
    ranges = axes(found.dims)

    def number(value: int) -> Expr:
        return const(value, _I32)

    x = cast(_I32, call.load(0, *variables(ranges)))
    step = binary("shr", x, number(7))
    # Not outside, which bounds cannot tell of what is loaded.
    place = clamp(binary("add", step, number(256)), number(0), number(SLOPES - 2))
    low, high = (
        cast(_I32, call.load(1, binary("add", cast(_I64, place), const(more, _I64))))
        for more in (0, 1)
    )
    rest = binary("sub", x, binary("shl", step, number(7)))
    risen = binary("add", binary("mul", binary("sub", high, low), rest), number(64))
    made = binary("add", low, binary("shr", risen, number(7)))
    return (Compute(ranges, cast(found.dtype, made)),)


# --- square roots -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantizedSqrtAttributes(Attributes):
    """Attributes of ``QuantizedSqrt``.

    Attributes:
        scale: of the input, ``f32``.
        step: scale of the output.
    """

    scale: float
    step: float


def _infer_sqrt(call: Call) -> tuple[TensorType, ...]:
    given = call.attributes
    if not (given.scale > 0 and given.step > 0):
        raise call.error("scales must be positive", got=f"{given.scale:g}, {given.step:g}")
    return (checked(call, 0, HALVES),)


def _reference_sqrt(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    scale, step = np.float32(call.attributes.scale), np.float32(call.attributes.step)
    steps = np.sqrt(np.maximum(x, 0).astype(np.float32) * scale) / step
    return (np.minimum(np.floor(steps), 32767).astype(np.int16),)


def _define_sqrt(call: Call) -> tuple[Compute, ...]:
    (found,), given = _infer_sqrt(call), call.attributes

    def number(value: float) -> Expr:
        return const(value, DType.F32)

    ranges = axes(found.dims)
    x = binary("max", cast(DType.F32, call.load(0, *variables(ranges))), number(0.0))
    root = unary("sqrt", binary("mul", x, number(given.scale)))
    steps = unary("floor", binary("div", root, number(given.step)))
    return (Compute(ranges, cast(found.dtype, binary("min", steps, number(32767.0)))),)


# --- softmax ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedPointSoftmax16Attributes(FixedPointSoftmaxAttributes):
    """Attributes of ``FixedPointSoftmax16``.

    Attributes:
        multiplier: of differences, 31 bits; they then count 10 / 65535.
        shift: to the left where positive.
    """

    multiplier: int = 1 << 30
    shift: int = 0


def _infer_softmax(call: Call) -> tuple[TensorType, ...]:
    x = checked(call, 0, HALVES)
    axis_of(call, call.attributes.axis, len(x.shape))
    for place in (1, 2):
        _check_table(call, place)
    return (x,)


def _reference_softmax(
    call: Call, x: np.ndarray, powers: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, ...]:
    given = call.attributes
    rows = np.moveaxis(x, given.axis, -1).astype(np.int32)
    multiplier, shift = (np.array(each, np.int32) for each in (given.multiplier, given.shift))
    scaled = requantized(rows - rows.max(-1, keepdims=True), multiplier, shift) + 32767
    found = between(np.clip(scaled, -32768, 32767), powers)
    sums = found.sum(-1, keepdims=True)
    bits = np.frexp(sums.astype(np.float64))[1].astype(np.int64)
    # From 1 to 2 as 0 to 65536; the table is of what is above 1.
    above = (((sums << (31 - bits)) + (1 << 13)) >> 14) - (3 << 15)
    share = between(np.clip(above, -32768, 32767), shares)
    right = bits - 1
    made = (found * share + ((np.int64(1) << right) >> 1)) >> right
    return (np.moveaxis(np.clip(made, 0, 32767).astype(np.int16), -1, given.axis),)


def _softmax_body(call: Call) -> ExternBody:
    x, given = call.type(0), call.attributes
    axis = axis_of(call, given.axis, len(x.shape))
    words = {
        "outer": prod(x.dims[:axis]),
        "extent": x.dims[axis],
        "inner": prod(x.dims[axis + 1 :]),
        "multiplier": given.multiplier,
        "left": max(given.shift, 0),
        "right": max(-given.shift, 0),
    }
    return ExternBody(body_text("fixed_point", "softmax16", **words))


OPS: tuple[Op, ...] = (
    Op(
        name="ConvInteger16",
        inputs=(Param("x"), Param("w")),
        infer=_infer_conv,
        reference=_reference_conv,
        compute=Define(_define_conv),
        grad=NO_DERIVATIVE,
        attributes=ConvInteger16Attributes,
        implied=implied_window(weight=1),
        domain=DOMAIN,
        doc="The convolution of i16 by i8, in i32 (where sums wrap) or i64.",
    ),
    Op(
        name="FixedPointSigmoid",
        inputs=(Param("x"), Param("table")),
        infer=_infer_sigmoid,
        reference=_reference_sigmoid,
        compute=Define(_define_sigmoid),
        grad=NO_DERIVATIVE,
        attributes=FixedPointSigmoidAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="The logistic function or the hyperbolic tangent of i16, in steps of 1/32768, by "
        "interpolation in a table of the logistic function.",
    ),
    Op(
        name="Interpolate16",
        inputs=(Param("x"), Param("table")),
        infer=_infer_interpolated,
        reference=_reference_interpolated,
        compute=Define(_define_interpolated),
        grad=NO_DERIVATIVE,
        domain=DOMAIN,
        rounding="litert",
        doc="A function of i16 by interpolation between 513 entries of a table, of -32768, -32640 "
        "to 32768.",
    ),
    Op(
        name="QuantizedSqrt",
        inputs=(Param("x"),),
        infer=_infer_sqrt,
        reference=_reference_sqrt,
        compute=Define(_define_sqrt),
        grad=NO_DERIVATIVE,
        attributes=QuantizedSqrtAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="The square root of i16 in steps of another scale, fractions of which are cut off; 0 "
        "of what is negative.",
    ),
    Op(
        name="FixedPointSoftmax16",
        inputs=(Param("x"), Param("powers"), Param("shares")),
        infer=_infer_softmax,
        reference=_reference_softmax,
        compute=Extern(_softmax_body, along_axis=True),
        grad=NO_DERIVATIVE,
        attributes=FixedPointSoftmax16Attributes,
        domain=DOMAIN,
        rounding="litert",
        doc="Softmax of i16, in steps of 1/32768: exponentials and the reciprocal of their sum by "
        "interpolation in tables.",
    ),
)
