"""What the names in a query mean: sub-patterns put in place, scopes, and every error but syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import UserError
from weft.match.messages import error_at, nearest
from weft.match.pattern import (
    Either,
    Expression,
    Look,
    NodePattern,
    PatternPart,
    PatternRepeat,
    QueryText,
    Sequence,
    Statement,
    ValuePattern,
    children,
)
from weft.ops.table import OPS
from weft.records import dataclass

HIDDEN = "."
"""How names begin that belong to a use of a sub-pattern and are not told."""
_MOST_PARTS = 5000


def with_children(expression: Expression, new: tuple[Expression, ...]) -> Expression:
    """An expression made of other expressions."""
    match expression:
        case NodePattern(operands=operands):
            return replace(expression, operands=new) if operands is not None else expression
        case Sequence():
            return Sequence(new)
        case Either():
            return Either(new)
        case PatternRepeat() | Look():
            return replace(expression, body=new[0])
        case _:
            return expression


class Expander:
    """Puts sub-patterns where they are used.

    Args:
        query: the query.
    """

    def __init__(self, query: QueryText) -> None:
        self.query = query
        self.uses = 0
        self.parts = 0

    def statements(self) -> tuple[Statement, ...]:
        """The statements without sub-patterns."""
        for name, expression in self.query.definitions.items():
            self._expanded(expression, (name,))
        return tuple(
            replace(each, expression=self._expanded(each.expression, ()))
            for each in self.query.statements
        )

    def _expanded(self, expression: Expression, within: tuple[str, ...]) -> Expression:
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise UserError(
                "query: it is too long after expanding subpatterns",
                got=f"more than {_MOST_PARTS} parts",
            )
        match expression:
            case PatternPart(name, prefix, at):
                return self._part(name, prefix, at, within)
            case ValuePattern(name, "", optional, conditions, at) if name in self.query.definitions:
                if conditions:
                    raise error_at(self.query.text, at, f"sub-pattern {name} takes no conditions")
                body = self._part(name, "", at, within)
                return PatternRepeat(body, 0, 1, at) if optional else body
            case _:
                new = tuple(self._expanded(each, within) for each in children(expression))
                return with_children(expression, new)

    def _part(self, name: str, prefix: str, at: int, within: tuple[str, ...]) -> Expression:
        known = self.query.definitions
        if name not in known:
            fix = nearest(name, known) or "`def NAME = ...` defines one."
            raise error_at(self.query.text, at, f"there is no sub-pattern {name}", fix=fix)
        if name in within:
            way = " -> ".join((*within[within.index(name) :], name))
            raise error_at(self.query.text, at, f"sub-pattern {name} contains itself", got=way)
        self.uses += 1
        prefix = prefix or f"{HIDDEN}{self.uses}"
        return renamed(self._expanded(known[name], (*within, name)), prefix)


def renamed(expression: Expression, prefix: str) -> Expression:
    """An expression with something in front of all of its names."""

    def new(name: str) -> str:
        if name in ("", "_"):
            return name
        return f"{HIDDEN}{prefix}{name}" if name.startswith(HIDDEN) else f"{prefix}.{name}"

    match expression:
        case ValuePattern(name=name):
            return replace(expression, name=new(name))
        case NodePattern(capture=capture):
            expression = replace(expression, capture=new(capture))
        case _:
            pass
    inner = tuple(renamed(each, prefix) for each in children(expression))
    return with_children(expression, inner)


@dataclass(frozen=True, eq=False)
class _Spot:
    """Where a name stands: within which repetitions and looks, and how."""

    repeats: tuple[int, ...]
    loose: bool
    look: int
    role: str
    at: int


@dataclass(frozen=True, eq=False)
class QueryScopes:
    """What the names of a query are.

    Attributes:
        captures: names of nodes.
        assigned: the statement that makes a value.
        locals: names that are bound anew in every round, by repetition (its identity).
        lists: all of them.
        firm: names outside of everything that may be there or not.
        shared: names in a look that stand outside of it, too, by look (its identity).
        unused: assigned names that no other statement uses.
    """

    captures: frozenset[str]
    assigned: Mapping[str, Statement]
    locals: Mapping[int, tuple[str, ...]]
    lists: frozenset[str]
    firm: frozenset[str]
    shared: Mapping[int, tuple[str, ...]]
    used: frozenset[str]


class ScopeFinder:
    """Finds what the names of a query are, and what is wrong with them."""

    def __init__(self, query: QueryText, statements: tuple[Statement, ...]) -> None:
        self.text = query.text
        self.query = query
        self.statements = statements
        self.spots: dict[str, list[_Spot]] = {}
        self.looks: dict[int, Look] = {}

    def scopes(self) -> QueryScopes:
        """Everything about the names."""
        assigned = self._assigned()
        for statement in self.statements:
            self._visit(statement.expression, (), False, 0, True)
        captures = frozenset(
            name for name, spots in self.spots.items() if any(s.role == "capture" for s in spots)
        )
        self._check_roles(captures, assigned)
        lists, inner = self._locals(assigned)
        shared = self._shared(assigned, lists)
        every = {*self.spots, *assigned}
        firm = frozenset(
            name
            for name in every - lists
            if name in assigned or any(not s.loose and not s.look for s in self.spots[name])
        )
        self._check_distinct(every, lists)
        return QueryScopes(
            captures,
            assigned,
            inner,
            frozenset(lists),
            firm,
            shared,
            frozenset(name for name in assigned if name in self.spots),
        )

    def _assigned(self) -> dict[str, Statement]:
        found: dict[str, Statement] = {}
        for statement in self.statements:
            for name in statement.names:
                if name == "_":
                    continue
                if name in found:
                    raise error_at(self.text, statement.at, f"{name} is made twice")
                found[name] = statement
        return found

    def _visit(
        self,
        expression: Expression,
        repeats: tuple[int, ...],
        loose: bool,
        look: int,
        chain: bool,
    ) -> None:
        match expression:
            case ValuePattern(name=name, kind=kind, at=at):
                if name not in ("", "_"):
                    role = "chain" if chain and not kind else "value"
                    self._note(name, _Spot(repeats, loose, look, role, at))
                return
            case NodePattern(op=op, capture=capture, at=at):
                self._check_op(op, at)
                if capture:
                    self._note(capture, _Spot(repeats, loose, look, "capture", at))
                for each in expression.operands or ():
                    operand = not isinstance(each, ValuePattern)
                    self._visit(each, repeats, loose, look, operand)
                return
            case PatternRepeat(most=most):
                loose = True
                if most != 1:
                    repeats = (*repeats, id(expression))
            case Look():
                look = look or id(expression)
                self.looks[id(expression)] = expression
            case _:
                pass
        for each in children(expression):
            self._visit(each, repeats, loose, look, chain)

    def _note(self, name: str, spot: _Spot) -> None:
        self.spots.setdefault(name, []).append(spot)

    def _check_op(self, op: str, at: int) -> None:
        if op != "*" and op not in OPS:
            fix = OPS.why_missing(op) or nearest(op, OPS)
            raise error_at(self.text, at, f"{op} is not an op of Weft", fix=fix)

    def _check_roles(self, captures: frozenset[str], assigned: Mapping[str, Statement]) -> None:
        for name, spots in self.spots.items():
            first = spots[0]
            if name in captures and name in assigned:
                raise error_at(self.text, first.at, f"{name} is made twice")
            if name in captures or name in assigned:
                continue
            if all(spot.role == "chain" for spot in spots):
                known = {*OPS, *self.query.definitions, *(set(self.spots) - {name}), *assigned}
                rule = f"{name} is no op, no sub-pattern and no name that is given elsewhere"
                raise error_at(self.text, first.at, rule, fix=nearest(name, known))

    def _locals(
        self, assigned: Mapping[str, Statement]
    ) -> tuple[set[str], dict[int, tuple[str, ...]]]:
        lists: set[str] = set()
        inner: dict[int, list[str]] = {}
        for name, spots in self.spots.items():
            if name in assigned:
                continue
            common = spots[0].repeats
            for spot in spots[1:]:
                same = [a for a, b in zip(common, spot.repeats, strict=False) if a == b]
                common = tuple(same)
            if common:
                if not all(spot.look for spot in spots):
                    lists.add(name)
                inner.setdefault(common[-1], []).append(name)
        return lists, {key: tuple(names) for key, names in inner.items()}

    def _shared(
        self, assigned: Mapping[str, Statement], lists: set[str]
    ) -> dict[int, tuple[str, ...]]:
        found: dict[int, list[str]] = {}
        for name, spots in self.spots.items():
            looks = {spot.look for spot in spots if spot.look}
            outside = name in assigned or any(not spot.look for spot in spots)
            for look in looks:
                if outside and (name in lists or name in assigned):
                    at = next(spot.at for spot in spots if spot.look == look)
                    what = "a repetition" if name in lists else "another statement"
                    rule = f"a look-around cannot use {name}, which {what} binds"
                    raise error_at(self.text, at, rule)
                if outside:
                    found.setdefault(look, []).append(name)
        return {key: tuple(names) for key, names in found.items()}

    def _check_distinct(self, known: set[str], lists: set[str]) -> None:
        for left, right, at in self.query.distinct:
            if left == right:
                raise error_at(self.text, at, f"{left} is always {right}")
            for name in (left, right):
                if name not in known:
                    fix = nearest(name, known)
                    raise error_at(self.text, at, f"there is no name {name}", fix=fix)
                if name in lists:
                    rule = f"{name} has a value for every round of a repetition"
                    raise error_at(self.text, at, rule)
