"""Products, quotients, remainders and extremes of affine forms, as affine forms again.

What has no such form becomes an atom of one. Divisions and extremes go away where ranges of the
variables decide them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from weft.dtypes import DType
from weft.loops.affine import AffineForm, affine
from weft.loops.constants import fold_constants, wrap
from weft.loops.nodes import Binary, Const, Expr
from weft.loops.ranges import Facts
from weft.loops.walk import index

_I64 = DType.I64.limits


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


RULES: dict[str, Callable[[AffineForm, AffineForm, Facts], AffineForm]] = {
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme("min"),
    "max": _extreme("max"),
}
"""By the op of ``i64``, the form of its value for those of its operands."""
