"""The index expressions that a call stands for, or the graph, remembered by kind of call."""

from __future__ import annotations

from dataclasses import replace as changed
from functools import lru_cache

from weft.ir.graph import Graph, Node
from weft.ir.types import Symbol, TensorType
from weft.loops.definition import Compute, substitute_load
from weft.loops.walk import reduces, rename_loads
from weft.ops.evaluate import call_of
from weft.ops.expand import expand
from weft.ops.record import Call, Define, Expand
from weft.ops.table import OPS

OPEN = 2
"""What an open size is taken to be: what is said of axes does not depend on it."""
REMEMBERED = 4096


def definition(call: Call) -> tuple[Compute, ...] | None:
    """The index expression of each output; ``None`` for ops that are not defined by any."""
    compute = OPS[call.op].compute
    return _computes(compute, closed(call)) if isinstance(compute, Define) else None


def composed(call: Call) -> tuple[Compute, ...] | None:
    """The definition; of a composite op with one reduction that of its output, composed.

    So a convolution between two transpositions is a convolution with other indices.
    """
    found = definition(call)
    return found if found is not None else _composed(closed(call))


@lru_cache(REMEMBERED)
def _composed(call: Call) -> tuple[Compute, ...] | None:
    graph = expansion(call)
    if graph is None or graph.constants or len(graph.outputs) != 1:
        return None
    made: dict[str, Compute] = {}
    reductions = 0
    for node in graph.nodes:
        computes = definition(call_of(node, graph.types))
        if computes is None or len(computes) != 1:
            return None
        (compute,) = computes
        reductions += reduces(compute.value)
        names = {f"in{n}": f"<{value}>" for n, value in enumerate(node.inputs)}
        compute = Compute(compute.axes, rename_loads(compute.value, names))
        for value in filter(made.__contains__, node.inputs):
            compute = substitute_load(compute, f"<{value}>", made[value])
        made[node.outputs[0]] = compute
    if reductions != 1:
        return None
    compute = made[graph.outputs[0]]
    names = {f"<{value}>": value for value in graph.inputs}
    return (Compute(compute.axes, rename_loads(compute.value, names)),)


def expansion(call: Call) -> Graph | None:
    """What a composite op stands for, without composite ops; ``None`` for other ops.

    Its inputs are called ``in0``, ``in1``, ... (absent ones are left out), its outputs
    ``out0``, ``out1``, ...
    """
    compute = OPS[call.op].compute
    return _expanded(compute, closed(call)) if isinstance(compute, Expand) else None


def closed(call: Call) -> Call:
    """What calls of one kind have in common: no place in a model, no open sizes."""
    return changed(call, inputs=tuple(map(_static, call.inputs)), where="")


def _static(type: TensorType | None) -> TensorType | None:
    if type is None or type.is_static:
        return type
    shape = tuple(OPEN if isinstance(dim, Symbol) else dim for dim in type.shape)
    return TensorType(type.dtype, shape)


@lru_cache(REMEMBERED)
def _computes(compute: Define, call: Call) -> tuple[Compute, ...]:
    return compute.function(call)


@lru_cache(REMEMBERED)
def _expanded(compute: Expand, call: Call) -> Graph:
    given = {f"in{n}": type for n, type in enumerate(call.inputs) if type is not None}
    inputs = tuple(f"in{n}" if type else "" for n, type in enumerate(call.inputs))
    made = OPS[call.op].infer(call)[: call.outputs]
    types = {**given, **{f"out{n}": type for n, type in enumerate(made)}}
    outputs = tuple(f"out{n}" for n in range(len(made)))
    node = Node(call.op.lower(), call.op, inputs, outputs, call.attributes)
    return expand(Graph(call.op.lower(), tuple(given), outputs, (node,), types), OPS)
