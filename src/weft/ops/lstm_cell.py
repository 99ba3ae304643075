"""The cell of an LSTM in 16-bit fixed point, bit by bit as LiteRT's reference kernel computes it.

Numbers with ``i`` integer bits count ``2**(i - 15)``; functions are those of gemmlowp's
``fixedpoint.h`` for ``i16``: exponentials by a series and factors, quotients by Newton's division.
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.ctext import body_text
from weft.ops.elementwise import Domain, checked
from weft.ops.gemmlowp import BARREL
from weft.ops.record import Call, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.requantization import DOMAIN, requantized
from weft.ops.support import known
from weft.records import dataclass

HALVES = Domain("i16", frozenset({DType.I16}))
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_GATE_BITS = 3
"""Integer bits of what gates are functions of."""


@dataclass(frozen=True, slots=True)
class FixedPointLstmCellAttributes(Attributes):
    """Attributes of ``FixedPointLstmCell``.

    Attributes:
        cell_bits: integer bits of the state, 0 to 6.
        multiplier: of outputs, 31 bits; shift: to the left where positive.
        zero_point: of outputs.
        clip: bound of the state; 0 for none.
        coupled: 1 where the input gate is one minus the forget gate.
    """

    cell_bits: int
    multiplier: int
    shift: int
    zero_point: int = 0
    clip: int = 0
    coupled: int = 0


# --- functions of 16 bits, in NumPy -------------------------------------------------------------


def _product(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    return np.minimum((a * b + (1 << 14)) >> 15, _HIGH)


def _divided(x: np.ndarray, exponent: int) -> np.ndarray:
    return (x + ((1 << exponent) >> 1) - (x < 0)) >> exponent if exponent else x


def _multiplied(x: np.ndarray, exponent: int) -> np.ndarray:
    return np.clip(x << exponent, _LOW, _HIGH)


def _narrow(constant: int) -> int:
    """A constant of 32 bits in 16."""
    return (constant + (1 << 15)) >> 16


def _exponential(a: np.ndarray, bits: int) -> np.ndarray:
    """``exp(a)`` in 0 integer bits, of numbers not above 0."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    near = (a & (quarter - 1)) - quarter
    x = _multiplied(near, bits) + (1 << 12)
    x2 = _product(x, x)
    x3, x4 = _product(x2, x), _product(x2, x2)
    rest = _divided(_product(_divided(x4, 2) + x3, _narrow(715827883)) + x2, 1)
    first = _narrow(1895147668)
    result = np.clip(first + _product(x + rest, first), _LOW, _HIGH)
    for exponent, factor in BARREL:
        if bits > exponent:
            bit = (near - a) >> (fraction + exponent) & 1
            result = np.where(bit == 1, _product(result, _narrow(factor)), result)
    if bits > 5:
        result = np.where(a < -(1 << (20 - bits)), 0, result)
    return np.where(a == 0, _HIGH, result)


def _quotient(a: np.ndarray) -> np.ndarray:
    """``2 / (1 + a)`` in 2 integer bits, of numbers from 0 to 1."""
    half = (a + _HIGH + 1) >> 1
    x = _narrow(1515870810) + _product(half, _narrow(-1010580540))
    for _ in range(3):
        x = x + _multiplied(_product(x, (1 << 13) - _product(half, x)), 2)
    return x


def logistic(a: np.ndarray) -> np.ndarray:
    """Of numbers with 3 integer bits, in 0."""
    found = _multiplied(_quotient(_exponential(-np.abs(a), _GATE_BITS)), 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, found, _HIGH - found))


def tanh(a: np.ndarray, bits: int) -> np.ndarray:
    """Of numbers with some integer bits, in 0."""
    found = _multiplied(_quotient(_exponential(-np.abs(a), bits + 1)) - (1 << 13), 2)
    return np.where(a == 0, 0, np.where(a < 0, -found, found))


# --- the op -------------------------------------------------------------------------------------


def _infer(call: Call) -> tuple[TensorType, ...]:
    gates, state = checked(call, 0, HALVES), checked(call, 1, HALVES)
    given = call.attributes
    count = 3 if given.coupled else 4
    wanted = TensorType(DType.I16, (*state.shape[:-1], count * known(call, state.shape[-1])))
    if gates != wanted:
        raise call.error(f"the gates must be {wanted}", got=str(gates))
    if not 0 <= given.cell_bits <= 6:
        raise call.error("the state must have 0 to 6 integer bits", got=str(given.cell_bits))
    return (TensorType(DType.I8, state.shape), state)


def _reference(call: Call, gates: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, ...]:
    given, count = call.attributes, 3 if call.attributes.coupled else 4
    parts = np.split(gates.astype(np.int32), count, -1)
    forget, new, out = logistic(parts[-3]), tanh(parts[-2], _GATE_BITS), logistic(parts[-1])
    taken = _HIGH - forget if given.coupled else logistic(parts[0])
    kept = _divided(forget * state.astype(np.int32), 15)
    after = np.clip(kept + _divided(taken * new, 15 + given.cell_bits), _LOW, _HIGH)
    if given.clip:
        after = np.clip(after, -given.clip, given.clip)
    product = (out * tanh(after, given.cell_bits)).astype(np.int32)
    multiplier, shift = (np.array(each, np.int32) for each in (given.multiplier, given.shift))
    made = requantized(product, multiplier, shift) + given.zero_point
    return np.clip(made, -128, 127).astype(np.int8), after.astype(np.int16)


def _body(call: Call) -> ExternBody:
    given, state = call.attributes, call.type(1)
    words = {
        "batch": prod(state.dims[:-1]),
        "units": state.dims[-1],
        "count": 3 if given.coupled else 4,
        "bits": given.cell_bits,
        "coupled": given.coupled,
        "clip": given.clip,
        "multiplier": given.multiplier,
        "left": max(given.shift, 0),
        "right": max(-given.shift, 0),
        "zero": given.zero_point,
    }
    return ExternBody(body_text("lstm_cell", "cell", **words))


OPS: tuple[Op, ...] = (
    Op(
        name="FixedPointLstmCell",
        inputs=(Param("gates"), Param("state")),
        outputs=(Param("y"), Param("after")),
        infer=_infer,
        reference=_reference,
        compute=Extern(_body),
        grad=NoGrad("integers have no derivative"),
        attributes=FixedPointLstmCellAttributes,
        domain=DOMAIN,
        rounding="litert",
        doc="A step of an LSTM in 16-bit fixed point: the output, i8, and the next state. Gates "
        "are what they are functions of, in 3 integer bits: input (unless coupled), forget, cell, "
        "output, one after another.",
    ),
)
