"""Guards of a reduction: conditions that keep a window inside its input.

A guard is ``position >= 0`` for a position that is affine in one reduction axis
(``2*y + i - 1``, ``55 - 2*y - i + 1``, ``(y + 1) // 2 - i``).
"""

from __future__ import annotations

from math import inf

from weft.dtypes import DType
from weft.loops.affine import AffineForm, affine
from weft.loops.affine_arithmetic import emit
from weft.loops.definition import neutral
from weft.loops.nodes import Binary, Const, Expr, Reduce, Select, Var
from weft.loops.walk import dtype_of, free_vars, loads
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """``outer + inner * tap >= 0``; ``outer`` knows nothing of reduction axes."""

    outer: AffineForm
    tap: str
    inner: int

    @property
    def outs(self) -> frozenset[str]:
        """The output axes that it depends on."""
        return frozenset[str]().union(*map(free_vars, self.outer.terms))

    def is_along(self, axis: str) -> bool:
        """Whether it depends on one output axis only, and that affinely."""
        return self.outer.terms.keys() == {Var(axis)}

    def holds(self, out: int, tap: int) -> bool:
        """Whether one that is along an axis holds at a point."""
        return sum(self.outer.terms.values()) * out + self.outer.const + self.inner * tap >= 0

    def outs_inside(self, tap: int) -> tuple[float, float]:
        """The first and the last output for which one that is along an axis holds at a tap."""
        step, rest = sum(self.outer.terms.values()), self.outer.const + self.inner * tap
        if step == 0:
            return (-inf, inf) if rest >= 0 else (inf, -inf)
        # out >= -rest / step, or the other way round
        return (-(rest // step), inf) if step > 0 else (-inf, rest // -step)

    def least(self) -> Expr | None:
        """The first tap for which it holds, if it bounds taps from below."""
        if self.inner <= 0:
            return None
        # tap >= ceil(-outer / inner)
        value = self.outer.times(-1).plus(AffineForm({}, self.inner - 1))
        return _divided(value, self.inner)

    def last(self) -> Expr | None:
        """One past the last tap for which it holds, if it bounds taps from above."""
        if self.inner >= 0:
            return None
        return Binary("add", _divided(self.outer, -self.inner), Const(1, DType.I64))


def _divided(value: AffineForm, divisor: int) -> Expr:
    whole = emit(value)
    return whole if divisor == 1 else Binary("floordiv", whole, Const(divisor, DType.I64))


def unguarded(reduce: Reduce) -> tuple[Expr, tuple[Guard, ...]] | None:
    """A reduction's value without its guards, and the guards; ``None`` if any is not one.

    Args:
        reduce: the reduction; a ``Select`` at the top of its value must fall back to what
            does not change the result.
    """
    value = lifted(reduce.value) if reduce.op == "sum" else reduce.value
    guards: list[Guard] = []
    while isinstance(value, Select):
        if not is_neutral(value.otherwise, reduce.op):
            return None
        taps = frozenset(axis.var for axis in reduce.axes)
        for condition in conjuncts(value.condition):
            found = _guard(condition, taps)
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


def _guard(condition: Expr, taps: frozenset[str]) -> Guard | None:
    form = _nonnegative(condition)
    if form is None:
        return None
    inner = [atom.name for atom in form.terms if isinstance(atom, Var) and atom.name in taps]
    if len(inner) != 1:
        return None
    outer = AffineForm({a: c for a, c in form.terms.items() if a != Var(inner[0])}, form.const)
    if any(free_vars(atom) & taps or any(loads(atom)) for atom in outer.terms):
        return None
    return Guard(outer, inner[0], form.terms[Var(inner[0])])


def _nonnegative(condition: Expr) -> AffineForm | None:
    """The affine form that is at least 0 exactly where the condition holds."""
    match condition:
        case Binary("le", lhs, rhs):
            return affine(rhs).plus(affine(lhs), -1)
        case Binary("lt", lhs, rhs):
            form = affine(rhs).plus(affine(lhs), -1)
            return AffineForm(form.terms, form.const - 1)
        case Binary("ge", lhs, rhs):
            return affine(lhs).plus(affine(rhs), -1)
        case Binary("gt", lhs, rhs):
            form = affine(lhs).plus(affine(rhs), -1)
            return AffineForm(form.terms, form.const - 1)
        case _:
            return None
