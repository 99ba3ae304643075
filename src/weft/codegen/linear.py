"""Linear forms of ``i64`` expressions over C expressions, with ranges: how addresses are made."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from weft.codegen import tree as c
from weft.codegen.literals import integer_number
from weft.codegen.value import INT_LIMITS, CValue, as_kind
from weft.dtypes import DType

I64_LIMITS = DType.I64.limits
LANE = c.Name("<lane>")
"""Stands for the number of the lane; it is taken out before a form is printed."""


class Term(NamedTuple):
    """``factor * value``."""

    factor: int
    value: CValue


class LinearAddress(NamedTuple):
    """``const + sum of terms``, terms by their expression; computed without wrapping."""

    const: int
    terms: dict[c.Node, Term]

    @property
    def constant(self) -> int | None:
        """The value if there are no terms."""
        return None if self.terms else self.const

    @property
    def lane_factor(self) -> int | None:
        """How much one lane more adds; ``None`` if that is not the same for all lanes."""
        for node in self.terms:
            if not isinstance(node, c.Name) and LANE in c.nodes(node):
                return None
        lane = self.terms.get(LANE)
        return lane.factor if lane else 0

    def plus(self, other: LinearAddress, factor: int = 1) -> LinearAddress:
        """``self + factor * other``."""
        if not other.terms:
            return LinearAddress(self.const + factor * other.const, self.terms)
        if factor == 1 and not self.terms:
            return LinearAddress(self.const + other.const, other.terms)
        terms = dict(self.terms)
        for node, term in other.terms.items():
            old = terms.get(node)
            total = factor * term.factor + (old.factor if old else 0)
            if total:
                terms[node] = Term(total, term.value)
            else:
                terms.pop(node, None)
        return LinearAddress(self.const + factor * other.const, terms)

    def times(self, factor: int) -> LinearAddress:
        """``factor * self``."""
        if factor == 0:
            return LinearAddress(0, {})
        scaled = {node: Term(t.factor * factor, t.value) for node, t in self.terms.items()}
        return LinearAddress(self.const * factor, scaled)

    def range(self) -> tuple[int, int]:
        """Smallest and largest value."""
        low = high = self.const
        for factor, value in self.terms.values():
            ends = factor * value.low, factor * value.high
            low += min(ends)
            high += max(ends)
        return low, high

    def fits(self) -> bool:
        """Whether it is provably an ``i64``, summed in any order."""
        low = high = self.const
        for factor, value in self.terms.values():
            ends = factor * value.low, factor * value.high
            low += min(*ends, 0)
            high += max(*ends, 0)
        return I64_LIMITS[0] <= low and high <= I64_LIMITS[1]

    def without_lane(self) -> LinearAddress:
        """The form for lane 0."""
        if LANE not in self.terms:
            return self
        return LinearAddress(self.const, {n: term for n, term in self.terms.items() if n != LANE})


ZERO = LinearAddress(0, {})


def scaled(form: LinearAddress, number: CValue) -> LinearAddress:
    """``form * number``: the products of the number with all that the form is a sum of."""
    terms: dict[c.Node, Term] = {}
    if form.const:
        terms[number.node] = Term(form.const, number)
    for factor, value in form.terms.values():
        product = _multiplied(value, number)
        terms[product.node] = Term(factor, product)
    return LinearAddress(0, terms)


def _multiplied(lhs: CValue, rhs: CValue) -> CValue:
    ends = [x * y for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
    low, high = min(ends), max(ends)
    whole = lhs.promoted == rhs.promoted == "int"
    kind = "int" if whole and INT_LIMITS[0] <= low <= high <= INT_LIMITS[1] else "int64_t"
    sides = (as_kind(kind, lhs).node, as_kind(kind, rhs).node)
    return CValue(c.CBinary("*", *sides), kind, low, high)


@lru_cache(1 << 10)
def constant(value: int) -> LinearAddress:
    """A number."""
    return LinearAddress(value, {})


def atom(value: CValue) -> LinearAddress:
    """One value."""
    return LinearAddress(0, {value.node: Term(1, value)})


def split(form: LinearAddress, divisor: int) -> tuple[LinearAddress, LinearAddress]:
    """``form = divisor * quotient + rest``, with all that divides in the quotient."""
    quotient: dict[c.Node, Term] = {}
    rest: dict[c.Node, Term] = {}
    for node, term in form.terms.items():
        if term.factor % divisor:
            rest[node] = term
        else:
            quotient[node] = Term(term.factor // divisor, term.value)
    whole, left = divmod(form.const, divisor)
    return LinearAddress(whole, quotient), LinearAddress(left, rest)


def value_of(form: LinearAddress) -> CValue:
    """The form as a C expression: of type ``int`` if no part of it can leave that type."""
    low, high = form.range()
    if not form.terms:
        narrow = INT_LIMITS[0] <= low <= INT_LIMITS[1]
        return CValue(integer_number(low, DType.I64), "int" if narrow else "int64_t", low, high)
    kind = "int" if _narrow(form) else "int64_t"
    return CValue(_sum(form, kind, None), kind, low, high)


def moved(base: c.Node, form: LinearAddress) -> c.Node:
    """``base + form``, for a pointer."""
    return _sum(form, "int" if not form.terms or _narrow(form) else "int64_t", base)


def _sum(form: LinearAddress, kind: str, node: c.Node | None) -> c.Node:
    """The form added to a node, if any: first what is added, then what is taken away."""
    terms = form.terms.values()
    for term in [*(t for t in terms if t.factor > 0), *(t for t in terms if t.factor < 0)]:
        piece = _product(term, kind)
        if node is None:
            node = piece if term.factor > 0 else c.CUnary("-", piece)
        else:
            node = c.CBinary("+" if term.factor > 0 else "-", node, piece)
    if form.const:
        number = integer_number(abs(form.const), DType.I64)
        node = c.CBinary("+" if form.const > 0 else "-", node, number) if node else number
    assert node is not None
    return node


def _product(term: Term, kind: str) -> c.Node:
    """The absolute value of a term, in the wanted type."""
    value = term.value
    node = value.node if value.promoted == kind else c.CCast(kind, value.node)
    factor = abs(term.factor)
    return node if factor == 1 else c.CBinary("*", node, integer_number(factor, DType.I64))


def _narrow(form: LinearAddress) -> bool:
    """Whether every partial sum, product and operand is an ``int``."""
    low = high = form.const
    if any(term.value.promoted != "int" for term in form.terms.values()):
        return False
    for factor, value in form.terms.values():
        ends = factor * value.low, factor * value.high
        low += min(*ends, 0)
        high += max(*ends, 0)
    return INT_LIMITS[0] <= low and high <= INT_LIMITS[1] and abs(form.const) <= INT_LIMITS[1]
