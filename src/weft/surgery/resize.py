"""A graph for inputs of other shapes: every type inferred anew, fixed sizes mended or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as changed

from weft.errors import UserError
from weft.ir.compose import bind_symbols, symbols
from weft.ir.graph import Graph, Node
from weft.ir.history import noted
from weft.ir.naming import listed
from weft.ir.types import Dim, Symbol, TensorType
from weft.ops.evaluate import call_of
from weft.ops.table import OPS
from weft.surgery.mend import MENDERS, Resized


def with_shapes(graph: Graph, shapes: Mapping[str, Sequence[Dim | str]]) -> Graph:
    """The graph for inputs of other shapes, such as another batch or resolution.

    Sizes that stand in attributes (the target of a reshape) follow where it is certain what
    they mean; where it is not, and where weights or other constants fix a size, the edit is
    refused with the node and the reason.

    Args:
        graph: the graph.
        shapes: by input; a name as the leading size leaves it open.
    """
    wanted = {name: _shape(graph, name, shape) for name, shape in shapes.items()}
    bound = _bound(graph, wanted)
    types = {name: bound.types[name] for name in bound.inputs}
    types.update(
        {name: TensorType(bound.types[name].dtype, shape) for name, shape in wanted.items()}
    )
    done = retyped(bound, types)
    what = listed(f"{name} {types[name]}" for name in wanted)
    return noted(changed(done, history=graph.history), "shapes", what)


def _shape(graph: Graph, name: str, shape: Sequence[Dim | str]) -> tuple[Dim, ...]:
    if name not in graph.inputs:
        got = ", ".join(graph.inputs) or "no inputs"
        raise UserError(f"shapes: graph {graph.name} has no input {name}", got=got)
    found = tuple(Symbol(dim) if isinstance(dim, str) else dim for dim in shape)
    old = graph.types[name].shape
    if len(found) != len(old):
        raise UserError(
            f"shapes: input {name} has {len(old)} dimensions, {graph.types[name]}",
            got=f"{len(found)}",
        )
    for place, dim in enumerate(found):
        if isinstance(dim, Symbol):
            if place:
                raise UserError("shapes: only the leading size may be left open", got=f"{name}")
        elif dim < 1:
            raise UserError(f"shapes: sizes of input {name} must be at least 1", got=str(dim))
    return found


def _bound(graph: Graph, wanted: Mapping[str, tuple[Dim, ...]]) -> Graph:
    """The graph with the symbols bound that get sizes."""
    sizes: dict[str, int] = {}
    for name, shape in wanted.items():
        for old, new in zip(graph.types[name].shape, shape, strict=True):
            if not isinstance(old, Symbol) or not isinstance(new, int):
                continue
            if sizes.setdefault(old.name, new) != new:
                raise UserError(
                    f"shapes: {old.name} is one size in all inputs",
                    got=f"{sizes[old.name]} and {new}",
                )
    known = symbols(graph)
    return bind_symbols(graph, {n: s for n, s in sizes.items() if n in known}) if sizes else graph


def retyped(graph: Graph, inputs: Mapping[str, TensorType]) -> Graph:
    """The graph with other types of its inputs, all others inferred from them."""
    types: dict[str, TensorType] = {name: graph.types[name] for name in graph.constants}
    types.update(inputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        if all(types[value] == graph.types[value] for value in node.inputs if value):
            types.update((value, graph.types[value]) for value in node.outputs if value)
            nodes.append(node)
            continue
        node = changed(node, attributes=_attributes(graph, node, types))
        try:
            made = OPS[node.op].infer(call_of(node, types))
        except UserError as error:
            raise UserError(
                f"shapes: {error.rule}", got=error.got, fix=_FIX, where=f"node {node.name}"
            ) from None
        types.update((v, type) for v, type in zip(node.outputs, made, strict=False) if v)
        nodes.append(node)
    return changed(graph, nodes=tuple(nodes), types=types)


_FIX = "A weight, a constant or an attribute holds the old size."


def _attributes(graph: Graph, node: Node, types: Mapping[str, TensorType]) -> object:
    """The node's attributes, sizes in them mended."""
    mend = MENDERS.get(node.op)
    if mend is None:
        return node.attributes
    resized = Resized(
        node,
        tuple(graph.types[value] if value else None for value in node.inputs),
        tuple(graph.types[value] for value in node.outputs if value),
        tuple(types[value] if value else None for value in node.inputs),
        lambda: _earlier(graph, node, types),
    )
    return mend(resized, retyped)


def _earlier(graph: Graph, node: Node, types: Mapping[str, TensorType]) -> set[tuple[Dim, ...]]:
    """Shapes now of values behind a node whose shape was that of its output."""
    wanted = graph.types[next(value for value in node.outputs if value)].shape
    found: set[tuple[Dim, ...]] = set()
    pending, seen = [node], {node.name}
    while pending:
        for value in pending.pop().inputs:
            if value and value not in graph.constants and graph.types[value].shape == wanted:
                found.add(types[value].shape)
            maker = graph.producers.get(value)
            if maker is not None and maker.name not in seen:
                seen.add(maker.name)
                pending.append(maker)
    return found
