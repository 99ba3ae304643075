"""What a query is made of, as its text says it; ``docs/query.md`` says what it means.

A query is a set of statements; a statement is an expression over *points* of a graph, the
places between nodes.  Every form of expression relates the points before it to those after
it, so that expressions can be read along the edges of a graph and against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from weft.records import dataclass


class _Mark:
    """A literal that stands for more than one thing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


WILDCARD = _Mark("_")
"""Any one element of a tuple."""
REST = _Mark("...")
"""Any further elements of a tuple."""
NONE = _Mark("none")
"""An attribute that is not given."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a condition asks: a fact, an attribute or a predicate.

    Attributes:
        name: of the fact, the attribute or the predicate.
        operand: of which operand, by name or position; none is the node or value itself.
        attribute: it is the attribute, even where there is a fact of this name.
        arguments: of a predicate.
        at: where it stands in the text, as for all others.
    """

    name: str
    operand: str | int | None = None
    attribute: bool = False
    arguments: tuple[Any, ...] | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """A fact beside a literal; without operator, whether it is true."""

    fact: Fact
    operator: str = ""
    literal: Any = None


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that must not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one must hold."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Compared | Not | AnyOf


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """A value; ``name`` binds it, ``_`` and the empty name do not.

    Attributes:
        name: what it is called.
        kind: ``const``, ``input`` or ``output``, if it must be one.
        optional: an operand that may be absent.
        conditions: that must hold.
    """

    name: str
    kind: str = ""
    optional: bool = False
    conditions: tuple[Condition, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class PatternNumber:
    """A constant of one element."""

    value: float


@dataclass(frozen=True, slots=True)
class NodePattern:
    """A node.

    Attributes:
        op: its op, ``*`` for any.
        operands: what its inputs are; none says nothing about them.
        ordered: whether the inputs stand in the order of the operands.
        rest: whether there may be further inputs.
        conditions: that must hold.
        capture: the name that the node gets.
    """

    op: str
    operands: tuple[Expression, ...] | None = None
    ordered: bool = True
    rest: bool = False
    conditions: tuple[Condition, ...] = ()
    capture: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class Other:
    """A node that fits none of some patterns."""

    patterns: tuple[NodePattern, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Which output leaves and which input is entered, by name or position."""

    source: str | int | None
    target: str | int | None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """One expression after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several expressions."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PatternRepeat:
    """An expression, ``least`` to ``most`` times after itself; no ``most`` is any number."""

    body: Expression
    least: int
    most: int | None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What must follow, or come before, without taking part in the match.

    Attributes:
        body: what is looked for.
        ahead: whether it follows.
        negative: whether it must not be there.
    """

    body: Expression
    ahead: bool
    negative: bool
    at: int = 0


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A named sub-pattern where it is used; its names get ``prefix`` in front."""

    name: str
    prefix: str
    at: int = 0


Expression: TypeAlias = (
    ValuePattern
    | PatternNumber
    | NodePattern
    | Other
    | Link
    | Sequence
    | Either
    | PatternRepeat
    | Look
    | PatternPart
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        names: of the outputs that it makes, if it gives them names.
        rest: there may be further outputs.
        expression: what must be there.
        at: where it begins.
    """

    names: tuple[str, ...]
    rest: bool
    expression: Expression
    at: int = 0


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query as it was written.

    Attributes:
        text: the text.
        statements: chains and assignments, in order.
        definitions: named sub-patterns.
        distinct: pairs of names that must not stand for the same.
    """

    text: str
    statements: tuple[Statement, ...]
    definitions: dict[str, Expression]
    distinct: tuple[tuple[str, str, int], ...]


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that one is made of, operands included."""
    match expression:
        case NodePattern(operands=operands):
            return operands or ()
        case Other(patterns):
            return patterns
        case Sequence(parts):
            return parts
        case Either(options):
            return options
        case PatternRepeat(body=body) | Look(body=body):
            return (body,)
        case ValuePattern() | PatternNumber() | Link() | PatternPart():
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is made of."""
    pending: list[Expression] = [expression]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(children(found)))
