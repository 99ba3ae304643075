"""What the matcher runs: the expressions of a query as steps, each of which knows the next.

A step leads from a place to places.  A place is a value and what is known of the edge
there: on the way forward the labels that the input must have by which the value is read,
on the way back the op and the position at which it is.  No value (``None``) is a place
anywhere; with a node, the search begins at this node.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from weft.match.conditions import Check
from weft.records import dataclass

Place: TypeAlias = tuple[str | None, Any]
ANYWHERE: Place = (None, None)
NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """The end of an expression."""

    names: frozenset[str] = NO_NAMES


DONE = Done()
"""The end of what nobody goes on from, so that it does not matter where it is."""
ROUND = Done()
"""The end of one round of a repetition."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueStep:
    """The value at a place.

    Attributes:
        name: to bind; none for any value.
        kind: ``const``, ``input`` or ``output``.
        optional: it may be absent.
        check: its conditions.
        next: what follows; none where it is an operand.
        names: what it and all that follows mention, as for all steps.
    """

    name: str
    kind: str
    optional: bool
    check: Check | None
    next: Step | None = None
    names: frozenset[str] = NO_NAMES


@dataclass(frozen=True, slots=True, eq=False)
class NumberStep:
    """A constant of one element."""

    value: float
    next: Step | None = None
    names: frozenset[str] = NO_NAMES


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """What a node must be by itself."""

    op: str
    check: Check | None


@dataclass(frozen=True, slots=True, eq=False)
class NodeStep:
    """From one side of a node to the other.

    Attributes:
        tests: of which the node must pass one, or none if ``negated``.
        operands: what its inputs are; none says nothing about them.
        ordered: whether the inputs stand in the order of the operands; if not, there is one
            step for all.
        count: how many operands there are.
        rest: whether there may be further inputs.
        capture: the name of the node.
        outputs: names of the outputs; none says nothing about them.
        open: whether there may be further outputs.
        forward: which way it goes.
        fixed: it does not stand in a repetition.
    """

    tests: tuple[Test, ...]
    negated: bool
    operands: tuple[Step, ...] | None
    ordered: bool
    count: int
    rest: bool
    capture: str
    outputs: tuple[str, ...] | None
    open: bool
    forward: bool
    fixed: bool
    next: Step
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class ArrangeStep:
    """Operands in any order, from one of them on; the place holds the inputs that remain."""

    operands: tuple[Step, ...]
    after: ArrangeStep | None
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class LinkStep:
    """An edge whose ends are said."""

    source: str | int | None
    target: str | int | None
    forward: bool
    next: Step
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class SplitStep:
    """Any one of several steps."""

    options: tuple[Step, ...]
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class LoopStep:
    """A body, several times.

    Attributes:
        body: one round, with an end of its own.
        least, most: how often; no ``most`` is any number.
        locals: names that every round binds anew.
        targets: names that every way on meets, and whether each is of a node.
        forward: which way it goes.
        next: what follows.
    """

    body: Step
    least: int
    most: int | None
    locals: tuple[str, ...]
    targets: frozenset[tuple[str, bool]]
    forward: bool
    next: Step
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class RefStep:
    """A value that another statement makes, and that statement."""

    name: str
    body: Step
    next: Step | None
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class LookStep:
    """What must, or must not, be found at a place.

    Attributes:
        shared: names of the body that are bound elsewhere: it is looked for at the end.
    """

    body: Step
    negative: bool
    shared: tuple[str, ...]
    next: Step
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class RestartStep:
    """The beginning of another statement."""

    next: Step
    names: frozenset[str]


Step: TypeAlias = (
    Done
    | ValueStep
    | NumberStep
    | NodeStep
    | ArrangeStep
    | LinkStep
    | SplitStep
    | LoopStep
    | RefStep
    | LookStep
    | RestartStep
)


@dataclass(frozen=True, eq=False)
class QueryProgram:
    """A query, ready to run.

    Attributes:
        text: as it was written.
        entry: the first step.
        ops: ops that the node can be at which a match begins; ``*`` for any.
        captures: names of nodes; all others are of values.
        lists: names that have as many values as there are rounds.
        firm: names that have a value whatever repetitions take.
        distinct: pairs of names that must differ.
        hidden: names that are not told.
        needs: ops without which there is no match.
        roots: how many statements no other uses.
        links: whether it says by which ends edges lead.
        size: how many parts it has.
        rounds: how far its repetitions count.
        least: how many nodes a match has one after another at least.
    """

    text: str
    entry: Step
    ops: tuple[str, ...]
    captures: frozenset[str]
    lists: frozenset[str]
    firm: frozenset[str]
    distinct: tuple[tuple[str, str], ...] = ()
    hidden: frozenset[str] = NO_NAMES
    needs: frozenset[str] = NO_NAMES
    roots: int = 1
    links: bool = False
    size: int = 1
    rounds: int = 0
    least: int = 0
