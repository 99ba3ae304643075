"""Simplification: folds constants, normalises index arithmetic, drops proven guards.

``i64`` arithmetic is put into affine form, so equal indices end up as equal expressions;
divisions, remainders, minima, comparisons, selections, guards and loops go away where the
ranges of the loop variables and the enclosing guards decide them.  Floating-point
arithmetic is never reordered: constants are folded with the arithmetic of their type, and
only identities that hold for every value, NaN and signed zeros included, are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import cast

import numpy as np

from weft.dtypes import DType
from weft.loops.affine import AffineForm, affine
from weft.loops.constants import FALSE, TRUE, fold_constants, wrap
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
from weft.loops.walk import (
    children,
    dtype_of,
    free_vars,
    index,
    map_stmts,
    substitute,
    substitute_stmts,
    with_children,
)

_INDEX_OPS = frozenset({"add", "sub", "mul", "floordiv", "mod", "min", "max"})
_I64 = DType.I64.limits
_WIDE = (DType.I64, DType.BOOL)


def simplify(expr: Expr, facts: Facts | None = None) -> Expr:
    """A simpler expression of equal value wherever the facts hold."""
    return _expr(expr, facts or Facts())


def simplify_kernel(kernel: Kernel) -> Kernel:
    """Simplifies every expression, drops what never runs, unwraps loops that run once."""
    if kernel.simple:
        return kernel
    return replace(kernel, body=simplify_stmts(kernel.body, Facts()), simple=True)


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
            return _INDEX_RULES[op](_index(lhs, facts), _index(rhs, facts), facts)
        case _:
            return affine(_expr(expr, facts))


def _mul(left: AffineForm, right: AffineForm, _: Facts) -> AffineForm:
    if not right.terms:
        return left.times(right.const)
    if not left.terms:
        return right.times(left.const)
    return _atom(Binary("mul", emit(left), emit(right)))


def _floordiv(left: AffineForm, right: AffineForm, facts: Facts) -> AffineForm:
    divisor = right.const
    if right.terms or divisor <= 0 or not facts.fits(left):
        return _opaque("floordiv", left, right)
    if divisor == 1:
        return left
    quotient, rest = _split(left, divisor)
    low, high = facts.bounds(rest)
    if low // divisor == high // divisor:
        return AffineForm(quotient.terms, quotient.const + low // divisor)
    common = gcd(divisor, rest.const, *rest.terms.values())
    if common > 1:
        rest, divisor = _divided(rest, common), divisor // common
    nested = emit(rest)
    if isinstance(nested, Binary) and nested.op == "floordiv" and _positive(nested.rhs):
        inner = affine(nested.rhs).const * divisor
        return quotient.plus(_floordiv(affine(nested.lhs), AffineForm({}, inner), facts))
    return quotient.plus(_atom(Binary("floordiv", nested, index(divisor))))


def _mod(left: AffineForm, right: AffineForm, facts: Facts) -> AffineForm:
    divisor = right.const
    if right.terms or divisor <= 0 or not facts.fits(left):
        return _opaque("mod", left, right)
    _, rest = _split(left, divisor)
    low, high = facts.bounds(rest)
    if low // divisor == high // divisor:
        return AffineForm(rest.terms, rest.const - low // divisor * divisor)
    common = gcd(divisor, rest.const, *rest.terms.values())
    if common > 1:
        inside = Binary("mod", emit(_divided(rest, common)), index(divisor // common))
        return _atom(inside).times(common)
    return _atom(Binary("mod", emit(rest), index(divisor)))


def _extreme(op: str) -> Callable[[AffineForm, AffineForm, Facts], AffineForm]:
    def rule(left: AffineForm, right: AffineForm, facts: Facts) -> AffineForm:
        below = facts.compare("le", left, right, _I64)
        if below is True:
            return left if op == "min" else right
        if facts.compare("ge", left, right, _I64) is True:
            return right if op == "min" else left
        return _opaque(op, left, right)

    return rule


_INDEX_RULES: dict[str, Callable[[AffineForm, AffineForm, Facts], AffineForm]] = {
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme("min"),
    "max": _extreme("max"),
}


def _opaque(op: str, left: AffineForm, right: AffineForm) -> AffineForm:
    folded = fold_constants(Binary(op, emit(left), emit(right)))
    return affine(folded)


def _positive(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value > 0


def _divided(form: AffineForm, divisor: int) -> AffineForm:
    return AffineForm({a: c // divisor for a, c in form.terms.items()}, form.const // divisor)


def _split(form: AffineForm, divisor: int) -> tuple[AffineForm, AffineForm]:
    """``form = divisor * quotient + rest``, with all that divides in the quotient."""
    quotient: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, coefficient in form.terms.items():
        if coefficient % divisor:
            rest[atom] = coefficient
        else:
            quotient[atom] = coefficient // divisor
    whole, left = divmod(form.const, divisor)
    return AffineForm(quotient, whole), AffineForm(rest, left)


def _atom(expr: Expr) -> AffineForm:
    return AffineForm({expr: 1}, 0)


def emit(form: AffineForm) -> Expr:
    """An affine form as an expression: what is added, what is taken away, the constant."""
    form = _rejoin(form)
    factors = {atom: wrap(factor, DType.I64) for atom, factor in form.terms.items()}
    result: Expr | None = None
    for atom, factor in factors.items():
        if factor > 0 or factor == _I64[0]:
            term = _times(atom, factor)
            result = term if result is None else Binary("add", result, term)
    const = wrap(form.const, DType.I64)
    if result is None:
        result, const = index(const), 0
    for atom, factor in factors.items():
        if _I64[0] < factor < 0:
            result = Binary("sub", result, _times(atom, -factor))
    if const == 0:
        return result
    if _I64[0] < const < 0:
        return Binary("sub", result, index(-const))
    return Binary("add", result, index(const))


def _times(atom: Expr, factor: int) -> Expr:
    return atom if factor == 1 else Binary("mul", atom, index(factor))


def _rejoin(form: AffineForm) -> AffineForm:
    """``c*d*(x // d) + c*(x % d)`` is ``c*x``."""
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Binary) and atom.op == "mod" and _positive(atom.rhs):
            quotient = Binary("floordiv", atom.lhs, atom.rhs)
            divisor = affine(atom.rhs).const
            if form.terms.get(quotient) == coefficient * divisor:
                kept = {a: c for a, c in form.terms.items() if a not in (atom, quotient)}
                return _rejoin(AffineForm(kept, form.const).plus(affine(atom.lhs), coefficient))
    return form


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
        case _:
            pass
    return fold_constants(expr)


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
