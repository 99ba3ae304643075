"""Edit a graph: pure functions that return a new one and share everything untouched.

An edit either returns a graph that verifies or raises a ``UserError`` with the reason;
the graph it was given never changes.  ``replace_all`` makes any number of replacements
in one pass over the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed

import numpy as np

from weft.errors import UserError, nearest
from weft.ir.graph import Graph, Node, noted
from weft.ir.naming import (
    fresh,
    listed,
    making,
    mapped,
    reading,
    refuse_duplicates,
    require_nodes,
    require_values,
    type_of,
)
from weft.ir.order import topological
from weft.ir.substitute import Replacement, substitute

__all__ = [
    "Replacement",
    "insert_on_edge",
    "prune",
    "read_only",
    "rename_nodes",
    "rename_values",
    "replace_all",
    "set_constants",
    "set_outputs",
]


def read_only(array: np.ndarray) -> np.ndarray:
    """A view of the same elements that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def replace_all(
    graph: Graph, replacements: Sequence[Replacement], *, retyped: bool = False
) -> Graph:
    """Make replacements that do not overlap, all in one pass; refused as a whole.

    Args:
        graph: the graph.
        replacements: places and what comes there.
        retyped: see ``substitute``.
    """
    count = sum(len(each.nodes) for each in replacements)
    names = listed(name for each in replacements for name in each.nodes)
    edited = substitute(graph, replacements, retyped=retyped)
    by = sum(len(each.subgraph.nodes) for each in replacements)
    return noted(edited, "replace", f"{count} nodes by {by}: {names}")


def insert_on_edge(
    graph: Graph, value: str, subgraph: Graph, users: Iterable[str] | None = None
) -> Graph:
    """Put a subgraph of one input and one output between a value and who reads it.

    Args:
        graph: the graph.
        value: the edge.
        subgraph: keeps the type.
        users: names of the nodes that shall read the new value; all of them, and the
            graph's output, if not given.  When the value is a graph output then, its
            name stays with what comes out.
    """
    require_values(graph.types, [value], "insert")
    if len(subgraph.inputs) != 1 or len(subgraph.outputs) != 1:
        got = f"{len(subgraph.inputs)} inputs and {len(subgraph.outputs)} outputs"
        raise UserError("insert: the subgraph needs one input and one output", got=got)
    _check_kept(graph, value, subgraph)
    whole = users is None
    chosen = (
        dict.fromkeys(node.name for node in graph.users[value])
        if whole
        else dict.fromkeys(users or ())
    )
    require_nodes(graph, chosen)
    for name in chosen:
        if value not in graph.by_name[name].inputs:
            read = [node.name for node in graph.users[value]]
            raise UserError(
                f"insert: node {name} does not read value {value}",
                fix=f"Those that do: {listed(read)}." if read else "",
            )
    if not chosen and not (whole and value in graph.outputs):
        raise UserError(
            f"insert: value {value} must have users after the insertion",
            got="no users",
        )
    if whole and value in graph.outputs and value not in graph.producers:
        raise UserError(f"insert: graph output {value} is not computed by a node")
    cut = fresh(f"{value}_cut", graph.types)
    keep_name = whole and value in graph.outputs
    graph_side, user_side = (cut, value) if keep_name else (value, cut)
    nodes = tuple(
        reading(node, {value: user_side})
        if node.name in chosen
        else making(node, {value: graph_side})
        for node in graph.nodes
    )
    # A stand-in node carries the edge until the subgraph takes its place.
    stand_in = Node(fresh("insert", graph.by_name), "Identity", (graph_side,), (user_side,))
    opened = changed(
        graph,
        nodes=topological((*nodes, stand_in)),
        types={**graph.types, cut: graph.types[value]},
    )
    edited = substitute(
        opened,
        [
            Replacement(
                (stand_in.name,),
                subgraph,
                {subgraph.inputs[0]: graph_side},
                {user_side: subgraph.outputs[0]},
            )
        ],
    )
    return noted(edited, "insert", f"{listed(node.name for node in subgraph.nodes)} on {value}")


