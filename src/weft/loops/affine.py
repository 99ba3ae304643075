"""Affine forms of integer expressions: a sum of multiples of atoms, and a constant."""

from __future__ import annotations

from typing import NamedTuple

from weft.loops.nodes import Binary, Const, Expr, Unary, Var


class AffineForm(NamedTuple):
    """``sum(coefficient * atom) + const``; atoms are whatever is not affine itself.

    ``terms`` keeps the order of first appearance and is never changed in place.
    """

    terms: dict[Expr, int]
    const: int

    def plus(self, other: AffineForm, factor: int = 1) -> AffineForm:
        """``self + factor * other``."""
        if not other.terms:
            return AffineForm(self.terms, self.const + factor * other.const)
        if factor == 1 and not self.terms:
            return AffineForm(other.terms, self.const + other.const)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return AffineForm(terms, self.const + factor * other.const)

    def times(self, factor: int) -> AffineForm:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return AffineForm({}, 0)
        return AffineForm({a: c * factor for a, c in self.terms.items()}, self.const * factor)


class Forms:
    """``affine`` that remembers, for asking about many parts of the same expressions."""

    def __init__(self) -> None:
        # By identity; the expression is kept so that its identity stays its own.
        self._seen: dict[int, tuple[Expr, AffineForm]] = {}

    def __call__(self, expr: Expr) -> AffineForm:
        """The affine form of an integer expression (equal modulo the width of its type)."""
        found = self._seen.get(id(expr))
        if found is None:
            found = self._seen[id(expr)] = (expr, self._form(expr))
        return found[1]

    def _form(self, expr: Expr) -> AffineForm:
        match expr:
            case Const(value=value):
                return AffineForm({}, int(value))
            case Binary("add", lhs, rhs):
                return self(lhs).plus(self(rhs))
            case Binary("sub", lhs, rhs):
                return self(lhs).plus(self(rhs), -1)
            case Binary("mul", lhs, rhs):
                left, right = self(lhs), self(rhs)
                if not right.terms:
                    return left.times(right.const)
                if not left.terms:
                    return right.times(left.const)
                return AffineForm({expr: 1}, 0)
            case Unary("neg", x):
                return self(x).times(-1)
            case _:
                return AffineForm({expr: 1}, 0)


def affine(expr: Expr) -> AffineForm:
    """The affine form of an integer expression (equal modulo the width of its type)."""
    match expr:
        case Const(value=value):
            return AffineForm({}, int(value))
        case Var():
            return AffineForm({expr: 1}, 0)
        case _:
            return Forms()(expr)
