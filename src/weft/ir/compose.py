"""Cut graphs apart, put them together, and give their symbols sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from dataclasses import replace as changed
from typing import Any, TypeGuard, cast

from weft.errors import UserError, nearest
from weft.ir.edit import rename_nodes, rename_values
from weft.ir.graph import Graph, Node, noted
from weft.ir.history import HistoryEntry
from weft.ir.naming import listed, making, reading, refuse_duplicates, require_values
from weft.ir.order import topological
from weft.ir.types import Dim, Symbol, TensorType
from weft.ir.verify import bodies


def extract(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """The part of a graph between some values and others, as a graph of its own."""
    require_values(graph.types, (*inputs, *outputs), "extract")
    if not outputs:
        raise UserError("extract: there must be at least one output", got="none")
    refuse_duplicates(inputs, "extracted input")
    given = set(inputs)
    needed = set(outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value in needed and value not in given for value in node.outputs):
            kept.append(node)
            needed.update(value for value in node.inputs if value)
    for value in graph.inputs:
        if value in needed and value not in given:
            raise UserError(
                f"extract: the outputs need graph input {value}, which is not among the inputs",
                got=", ".join(inputs) or "no inputs",
                fix="Add it, or a value that lies behind it.",
            )
    constants = {v: a for v, a in graph.constants.items() if v in needed and v not in given}
    # A kept node may also make a value that the caller gives: unused here then.
    kept = [making(node, dict.fromkeys(given, "")) for node in reversed(kept)]
    made = {value for node in kept for value in node.outputs if value}
    return Graph(
        graph.name,
        tuple(inputs),
        tuple(outputs),
        tuple(kept),
        {v: type for v, type in graph.types.items() if v in made or v in given or v in constants},
        constants,
        (*graph.history, HistoryEntry("extract", f"{listed(inputs)} to {listed(outputs)}")),
    )


def merge(name: str, parts: Mapping[str, Graph], wiring: Mapping[str, str]) -> Graph:
    """One graph of several, wired together.

    Every name gets its part's name and a dot in front: ``head.x``.

    Args:
        name: of the new graph.
        parts: the graphs.
        wiring: for an input (``head.x``) the output (``backbone.y``) that feeds it.  Inputs
            without an entry are inputs of the new graph; all outputs that feed nothing
            are its outputs, in the order of the parts.

    Raises:
        UserError: a name or a type does not fit, or the wiring goes in a circle.
    """
    if not parts:
        raise UserError("merge: there must be at least one part", got="none")
    placed = [_prefixed(part, graph) for part, graph in parts.items()]
    types = {value: type for part in placed for value, type in part.types.items()}
    inputs = [value for part in placed for value in part.inputs]
    outputs = [value for part in placed for value in part.outputs]
    for target, source in wiring.items():
        if target not in inputs:
            raise UserError(
                f"merge: {target} is not an input of a part",
                got=", ".join(inputs),
                fix=nearest(target, inputs),
            )
        if source not in outputs:
            raise UserError(
                f"merge: {source} is not an output of a part",
                got=", ".join(outputs),
                fix=nearest(source, outputs),
            )
        if types[target] != types[source]:
            got = f"{source}: {types[source]}, {target}: {types[target]}"
            raise UserError("merge: wired values must have one type", got=got)
    feeding = {target: _source(target, wiring) for target in wiring}
    used = set(wiring.values())
    nodes = [reading(node, feeding) for part in placed for node in part.nodes]
    return Graph(
        name,
        tuple(value for value in inputs if value not in wiring),
        tuple(feeding.get(value, value) for value in outputs if value not in used),
        topological(nodes),
        {value: type for value, type in types.items() if value not in wiring},
        {value: array for part in placed for value, array in part.constants.items()},
        (*_histories(parts), HistoryEntry("merge", listed(parts))),
    )


def _histories(parts: Mapping[str, Graph]) -> Iterator[HistoryEntry]:
    """What made the parts, each entry with its part's name."""
    for part, graph in parts.items():
        for each in graph.history:
            yield HistoryEntry(each.name, f"{part}: {each.what}" if each.what else part)


def _source(target: str, wiring: Mapping[str, str]) -> str:
    # A part may hand an input straight out, so that a source is a target itself.
    seen = {target}
    value = wiring[target]
    while value in wiring:
        if value in seen:
            raise UserError(f"merge: the wiring of {target} goes in a circle")
        seen.add(value)
        value = wiring[value]
    return value


def _prefixed(part: str, graph: Graph) -> Graph:
    values = {value: f"{part}.{value}" for value in graph.types}
    nodes = {node.name: f"{part}.{node.name}" for node in graph.nodes}
    return rename_nodes(rename_values(graph, values), nodes)


def symbols(graph: Graph) -> tuple[str, ...]:
    """Names of the symbolic dimensions of a graph and its bodies, in order of appearance."""
    found = dict.fromkeys(
        dim.name for type in graph.types.values() for dim in type.shape if isinstance(dim, Symbol)
    )
    for node in graph.nodes:
        for _, body in bodies(node):
            found.update(dict.fromkeys(symbols(body)))
    return tuple(found)


def bind_symbols(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Give symbolic dimensions their sizes, in types and in attributes."""
    known = symbols(graph)
    for symbol, size in sizes.items():
        if symbol not in known:
            got = ", ".join(known) or "no symbols"
            raise UserError(f"bind: graph {graph.name} has no symbol {symbol}", got=got)
        if size < 1:
            raise UserError(f"bind: the size of {symbol} must be at least 1", got=str(size))
    what = listed(f"{name}={size}" for name, size in sizes.items())
    return noted(_bound(graph, sizes), "bind", what)


def _bound(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    types = {value: _bound_type(type, sizes) for value, type in graph.types.items()}
    nodes: list[Node] = []
    for node in graph.nodes:
        inner: dict[str, object] = {name: _bound(body, sizes) for name, body in bodies(node)}
        inner |= _bound_fields(node.attributes, sizes)
        if inner:
            node = changed(node, attributes=changed(node.attributes, **inner))
        nodes.append(node)
    return changed(graph, nodes=tuple(nodes), types=types)


def _bound_fields(attributes: Any, sizes: Mapping[str, int]) -> dict[str, object]:
    """The fields that name a symbol (``Expand``'s shape may), with its size in its place."""
    found: dict[str, object] = {}
    for field in fields(attributes):
        value: Any = getattr(attributes, field.name)
        if _names_symbol(value):
            found[field.name] = tuple(
                sizes.get(each.name, each) if isinstance(each, Symbol) else each for each in value
            )
    return found


def _names_symbol(value: object) -> TypeGuard[tuple[Dim, ...]]:
    return isinstance(value, tuple) and Symbol in {type(each) for each in cast(Any, value)}


def _bound_type(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    if type.is_static:
        return type
    shape = tuple(sizes.get(d.name, d) if isinstance(d, Symbol) else d for d in type.shape)
    return TensorType(type.dtype, shape)
