"""LSTMs whose weights, inputs and states are integers, with the bits of LiteRT's reference kernel.

Products are requantized to 16 bits with 3 integer bits, first those of the inputs, of all steps at
once, then those of the state; the cell is ``FixedPointLstmCell``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.frontends.litert.model import Quantization, TensorInfo
from weft.frontends.litert.record import Emit
from weft.ops.requantization import fixed_point
from weft.records import dataclass

INPUTS, RECURRENT, PEEPHOLES, BIASES, PROJECTION, HIDDEN, NORMS = 1, 5, 9, 12, 16, 18, 20
_GATE_SCALE = np.float32(2.0**-12)
_HALVES = (-(1 << 15), (1 << 15) - 1)


@dataclass(frozen=True)
class _Quantized:
    """How values of the layer are quantized: its input, output state, and hidden product."""

    x: Quantization
    state: Quantization
    hidden: Quantization
    cell_bits: int
    coupled: bool

    @property
    def gates(self) -> range:
        """Places of the gates that have weights."""
        return range(1 if self.coupled else 0, 4)


def _kind(info: TensorInfo | None) -> DType | None:
    return None if info is None or info.quantization is None else info.dtype


def quantized(g: Emit, projection_clip: float) -> _Quantized | None:
    """How values are quantized, where the layer is one of integers; else it is left in float."""
    taken = [*g.taken, *(None,) * (NORMS + 4 - len(g.taken))]
    coupled = taken[INPUTS] is None
    weights = [*range(INPUTS + coupled, INPUTS + 4), *range(RECURRENT + coupled, RECURRENT + 4)]
    kinds = [_kind(taken[at]) for at in (0, *weights, HIDDEN)]
    others = [*taken[PEEPHOLES:BIASES], *taken[NORMS : NORMS + 4]]
    if kinds != [DType.I8] * len(kinds) or _kind(taken[HIDDEN + 1]) is not DType.I16:
        return None
    if any(others) or len(g.inside) < 5 or _kind(g.inside[4]) is None or projection_clip > 0:
        return None
    constants = [g.array(each) for at in weights if (each := g.raw[at]) is not None]
    meanings = [taken[0], taken[HIDDEN], g.inside[4], taken[HIDDEN + 1]]
    found = [each.quantization for each in meanings if each is not None]
    x, state, hidden, cell = (each for each in found if each is not None)
    fraction, exponent = frexp(float(cell.scale[0]))
    bits = 15 + exponent - 1
    if any(each is None for each in constants) or fraction != 0.5 or not 0 <= bits <= 6:
        return None
    return _Quantized(x, state, hidden, bits, coupled)


def _stored(g: Emit, places: Sequence[int]) -> np.ndarray:
    """Constants of the file, one after another."""
    found = [g.array(each) for at in places if (each := g.raw[at]) is not None]
    return np.concatenate([each for each in found if each is not None])


def _scales(g: Emit, places: Sequence[int]) -> list[np.float32]:
    """The scale of each of some weights."""
    found = [g.taken[at] for at in places]
    meanings = [each.quantization for each in found if each is not None]
    return [np.float32(each.scale[0]) for each in meanings if each is not None]


def _requantized(
    g: Emit, sums: Tensor, factors: Sequence[np.float32], each: int, zero: int, dtype: DType
) -> Tensor:
    """Sums times a factor for each of some columns."""
    found = [fixed_point(float(factor)) for factor in factors]
    multipliers, shifts = (
        g.constant(np.repeat(np.array([one[place] for one in found], np.int32), each))
        for place in (0, 1)
    )
    return g("Requantize", sums, multipliers, shifts, g.number(zero, dtype), axis=-1)


def _product(g: Emit, rows: Tensor, weights: np.ndarray, zero: np.ndarray) -> Tensor:
    """Rows less a zero point times weights ``[columns, depth]``."""
    matrix = g.constant(np.ascontiguousarray(weights.T), f"{g.base}/weights")
    return g("MatMulInteger", rows, matrix, g.number(int(zero[0]), rows.dtype))


def fixed_lstm(g: Emit, how: _Quantized, cell_clip: float, time_major: bool) -> Tensor:
    """What the layer gives for every step; its states are assigned.

    Args:
        g: of the layer.
        how: its values are quantized.
        cell_clip: bound of the state; 0 for none.
        time_major: whether steps are the first axis.
    """
    x, hidden, state = g.raw[0], g.raw[HIDDEN], g.raw[HIDDEN + 1]
    assert x is not None
    assert hidden is not None
    assert state is not None
    units, count = state.shape[-1], len(how.gates)
    steps = x if time_major else g.transpose(x, (1, 0, 2))
    time, batch, width = steps.shape
    inputs, recurrent = ([first + at for at in how.gates] for first in (INPUTS, RECURRENT))
    sums = _product(
        g, g.reshape(steps, (time * batch, width)), _stored(g, inputs), how.x.zero_point
    )
    biases = [BIASES + at for at in how.gates]
    if all(g.raw[at] is not None for at in biases):
        sums = g("Add", sums, g.constant(_stored(g, biases)))
    scale = np.float32(how.x.scale[0])
    factors = [each * scale / _GATE_SCALE for each in _scales(g, inputs)]
    given = _requantized(g, sums, factors, units, 0, DType.I16)
    scale = np.float32(how.state.scale[0])
    factors = [each * scale / _GATE_SCALE for each in _scales(g, recurrent)]
    weights, rows = _stored(g, recurrent), list[Tensor]()
    for step in range(time):
        own = g.slice(given, 0, step * batch, (step + 1) * batch)
        again = _product(g, hidden, weights, how.state.zero_point)
        again = _requantized(g, again, factors, units, 0, DType.I32)
        total = g("Add", g.cast(own, DType.I32), again)
        gates = g.cast(g("Clip", total, min=_HALVES[0], max=_HALVES[1]), DType.I16)
        hidden, state = _cell(g, how, gates, state, cell_clip)
        hidden = _projected(g, how, hidden)
        rows.append(g.reshape(hidden, (1, *hidden.shape)))
    assert count * units == weights.shape[0]
    g.assign(HIDDEN, hidden)
    g.assign(HIDDEN + 1, state)
    made = g("Concat", *rows, axis=0)
    return made if time_major else g.transpose(made, (1, 0, 2))


def _cell(
    g: Emit, how: _Quantized, gates: Tensor, state: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    factor = np.float32(2.0**-15 / float(how.hidden.scale[0]) * 2.0**-15)
    multiplier, shift = fixed_point(float(factor))
    limit = min(clip / 2.0 ** (how.cell_bits - 15), _HALVES[1]) if clip > 0 else 0
    hidden, after = g.several(
        "FixedPointLstmCell",
        gates,
        state,
        outputs=2,
        cell_bits=how.cell_bits,
        multiplier=multiplier,
        shift=shift,
        zero_point=int(how.hidden.zero_point[0]),
        clip=int(limit),
        coupled=int(how.coupled),
    )
    return hidden, after


def _projected(g: Emit, how: _Quantized, hidden: Tensor) -> Tensor:
    """The output state: a product of what the cell gives, where there are weights for it."""
    if g.raw[PROJECTION] is None:
        return hidden
    weights = _stored(g, [PROJECTION])
    sums = _product(g, hidden, weights, how.hidden.zero_point)
    if g.raw[PROJECTION + 1] is not None:
        sums = g("Add", sums, g.constant(_stored(g, [PROJECTION + 1])))
    (scale,) = _scales(g, [PROJECTION])
    factor = scale * np.float32(how.hidden.scale[0]) / np.float32(how.state.scale[0])
    zero = int(how.state.zero_point[0])
    return _requantized(g, sums, [factor], weights.shape[0], zero, DType.I8)
