"""Rounding at the end of a quantized layer by an instruction that makes integers of floats.

Where a scaled sum is known to be far inside of what ``i32`` holds, saturating integers is all that
is left to do behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.kernels.integer.division import multiplied
from weft.kernels.writer import LANE, for_lanes, integer, with_locals
from weft.loops.instruction import instructions
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Instruct,
    Load,
    Local,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import map_expr
from weft.records import dataclass

ROUNDING = "vcvtr"
_F32, _I32 = DType.F32, DType.I32
_SCALED, _WHOLE = Load("scaled", (), _F32), Load("whole", (), _I32)


@dataclass(frozen=True)
class Requantized:
    """``saturate(round(scaled) + zero)`` in an output's definition.

    Attributes:
        scaled: what is rounded, in ``f32``.
        value: the definition, which reads ``whole``, the rounded number, as ``i32``.
        zero: what is added to that; dtype: what it becomes.
    """

    scaled: Expr
    value: Expr
    zero: int = 0
    dtype: DType = DType.I8

    def store(self, output: str, index: tuple[Expr, ...]) -> Stmt:
        """Rounds by the instruction, and stores the output."""
        body: tuple[Stmt, ...] = (
            Store(_SCALED.buffer, (), self.scaled),
            Instruct(ROUNDING, (_WHOLE, _SCALED)),
            Store(output, index, self.value),
        )
        for each in (_WHOLE, _SCALED):
            body = (Local(Buffer(each.buffer, each.dtype, (), Access.LOCAL), body),)
        return body[0]

    def lanes(self, row: str, lanes: int, output: str, index: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        """Rounds a vector by an instruction, and stores the outputs of its lanes."""
        lane = (Var(LANE),)
        whole = map_expr(self.value, lambda node: _at(_WHOLE, lane) if node == _WHOLE else node)
        body = (
            for_lanes(lanes, Store(_SCALED.buffer, lane, self.scaled)),
            Instruct(row, tuple(_at(each, (integer(0),)) for each in (_WHOLE, _SCALED))),
            for_lanes(lanes, Store(output, index, whole)),
        )
        buffers = [Buffer(e.buffer, e.dtype, (lanes,), Access.LOCAL) for e in (_WHOLE, _SCALED)]
        return with_locals(buffers, body)


def _at(load: Load, index: tuple[Expr, ...]) -> Load:
    return Load(load.buffer, index, load.dtype)


def rounding(features: Sequence[str], lanes: int) -> str | None:
    """The instruction of a target that makes integers of so many floats."""
    for row in instructions().values():
        if [(each.dtype, each.shape) for each in row.meaning.params] == [
            (_I32, (lanes,)),
            (_F32, (lanes,)),
        ] and row.needs in features:
            return row.name
    return None


def requantized(value: Expr) -> Requantized | None:
    """A definition taken apart where it saturates a rounded number once.

    The sum of the rounded number and its zero point must fit ``i32``.
    """
    found: list[Expr] = []

    def change(node: Expr) -> Expr:
        made = saturated(node)
        if made is None:
            return node
        found.append(made.scaled)
        return made.value

    changed = map_expr(value, change)
    return Requantized(found[0], changed) if len(found) == 1 else None


def saturated(node: Expr) -> Requantized | None:
    """A definition taken apart that is a saturated number as a whole."""
    match node:
        case Cast(dtype, Binary("min", Binary("max", Const() as low, inner), Const() as high)):
            parts = _rounded(inner)
            if parts is None or dtype.is_float or (low.value, high.value) != dtype.limits:
                return None
            scaled, zero = parts
            least, most = Const(int(low.value), _I32), Const(int(high.value), _I32)
            total = Binary("add", _WHOLE, Const(zero, _I32))
            inside = Binary("min", Binary("max", least, total), most)
            return Requantized(scaled, Cast(dtype, inside), zero, dtype)
        case _:
            return None


def undivided(value: Expr) -> Expr:
    """A definition that quantizes sums of bytes by products instead of quotients, if it may."""

    def change(node: Expr) -> Expr:
        made = saturated(node)
        if made is None:
            return node
        scaled = multiplied(made.scaled, made.zero, made.dtype)
        return map_expr(node, lambda each: scaled if each is made.scaled else each)

    return map_expr(value, change)


def _rounded(expr: Expr) -> tuple[Expr, int] | None:
    match expr:
        case Unary("round", x):
            return x, 0
        case Binary("add", Unary("round", x), Const(zero, DType.F32)) if zero == int(zero):
            return x, int(zero)
        case _:
            return None
