"""Guards of a reduction: conditions that keep a window inside its input.

A guard is ``position >= 0`` for an affine position of at most one output axis and one
reduction axis (``2*y + i - 1``, ``55 - 2*y - i + 1``).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.dtypes import DType
from weft.loops.affine import Affine, affine
from weft.loops.definition import neutral
from weft.loops.nodes import Binary, Const, Expr, Reduce, Select, Var
from weft.loops.walk import dtype_of


@dataclass(frozen=True, slots=True)
class Guard:
    """``outer * out + inner * tap + const >= 0``; ``out`` is empty where ``outer`` is 0."""

    out: str
    outer: int
    tap: str
    inner: int
    const: int

    def holds(self, out: int, tap: int) -> bool:
        """Whether it holds at a point."""
        return self.outer * out + self.inner * tap + self.const >= 0

    def least(self, out: Expr) -> Expr | None:
        """The first tap for which it holds, if it bounds taps from below."""
        if self.inner <= 0:
            return None
        # tap >= ceil(-(outer * out + const) / inner)
        value = _linear(-self.outer, out, -self.const + self.inner - 1)
        return _divided(value, self.inner)

    def last(self, out: Expr) -> Expr | None:
        """One past the last tap for which it holds, if it bounds taps from above."""
        if self.inner >= 0:
            return None
        value = _linear(self.outer, out, self.const)
        return Binary("add", _divided(value, -self.inner), Const(1, DType.I64))


def _linear(factor: int, var: Expr, const: int) -> Expr:
    if factor == 0:
        return Const(const, DType.I64)
    scaled = var if factor == 1 else Binary("mul", Const(factor, DType.I64), var)
    return Binary("add", scaled, Const(const, DType.I64))


def _divided(value: Expr, divisor: int) -> Expr:
    return value if divisor == 1 else Binary("floordiv", value, Const(divisor, DType.I64))


def unguarded(reduce: Reduce, outer: frozenset[str]) -> tuple[Expr, tuple[Guard, ...]] | None:
    """A reduction's value without its guards, and the guards; ``None`` if any is not one.

    Args:
        reduce: the reduction; a ``Select`` at the top of its value must fall back to what
            does not change the result.
        outer: names of the output axes.
    """
    value = lifted(reduce.value) if reduce.op == "sum" else reduce.value
    guards: list[Guard] = []
    while isinstance(value, Select):
        if not is_neutral(value.otherwise, reduce.op):
            return None
        taps = frozenset(axis.var for axis in reduce.axes)
        for condition in conjuncts(value.condition):
            found = _guard(condition, outer, taps)
            if found is None:
                return None
            guards.append(found)
        value = value.then
    return value, tuple(guards)


def lifted(value: Expr) -> Expr:
    """A product with its factors' zero padding taken outside: ``c ? x * w : 0``.

    The product with a padded zero is taken as zero, whatever the other factor is.
    """
    match value:
        case Binary("mul", Select(condition, then, Const(value=0)), rhs):
            product = lifted(Binary("mul", then, rhs))
        case Binary("mul", lhs, Select(condition, then, Const(value=0))):
            product = lifted(Binary("mul", lhs, then))
        case _:
            return value
    return Select(condition, product, Const(0.0 if _is_float(product) else 0, dtype_of(product)))


def _is_float(value: Expr) -> bool:
    return dtype_of(value).is_float


def is_neutral(value: Expr, op: str) -> bool:
    """Whether combining with the value changes nothing."""
    if not isinstance(value, Const):
        return False
    wanted = neutral(op, dtype_of(value))
    return value.value == wanted.value or (op in ("min", "max") and value == wanted)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction."""
    match condition:
        case Binary("and", lhs, rhs):
            return conjuncts(lhs) + conjuncts(rhs)
        case _:
            return (condition,)


def _guard(condition: Expr, outer: frozenset[str], taps: frozenset[str]) -> Guard | None:
    form = _nonnegative(condition)
    if form is None:
        return None
    names = [atom.name for atom in form.terms if isinstance(atom, Var)]
    outs = [name for name in names if name in outer]
    inner = [name for name in names if name in taps]
    if len(names) != len(form.terms) or len(outs) > 1 or len(inner) != 1:
        return None
    out, tap = outs[0] if outs else "", inner[0]
    return Guard(out, form.terms.get(Var(out), 0), tap, form.terms[Var(tap)], form.const)


def _nonnegative(condition: Expr) -> Affine | None:
    """The affine form that is at least 0 exactly where the condition holds."""
    match condition:
        case Binary("le", lhs, rhs):
            return affine(rhs).plus(affine(lhs), -1)
        case Binary("lt", lhs, rhs):
            form = affine(rhs).plus(affine(lhs), -1)
            return Affine(form.terms, form.const - 1)
        case Binary("ge", lhs, rhs):
            return affine(lhs).plus(affine(rhs), -1)
        case Binary("gt", lhs, rhs):
            form = affine(lhs).plus(affine(rhs), -1)
            return Affine(form.terms, form.const - 1)
        case _:
            return None
