"""Rounding at the end of a quantized layer by an instruction that makes integers of floats."""

from __future__ import annotations

from dataclasses import dataclass

from weft.dtypes import DType
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
)
from weft.loops.walk import map_expr

ROUNDING = "vcvtr"
_F32, _I32 = DType.F32, DType.I32
_SCALED, _WHOLE = Load("scaled", (), _F32), Load("whole", (), _I32)


@dataclass(frozen=True)
class Requantized:
    """``saturate(round(scaled) + zero)`` in an output's definition.

    Attributes:
        scaled: what is rounded, in ``f32``.
        value: the definition, which reads ``whole``, the rounded number, as ``i32``.
    """

    scaled: Expr
    value: Expr

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


def requantized(value: Expr) -> Requantized | None:
    """A definition taken apart where it saturates a rounded number once.

    The sum of the rounded number and its zero point must fit ``i32``.
    """
    found: list[Expr] = []

    def change(node: Expr) -> Expr:
        match node:
            case Cast(dtype, Binary("min", Binary("max", Const() as low, inner), Const() as high)):
                parts = _rounded(inner)
                if parts is None or dtype.is_float or (low.value, high.value) != dtype.limits:
                    return node
                scaled, zero = parts
                found.append(scaled)
                least, most = Const(int(low.value), _I32), Const(int(high.value), _I32)
                total = Binary("add", _WHOLE, Const(zero, _I32))
                return Cast(dtype, Binary("min", Binary("max", least, total), most))
            case _:
                return node

    changed = map_expr(value, change)
    return Requantized(found[0], changed) if len(found) == 1 else None


def _rounded(expr: Expr) -> tuple[Expr, int] | None:
    match expr:
        case Unary("round", x):
            return x, 0
        case Binary("add", Unary("round", x), Const(zero, DType.F32)) if zero == int(zero):
            return x, int(zero)
        case _:
            return None
