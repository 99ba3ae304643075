"""Sums cut into parts: a convolution over some of its input channels, a product over some of
its inner places, and the parts added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.ops.build import GraphBuilder
from weft.ops.slicing import ConcatAttributes, SliceAttributes
from weft.rewrite.places import instead
from weft.rewrite.spans import Span, extent_of

SUMS = ("Conv", "ConvInteger", "Gemm", "MatMul", "MatMulInteger")
"""Ops that sum what can be summed in parts."""


def inner_extent(graph: Graph, node: Node) -> int:
    """How many places of its inputs a node sums over (of a group, for convolutions)."""
    if node.op not in SUMS:
        raise UserError(
            f"tile: {node.op} does not add up parts of its input", where=f"node {node.name}"
        )
    return extent_of(graph.types[node.inputs[1]], _axes(graph, node)[1])


def tile_inner(graph: Graph, node: Node, spans: Sequence[Span], rule: str) -> Replacement:
    """A node as the sum of nodes over spans of what it sums over; the first adds the bias."""

    def build(builder: GraphBuilder) -> Sequence[str]:
        found = ""
        for number, span in enumerate(spans):
            part = _part(graph, node, span, number, builder)
            found = builder.op("Add", found, part, name=f"{node.name}_sum") if found else part
        return [found]

    return instead(graph, [node], rule, build)


def _axes(graph: Graph, node: Node) -> tuple[int, int]:
    """The axes of the first two inputs that are summed over."""
    left, right = (len(graph.types[value].shape) for value in node.inputs[:2])
    if node.op in ("Conv", "ConvInteger"):
        return 1, 1
    if node.op == "Gemm":
        return (0 if node.attributes.transA else 1), (1 if node.attributes.transB else 0)
    return left - 1, max(0, right - 2)


def _part(graph: Graph, node: Node, span: Span, number: int, builder: GraphBuilder) -> str:
    left, right = _axes(graph, node)
    groups = node.attributes.groups if node.op in ("Conv", "ConvInteger") else 1
    first = [
        cut(builder, node.inputs[0], left, Span(span.start + offset, span.stop + offset))
        for offset in (group * inner_extent(graph, node) for group in range(groups))
    ]
    x = first[0]
    if groups > 1:
        x = builder.op("Concat", *first, attributes=ConcatAttributes(1))
    rest = list(node.inputs[2:])
    attributes = node.attributes
    if node.op in ("Conv", "Gemm") and number:
        rest = []
        attributes = changed(attributes, beta=1.0) if node.op == "Gemm" else attributes
    inputs = [x, cut(builder, node.inputs[1], right, span), *rest]
    return builder.op(node.op, *inputs, attributes=attributes, name=f"{node.name}_{number}")


def cut(builder: GraphBuilder, value: str, axis: int, span: Span) -> str:
    """A part of a value; of a constant, a constant."""
    array = builder.constants.get(value)
    if array is not None:
        where = (*[slice(None)] * axis, slice(span.start, span.stop))
        return builder.constant(np.array(array[where], order="C"), value)
    attributes = SliceAttributes((span.start,), (span.stop,), (axis,), (1,))
    return builder.op("Slice", value, attributes=attributes, name=f"{value}_cut")
