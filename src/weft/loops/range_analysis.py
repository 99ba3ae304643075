"""Questions about integer expressions: their intervals, and whether conditions hold.

``Knowledge`` answers them from ranges of variables and linear inequalities.  Everything is
exact about wrapping: an expression whose value, computed without wrapping, might leave its
type is only known to be in its type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from weft.dtypes import DType
from weft.loops.affine import AffineForm, Forms
from weft.loops.intervals import OPERATIONS, Interval
from weft.loops.nodes import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary, Var
from weft.loops.walk import dtype_of

_I64 = DType.I64.limits
# How many linear facts may be combined to bound one expression: one per tensor dimension.
_DEPTH = 4
# How deep selections inside selections are told apart by their conditions.
_NESTED = 2


class LinearForm(NamedTuple):
    """A fact: ``low <= sum(coefficient * atom) <= high``, computed without wrapping."""

    terms: dict[Expr, int]
    low: int
    high: int


class Knowledge(ABC):
    """Ranges of variables and inequalities that hold, and what follows from them.

    Attributes:
        impossible: they contradict one another, so this place is not reached.
        form: affine forms, remembered; they are the same everywhere.
        simplified, forms: what ``weft.loops.simplify`` has done here already.
        checked: what ``weft.loops.bounds`` has looked at here already.
    """

    __slots__ = (
        "_atom_memo",
        "_atoms",
        "_busy",
        "_linear",
        "_memo",
        "_narrowed",
        "checked",
        "form",
        "forms",
        "impossible",
        "simplified",
    )

    def __init__(self) -> None:
        self._atoms: dict[Expr, Interval] = {}
        self._linear: tuple[LinearForm, ...] = ()
        # Remembered by identity; the expression is kept so that its identity stays its own.
        self._memo: dict[int, tuple[Expr, Interval]] = {}
        self._atom_memo: dict[int, tuple[Expr, Interval]] = {}
        self.form = Forms()
        self.forms: dict[int, tuple[Expr, AffineForm]] = {}
        self.simplified: dict[int, tuple[Expr, object]] = {}
        self.checked: dict[int, Expr] = {}
        self.impossible: bool = False
        # Selections whose intervals are being computed, here or in what was derived from here.
        self._busy: set[int] = set()
        # How often a range has become narrower.
        self._narrowed = 0

    @abstractmethod
    def assume(self, condition: Expr, holds: bool = True) -> Knowledge:
        """What is known where a condition holds, or does not."""

    def range(self, expr: Expr) -> Interval:
        """The interval that an integer (or bool) expression lies in."""
        found = self._memo.get(id(expr))
        if found is not None:
            return found[1]
        if not isinstance(expr, Const | Var):
            # A fact may bound an expression by one that holds it: asked again on the way,
            # it is only known to be of its type.
            self._memo[id(expr)] = (expr, dtype_of(expr).limits)
        interval = self._range(expr)
        self._memo[id(expr)] = (expr, interval)
        return interval

    def _range(self, expr: Expr) -> Interval:
        match expr:
            case Const(value=value):
                return (int(value), int(value))
            case Var():
                return self._atoms.get(expr, _I64)
            case Binary(op, _, _) if op in ("add", "sub", "mul"):
                pass
            case Unary("neg", _):
                pass
            case _:
                return self._atom(expr)
        low, high = self.bounds(self.form(expr))
        least, most = dtype_of(expr).limits
        return (low, high) if least <= low and high <= most else (least, most)

    def decide(self, condition: Expr) -> bool | None:
        """Whether a condition always holds, never holds, or ``None``."""
        match condition:
            case Const(value=value):
                return bool(value)
            case Binary("and", lhs, rhs):
                sides = self.decide(lhs), self.decide(rhs)
                return False if False in sides else (True if sides == (True, True) else None)
            case Binary("or", lhs, rhs):
                sides = self.decide(lhs), self.decide(rhs)
                return True if True in sides else (False if sides == (False, False) else None)
            case Unary("not", x):
                inner = self.decide(x)
                return None if inner is None else not inner
            case Binary(op, lhs, rhs) if op in COMPARISONS and dtype_of(lhs).is_integer:
                return self.compare(op, self.form(lhs), self.form(rhs), dtype_of(lhs).limits)
            case _:
                return None

    def compare(
        self, op: str, left: AffineForm, right: AffineForm, limits: Interval
    ) -> bool | None:
        """Decides a comparison of two integers of one type, if the facts do."""
        if not (self._within(left, *limits) and self._within(right, *limits)):
            return None
        low, high = self.bounds(left.plus(right, -1))
        match op:
            case "lt":
                return True if high < 0 else (False if low >= 0 else None)
            case "le":
                return True if high <= 0 else (False if low > 0 else None)
            case "gt":
                return True if low > 0 else (False if high <= 0 else None)
            case "ge":
                return True if low >= 0 else (False if high < 0 else None)
            case "eq":
                return True if low == high == 0 else (False if low > 0 or high < 0 else None)
            case _:
                return False if low == high == 0 else (True if low > 0 or high < 0 else None)

    def bounds(self, form: AffineForm) -> Interval:
        """The interval of an affine form, computed without wrapping."""
        if len(form.terms) < 2:
            return self._sum(form.terms, form.const)
        facts = (*self._quotients(form.terms), *self._linear)
        return self._combine(form.terms, form.const, facts, _DEPTH)

    def _quotients(self, terms: Mapping[Expr, int]) -> list[LinearForm]:
        """``e - d + 1 <= d * (e // d) <= e`` of the quotients of a sum that are so scaled."""
        found: list[LinearForm] = []
        for atom, coefficient in terms.items():
            parts = self._by_constant(atom, "floordiv")
            if parts is not None and coefficient % parts[1] == 0:
                dividend, divisor = parts
                between = AffineForm({atom: divisor}, 0).plus(AffineForm(dividend.terms, 0), -1)
                found.append(
                    LinearForm(between.terms, dividend.const - divisor + 1, dividend.const)
                )
        return found

    def fits(self, form: AffineForm, limits: Interval = _I64) -> bool:
        """Whether an affine form stays in its type when computed without wrapping."""
        return self._within(form, *limits)

    def _within(self, form: AffineForm, least: int, most: int) -> bool:
        low, high = self._sum(form.terms, form.const)
        if least <= low and high <= most:
            return True
        low, high = self.bounds(form)
        return least <= low and high <= most

    def _sum(self, terms: Mapping[Expr, int], const: int) -> Interval:
        low = high = const
        for atom, coefficient in terms.items():
            least, most = self._atom(atom)
            if coefficient > 0:
                low += coefficient * least
                high += coefficient * most
            else:
                low += coefficient * most
                high += coefficient * least
        return (low, high)

    def _combine(
        self, terms: dict[Expr, int], const: int, facts: Sequence[LinearForm], depth: int
    ) -> Interval:
        """Bounds a sum by what is known of parts of it."""
        low, high = self._sum(terms, const)
        if depth == 0 or len(terms) < 2:
            return (low, high)
        for place, fact in enumerate(facts):
            factor = _factor(terms, fact.terms)
            if factor == 0:
                continue
            rest = AffineForm(terms, const).plus(AffineForm(fact.terms, 0), -factor)
            if len(rest.terms) > len(terms):
                continue
            below, above = self._combine(rest.terms, const, facts[place + 1 :], depth - 1)
            ends = factor * fact.low, factor * fact.high
            low, high = max(low, below + min(ends)), min(high, above + max(ends))
        return (low, high)

    def _atom(self, atom: Expr) -> Interval:
        """The interval of what is not affine."""
        if isinstance(atom, Var):
            return self._atoms.get(atom, _I64)
        found = self._atom_memo.get(id(atom))
        if found is not None:
            return found[1]
        limits = dtype_of(atom).limits
        # As in ``range``: asked again on the way, it is only known to be of its type.
        self._atom_memo[id(atom)] = (atom, limits)
        low, high = self._computed(atom, limits)
        known = self._atoms.get(atom)
        if known is not None:
            low, high = max(low, known[0]), min(high, known[1])
        self._atom_memo[id(atom)] = (atom, (low, high))
        return (low, high)

    def _computed(self, atom: Expr, limits: Interval) -> Interval:
        """The interval of an operation from those of its operands."""
        found = limits
        match atom:
            case Const(value=value):
                return (int(value), int(value))
            case Binary(op, lhs, rhs) if op in OPERATIONS and dtype_of(lhs).is_integer:
                found = OPERATIONS[op](self.range(lhs), self.range(rhs)) or limits
            case Select():
                found = self._selected(atom, limits)
            case Unary("abs", x):
                low, high = self.range(x)
                found = (max(low, -high, 0), max(abs(low), abs(high)))
            case Unary("sign", x):
                low, high = self.range(x)
                found = ((low > 0) - (low < 0), (high > 0) - (high < 0))
            case Cast(_, x) if not dtype_of(x).is_float:
                found = self.range(x)
            case _:
                pass
        inside = limits[0] <= found[0] and found[1] <= limits[1]
        return found if inside else limits

    def _selected(self, select: Select, limits: Interval) -> Interval:
        """The interval of a selection; a fact of its own condition may ask for it again."""
        if id(select) in self._busy:
            return limits
        if len(self._busy) == _NESTED:
            sides = self.range(select.then), self.range(select.otherwise)
            return _hull(sides)
        self._busy.add(id(select))
        found = self._either(select.condition, select.then, select.otherwise)
        self._busy.remove(id(select))
        return found

    def _either(self, condition: Expr, then: Expr, otherwise: Expr) -> Interval:
        """The interval of a selection: each side where its condition allows it."""
        sides = [(self.assume(condition, True), then), (self.assume(condition, False), otherwise)]
        reached = [facts.range(side) for facts, side in sides if not facts.impossible]
        if not reached:
            return dtype_of(then).limits
        return _hull(reached)

    def _by_constant(self, atom: Expr, op: str) -> tuple[AffineForm, int] | None:
        """Dividend and divisor of a division by a positive constant, if nothing wraps in it."""
        match atom:
            case Binary(found, lhs, Const(value, DType.I64)) if found == op and value > 0:
                dividend = self.form(lhs)
                low, high = self._sum(dividend.terms, dividend.const)
                fits = _I64[0] <= low and high <= _I64[1]
                return (dividend, int(value)) if fits else None
            case _:
                return None

    def describe(self, show: Callable[[Expr], str] = repr) -> str:
        """The facts as text, for error messages; ``show`` prints an expression."""
        lines = [f"{low} <= {show(atom)} <= {high}" for atom, (low, high) in self._atoms.items()]
        for terms, low, high in self._linear:
            total = " + ".join(f"{factor}*{show(atom)}" for atom, factor in terms.items())
            lines.append(f"{low} <= {total} <= {high}")
        return ", ".join(lines) or "nothing"


def _hull(intervals: Sequence[Interval]) -> Interval:
    return (min(low for low, _ in intervals), max(high for _, high in intervals))


def _factor(terms: Mapping[Expr, int], part: Mapping[Expr, int]) -> int:
    """How many times a part is in a sum, by its first atom; 0 if it is not."""
    for atom, coefficient in part.items():
        factor, remainder = divmod(terms.get(atom, 0), coefficient)
        return 0 if remainder else factor
    return 0
