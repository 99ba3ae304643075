"""In which order the statements of a query are run: those first that say where others are.

The order says nothing about what a query means, and much about what it costs: a repetition
between two nodes that are known only has to be followed from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from weft.match.pattern import (
    Expression,
    Link,
    NodePattern,
    PatternNumber,
    PatternRepeat,
    Statement,
    ValuePattern,
    walk,
)
from weft.match.pattern import Sequence as Chain


def names_in(expression: Expression) -> set[str]:
    """The names that an expression mentions."""
    found: set[str] = set()
    for each in walk(expression):
        match each:
            case ValuePattern(name=name) | NodePattern(capture=name):
                found.add(name)
            case _:
                pass
    return found - {"", "_"}


def roots_of(statements: Iterable[Statement]) -> list[Statement]:
    """The statements of which no other uses what they make."""
    known = list(statements)
    used = {name for each in known for name in names_in(each.expression)}
    return [each for each in known if not set(each.names) & used]


def opened(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, with the node at which a match begins in one of its own, if that helps.

    The first statement says where a match begins, and may be the dearest of all.  When its
    first node is known, cheaper ones can narrow it down.
    """
    roots = roots_of(statements)
    if not roots or roots[0].names:
        return statements
    first, others = roots[0], roots[1:]
    parts = _parts(first.expression)
    place = _first_node(parts, _captures(statements))
    if place is None or place == len(parts) - 1:
        return statements
    name = _end_name(parts[place])
    near = [each for each in others if name in names_in(each.expression) | {*each.names}]
    if not any(_cost(each) < _cost(first) for each in near):
        return statements
    opening = replace(first, expression=Chain(parts[: place + 1]))
    again = ValuePattern(name, at=first.at)
    rest = replace(first, expression=Chain((again, *parts[place + 1 :])))
    return (opening, *(rest if each is first else each for each in statements))


def _captures(statements: Iterable[Statement]) -> set[str]:
    """The names of nodes."""
    parts = [each for statement in statements for each in walk(statement.expression)]
    return {each.capture for each in parts if isinstance(each, NodePattern)} - {""}


def _first_node(parts: Sequence[Expression], captures: set[str]) -> int | None:
    """The place of the first node of a chain, if it is the same whatever the chain takes."""
    for place, part in enumerate(parts):
        match part:
            case NodePattern():
                return place
            case ValuePattern(name=name) if name in captures:
                return place
            case ValuePattern() | PatternNumber() | Link():
                continue
            case _:
                return None
    return None


def _cost(statement: Statement) -> int:
    """How many repetitions there are in a statement."""
    return sum(isinstance(e, PatternRepeat) and e.most != 1 for e in walk(statement.expression))


def in_order(roots: Sequence[Statement]) -> list[tuple[Statement, bool]]:
    """The order in which to run statements, and whether each is read from its beginning."""
    left = list(roots)
    known: set[str] = set()
    ordered: list[tuple[Statement, bool]] = []
    while left:
        # A match begins where the first statement does.
        statement = min(left, key=lambda each: _rank(each, known)) if ordered else left[0]
        left.remove(statement)
        ordered.append((statement, _forward(statement, known)))
        known.update(names_in(statement.expression), statement.names)
    return ordered


def _rank(statement: Statement, known: set[str]) -> tuple[int, int]:
    """How early a statement is run; one that begins or ends where another was needs no search."""
    ends = _ends(statement)
    near = 0 if ends & known else 1 if names_in(statement.expression) & known else 2
    return near, _cost(statement)


def _ends(statement: Statement) -> set[str]:
    parts = _parts(statement.expression)
    ends = {_end_name(parts[-1])}
    if not statement.names:
        ends.add(_end_name(parts[0]))
    return ends - {""}


def _forward(statement: Statement, known: set[str]) -> bool:
    if statement.names:
        return False
    parts = _parts(statement.expression)
    return _end_name(parts[0]) in known or _end_name(parts[-1]) not in known


def certain_nodes(roots: Iterable[Statement]) -> Mapping[str, NodePattern]:
    """What nodes are by themselves, by those names that they have in every match."""
    found: dict[str, NodePattern] = {}
    pending = [each.expression for each in roots]
    while pending:
        match pending.pop():
            case NodePattern(operands=operands) as node:
                pending.extend(operands or ())
                if node.capture and (node.op != "*" or node.conditions):
                    found[node.capture] = node
            case Chain(parts):
                pending.extend(parts)
            case _:
                pass
    return found


def _parts(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, Chain) else (expression,)


def _end_name(expression: Expression) -> str:
    match expression:
        case ValuePattern(name=name) | NodePattern(capture=name):
            return "" if name == "_" else name
        case _:
            return ""