def _check_kept(graph: Graph, value: str, subgraph: Graph) -> None:
    """What is inserted must read and give the type of the edge."""
    ends = (("reads", subgraph.inputs[0]), ("gives", subgraph.outputs[0]))
    for does, end in ends:
        if subgraph.types[end] != graph.types[value]:
            raise UserError(
                f"insert: the part between value {value} and its users must keep its type, "
                f"{graph.types[value]}",
                got=f"a part that {does} {subgraph.types[end]}",
                fix="Replace the users instead, if they can read another type.",
            )


def rename_values(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Give values new names, graph inputs and outputs included."""
    require_values(graph.types, names, "rename")
    _check_names(names, "value")
    refuse_duplicates([names.get(value, value) for value in graph.types], "value")
    renamed = changed(
        graph,
        inputs=mapped(graph.inputs, names),
        outputs=mapped(graph.outputs, names),
        nodes=tuple(making(reading(node, names), names) for node in graph.nodes),
        types={names.get(value, value): type for value, type in graph.types.items()},
        constants={names.get(value, value): array for value, array in graph.constants.items()},
    )
    return noted(renamed, "rename", listed(f"{a} to {b}" for a, b in names.items()))


def _check_names(names: Mapping[str, str], kind: str) -> None:
    for old, new in names.items():
        if not isinstance(new, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"rename: the name of a {kind} must be a string", got=repr(new))
        if not new:
            raise UserError(f"rename: a {kind} cannot have an empty name", where=f"{kind} {old}")


def rename_nodes(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Give nodes new names; their origin stays."""
    require_nodes(graph, names)
    _check_names(names, "node")
    refuse_duplicates([names.get(node.name, node.name) for node in graph.nodes], "node")
    nodes = tuple(
        changed(node, name=names[node.name]) if node.name in names else node for node in graph.nodes
    )
    what = listed(f"{a} to {b}" for a, b in names.items())
    return noted(changed(graph, nodes=nodes), "rename", what)


def set_outputs(graph: Graph, outputs: Sequence[str]) -> Graph:
    """Choose what the graph returns: any of its values."""
    require_values(graph.types, outputs, "outputs")
    if "" in outputs:
        raise UserError("outputs: a graph output cannot be absent")
    if not outputs:
        raise UserError("outputs: there must be at least one", got="none")
    refuse_duplicates(outputs, "graph output")
    return noted(changed(graph, outputs=tuple(outputs)), "outputs", listed(outputs))


def set_constants(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """Exchange constants for others of the same type."""
    for name, array in arrays.items():
        if name not in graph.constants:
            raise UserError(
                f"constants: graph {graph.name} has no constant {name}",
                fix=nearest(name, graph.constants),
            )
        if type_of(array, name) != graph.types[name]:
            got = str(type_of(array, name))
            raise UserError(f"constants: {name} is {graph.types[name]}", got=got)
    constants = {**graph.constants, **{name: read_only(array) for name, array in arrays.items()}}
    return noted(changed(graph, constants=constants), "exchange", f"constants {listed(arrays)}")


def prune(graph: Graph) -> Graph:
    """Remove what no output depends on: nodes, constants, types.  Inputs stay."""
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value in needed for value in node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    made = {value for node in kept for value in node.outputs}
    alive = {*graph.inputs, *made, *(needed & graph.constants.keys())}
    if len(kept) == len(graph.nodes) and alive >= graph.types.keys():
        return graph
    constants = {v: array for v, array in graph.constants.items() if v in needed}
    nodes_gone = len(graph.nodes) - len(kept)
    constants_gone = len(graph.constants) - len(constants)
    left = changed(
        graph,
        nodes=tuple(reversed(kept)),
        types={value: type for value, type in graph.types.items() if value in alive},
        constants=constants,
    )
    return noted(left, "prune", f"{nodes_gone} nodes, {constants_gone} constants")
