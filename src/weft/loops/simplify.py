"""Simplification: folds constants, normalises index arithmetic, drops proven guards.

``i64`` arithmetic is put into affine form, so equal indices end up as equal expressions;
divisions, remainders, minima, comparisons, selections, guards and loops go away where the
ranges of the loop variables and the enclosing guards decide them.  Floating-point
arithmetic is never reordered: constants are folded with the arithmetic of their type, and
only identities that hold for every value, NaN and signed zeros included, are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from weft.dtypes import DType
from weft.loops.affine import AffineForm, affine
from weft.loops.affine_arithmetic import RULES, emit
from weft.loops.constants import FALSE, TRUE, fold_constants
from weft.loops.fixed_point import requantization_of
from weft.loops.nodes import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Conversion,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    Reduce,
    Select,
    Stmt,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.statements import map_stmts, substitute_stmts
from weft.loops.unread import without_unread
from weft.loops.walk import children, dtype_of, free_vars, index, substitute, with_children

_INDEX_OPS = frozenset({"add", "sub", "mul", "floordiv", "mod", "min", "max"})
_I64 = DType.I64.limits
_WIDE = (DType.I64, DType.BOOL)


def simplify(expr: Expr, facts: Facts | None = None) -> Expr:
    """A simpler expression of equal value wherever the facts hold."""
    return _expr(expr, facts or Facts())


def simplify_kernel(kernel: Kernel) -> Kernel:
    """Simplifies every expression, drops what never runs or is never read.

    Loops that run once are unwrapped.
    """
    if kernel.simple:
        return kernel
    body = without_unread(simplify_stmts(kernel.body, Facts()))
    return replace(kernel, body=body, simple=True)


def simplify_stmts(stmts: Sequence[Stmt], facts: Facts) -> tuple[Stmt, ...]:
    """Simplifies statements at a place where the facts hold."""
    return tuple(simple for stmt in stmts for simple in _stmt(stmt, facts))


def assuming(condition: Expr, facts: Facts, body: Sequence[Stmt]) -> Facts:
    """The facts where a condition holds while a body runs.

    Indices are simplified with all that is known there, so that they may lose the terms of the
    condition: where a part of it leaves a variable or a quotient one value, another part is known
    in the terms of what is left, too.
    """
    found = facts.assume(condition, True, body)
    parts = list(_conjuncts(condition))
    if found.impossible:
        return found
    pinned: dict[str, Expr] = {}
    for name in free_vars(condition):
        low, high = found.range(Var(name))
        if low == high and facts.range(Var(name)) != (low, high):
            pinned[name] = index(low)
    for place, part in enumerate(parts):
        known = facts
        for other in (*parts[:place], *parts[place + 1 :]):
            known = known.assume(other, True, body)
        simple = _expr(substitute(part, pinned), known)
        if simple != part:
            found = found.assume(simple, True, body)
    return found


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _conjuncts(condition.lhs)
        yield from _conjuncts(condition.rhs)
    else:
        yield condition


# --- statements -----------------------------------------------------------------------------


def _stmt(stmt: Stmt, facts: Facts) -> tuple[Stmt, ...]:
    match stmt:
        case For():
            return _for(stmt, facts)
        case If():
            return _if(stmt, facts)
        case Local(buffer, body):
            inner = simplify_stmts(body, facts)
            return (Local(buffer, inner),) if inner else ()
        case _:
            return map_stmts((stmt,), lambda expr: _expr(expr, facts))


def _for(loop: For, facts: Facts) -> tuple[Stmt, ...]:
    start, stop = _expr(loop.start, facts), _expr(loop.stop, facts)
    if isinstance(start, Const) and isinstance(stop, Const):
        return _counted(loop, start, stop, facts)
    left, right = affine(start), affine(stop)
    if facts.compare("ge", left, right, _I64) is True:
        return ()
    extent = right.plus(left, -1)
    if extent == AffineForm({}, 1) and facts.fits(left) and facts.fits(right):
        return simplify_stmts(substitute_stmts(loop.body, {loop.var: start}), facts)
    simple = For(loop.var, start, stop, loop.body, loop.kind)
    inside = facts.enter(simple)
    body = () if inside.impossible else simplify_stmts(loop.body, inside)
    return (For(loop.var, start, stop, body, loop.kind),) if body else ()


def _counted(loop: For, start: Const, stop: Const, facts: Facts) -> tuple[Stmt, ...]:
    """A loop of constant bounds."""
    first, last = int(start.value), int(stop.value) - 1
    if last < first:
        return ()
    if last == first:
        return simplify_stmts(substitute_stmts(loop.body, {loop.var: start}), facts)
    inside = facts.counted(loop.var, first, last)
    body = () if inside.impossible else simplify_stmts(loop.body, inside)
    return (For(loop.var, start, stop, body, loop.kind),) if body else ()


def _if(stmt: If, facts: Facts) -> tuple[Stmt, ...]:
    condition = _expr(stmt.condition, facts)
    if isinstance(condition, Const):
        return simplify_stmts(stmt.then if condition.value else stmt.otherwise, facts)
    yes = assuming(condition, facts, stmt.then)
    no = facts.assume(condition, False, stmt.otherwise)
    then = () if yes.impossible else simplify_stmts(stmt.then, yes)
    otherwise = () if no.impossible else simplify_stmts(stmt.otherwise, no)
    if not then and not otherwise:
        return ()
    if not then:
        return (If(negated(condition), otherwise),)
    return (If(condition, then, otherwise),)


# --- expressions ----------------------------------------------------------------------------


def _expr(expr: Expr, facts: Facts) -> Expr:
    if type(expr) is Const:
        return expr
    found = facts.simplified.get(id(expr))
    if found is not None:
        return cast(Expr, found[1])
    simple = _rules(expr, facts)
    facts.simplified[id(expr)] = (expr, simple)
    return simple


def _rules(expr: Expr, facts: Facts) -> Expr:
    match expr:
        case Load(index=position):
            return with_children(expr, tuple([_expr(each, facts) for each in position]))
        case Var():
            low, high = facts.range(expr)
            return index(low) if low == high else expr
        case Select(condition, then, otherwise):
            return _select(expr, _expr(condition, facts), then, otherwise, facts)
        case Binary("and", lhs, rhs):
            return _and(expr, _expr(lhs, facts), rhs, facts)
        case Binary(op, _, _) if op in _INDEX_OPS and dtype_of(expr) is DType.I64:
            return emit(_index(expr, facts))
        case Unary("neg", _) if dtype_of(expr) is DType.I64:
            return emit(_index(expr, facts))
        case Reduce(op, axes, value):
            inner = facts.bind({axis.var: (0, axis.extent - 1) for axis in axes})
            return Reduce(op, axes, _expr(value, inner))
        case _:
            number = isinstance(expr, Cast) and requantization_of(expr) is not None
            inside = _number if number else _expr
            operands = tuple(inside(each, facts) for each in children(expr))
            return _fold(with_children(expr, operands), facts)


def _number(expr: Expr, facts: Facts) -> Expr:
    """A number of 64 bits that is no index: only its operands are simplified."""
    if type(expr) is Const:
        return expr
    if dtype_of(expr) not in _WIDE or isinstance(expr, Load | Var):
        return _expr(expr, facts)
    found = facts.simplified.get(id(expr))
    if found is None:
        simple = with_children(expr, tuple(_number(each, facts) for each in children(expr)))
        found = facts.simplified[id(expr)] = (expr, simple)
    return cast(Expr, found[1])


def _select(expr: Expr, condition: Expr, then: Expr, otherwise: Expr, facts: Facts) -> Expr:
    if isinstance(condition, Const):
        return _expr(then if condition.value else otherwise, facts)
    yes, no = facts.assume(condition, True), facts.assume(condition, False)
    if yes.impossible or no.impossible:
        return _expr(then, facts) if no.impossible else _expr(otherwise, facts)
    sides = (condition, _expr(then, yes), _expr(otherwise, no))
    return sides[1] if _same(sides[1], sides[2]) else with_children(expr, sides)


def _and(expr: Expr, lhs: Expr, rhs: Expr, facts: Facts) -> Expr:
    if dtype_of(lhs) is not DType.BOOL:
        return _fold(with_children(expr, (lhs, _expr(rhs, facts))), facts)
    if isinstance(lhs, Const):
        return _expr(rhs, facts) if lhs.value else FALSE
    # Where the left side is false the whole is false, whatever the right side becomes.
    given = facts.assume(lhs)
    right = FALSE if given.impossible else _expr(rhs, given)
    if isinstance(right, Const):
        return lhs if right.value else FALSE
    return with_children(expr, (lhs, right))


def _same(lhs: Expr, rhs: Expr) -> bool:
    """Whether two expressions are equal and hold no float, whose zeros compare equal."""
    return lhs is rhs or (dtype_of(lhs).is_integer and lhs == rhs)


_FLIPPED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_SWAPPED = {"eq": "ne", "ne": "eq"}
_DUAL = {"and": "or", "or": "and"}


def negated(condition: Expr) -> Expr:
    """The opposite of a condition, with ``not`` only where nothing else says it."""
    match condition:
        case Const(value=value):
            return FALSE if value else TRUE
        case Unary("not", x):
            return x
        case Binary(op, lhs, rhs) if op in _SWAPPED:
            return Binary(_SWAPPED[op], lhs, rhs)
        case Binary(op, lhs, rhs) if op in _FLIPPED and not dtype_of(lhs).is_float:
            # Of floats, "not less" is not "at least": one may be NaN.
            return Binary(_FLIPPED[op], lhs, rhs)
        case Binary(op, lhs, rhs) if op in _DUAL:
            return Binary(_DUAL[op], negated(lhs), negated(rhs))
        case _:
            return Unary("not", condition)


# --- i64 arithmetic -------------------------------------------------------------------------


def _index(expr: Expr, facts: Facts) -> AffineForm:
    """The simplified affine form of an ``i64`` expression."""
    found = facts.forms.get(id(expr))
    if found is None:
        found = facts.forms[id(expr)] = (expr, _index_form(expr, facts))
    return found[1]


def _index_form(expr: Expr, facts: Facts) -> AffineForm:
    match expr:
        case Binary("add", lhs, rhs):
            return _index(lhs, facts).plus(_index(rhs, facts))
        case Binary("sub", lhs, rhs):
            return _index(lhs, facts).plus(_index(rhs, facts), -1)
        case Unary("neg", x):
            return _index(x, facts).times(-1)
        case Binary(op, lhs, rhs) if op in _INDEX_OPS:
            return RULES[op](_index(lhs, facts), _index(rhs, facts), facts)
        case _:
            return affine(_expr(expr, facts))


# --- everything else ------------------------------------------------------------------------


def _fold(expr: Expr, facts: Facts) -> Expr:
    """Folds an operation whose operands are simple already."""
    match expr:
        case Binary(op, _, _) if op in COMPARISONS:
            decided = facts.decide(expr)
            if decided is not None:
                return TRUE if decided else FALSE
        case Binary("or", lhs, rhs) if dtype_of(lhs) is DType.BOOL:
            return _or(expr, lhs, rhs)
        case Unary("not", x) if dtype_of(x) is DType.BOOL:
            return negated(x)
        case Conversion(dtype=dtype, x=x) if dtype_of(x) is dtype:
            return x
        case Binary("mul", lhs, rhs) if _is_zero(lhs) or _is_zero(rhs):
            return Const(0, dtype_of(expr))
        case Binary(op, lhs, rhs) if op in _UNITS and _is(rhs, _UNITS[op]):
            return lhs
        case Binary(op, lhs, rhs) if op in _COMMUTING_UNITS and _is(lhs, _UNITS[op]):
            return rhs
        case Binary("min" | "max", lhs, _) if dtype_of(lhs).is_integer:
            return fold_constants(_at_end(expr))
        case _:
            pass
    return fold_constants(expr)


def _at_end(expr: Binary) -> Expr:
    """A minimum or maximum of integers; the end of their type where an operand is that."""
    dtype = dtype_of(expr.lhs)
    end = dtype.limits[expr.op == "max"]
    return Const(end, dtype) if _is(expr.lhs, end) or _is(expr.rhs, end) else expr


# x * 1 and x / 1 hold for every x; x + 0 does not for -0.0 (but x - 0 does).
_UNITS = {"mul": 1, "div": 1, "sub": 0}
_COMMUTING_UNITS = frozenset({"mul"})


def _is(expr: Expr, value: int) -> bool:
    # -0.0 == 0, and x - -0.0 is x + 0.0, which is no identity: compare the sign too.
    return (
        isinstance(expr, Const)
        and expr.value == value
        and not (expr.dtype.is_float and np.signbit(float(expr.value)))
    )


def _is_zero(expr: Expr) -> bool:
    """An integer zero: times a float it may be NaN or -0.0."""
    return isinstance(expr, Const) and expr.dtype.is_integer and expr.value == 0


def _or(expr: Expr, lhs: Expr, rhs: Expr) -> Expr:
    for this, other in ((lhs, rhs), (rhs, lhs)):
        if isinstance(this, Const):
            return TRUE if this.value else other
    return expr
