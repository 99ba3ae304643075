"""Edits at nodes and edges: delete, replace, insert, rename."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as changed

from weft.errors import UserError, nearest
from weft.ir.edit import insert_on_edge, prune, rename_nodes, rename_values, replace_all
from weft.ir.graph import Graph, Node, noted
from weft.ir.naming import listed, require_nodes
from weft.ir.substitute import Replacement, substitute
from weft.ops.evaluate import call_of
from weft.ops.table import OPS
from weft.surgery.part import Part, part_graph, sound
from weft.surgery.view import Selection, view


def delete(graph: Graph, nodes: Iterable[str], keep: Mapping[str, str] | None = None) -> Graph:
    """Take nodes out; who read their outputs reads one of their inputs instead.

    What nothing needs any more, such as weights and a branch that is cut off, goes too.

    Args:
        graph: the graph.
        nodes: by name.
        keep: by node, the input that takes the place of its output; needed where more than
            one has its type.
    """
    chosen = tuple(dict.fromkeys(nodes))
    require_nodes(graph, chosen)
    if not chosen:  # such as the matches of a query that has none
        return graph
    kept = dict(keep or {})
    for name in kept:
        if name not in chosen:
            raise UserError(
                f"delete: {name} is not among the nodes to delete",
                got=listed(chosen),
                fix=nearest(name, chosen),
            )
    work = graph
    # One after another: an input that is kept may be the output of one that goes.
    for name in reversed([node.name for node in graph.nodes if node.name in chosen]):
        work = _bypassed(work, work.by_name[name], kept.get(name, ""))
    return noted(changed(prune(work), history=graph.history), "delete", listed(chosen))


def _bypassed(graph: Graph, node: Node, keep: str) -> Graph:
    read = [value for value in node.outputs if value and _needed(graph, value)]
    if len(read) > 1:
        raise UserError(
            f"delete: node {node.name} has {len(read)} outputs that are read",
            got=", ".join(read),
            fix="Replace it instead.",
        )
    if not read:
        gone = tuple(each for each in graph.nodes if each is not node)
        types = {v: type for v, type in graph.types.items() if v not in node.outputs}
        return changed(graph, nodes=gone, types=types)
    value = _kept_input(graph, node, read[0], keep)
    type = graph.types[value]
    if read[0] in graph.outputs and not _can_rename(graph, value):
        # A graph input, a constant or another output: a node has to stay between.
        through = Node("Identity", "Identity", ("in",), ("out",))
        passage = Graph("delete", ("in",), ("out",), (through,), {"in": type, "out": type})
    else:
        passage = Graph("delete", ("in",), ("in",), (), {"in": type})
    place = Replacement((node.name,), passage, {"in": value}, {read[0]: passage.outputs[0]})
    return substitute(graph, [place])


def _can_rename(graph: Graph, value: str) -> bool:
    return value in graph.producers and value not in graph.outputs


def _needed(graph: Graph, value: str) -> bool:
    return bool(graph.users[value]) or value in graph.outputs


def _kept_input(graph: Graph, node: Node, output: str, keep: str) -> str:
    wanted = graph.types[output]
    inputs = list(node.reads)
    where = f"node {node.name}"
    if keep:
        if keep not in inputs:
            raise UserError(
                f"delete: {keep} is not an input",
                got=", ".join(inputs),
                where=where,
                fix=nearest(keep, inputs),
            )
        if graph.types[keep] != wanted:
            raise UserError(
                f"delete: {keep} must have the type of output {output}, {wanted}",
                got=str(graph.types[keep]),
                where=where,
            )
        return keep
    fitting = [value for value in inputs if graph.types[value] == wanted]
    fitting = [value for value in fitting if value not in graph.constants] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UserError(
            f"delete: several inputs could take the place of output {output}",
            got=", ".join(fitting),
            where=where,
            fix=f"Say which: keep={{{node.name!r}: {fitting[0]!r}}}.",
        )
    raise UserError(
        f"delete: no input has the type of output {output}, {wanted}",
        got=", ".join(f"{value} {graph.types[value]}" for value in inputs) or "no inputs",
        where=where,
        fix="Replace the node instead.",
    )


def replace(
    graph: Graph,
    nodes: Iterable[str],
    part: Part,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> Graph:
    """Replace a set of nodes, with any number of inputs and outputs.

    Args:
        graph: the graph.
        nodes: by name.
        part: a graph, or a function of values.
        inputs: value of ``graph`` for every input of the part; by default the inputs of the
            nodes' view, in order.
        outputs: value of the part for every value of ``graph`` that the nodes made and that
            is still read; by default the outputs of the view, in order.
    """
    return replace_several(graph, [(view(graph, nodes), part)], inputs, outputs)


def replace_several(
    graph: Graph,
    places: Sequence[tuple[Selection, Part]],
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> Graph:
    """Replace sets of nodes that do not overlap, all in one pass.

    Values may get other types where the types of all that follows can be inferred anew.

    Args:
        graph: the graph.
        places: which nodes, and what comes in their place.
        inputs: of one place, as for ``replace``.
        outputs: likewise.
    """
    if not places:
        return graph
    found: list[Replacement] = []
    for place, part in places:
        read = place.inputs if inputs is None else _known(graph, inputs.values())
        part = part_graph(part, {value: graph.types[value] for value in read}, "replace")
        given = (
            inputs if inputs is not None else _paired("inputs", part.inputs, place.inputs, place)
        )
        made = outputs if outputs is not None else None
        made = made or _paired("outputs", place.outputs, part.outputs, place)
        found.append(Replacement(place.names, part, given, made))
    done = replace_all(graph, found, retyped=True)
    done = changed(_without_orphans(done, [each for each, _ in places]), history=done.history)
    return sound(_inferred(done, graph), "replace")


def _inferred(graph: Graph, before: Graph) -> Graph:
    """The graph with the types of all that follows from values whose types are others now."""
    types = dict(graph.types)
    now = {value for value, type in types.items() if before.types.get(value, type) != type}
    if not now:
        return graph
    for node in graph.nodes:
        if now.isdisjoint(node.inputs):
            continue
        try:
            found = OPS[node.op].infer(call_of(node, types))
        except UserError as error:
            value = next(each for each in node.inputs if each in now)
            raise UserError(
                f"replace: {value} becomes {types[value]}, which cannot follow: {error.rule}",
                got=error.got,
                where=f"node {node.name}",
                fix=f"Keep the type {before.types[value]}, or replace that node, too."
                if value in before.types
                else "",
            ) from None
        for value, type in zip(node.outputs, found, strict=False):
            if value and types[value] != type:
                types[value] = type
                now.add(value)
    return changed(graph, types=types)


def _known(graph: Graph, values: Iterable[str]) -> list[str]:
    found = list(values)
    for value in found:
        if value not in graph.types:
            raise _no_value(graph, value, "replace")
    return found


def _paired(
    word: str, keys: tuple[str, ...], values: tuple[str, ...], place: Selection
) -> dict[str, str]:
    if len(keys) != len(values):
        has = place.inputs if word == "inputs" else place.outputs
        part = keys if word == "inputs" else values
        raise UserError(
            f"replace: the nodes have the {word} {', '.join(has) or 'none'}",
            got=f"{', '.join(part) or 'none'} of what comes in their place",
            fix=f"Give {word}, or another graph.",
        )
    return dict(zip(keys, values, strict=True))


def _without_orphans(graph: Graph, places: Sequence[Selection]) -> Graph:
    """Constants that only the replaced nodes read go with them."""
    read = {value for place in places for value in place.constants}
    gone = {v for v in read if v in graph.constants and not _needed(graph, v)}
    return changed(
        graph,
        types={v: type for v, type in graph.types.items() if v not in gone},
        constants={v: array for v, array in graph.constants.items() if v not in gone},
    )


def insert(graph: Graph, value: str, part: Part, users: Iterable[str] | None = None) -> Graph:
    """Put a part between a value and who reads it.

    Args:
        graph: the graph.
        value: the edge.
        part: a graph, or a function of values, of one input and one output of one type.
        users: names of the nodes that shall read what comes out; all, and the graph's
            output, if not given.
    """
    if value not in graph.types:
        raise _no_value(graph, value, "insert")
    found = part_graph(part, {value: graph.types[value]}, "insert")
    return sound(insert_on_edge(graph, value, found, users), "insert")


def rename(
    graph: Graph,
    values: Mapping[str, str] | None = None,
    nodes: Mapping[str, str] | None = None,
) -> Graph:
    """Give values and nodes other names; they may be exchanged among each other."""
    done = rename_values(graph, values) if values else graph
    return rename_nodes(done, nodes) if nodes else done


def _no_value(graph: Graph, value: str, word: str) -> UserError:
    if value in graph.by_name:
        made = ", ".join(filter(None, graph.by_name[value].outputs))
        fix = f"It is a node, which makes {made}."
    else:
        fix = nearest(value, graph.types)
    return UserError(f"{word}: graph {graph.name} has no value {value}", fix=fix)
