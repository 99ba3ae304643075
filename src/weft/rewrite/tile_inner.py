"""Sums cut into parts: a convolution over some of its input channels, a product over some of
its inner places, and the parts added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.loops.affine import affine
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Reduce, Var
from weft.loops.walk import loads, reduces
from weft.ops.build import GraphBuilder
from weft.ops.definitions import definition
from weft.ops.evaluate import call_of
from weft.ops.region_inference import AxisSpan, extent_of
from weft.ops.slicing import ConcatAttributes, SliceAttributes
from weft.records import dataclass
from weft.rewrite.places import instead


@dataclass(frozen=True)
class _Sum:
    """A sum of products of the first two inputs.

    Attributes:
        left: the axis of the first input that is summed over, for each group of the output.
        right: the axis of the second.
        terms: the positions of the inputs that its terms read; others are added once.
    """

    left: int
    right: int
    terms: frozenset[int]


def _sum_of(graph: Graph, node: Node) -> _Sum:
    computes = definition(call_of(node, graph.types))
    total = _additive(computes[0].value) if computes else None
    if total is None:
        raise UserError(
            f"tile: {node.op} does not add up parts of its input", where=f"node {node.name}"
        )
    read = {load.buffer: load for load in loads(total)}
    for axis in total.axes:
        left, right = (_axis(read[name], axis.var, read["in1"]) for name in ("in0", "in1"))
        if left is not None and right is not None:
            return _Sum(left, right, frozenset(int(name.removeprefix("in")) for name in read))
    raise UserError(
        f"tile: the sum of {node.op} cannot be cut: it has one term for each place of a window",
        where=f"node {node.name}",
    )


def _additive(value: Expr) -> Reduce | None:
    """The sum that a value grows with, in proportion; what is added to it reads no part of it."""
    match value:
        case Reduce("sum", _, _):
            return value
        case Cast(dtype, x) if dtype.is_float:
            return _additive(x)
        case Binary("mul", x, Const()):
            return _additive(x)
        case Binary("add", x, rest) if not reduces(rest):
            return _additive(x)
        case _:
            return None


def _axis(load: Load, variable: str, factor: Load) -> int | None:
    """The axis that a variable counts through, alone or within a group.

    Groups are of outputs that the other factor tells apart; a window's places are not.
    """
    for axis, where in enumerate(load.index):
        terms = affine(where).terms
        slid = [atom for atom in terms if isinstance(atom, Var) and atom not in factor.index]
        if terms.get(Var(variable)) == 1 and not slid:
            return axis
    return None


def inner_extent(graph: Graph, node: Node) -> int:
    """How many places of its inputs a node sums over (of a group, for convolutions)."""
    return extent_of(graph.types[node.inputs[1]], _sum_of(graph, node).right)


def tile_inner(graph: Graph, node: Node, spans: Sequence[AxisSpan], rule: str) -> Replacement:
    """A node as the sum of nodes over spans of what it sums over; the first adds the bias."""

    def build(builder: GraphBuilder) -> Sequence[str]:
        found = ""
        for number, span in enumerate(spans):
            part = _part(graph, node, span, number, builder)
            found = builder.op("Add", found, part, name=f"{node.name}_sum") if found else part
        return [found]

    return instead(graph, [node], rule, build)


def _part(graph: Graph, node: Node, span: AxisSpan, number: int, builder: GraphBuilder) -> str:
    summed = _sum_of(graph, node)
    inner = extent_of(graph.types[node.inputs[1]], summed.right)
    whole = extent_of(graph.types[node.inputs[0]], summed.left)
    first = [
        cut(builder, node.inputs[0], summed.left, AxisSpan(span.start + start, span.stop + start))
        for start in range(0, whole, inner)
    ]
    x = first[0]
    if len(first) > 1:
        x = builder.op("Concat", *first, attributes=ConcatAttributes(summed.left))
    inputs = [x, cut(builder, node.inputs[1], summed.right, span)]
    for position, value in enumerate(node.inputs[2:], 2):
        inputs.append("" if number and position not in summed.terms else value)
    while not inputs[-1]:
        inputs.pop()
    return builder.op(node.op, *inputs, attributes=node.attributes, name=f"{node.name}_{number}")


def cut(builder: GraphBuilder, value: str, axis: int, span: AxisSpan) -> str:
    """A part of a value; of a constant, a constant."""
    array = builder.constants.get(value)
    if array is not None:
        where = (*[slice(None)] * axis, slice(span.start, span.stop))
        return builder.constant(np.array(array[where], order="C"), value)
    attributes = SliceAttributes((span.start,), (span.stop,), (axis,), (1,))
    return builder.op("Slice", value, attributes=attributes, name=f"{value}_cut")
