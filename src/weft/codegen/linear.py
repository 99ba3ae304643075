"""Linear forms of ``i64`` expressions over C texts, with ranges: how addresses are printed."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen.literals import integer_literal
from weft.codegen.value import INT_LIMITS, NEGATIVE, PRIMARY, PRODUCT, SUM, Value, cast_text
from weft.dtypes import DType

I64_LIMITS = DType.I64.limits
LANE = "<lane>"
"""Stands for the number of the lane; it is taken out before a form is printed."""


class Term(NamedTuple):
    """``factor * value``."""

    factor: int
    value: Value


class Linear(NamedTuple):
    """``const + sum of terms``, terms by their text; computed without wrapping."""

    const: int
    terms: dict[str, Term]

    @property
    def constant(self) -> int | None:
        """The value if there are no terms."""
        return None if self.terms else self.const

    @property
    def lane_factor(self) -> int | None:
        """How much one lane more adds; ``None`` if that is not the same for all lanes."""
        if any(LANE in text for text in self.terms if text != LANE):
            return None
        lane = self.terms.get(LANE)
        return lane.factor if lane else 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        if not other.terms:
            return Linear(self.const + factor * other.const, self.terms)
        terms = dict(self.terms)
        for text, term in other.terms.items():
            old = terms.get(text)
            total = factor * term.factor + (old.factor if old else 0)
            if total:
                terms[text] = Term(total, term.value)
            else:
                terms.pop(text, None)
        return Linear(self.const + factor * other.const, terms)

    def times(self, factor: int) -> Linear:
        """``factor * self``."""
        if factor == 0:
            return Linear(0, {})
        scaled = {text: Term(t.factor * factor, t.value) for text, t in self.terms.items()}
        return Linear(self.const * factor, scaled)

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

    def without_lane(self) -> Linear:
        """The form for lane 0."""
        if LANE not in self.terms:
            return self
        return Linear(self.const, {t: term for t, term in self.terms.items() if t != LANE})


ZERO = Linear(0, {})


def constant(value: int) -> Linear:
    """A number."""
    return Linear(value, {})


def atom(value: Value) -> Linear:
    """One value."""
    return Linear(0, {value.text: Term(1, value)})


def split(form: Linear, divisor: int) -> tuple[Linear, Linear]:
    """``form = divisor * quotient + rest``, with all that divides in the quotient."""
    quotient: dict[str, Term] = {}
    rest: dict[str, Term] = {}
    for text, term in form.terms.items():
        if term.factor % divisor:
            rest[text] = term
        else:
            quotient[text] = Term(term.factor // divisor, term.value)
    whole, left = divmod(form.const, divisor)
    return Linear(whole, quotient), Linear(left, rest)


def print_linear(form: Linear) -> Value:
    """The form as a C expression: of type ``int`` if no part of it can leave that type."""
    low, high = form.range()
    if not form.terms:
        level = PRIMARY if form.const >= 0 else NEGATIVE
        narrow = INT_LIMITS[0] <= low <= INT_LIMITS[1]
        text = integer_literal(form.const, DType.I64)
        return Value(text, level, "int" if narrow else "int64_t", low, high)
    kind = "int" if _narrow(form) else "int64_t"
    added = [term for term in form.terms.values() if term.factor > 0]
    taken = [term for term in form.terms.values() if term.factor < 0]
    ordered = added + taken
    pieces = [_product(term, kind) for term in ordered]
    if len(pieces) == 1 and form.const == 0 and added:
        return pieces[0]._replace(low=low, high=high)
    text = pieces[0].at(SUM) if added else f"-{pieces[0].at(PRIMARY)}"
    for term, piece in zip(ordered[1:], pieces[1:], strict=True):
        text += f" {'+' if term.factor > 0 else '-'} {piece.at(PRODUCT)}"
    if form.const:
        number = integer_literal(abs(form.const), DType.I64)
        text += f" {'+' if form.const > 0 else '-'} {number}"
    return Value(text, SUM if len(ordered) > 1 or form.const else NEGATIVE, kind, low, high)


def _product(term: Term, kind: str) -> Value:
    """The absolute value of a term, in the wanted type."""
    value = term.value
    if value.promoted != kind:
        value = Value(cast_text(kind, value), 15, kind, value.low, value.high)
    factor = abs(term.factor)
    if factor == 1:
        return value
    number = integer_literal(factor, DType.I64)
    return Value(f"{value.at(PRODUCT)} * {number}", PRODUCT, kind)


def _narrow(form: Linear) -> bool:
    """Whether every partial sum, product and operand is an ``int``."""
    low = high = form.const
    if any(term.value.promoted != "int" for term in form.terms.values()):
        return False
    for factor, value in form.terms.values():
        ends = factor * value.low, factor * value.high
        low += min(*ends, 0)
        high += max(*ends, 0)
    return INT_LIMITS[0] <= low and high <= INT_LIMITS[1] and abs(form.const) <= INT_LIMITS[1]
