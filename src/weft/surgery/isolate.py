"""A graph cut at values, each of which becomes an output and, where it is read, an input."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.ir.graph import Graph
from weft.ir.naming import fresh, reading


def isolated(graph: Graph, values: Collection[str]) -> tuple[Graph, Mapping[str, str]]:
    """The graph with its parts between values computing on their own.

    Args:
        graph: with the values.
        values: made by nodes.

    Returns:
        The graph, whose further outputs are the values and whose further inputs are read in their
        place, and the name of each such input by the value's.
    """
    taken = set(graph.types)
    given: dict[str, str] = {}
    for value in values:
        given[value] = fresh(f"{value}.given", taken)
        taken.add(given[value])
    read = {name for node in graph.nodes for name in node.inputs}
    given = {value: name for value, name in given.items() if value in read}
    return replace(
        graph,
        inputs=(*graph.inputs, *given.values()),
        outputs=tuple(dict.fromkeys((*graph.outputs, *values))),
        nodes=tuple(reading(node, given) for node in graph.nodes),
        types={**graph.types, **{name: graph.types[value] for value, name in given.items()}},
    ), given
