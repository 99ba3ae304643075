"""Turn values into a graph: the nodes that outputs depend on, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from inspect import Parameter, Signature, signature
from typing import Any, cast
from zlib import crc32

import numpy as np

from weft.errors import UserError
from weft.ir.compose import bind_symbols, symbols
from weft.ir.graph import Graph, Node, noted
from weft.ir.types import Symbol, TensorType
from weft.ops.build import GraphBuilder
from weft.ops.record import Op
from weft.ops.table import OPS
from weft.ops.values import Applied, Drawn, Fixed, Given, Inlined, Maker, Value, input_value
from weft.records import dataclass


def call_graph(graph: Graph, *inputs: Value, name: str = "") -> tuple[Value, ...]:
    """The outputs of a graph for values as its inputs.

    Args:
        graph: any; symbolic sizes become those of the values.
        inputs: in the order of the graph's.
        name: in front of the names of its nodes; by default the graph's.
    """
    if len(inputs) != len(graph.inputs):
        raise UserError(
            f"call: graph {graph.name} has the inputs {', '.join(graph.inputs) or 'none'}",
            got=f"{len(inputs)} values",
        )
    for wanted, value in zip(graph.inputs, inputs, strict=True):
        if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"call: input {wanted} of graph {graph.name} must be a symbolic value",
                got=type(value).__name__,
                fix="weft.constant converts an array; compile() returns a function of arrays.",
            )
    bound = _fitted(graph, inputs)
    for wanted, value in zip(bound.inputs, inputs, strict=True):
        if bound.types[wanted] != value.type:
            raise UserError(
                f"call: input {wanted} of graph {graph.name} is {graph.types[wanted]}",
                got=str(value.type),
                fix="Give the graph other shapes first.",
            )
    maker = Inlined(bound, inputs, name or graph.name)
    return tuple(Value(bound.types[each], maker, n) for n, each in enumerate(bound.outputs))


def _fitted(graph: Graph, inputs: Sequence[Value]) -> Graph:
    """The graph with its symbols bound to the sizes that the values have."""
    sizes: dict[str, int] = {}
    for wanted, value in zip(graph.inputs, inputs, strict=True):
        for dim, size in zip(graph.types[wanted].shape, value.type.shape, strict=False):
            if isinstance(dim, Symbol) and isinstance(size, int):
                sizes.setdefault(dim.name, size)
    known = symbols(graph)
    sizes = {name: size for name, size in sizes.items() if name in known}
    return bind_symbols(graph, sizes) if sizes else graph


def trace(
    function: Callable[..., Any], types: Sequence[TensorType], name: str = "net", seed: int = 0
) -> Graph:
    """The graph of a function of values.

    Args:
        function: takes one value for each type, gives one or a sequence of them.
        types: of the inputs, which are called ``x``, or ``x0``, ``x1``, ... if there are several.
        name: of the graph.
        seed: of weights that are drawn.
    """
    given = [
        input_value("x" if len(types) == 1 else f"x{place}", type)
        for place, type in enumerate(types)
    ]
    _check_callable(function, len(given))
    return graph_of(given, _values(function(*given)), name, seed)


def _check_callable(function: object, count: int) -> None:
    """Refuse what cannot be called with so many values, before it fails inside."""
    if not callable(function):
        raise UserError(
            "trace: expected a function of values: an op, a layer, a network or a Python function",
            got=type(function).__name__,
        )
    try:
        takes = signature(function)
    except (TypeError, ValueError):  # of some functions written in C nothing is known
        return
    try:
        takes.bind(*range(count))
    except TypeError as error:
        raise UserError(
            f"trace: the function must take {count} value{'s' if count != 1 else ''}, one for "
            "each input",
            got=f"{getattr(function, '__name__', type(function).__name__)}{_plain(takes)}",
            fix=f"It cannot be called so: {error}.",
        ) from None


def _plain(takes: Signature) -> str:
    """A signature without types and defaults."""
    empty = Parameter.empty
    bare = [each.replace(annotation=empty, default=empty) for each in takes.parameters.values()]
    return f"({', '.join(map(str, bare))})"


def _values(made: object) -> list[Value]:
    """What a function gave, as outputs."""
    found: list[Any] = list(cast(Any, made)) if isinstance(made, list | tuple) else [made]
    for each in found:
        if not isinstance(each, Value):
            raise UserError(
                "trace: the function must return a value or a tuple of values",
                got="nothing" if each is None else type(each).__name__,
                fix="Does it lack a return?" if each is None else "",
            )
    return found


def graph_of(
    inputs: Sequence[Value], outputs: Sequence[Value], name: str = "net", seed: int = 0
) -> Graph:
    """The graph between values.

    Args:
        inputs: graph inputs, in order.
        outputs: what the graph gives, in order.
        name: of the graph.
        seed: of weights that are drawn.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError("net: the name must be a string", got=repr(name))
    if type(seed) is not int or seed < 0:
        raise UserError("net: the seed must be a whole number, 0 or more", got=repr(seed))
    _check_ends(inputs, outputs)
    work = _Work(GraphBuilder(OPS, name), seed)
    for each in inputs:
        assert isinstance(each.maker, Given)
        work.names[each.maker] = (work.builder.input(each.maker.name, each.type),)
    order = _order(outputs)
    # Wishes of outputs win over those of values on the way.
    for each in (*outputs, *(each for maker in order for each in _read(maker))):
        work.used.add((each.maker, each.position))
        if each.name:
            work.wishes.setdefault((each.maker, each.position), each.name)
    for maker in order:
        work.make(maker)
    finished = work.builder.graph(work.outputs(outputs))
    return noted(finished, "build", f"{len(finished.nodes)} nodes by hand")


