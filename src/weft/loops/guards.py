"""Guards become loop bounds, so that inner loops run without a test.

``acc = acc + (x[y + i - 1] if 0 <= y + i - 1 and y + i - 1 < 8 else 0)`` over ``i in 0..3``
becomes ``acc = acc + x[y + i - 1]`` over ``i in max(0, 1 - y)..min(3, 9 - y)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.dtypes import DType
from weft.loops.affine import AffineForm, affine
from weft.loops.affine_arithmetic import emit
from weft.loops.definition import COMBINE, neutral
from weft.loops.nodes import (
    COMPARISONS,
    Binary,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Operation,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.simplify import negated, simplify, simplify_kernel
from weft.loops.walk import children, dtype_of, free_vars, index, loads, map_expr

_REDUCTION = {binary: reduction for reduction, binary in COMBINE.items()}
# A vector or unrolled loop needs a constant extent.
_FLEXIBLE = frozenset({LoopKind.SERIAL, LoopKind.PARALLEL})


def guards_to_bounds(kernel: Kernel) -> Kernel:
    """Moves the conditions under which an accumulator changes into the loops' bounds.

    A condition moves where it is a comparison that is affine in a loop variable, whatever
    else it reads being known outside that loop.  Exact, but for the sign of a zero: adding
    0.0 to a sum of -0.0 gives 0.0, leaving the sum alone keeps -0.0.
    """
    simple = simplify_kernel(kernel)
    return simplify_kernel(simple.with_body(_block(simple.body, Facts())))


def _block(stmts: Sequence[Stmt], facts: Facts) -> tuple[Stmt, ...]:
    return tuple(_stmt(stmt, facts) for stmt in stmts)


def _stmt(stmt: Stmt, facts: Facts) -> Stmt:
    match stmt:
        case Store():
            return _update(stmt)
        case Local(buffer, body):
            return Local(buffer, _block(body, facts))
        case If(condition, then, otherwise):
            yes = facts.assume(condition, True, then)
            no = facts.assume(condition, False, otherwise)
            return If(condition, _block(then, yes), _block(otherwise, no))
        case For():
            inside = facts.enter(stmt)
            return _tighten(replace(stmt, body=_block(stmt.body, inside)), facts, inside)
        case _:
            return stmt


# --- from values to conditions ----------------------------------------------------------------


def _update(store: Store) -> Stmt:
    """``acc = op(acc, select(c, v, neutral))`` as ``if c: acc = op(acc, v)``."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in _REDUCTION:
        return store
    old = value.lhs
    if not (isinstance(old, Load) and old.buffer == store.buffer and old.index == store.index):
        return store
    start = neutral(_REDUCTION[value.op], old.dtype)
    conditions: list[Expr] = []
    operand = value.rhs
    found = _guarded(operand, start)
    while found is not None:
        condition, operand = found
        conditions.append(condition)
        found = _guarded(operand, start)
    if any(load.buffer == store.buffer for each in conditions for load in loads(each)):
        return store
    stmt: Stmt = Store(store.buffer, store.index, Binary(value.op, old, operand))
    for condition in reversed(conditions):
        stmt = If(condition, (stmt,))
    return stmt


def _guarded(value: Expr, start: Const) -> tuple[Expr, Expr] | None:
    """The condition without which a value is neutral, and the value where it holds."""
    for select in _selects(value):
        if _becomes(start, value, select, select.otherwise):
            return select.condition, _replaced(value, select, select.then)
        if _becomes(start, value, select, select.then):
            return negated(select.condition), _replaced(value, select, select.otherwise)
    return None


def _becomes(start: Const, value: Expr, select: Select, side: Expr) -> bool:
    """Whether a value is the neutral element where a selection takes a constant side."""
    return isinstance(side, Const) and simplify(_replaced(value, select, side)) == start


def _selects(value: Expr) -> Iterator[Select]:
    """The selections that decide a value, not those that decide where it is loaded."""
    match value:
        case Select():
            yield value
        case Operation():
            for part in children(value):
                yield from _selects(part)
        case _:
            return


def _replaced(value: Expr, old: Expr, new: Expr) -> Expr:
    return map_expr(value, lambda node: new if node is old else node)


# --- from conditions to bounds ----------------------------------------------------------------


def _tighten(loop: For, facts: Facts, inside: Facts) -> Stmt:
    """Moves the condition that a whole body runs under into the loop's bounds."""
    if loop.kind not in _FLEXIBLE or len(loop.body) != 1:
        return loop
    (guard,) = loop.body
    if not isinstance(guard, If) or guard.otherwise:
        return loop
    outer: list[Expr] = []
    inner: list[Expr] = []
    start, stop = loop.start, loop.stop
    for part in conjuncts(guard.condition):
        bounds = _bounds(part, loop.var, inside)
        if any(loads(part)):
            inner.append(part)
        elif loop.var not in free_vars(part):
            outer.append(part)
        elif bounds is None:
            inner.append(part)
        else:
            start = start if bounds[0] is None else Binary("max", start, bounds[0])
            stop = stop if bounds[1] is None else Binary("min", stop, bounds[1])
    body = (If(conjunction(inner), guard.then),) if inner else guard.then
    tight = replace(loop, start=simplify(start, facts), stop=simplify(stop, facts), body=body)
    return If(conjunction(outer), (tight,)) if outer else tight


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that must all hold."""
    match condition:
        case Binary("and", lhs, rhs) if dtype_of(lhs) is DType.BOOL:
            yield from conjuncts(lhs)
            yield from conjuncts(rhs)
        case _:
            yield condition


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All the parts, of which there is at least one."""
    whole = parts[0]
    for part in parts[1:]:
        whole = Binary("and", whole, part)
    return whole


def _bounds(part: Expr, var: str, facts: Facts) -> tuple[Expr | None, Expr | None] | None:
    """The start and the stop that a comparison sets to a variable; None if it sets none."""
    if not (isinstance(part, Binary) and part.op in COMPARISONS):
        return None
    if dtype_of(part.lhs) is not DType.I64:
        return None
    left, right = affine(part.lhs), affine(part.rhs)
    if not (facts.fits(left) and facts.fits(right)):
        return None
    difference = right.plus(left, -1)
    match part.op:
        case "lt":
            return _solve(AffineForm(difference.terms, difference.const - 1), var)
        case "le":
            return _solve(difference, var)
        case "gt":
            opposite = difference.times(-1)
            return _solve(AffineForm(opposite.terms, opposite.const - 1), var)
        case "ge":
            return _solve(difference.times(-1), var)
        case "eq":
            above, below = _solve(difference, var), _solve(difference.times(-1), var)
            if above is None or below is None:
                return None
            return (above[0] or below[0], above[1] or below[1])
        case _:
            return None


def _solve(form: AffineForm, var: str) -> tuple[Expr | None, Expr | None] | None:
    """``form >= 0`` solved for a variable that it is affine in."""
    coefficient = form.terms.get(Var(var), 0)
    rest = AffineForm({a: c for a, c in form.terms.items() if a != Var(var)}, form.const)
    if coefficient == 0 or any(var in free_vars(atom) for atom in rest.terms):
        return None
    if coefficient > 0:
        least = rest.times(-1).plus(AffineForm({}, coefficient - 1))
        return (_quotient(least, coefficient), None)
    most = _quotient(rest, -coefficient)
    return (None, Binary("add", most, index(1)))


def _quotient(form: AffineForm, divisor: int) -> Expr:
    whole = emit(form)
    return whole if divisor == 1 else Binary("floordiv", whole, index(divisor))
