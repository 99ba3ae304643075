"""C as a tree: the expressions and statements that kernels are made of.

What a node means is fixed here, how it is spelled in a dialect is the printer's business.
Expressions compare by structure, so that they can be keys; only accesses to memory are
objects, since a pass over their block says where each of them is read from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from weft.records import dataclass

# Precedence, as in the grammar of C: an operand below the level that is wanted gets brackets.
PRIMARY, UNARY, NEGATIVE, PRODUCT, SUM, SHIFT, RELATION, EQUALITY = 16, 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, TERNARY = 8, 7, 6, 5, 4, 3

BINARY_LEVELS: Mapping[str, tuple[int, int, int]] = {
    "*": (PRODUCT, PRODUCT, NEGATIVE),
    "/": (PRODUCT, PRODUCT, NEGATIVE),
    "%": (PRODUCT, PRODUCT, UNARY),
    "+": (SUM, SUM, PRODUCT),
    "-": (SUM, SUM, PRODUCT),
    **dict.fromkeys(("<", "<=", ">", ">="), (RELATION, SUM, SUM)),
    **dict.fromkeys(("==", "!="), (EQUALITY, SUM, SUM)),
    # Compilers warn of these without brackets, and people misread them.
    "<<": (SHIFT, UNARY, UNARY),
    ">>": (SHIFT, UNARY, UNARY),
    "&": (BIT_AND, UNARY, UNARY),
    "^": (BIT_XOR, UNARY, UNARY),
    "|": (BIT_OR, UNARY, UNARY),
    "&&": (AND, AND, AND),
    "||": (OR, EQUALITY, EQUALITY),
}
"""The level of each operator, and the levels its operands need to stand without brackets."""
UNARY_LEVELS = {"-": NEGATIVE, "!": UNARY, "~": UNARY, "&": UNARY}

# --- expressions ----------------------------------------------------------------------------------


class Name(NamedTuple):
    """A variable, a parameter or a constant array."""

    name: str


class CNumber(NamedTuple):
    """A literal; ``names`` are the types and macros that it is made of."""

    text: str
    level: int = PRIMARY
    names: tuple[str, ...] = ()


class CUnary(NamedTuple):
    """``op x``."""

    op: str
    x: Node


class CBinary(NamedTuple):
    """``lhs op rhs``."""

    op: str
    lhs: Node
    rhs: Node


class Ternary(NamedTuple):
    """``test ? yes : no``."""

    test: Node
    yes: Node
    no: Node


class CCast(NamedTuple):
    """``(type)x``."""

    type: str
    x: Node


class Convert(NamedTuple):
    """The lanes of a vector converted one by one to another element type."""

    x: Node
    type: str


class CGroup(NamedTuple):
    """``(x)`` whatever stands beside it: a scalar beside vectors."""

    x: Node


class Index(NamedTuple):
    """``base[at]``: a lane of a vector."""

    base: Node
    at: Node


class Braces(NamedTuple):
    """``(type){items}``."""

    type: str
    items: tuple[Node, ...]


class CCall(NamedTuple):
    """A call of a function of the library or the compiler."""

    function: str
    arguments: tuple[Node, ...]


class Helper(NamedTuple):
    """A call of a helper function, whose text goes into the file."""

    function: str
    arguments: tuple[Node, ...]


class CMemory(ABC):
    """An element of a buffer in memory, or a whole vector from there on.

    Attributes:
        name: C name of the buffer.
        vector: the vector type, empty for one element.
        load: whether it is read.
        pooled: whether a pass may change where it is read from.
        pointer: a pointer to element ``first`` to use instead of the name, if any.
        held: the variable that holds the vector already, if any.
    """

    __slots__ = ("first", "held", "load", "name", "pointer", "pooled", "vector")

    def __init__(self, name: str, vector: str, load: bool, pooled: bool) -> None:
        self.name, self.vector, self.load, self.pooled = name, vector, load, pooled
        self.pointer = self.held = ""
        self.first = 0

    @property
    @abstractmethod
    def indices(self) -> Sequence[Node]:
        """What its offset is a sum of multiples of."""

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What it shares with accesses that are the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CMemory) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


Node: TypeAlias = (
    Name
    | CNumber
    | CUnary
    | CBinary
    | Ternary
    | CCast
    | Convert
    | CGroup
    | Index
    | Braces
    | CCall
    | Helper
    | CMemory
)


def level_of(node: Node) -> int:
    """The precedence of an expression."""
    match node:
        case CBinary(op):
            return BINARY_LEVELS[op][0]
        case CNumber():
            return node.level
        case CUnary(op):
            return UNARY_LEVELS[op]
        case Ternary():
            return TERNARY
        case CCast():
            return UNARY
        case CMemory():
            return UNARY if node.vector else PRIMARY
        case _:
            return PRIMARY


def parts(node: Node) -> Sequence[Node]:
    """The operands of an expression, in the order in which they are printed."""
    match node:
        case CBinary(_, lhs, rhs) | Index(lhs, rhs):
            return lhs, rhs
        case CUnary(_, x) | CCast(_, x) | Convert(x, _) | CGroup(x):
            return (x,)
        case Ternary():
            return node
        case Braces(_, items) | CCall(_, items) | Helper(_, items):
            return items
        case CMemory() if not node.pooled:
            return node.indices
        case _:
            return ()


def nodes(node: Node) -> Iterator[Node]:
    """An expression and all in it."""
    yield node
    for each in parts(node):
        yield from nodes(each)


class Variable(NamedTuple):
    """A variable; an array if it has a length, perhaps one that begins with a cache line."""

    type: str
    name: str
    length: int = 0
    aligned: bool = False


# --- statements -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Declare:
    """``type name = value;``; ``const`` if nothing is assigned to it later."""

    type: str
    name: str
    value: Node
    const: bool = True


@dataclass(slots=True)
class Pointer:
    """A pointer into a buffer: ``const float *const x_at = x + i * 4;``."""

    type: str
    const: bool
    name: str
    value: Node


@dataclass(slots=True)
class Variables:
    """Variables of one type without values."""

    type: str
    variables: Sequence[Variable]


@dataclass(slots=True)
class Assign:
    """``target op value;``."""

    target: Node
    op: str
    value: Node


@dataclass(slots=True)
class Evaluate:
    """``x;``."""

    x: Node


@dataclass(slots=True)
class Fetch:
    """A hint that an element will be read soon."""

    target: Node


@dataclass(slots=True)
class Unused:
    """``(void)name;``."""

    name: str


@dataclass(slots=True)
class Barrier:
    """Keeps compilers from moving loads across it."""


@dataclass(slots=True)
class CFor:
    """``for (name = first; name < last; ++name)``.

    Attributes:
        type: of the variable.
        hint: the macro before it that tells compilers how far to unroll it, if any.
    """

    type: str
    name: str
    first: Node
    last: Node
    body: list[Statement]
    hint: str = ""


@dataclass(slots=True)
class CIf:
    """``if (test) {...} else {...}``."""

    test: Node
    then: list[Statement]
    otherwise: list[Statement] = field(default_factory=list["Statement"])


@dataclass(slots=True)
class Braced:
    """A block of its own."""

    body: list[Statement]


Statement: TypeAlias = (
    Declare
    | Pointer
    | Variables
    | Assign
    | Evaluate
    | Fetch
    | Unused
    | Barrier
    | CFor
    | CIf
    | Braced
)


def roots(statement: Statement) -> Sequence[Node]:
    """The expressions of a statement itself, in the order in which they are printed."""
    match statement:
        case Assign(target, _, value):
            return target, value
        case Declare(_, _, value) | Pointer(_, _, _, value):
            return (value,)
        case CFor(_, _, first, last):
            return first, last
        case CIf(test):
            return (test,)
        case Evaluate(x) | Fetch(x):
            return (x,)
        case _:
            return ()


def named(statement: Statement) -> Sequence[str]:
    """The variables that a statement itself declares or sets."""
    match statement:
        case Declare(name=name) | Assign(target=Name(name)):
            return (name,)
        case Variables(variables=variables):
            return [each.name for each in variables]
        case _:
            return ()


def blocks(statement: Statement) -> Sequence[list[Statement]]:
    """The blocks inside a statement."""
    match statement:
        case CFor(body=body) | Braced(body):
            return (body,)
        case CIf(_, then, otherwise):
            return then, otherwise
        case _:
            return ()


def mentions(statement: Statement, found: set[str]) -> None:
    """Adds the names that a statement reads or writes, and those that its blocks do."""
    for root in roots(statement):
        for node in nodes(root):
            if isinstance(node, Name):
                found.add(node.name)
            elif isinstance(node, CMemory):
                found.add(node.held or node.pointer or node.name)
                if not node.pointer:
                    found.update(each.name for each in node.indices if isinstance(each, Name))
    for block in blocks(statement):
        for each in block:
            mentions(each, found)
