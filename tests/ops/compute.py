"""Runs an op the way its record says that it is computed, without any compiler pass.

``Define`` by the interpreter of its unscheduled loops, ``Expand`` node by node (by
references, or all the way down), ``Extern`` by the C compiler.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from tests.ops.extern import run_extern
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.loops.definition import Compute, naive
from weft.loops.interpret import run as interpret
from weft.loops.nodes import Access, Buffer
from weft.loops.verify import verify
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of, evaluate_node
from weft.ops.record import Call, Control, Define, Expand, Extern, Op
from weft.ops.table import OPS

Arrays = tuple[np.ndarray | None, ...]


def run(op: Op, call: Call, arrays: Arrays) -> list[np.ndarray]:
    """The outputs, all the way down to loops and C."""
    match op.compute:
        case Define(function):
            return run_define(op, call, arrays, function(call))
        case Expand():
            return run_graph(*expansion(op, call, arrays), by_reference=False)
        case Extern(function):
            types = op.infer(call)[: call.outputs]
            return run_extern(function(call), arrays, types)
        case Control():
            return list(op.reference(call, *arrays))
    assert_never(op.compute)


def run_expansion(op: Op, call: Call, arrays: Arrays) -> list[np.ndarray]:
    """The outputs of an ``Expand`` by the references of its nodes."""
    return run_graph(*expansion(op, call, arrays), by_reference=True)


def run_define(
    op: Op, call: Call, arrays: Arrays, computes: tuple[Compute, ...]
) -> list[np.ndarray]:
    given = {f"in{place}": each for place, each in enumerate(arrays) if each is not None}
    types = op.infer(call)[: len(computes)]
    results = {
        f"out{place}": np.empty(each.dims, each.dtype.numpy) for place, each in enumerate(types)
    }
    inputs = [Buffer(name, DType.of(each.dtype), each.shape) for name, each in given.items()]
    outputs = [
        Buffer(name, DType.of(each.dtype), each.shape, Access.WRITE)
        for name, each in results.items()
    ]
    kernel = naive("definition", computes, inputs, outputs)
    verify(kernel)
    interpret(kernel, {**given, **results})
    return list(results.values())[: call.outputs]


def expansion(op: Op, call: Call, arrays: Arrays) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of one use of an ``Expand``, and the values of its inputs."""
    assert isinstance(op.compute, Expand)
    builder = GraphBuilder(OPS)
    names: list[str] = []
    values: dict[str, np.ndarray] = {}
    for type, array in zip(call.inputs, arrays, strict=True):
        names.append(builder.input("x", type) if type is not None else "")
        if array is not None:
            values[names[-1]] = array
    outputs = op.compute.function(call, builder, tuple(names))
    expected = op.infer(call)[: call.outputs]
    assert [builder.types[name] for name in outputs[: call.outputs]] == list(expected)
    return builder.graph(outputs[: call.outputs]), values


def run_graph(
    graph: Graph, values: dict[str, np.ndarray], *, by_reference: bool
) -> list[np.ndarray]:
    values = {**graph.constants, **values}
    for node in graph.nodes:
        if by_reference:
            values.update(evaluate_node(node, OPS[node.op], graph.types, values))
            continue
        inputs = tuple(values[name] if name else None for name in node.inputs)
        results = run(OPS[node.op], call_of(node, graph.types), inputs)
        values.update(zip(node.outputs, results, strict=False))
    return [values[name] for name in graph.outputs]
