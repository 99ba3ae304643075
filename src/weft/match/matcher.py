"""Match patterns against graphs, by backtracking over orders and alternatives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, assert_never

import numpy as np

from weft.errors import InternalError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.match.pattern import Made, Number, Pattern, Use, Value


class View(Protocol):
    """What matching asks of a graph; ``GraphView`` and the rewriter's working state."""

    @property
    def types(self) -> Mapping[str, TensorType]:
        """The type of every value."""
        ...

    @property
    def constants(self) -> Mapping[str, np.ndarray]:
        """Arrays by value name."""
        ...

    @property
    def outputs(self) -> Collection[str]:
        """Graph outputs."""
        ...

    @property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes a value."""
        ...

    def readers(self, value: str) -> Sequence[Node]:
        """The nodes that read a value, each once."""
        ...

    def use_count(self, value: str) -> int:
        """How many nodes read a value, and one more if it is a graph output."""
        ...


class GraphView:
    """A graph as a ``View``."""

    def __init__(self, graph: Graph) -> None:
        self.types = graph.types
        self.constants = graph.constants
        self.outputs = frozenset(graph.outputs)
        self.producers = graph.producers
        self._users = graph.users

    def readers(self, value: str) -> Sequence[Node]:
        """The nodes that read a value, each once."""
        return self._users[value]

    def use_count(self, value: str) -> int:
        """How many nodes read a value, and one more if it is a graph output."""
        return len(self._users[value]) + (value in self.outputs)


Bindings: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class Match:
    """One place where a pattern fits.

    Attributes:
        view: the graph.
        root: the node that the pattern's root fits.
        values: value by the name that the pattern gives it; ``""`` where absent.
        nodes: every node that takes part, the root first.
    """

    view: View
    root: Node
    values: Bindings
    nodes: tuple[Node, ...]

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def node(self, name: str) -> Node:
        """The node that makes a named value."""
        found = self.view.producers.get(self.values[name])
        if found is None:
            raise InternalError(f"{name} is made by no node")
        return found

    def attributes(self, name: str) -> Any:
        """Attributes of the node that makes a named value."""
        return self.node(name).attributes

    def type(self, name: str) -> TensorType:
        """Type of a named value."""
        return self.view.types[self.values[name]]

    def array(self, name: str) -> np.ndarray:
        """Elements of a named constant."""
        return self.view.constants[self.values[name]]

    def constant(self, name: str) -> np.ndarray | None:
        """Elements of a named value, if it is a constant."""
        return self.view.constants.get(self.values[name])

    def has(self, name: str) -> bool:
        """Whether an optional value is present."""
        return bool(self.values[name])


def match_at(root: Made, node: Node, view: View) -> Match | None:
    """The first match of a pattern whose root is this node."""
    return next(matches_at(root, node, view), None)


def matches_at(root: Made, node: Node, view: View) -> Iterator[Match]:
    """Every match of a pattern whose root is this node."""
    for values in _made(root, node, view, {}):
        yield Match(view, node, values, _nodes(root, node, values, view))


def _made(pattern: Made, node: Node, view: View, bound: Bindings) -> Iterator[Bindings]:
    names = pattern.names
    if len(names) > len(node.outputs):
        return
    extra = () if pattern.rest else node.outputs[len(names) :]
    if any(value and view.use_count(value) for value in extra):
        return
    own = {name: value for name, value in zip(names, node.outputs, strict=False) if name != "_"}
    if any(bound.get(name, value) != value for name, value in own.items()):
        return
    mine = {**bound, **own}
    for use in pattern.uses:
        if use.op in ("*", node.op) and _holds(use, node, view):
            yield from _operands(use, node, view, mine)


def _holds(use: Use, node: Node, view: View) -> bool:
    if use.users is not None:
        count = sum(view.use_count(value) for value in node.outputs if value)
        if count != use.users:
            return False
    for name, wanted in use.attributes:
        if not hasattr(node.attributes, name):
            raise InternalError(f"pattern: {node.op} has no attribute {name}")
        found = getattr(node.attributes, name)
        if found != wanted and not _rounds_to(wanted, found):
            return False
    return True


def _rounds_to(wanted: Any, found: Any) -> bool:
    # Models store attributes as float32; a pattern is written with all digits.
    if not isinstance(wanted, float) or not isinstance(found, float):
        return False
    return bool(np.float32(wanted) == np.float32(found))


def _operands(use: Use, node: Node, view: View, bound: Bindings) -> Iterator[Bindings]:
    inputs = node.inputs
    if use.ordered:
        yield from _in_order(use, use.operands, inputs, view, bound)
    elif len(inputs) == len(use.operands):
        yield from _in_any_order(use.operands, inputs, view, bound)


def _in_order(
    use: Use, patterns: Sequence[Pattern], inputs: Sequence[str], view: View, bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        if use.rest or not any(inputs):
            yield bound
        return
    value = inputs[0] if inputs else ""
    for found in _fits(patterns[0], value, view, bound):
        yield from _in_order(use, patterns[1:], inputs[1:], view, found)


def _in_any_order(
    patterns: Sequence[Pattern], inputs: Sequence[str], view: View, bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for place, value in enumerate(inputs):
        for found in _fits(patterns[0], value, view, bound):
            rest = (*inputs[:place], *inputs[place + 1 :])
            yield from _in_any_order(patterns[1:], rest, view, found)


def _fits(pattern: Pattern, value: str, view: View, bound: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Value(name, optional, constant):
            present = bool(value) or optional
            if present and (not constant or value in view.constants):
                if name == "_":
                    yield bound
                elif bound.get(name, value) == value:
                    yield {**bound, name: value}
        case Number(number):
            if _is_number(view.constants.get(value), number):
                yield bound
        case Made():
            node = view.producers.get(value)
            if node is not None and node.outputs.index(value) < len(pattern.names):
                yield from _made(pattern, node, view, bound)
        case _:
            assert_never(pattern)


def _is_number(array: np.ndarray | None, number: float) -> bool:
    if array is None or array.size != 1:
        return False
    return bool(array.reshape(-1)[0] == np.asarray(number).astype(array.dtype))


def _nodes(root: Made, node: Node, values: Bindings, view: View) -> tuple[Node, ...]:
    """The nodes that take part: those that make a value that the pattern makes."""
    found = {node.name: node}
    pending: list[Pattern] = [operand for use in root.uses for operand in use.operands]
    while pending:
        pattern = pending.pop(0)
        if isinstance(pattern, Made):
            # Names of alternatives that were not taken are not bound.
            maker = view.producers.get(values.get(pattern.names[0], ""))
            if maker is not None and maker.name not in found:
                found[maker.name] = maker
                pending.extend(operand for use in pattern.uses for operand in use.operands)
    return tuple(found.values())
