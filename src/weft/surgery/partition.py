"""Cut a graph in two, and freeze inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as changed

import numpy as np

from weft.errors import UserError, nearest
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.compose import bind_symbols, extract
from weft.ir.edit import read_only
from weft.ir.graph import Graph, noted
from weft.ir.naming import listed, refuse_duplicates, require_values, type_of
from weft.ir.types import Symbol, TensorType
from weft.records import dataclass


@dataclass(frozen=True)
class Partition:
    """Two graphs that together compute what one did.

    Attributes:
        front: gives the values at the cut, then graph outputs that are made before it.
        back: takes the values at the cut and graph inputs that are read behind it.
    """

    front: Graph
    back: Graph


def split(graph: Graph, at: Sequence[str]) -> Partition:
    """Cut a graph at values.

    Args:
        graph: the graph.
        at: values, all that nodes behind the cut read of what is made before it.

    Raises:
        UserError: more values cross the cut, or nothing lies behind it.
    """
    require_values(graph.types, at, "split")
    refuse_duplicates(at, "value at the cut")
    if not at:
        raise UserError("split: expected at least one value", got="none")
    for value in at:
        if value not in graph.producers:
            kind = "a constant" if value in graph.constants else "an input of the graph"
            raise UserError(
                "split: a graph can only be split at computed values",
                got=f"{value}, {kind}",
                fix="Split at a later value.",
            )
    before = _before(graph, at)
    made_before = {v for name in before for v in graph.by_name[name].outputs if v}
    for node in graph.nodes:
        for value in node.inputs:
            if node.name not in before and value in made_before and value not in at:
                raise UserError(
                    f"split: node {node.name} after the cut reads {value}, which is computed "
                    f"before it",
                    got=", ".join(at),
                    fix=f"Cut at {value}, too.",
                )
    early = [v for v in graph.outputs if v in made_before and v not in at]
    late = [v for v in graph.outputs if v not in early]
    if len(before) == len(graph.nodes):
        raise UserError("split: there are no nodes after the cut", got=", ".join(at))
    behind = [node for node in graph.nodes if node.name not in before]
    read = {value for node in behind for value in node.inputs} | set(late)
    inputs = [*at, *(v for v in graph.inputs if v in read and v not in at)]
    front_inputs = [v for v in graph.inputs if v not in read or _reads(graph, before, v)]
    front = extract(graph, front_inputs, [*at, *early])
    back = extract(graph, inputs, late)
    note = f"at {listed(at)}"
    return Partition(
        noted(changed(front, name=f"{graph.name}_front", history=graph.history), "split", note),
        noted(changed(back, name=f"{graph.name}_back", history=graph.history), "split", note),
    )


def _before(graph: Graph, at: Sequence[str]) -> set[str]:
    """The nodes that the values at the cut depend on."""
    needed, found = set(at), set[str]()
    for node in reversed(graph.nodes):
        if any(value in needed for value in node.outputs if value):
            found.add(node.name)
            needed.update(node.inputs)
    return found


def _reads(graph: Graph, nodes: set[str], value: str) -> bool:
    return any(user.name in nodes for user in graph.users[value])


def freeze(graph: Graph, arrays: Mapping[str, ArrayLike]) -> Graph:
    """Make constants of graph inputs.

    Args:
        graph: the graph; its symbolic sizes become those of the arrays.
        arrays: by input name, of the inputs' types.
    """
    found: dict[str, tuple[np.ndarray, TensorType]] = {}
    sizes: dict[str, int] = {}
    for name, given in arrays.items():
        if name not in graph.inputs:
            raise UserError(
                f"freeze: graph {graph.name} has no input {name}",
                got=", ".join(graph.inputs) or "no inputs",
                fix=nearest(name, graph.inputs),
            )
        array = as_array(given, f"input {name}")
        found[name] = (array, type_of(array, name))
        for dim, size in zip(graph.types[name].shape, array.shape, strict=False):
            if isinstance(dim, Symbol):
                sizes.setdefault(dim.name, int(size))
    bound = bind_symbols(graph, sizes) if sizes else graph
    for name, (_, type) in found.items():
        if bound.types[name] != type:
            raise UserError(
                f"freeze: input {name} is {graph.types[name]}",
                got=str(type),
                fix="Convert the array."
                if bound.types[name].shape == type.shape
                else "with_shapes gives the network inputs of other shapes.",
            )
    frozen = changed(
        bound,
        inputs=tuple(name for name in bound.inputs if name not in found),
        constants={**bound.constants, **{n: read_only(array) for n, (array, _) in found.items()}},
        history=graph.history,
    )
    return noted(frozen, "freeze", listed(found))
