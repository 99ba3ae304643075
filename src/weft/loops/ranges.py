"""What is known of integer expressions at one place of a kernel.

``Facts`` holds the range of every loop variable and the linear inequalities that the
enclosing guards and loop bounds imply.  From them it tells the range of any integer
expression (``weft.loops.range_analysis``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.loops.affine import AffineForm
from weft.loops.intervals import Interval
from weft.loops.nodes import COMPARISONS, Binary, Const, Expr, For, Stmt, Unary, Var
from weft.loops.range_analysis import Knowledge, LinearForm
from weft.loops.statements import stored
from weft.loops.walk import dtype_of, loads

FLIPPED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
# How often facts are put to one another: real guards settle in two rounds.
_ROUNDS = 3


class Facts(Knowledge):
    """Ranges of variables and assumed inequalities at one place of a kernel.

    Facts are values: ``bind``, ``enter`` and ``assume`` return new ones.
    """

    __slots__ = ("inside",)

    def __init__(self) -> None:
        super().__init__()
        self.inside: dict[tuple[str, int, int], Facts] = {}

    def _copy(self) -> Facts:
        child = Facts()
        child._atoms = dict(self._atoms)
        child._linear = self._linear
        child.form = self.form
        child._busy = self._busy
        child.impossible = self.impossible
        return child

    def bind(self, ranges: Mapping[str, Interval]) -> Facts:
        """With the ranges of some variables, bounds inclusive."""
        child = self._copy()
        for name, (low, high) in ranges.items():
            child._atoms[Var(name)] = (low, high)
            child.impossible |= low > high
        return child

    def counted(self, name: str, low: int, high: int) -> Facts:
        """Where a variable lies between constants, the same for all loops that are alike."""
        found = self.inside.get((name, low, high))
        if found is None:
            found = self.inside[name, low, high] = self.bind({name: (low, high)})
        return found

    def enter(self, loop: For) -> Facts:
        """Inside a loop: its variable lies between its bounds."""
        low, high = self.range(loop.start)[0], self.range(loop.stop)[1] - 1
        child = self.bind({loop.var: (low, high)})
        if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
            return child
        var = Var(loop.var)
        between = [Binary("le", loop.start, var), Binary("lt", var, loop.stop)]
        child._assume_all([(each, True) for each in between if _steady(each, loop.body)])
        return child

    def assume(self, condition: Expr, holds: bool = True, body: Sequence[Stmt] = ()) -> Facts:
        """Where a condition holds (or does not) while a body runs.

        What the condition says of elements that the body stores to is left out: it may
        not hold any longer.
        """
        child = self._copy()
        parts = [(each, truth) for each, truth in _parts(condition, holds) if _steady(each, body)]
        child._assume_all(parts)
        return child

    def _assume_all(self, parts: list[tuple[Expr, bool]]) -> None:
        # A part may only be usable once another has bounded one of its sides.
        postponed = [part for part in parts if not self._assume_one(*part)]
        if postponed and len(postponed) < len(parts):
            self._assume_all(postponed)
        elif self._linear and not self._busy:
            # Not for the sides of a selection: a fact with several of them would settle for each,
            # again whenever something has become narrower.
            self._settle()

    def _assume_one(self, condition: Expr, holds: bool) -> bool:
        """Takes in one comparison; false where it could not be used."""
        if isinstance(condition, Const):
            self.impossible |= bool(condition.value) != holds
            return True
        if not (isinstance(condition, Binary) and condition.op in COMPARISONS):
            return True
        if not dtype_of(condition.lhs).is_integer:
            return True
        op = condition.op if holds else FLIPPED[condition.op]
        lhs, rhs = condition.lhs, condition.rhs
        match op:
            case "lt":
                return self._at_most(lhs, rhs, 1)
            case "le":
                return self._at_most(lhs, rhs, 0)
            case "gt":
                return self._at_most(rhs, lhs, 1)
            case "ge":
                return self._at_most(rhs, lhs, 0)
            case "eq":
                both = self._at_most(lhs, rhs, 0), self._at_most(rhs, lhs, 0)
                return all(both)
            case _:
                return self._differ(lhs, rhs)

    def _at_most(self, lhs: Expr, rhs: Expr, slack: int) -> bool:
        """``lhs + slack <= rhs`` as a fact."""
        left, right = self.form(lhs), self.form(rhs)
        low, high = dtype_of(lhs).limits
        fits = self._within(left, low, high) and self._within(right, low, high)
        difference = right.plus(left, -1)
        if fits:
            self._non_negative(AffineForm(difference.terms, difference.const - slack))
            return True
        # One side may wrap.  Beside a constant the other's value is still bounded, and
        # moving its constant over is sound when the moved interval stays in the type.
        if not (low <= (left.const if right.terms else right.const) <= high):
            return False
        if not right.terms and len(left.terms) == 1:
            moved = low - left.const, right.const - slack - left.const
        elif not left.terms and len(right.terms) == 1:
            moved = left.const + slack - right.const, high - right.const
        else:
            return False
        ((atom, coefficient),) = (left.terms or right.terms).items()
        if coefficient != 1 or moved[0] < low or moved[1] > high:
            return False
        self._narrow(atom, *moved)
        return True

    def _differ(self, lhs: Expr, rhs: Expr) -> bool:
        """``lhs != rhs``: useful where it trims an end of the range of one atom."""
        difference = self.form(lhs).plus(self.form(rhs), -1)
        if len(difference.terms) == 1:
            ((atom, coefficient),) = difference.terms.items()
            if abs(coefficient) == 1:
                excluded = -difference.const * coefficient
                low, high = self._atom(atom)
                self._narrow(atom, low + (low == excluded), high - (high == excluded))
        return True

    def _non_negative(self, form: AffineForm) -> None:
        """``form >= 0``; a minimum above and a maximum below hold for each of their arms."""
        for atom, coefficient in form.terms.items():
            wanted = "min" if coefficient > 0 else "max"
            if isinstance(atom, Binary) and atom.op == wanted:
                rest = AffineForm(
                    {a: c for a, c in form.terms.items() if a is not atom}, form.const
                )
                for arm in (atom.lhs, atom.rhs):
                    self._non_negative(rest.plus(self.form(arm), coefficient))
                break  # and for the minimum, of which another fact may say more than its arms
        self._add(form.terms, -form.const)

    def _add(self, terms: dict[Expr, int], low: int) -> None:
        if not terms:
            self.impossible |= low > 0
            return
        self._propagate(terms, low)
        if len(terms) > 1:
            self._remember(terms, low)
        self._undivided(terms, low)

    def _propagate(self, terms: Mapping[Expr, int], low: int) -> None:
        """Narrows each atom of a ``sum >= low`` by the most that the others can be."""
        for atom, coefficient in terms.items():
            others = self._sum({a: c for a, c in terms.items() if a is not atom}, 0)[1]
            least, most = self._atom(atom)
            if coefficient > 0:
                self._narrow(atom, -((others - low) // coefficient), most)
            else:
                self._narrow(atom, least, (low - others) // coefficient)

    def _settle(self) -> None:
        """What one fact says of an atom may let another say more."""
        for _ in range(_ROUNDS):
            before = self._narrowed
            for terms, low, high in self._linear:
                self._propagate(terms, low)
                self._propagate({atom: -factor for atom, factor in terms.items()}, -high)
            if self._narrowed == before:
                return

    def _undivided(self, terms: dict[Expr, int], low: int) -> None:
        """``sum >= low`` without its first quotient: ``e - d + 1 <= d * (e // d) <= e``."""
        for atom, coefficient in terms.items():
            parts = self._by_constant(atom, "floordiv")
            if parts is None:
                continue
            dividend, divisor = parts
            others = AffineForm({a: c * divisor for a, c in terms.items() if a is not atom}, 0)
            slack = 0 if coefficient > 0 else 1 - divisor
            most = AffineForm(dividend.terms, dividend.const + slack)
            scaled = others.plus(most, coefficient)
            self._non_negative(AffineForm(scaled.terms, scaled.const - divisor * low))
            return

    def _remember(self, terms: dict[Expr, int], low: int) -> None:
        opposite = {atom: -coefficient for atom, coefficient in terms.items()}
        kept: list[LinearForm] = []
        high = self._sum(terms, 0)[1]
        for fact in self._linear:
            if fact.terms == terms:
                low, high = max(low, fact.low), min(high, fact.high)
            elif fact.terms == opposite:
                low, high = max(low, -fact.high), min(high, -fact.low)
            else:
                kept.append(fact)
        self.impossible |= low > high
        self._linear = (*kept, LinearForm(terms, low, high))
        self._forget()

    def _narrow(self, atom: Expr, low: int, high: int) -> None:
        old_low, old_high = self._atom(atom)
        low, high = max(low, old_low), min(high, old_high)
        if (low, high) != (old_low, old_high):
            self._atoms[atom] = (low, high)
            self._narrowed += 1
            self.impossible |= low > high
            self._forget()
            if low <= high:
                self._multiplied(atom, low, high)
                self._congruent(atom, low, high)

    def _multiplied(self, atom: Expr, low: int, high: int) -> None:
        """``low <= e // d <= high`` bounds ``e``."""
        parts = self._by_constant(atom, "floordiv")
        if parts is None:
            return
        dividend, divisor = parts
        least, most = self.bounds(dividend)
        first, last = low * divisor, high * divisor + divisor - 1
        if first > least:
            self._add(dividend.terms, first - dividend.const)
        if last < most:
            self._add(dividend.times(-1).terms, dividend.const - last)

    def _congruent(self, atom: Expr, low: int, high: int) -> None:
        """``low <= e % d <= high`` moves the ends of ``e`` to where that holds."""
        parts = self._by_constant(atom, "mod")
        if parts is None:
            return
        dividend, divisor = parts
        least, most = self.bounds(dividend)
        first = least + _to_residue(least % divisor, low, high, divisor)
        last = most - _to_residue(-most % divisor, -high % divisor, -low % divisor, divisor)
        if first > least:
            self._add(dividend.terms, first - dividend.const)
        if last < most:
            self._add(dividend.times(-1).terms, dividend.const - last)

    def _forget(self) -> None:
        """What was remembered may be known better now."""
        self._memo.clear()
        self._atom_memo.clear()


def _to_residue(residue: int, low: int, high: int, divisor: int) -> int:
    """How far it is upwards from a residue to the nearest one between two others."""
    inside = (residue - low) % divisor <= (high - low) % divisor
    return 0 if inside else (low - residue) % divisor


def _parts(condition: Expr, holds: bool) -> list[tuple[Expr, bool]]:
    """The comparisons that all have the given truth when the whole condition has."""
    match condition:
        case Binary("and", lhs, rhs) if holds:
            return _parts(lhs, True) + _parts(rhs, True)
        case Binary("or", lhs, rhs) if not holds:
            return _parts(lhs, False) + _parts(rhs, False)
        case Unary("not", x):
            return _parts(x, not holds)
        case _:
            return [(condition, holds)]


def _steady(condition: Expr, body: Sequence[Stmt]) -> bool:
    """Whether what a condition reads stays as it is while a body runs."""
    if not body:
        return True
    read = {load.buffer for load in loads(condition)}
    return not (read and read & stored(body))
