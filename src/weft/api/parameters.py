"""Networks whose weights are given at run time: which constants those are, and their arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import UserError, nearest
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.graph import Graph
from weft.ir.unknown import Unknown
from weft.ir.unknown import as_array as without_elements
from weft.options import Parameters
from weft.plan.program import Port
from weft.runtime.identity import digest_graph

if TYPE_CHECKING:
    from weft.api.network import N

RUNTIME = "runtime"
# Integer kernels are made for the scales that they are given.
_SCALED = ("QuantizeLinear", "DequantizeLinear", "QLinear")


def parameter_names(graph: Graph, wanted: Parameters) -> tuple[str, ...]:
    """The constants of a graph that are its parameters, in the graph's order.

    Args:
        graph: as it was imported.
        wanted: ``runtime`` for every constant of floating point that has several elements and
            is no scale of a quantization, or names.

    Raises:
        UserError: a name is not a constant's, or nothing is left.
    """
    given = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    if RUNTIME in given and RUNTIME not in graph.constants:
        scales = {
            value for node in graph.nodes if node.op.startswith(_SCALED) for value in node.inputs
        }
        found = {
            name
            for name, array in graph.constants.items()
            if graph.types[name].dtype.is_float and array.size > 1 and name not in scales
        }
    else:
        found = set(given)
        for name in given:
            if name not in graph.constants:
                raise UserError(
                    f'parameters are "{RUNTIME}" or names of constants of the network',
                    got=repr(name),
                    fix=nearest(name, graph.constants),
                )
    if not found:
        raise UserError("a network with parameters at run time has some", got="none")
    return tuple(name for name in graph.constants if name in found)


def agree_with_plan(graph: Graph, wanted: Parameters, planned: Sequence[str]) -> None:
    """Refuses ``runtime`` beside a plan with other parameters.

    Raises:
        UserError: the plan's are not all that ``runtime`` stands for, or others.
    """
    names = parameter_names(graph, wanted) if wanted else planned
    differing = [name for name in (*names, *planned) if (name in names) != (name in planned)]
    if differing:
        told = ", ".join(differing[:3]) + (", ..." if differing[3:] else "")
        raise UserError(
            "parameters is fixed by the given plan",
            got=f'"{RUNTIME}" beside a plan in which {told} differ',
            fix="Leave it out, or plan again with it.",
        )


def parametric(graph: Graph, wanted: Parameters) -> Graph:
    """The graph without the elements of its parameters, so that nothing can depend on them."""
    names = parameter_names(graph, wanted)
    unknown = {name: graph.constants[name] for name in names}
    made = {
        name: without_elements(Unknown(array.dtype, array.shape, name))
        for name, array in unknown.items()
    }
    return replace(graph, constants={**graph.constants, **made})


def without_values(net: N, wanted: Parameters) -> N:
    """The network without the elements of its parameters; itself where it has none."""
    return net.with_graph(parametric(net.graph, wanted)) if wanted else net


def loaded(graph: Graph, ports: Sequence[Port], given: Mapping[str, ArrayLike]) -> list[np.ndarray]:
    """The arrays of parameters in the order in which they are prepared.

    Args:
        graph: whose constants they replace.
        ports: the parameters that something depends on.
        given: arrays by name; those of constants that nothing depends on play no part.

    Raises:
        UserError: names, types or shapes are not those of the parameters; all faults are listed.
    """
    faults: list[str] = []
    arrays: list[np.ndarray] = []
    for port in ports:
        if port.name not in given:
            faults.append(f"{port.name} is missing")
            continue
        array = as_array(given[port.name], f"parameter {port.name}")
        if array.dtype != port.dtype.numpy or array.shape != port.shape:
            faults.append(f"{port} is {array.dtype}{list(array.shape)}")
        arrays.append(np.ascontiguousarray(array))
    names = {port.name for port in ports}
    for name in given:
        if name not in names and name not in graph.constants:
            hint = nearest(name, names)
            faults.append(f"{name} is unknown" + (f" ({hint})" if hint else ""))
    if faults:
        told = "; ".join(faults[:8]) + (f"; and {len(faults) - 8} more" if faults[8:] else "")
        raise UserError("weights have the names, types and shapes of the parameters", got=told)
    return arrays


def same_architecture(graph: Graph, other: Graph, names: Sequence[str]) -> None:
    """Refuses a network that differs in more than its parameters.

    Raises:
        UserError: nodes, types or other constants differ.
    """
    one, two = (
        digest_graph(replace(parametric(each, names), name="net")) for each in (graph, other)
    )
    if one != two:
        raise UserError(
            "weights are loaded from a network of the same architecture",
            got=f"{other.name}, whose nodes or other constants differ",
            fix="Compile it as a network of its own; net.diff(other) tells what differs.",
        )