def _check_lists(inputs: object, outputs: object) -> None:
    for kind, values in (("input", inputs), ("output", outputs)):
        if not isinstance(values, list | tuple):
            raise UserError(
                f"net: the {kind}s must be a list of values",
                got=type(values).__name__,
                fix=f"Write [{kind}].",
            )
        for each in cast(Sequence[object], values):
            if not isinstance(each, Value):
                raise UserError(f"net: every {kind} must be a value", got=type(each).__name__)


def _check_ends(inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
    _check_lists(inputs, outputs)
    if not outputs:
        raise UserError("net: there must be at least one output", got="none")
    names: set[str] = set()
    for each in inputs:
        if not isinstance(each.maker, Given):
            raise UserError("net: an input must come from weft.input", got=repr(each))
        if each.maker.name in names:
            raise UserError(
                f"net: there is an input {each.maker.name} already",
                fix="Input names must be unique, and each input is listed once.",
            )
        names.add(each.maker.name)
    known = {each.maker for each in inputs}
    for maker in _order(outputs):
        if isinstance(maker, Given) and maker not in known:
            raise UserError(
                f"net: the outputs need input {maker.name}, which is not among the inputs",
                got=", ".join(sorted(names)) or "no inputs",
                fix="Add it to the inputs.",
            )


def _read(maker: Maker) -> tuple[Value, ...]:
    if isinstance(maker, Applied | Inlined):
        return tuple(each for each in maker.inputs if each is not None)
    return ()


def _order(outputs: Sequence[Value]) -> list[Maker]:
    """Makers, each after those that it reads; without recursion, since nets are deep."""
    order: list[Maker] = []
    done: set[Maker] = set()
    pending = [(each.maker, False) for each in reversed(outputs)]
    while pending:
        maker, ready = pending.pop()
        if maker in done:
            continue
        if ready:
            done.add(maker)
            order.append(maker)
            continue
        pending.append((maker, True))
        pending.extend((each.maker, False) for each in reversed(_read(maker)))
    return order


@dataclass
class _Work:
    """A graph under way."""

    builder: GraphBuilder
    seed: int
    names: dict[Maker, tuple[str, ...]] = field(default_factory=dict[Maker, tuple[str, ...]])
    wishes: dict[tuple[Maker, int], str] = field(default_factory=dict[tuple[Maker, int], str])
    arrays: dict[int, str] = field(default_factory=dict[int, str])
    used: set[tuple[Maker, int]] = field(default_factory=set[tuple[Maker, int]])

    def name(self, value: Value) -> str:
        return self.names[value.maker][value.position]

    def make(self, maker: Maker) -> None:
        """Adds what a maker makes; constants wait for their readers, who name them."""
        if isinstance(maker, Applied):
            self._apply(maker)
        elif isinstance(maker, Inlined):
            self._inline(maker)

    def _apply(self, maker: Applied) -> None:
        builder = self.builder
        node = builder.fresh(maker.name or maker.op.name.lower())
        for place, each in enumerate(maker.inputs):
            if each is not None:
                self._place_constant(each.maker, node, _parameter(maker.op, place))
        inputs = tuple("" if each is None else self.name(each) for each in maker.inputs)
        made: list[str] = []
        for place, type in enumerate(maker.types):
            optional = maker.op.outputs[min(place, len(maker.op.outputs) - 1)].optional
            unused = optional and (maker, place) not in self.used
            wish = self.wishes.get((maker, place)) or f"{node}_out"
            made.append("" if unused else builder.fresh(wish))
            if not unused:
                builder.types[made[place]] = type
        while len(made) > 1 and not made[-1]:
            made.pop()
        builder.nodes.append(Node(node, maker.op.name, inputs, tuple(made), maker.attributes))
        self.names[maker] = tuple(made)

    def _place_constant(self, maker: Maker, reader: str, role: str) -> None:
        """Adds a constant that its first reader is about to read."""
        if maker in self.names or not isinstance(maker, Fixed | Drawn):
            return
        wish = maker.name or f"{reader}.{maker.role or role}"
        if isinstance(maker, Fixed):
            self.names[maker] = (self.builder.constant(maker.array, wish),)
        else:
            name = self.builder.fresh(wish)
            array = maker.array(self.seed, crc32(name.encode()))
            array.flags.writeable = False
            self.builder.declare(name, maker.type, array)
            self.names[maker] = (name,)

    def _inline(self, maker: Inlined) -> None:
        graph, builder = maker.graph, self.builder
        prefix = f"{maker.name}." if maker.name else ""
        for inner, each in zip(graph.inputs, maker.inputs, strict=True):
            self._place_constant(each.maker, maker.name, inner)
        names = {"": ""}
        names.update(
            (inner, self.name(each)) for inner, each in zip(graph.inputs, maker.inputs, strict=True)
        )
        for name, array in graph.constants.items():
            names[name] = self._constant(f"{prefix}{name}", array)
        for place, output in enumerate(graph.outputs):
            if output not in names and (maker, place) in self.wishes:
                names[output] = builder.fresh(self.wishes[maker, place])
                builder.types[names[output]] = graph.types[output]
        for node in graph.nodes:
            for value in node.outputs:
                if value not in names:
                    names[value] = builder.fresh(f"{prefix}{value}")
                    builder.types[names[value]] = graph.types[value]
            inputs = tuple(names[value] for value in node.inputs)
            made = tuple(names[value] for value in node.outputs)
            name = builder.fresh(f"{prefix}{node.name}")
            builder.nodes.append(Node(name, node.op, inputs, made, node.attributes, node.origin))
        self.names[maker] = tuple(names[output] for output in graph.outputs)

    def _constant(self, wish: str, array: np.ndarray) -> str:
        # A graph that is put in twice has its weights once.
        name = self.arrays.get(id(array))
        if name is None:
            name = self.arrays[id(array)] = self.builder.constant(array, wish)
        return name

    def outputs(self, values: Sequence[Value]) -> list[str]:
        """The names of the outputs, each a value of its own that a node makes."""
        builder, found = self.builder, list[str]()
        for value in values:
            self._place_constant(value.maker, builder.name, "output")
            name = self.name(value)
            if name in found or name in builder.constants or name in builder.inputs:
                name = builder.op("Identity", name, output=f"{name}_copy")
            found.append(name)
        return found


def _parameter(op: Op, place: int) -> str:
    param = op.inputs[min(place, len(op.inputs) - 1)]
    return f"{param.name}{place}" if param.variadic else param.name
