"""Types of inputs that ONNX's ops take, and what graphs have beyond them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.lowering import RENAMED
from weft.frontends.onnx.schema import NEWEST, Signature, signature
from weft.frontends.onnx.tensors import ONNX_TYPES, type_name
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ir.unknown import is_known
from weft.ops.table import OPS


def _places(node: Node, rule: Signature) -> Iterator[tuple[str, int]]:
    """The inputs of a node, each with the place of ONNX's input, which may repeat."""
    structural = {RENAMED.get(each.name, each.name) for each in fields(node.attributes)}
    last = len(rule.inputs) - 1
    places = [
        place
        for place, formal in enumerate(rule.inputs)
        if (rule.variadic and place == last)
        or formal not in structural
        or formal in rule.attributes
    ]
    for number, value in enumerate(node.inputs):
        if number < len(places):
            yield value, places[number]
        elif rule.variadic:
            yield value, last


def foreign(node: Node, rule: Signature, graph: Graph) -> Iterator[tuple[str, int]]:
    """The inputs, and their places, whose types this version of the op does not take."""
    for value, place in _places(node, rule):
        if value in graph.types:
            name = type_name(ONNX_TYPES[graph.types[value].dtype]).lower()
            if f"tensor({name})" not in rule.schema.inputs[place].types:
                yield value, place


def narrowed(graph: Graph) -> Graph:
    """The graph with constants of i64 in i32 where all ops that read them take only that.

    Those are ops whose outputs have other types; the constant's values are the same.
    """
    narrow: set[str] = set()
    others = set(graph.outputs)
    for node in graph.nodes:
        found = set(_held(node, graph))
        narrow |= found
        others.update(set(node.inputs) - found)
    constants = dict(graph.constants)
    types = dict(graph.types)
    for name in narrow - others:
        constants[name] = constants[name].astype(np.int32)
        types[name] = TensorType(DType.I32, types[name].shape)
    return replace(graph, constants=constants, types=types)


def _held(node: Node, graph: Graph) -> Iterator[str]:
    """Constants of i64, which the op does not take, that i32 holds, which it takes."""
    rule = _standard(node, NEWEST[""])
    if rule is None:
        return
    kept = {formal.type_str for formal in rule.schema.outputs}
    ends = np.iinfo(np.int32)
    for value, place in foreign(node, rule, graph):
        formal, array = rule.schema.inputs[place], graph.constants.get(value)
        if formal.type_str in kept or "tensor(int32)" not in formal.types:
            continue
        if array is None or not is_known(array) or array.dtype != np.int64:
            continue
        if ((array >= ends.min) & (array <= ends.max)).all():
            yield value


def check_types(graph: Graph, opsets: Mapping[str, int]) -> None:
    """Raises a ``UserError`` that lists the nodes with types that ONNX's ops do not take.

    Args:
        graph: the graph.
        opsets: the version of each operator set that is written.
    """
    found: list[str] = []
    for node, home in _nodes(graph):
        rule = _standard(node, opsets[""])
        if rule is not None:
            for value, place in foreign(node, rule, home):
                dtype = home.types[value].dtype.value
                found.append(f"{node.name} ({node.op}) with {rule.inputs[place]} of {dtype}")
                break
    if found:
        raise UserError(
            "onnx: the standard does not have these ops for the types of their inputs",
            got=", ".join(found),
            fix="Save a .weft file, which holds all types; a quantized model that is read with "
            "--rounding float (rounding='float') has ONNX's dequantizers and quantizers in place "
            "of such ops",
        )


def _standard(node: Node, opset: int) -> Signature | None:
    """What the standard says of an op; nothing about those of other operator sets."""
    record = OPS.get(node.op)
    return None if record is not None and record.domain else signature(node.op, "", opset)


def _nodes(graph: Graph) -> Iterator[tuple[Node, Graph]]:
    """The nodes of a graph, and of bodies that are graphs, each with its graph."""
    for node in graph.nodes:
        yield node, graph
        body = getattr(node.attributes, "body", None)
        if isinstance(body, Graph):
            yield from _nodes(body)
