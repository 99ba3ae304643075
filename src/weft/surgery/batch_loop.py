"""A part of a graph as a loop over the members of its batch, one after the other.

The loop is a ``Scan`` without states: its body is the part for a batch of 1, whose inputs and
outputs are slices of what the graph has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.errors import UserError
from weft.ir.edit import prune
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh, reading
from weft.ir.order import topological
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.control import ScanAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.record import Control
from weft.ops.shape import SqueezeAttributes, UnsqueezeAttributes
from weft.ops.table import OPS
from weft.surgery.members import MemberAt, MemberPlace, carried
from weft.surgery.resize import with_shapes

FRONT = MemberPlace(0, 1)
"""Where a loop reads members from, and where it puts them."""


def batch_size(graph: Graph) -> int:
    """The leading size of all inputs; 1 where they have none in common."""
    types = [graph.types[name] for name in graph.inputs]
    if not types or any(not each.is_static or not each.dims for each in types):
        return 1
    sizes = {each.dims[0] for each in types}
    return sizes.pop() if len(sizes) == 1 else 1


def members_in(graph: Graph) -> Mapping[str, MemberPlace]:
    """Where the members of a batch of at least 2 are, in every value that keeps them apart.

    Values that are made of others, and what loops of their own make, are left out.
    """
    batch = batch_size(graph)
    places = dict.fromkeys(graph.inputs, FRONT)
    moving = set(graph.inputs)
    for node in graph.nodes:
        read = [value for value in node.inputs if value in moving]
        if not read:
            continue
        moving.update(node.outputs)
        if isinstance(OPS[node.op].compute, Control) or any(each not in places for each in read):
            continue
        try:
            found = carried(MemberAt(node, graph.types, batch, places))
        except UserError:
            continue  # members meet here
        if all(value in found for value in node.outputs if value):
            places.update(found)
    return places


def looped(graph: Graph, values: Sequence[str], turned: Collection[str] = ()) -> Graph:
    """The graph with everything that makes some values as a loop over the batch.

    Args:
        graph: whose inputs have one leading size, of at least 2.
        values: what the loop hands out; they are made of members at the front alone.
        turned: those of them that it hands out with their second axis as the last one, so that
            images lie with channels last.

    Raises:
        UserError: the batch cannot be told from other sizes.
    """
    part = prune(replace(graph, outputs=tuple(values)))
    body = _body(part, turned)
    types = dict(graph.types)
    nodes: list[Node] = []
    outputs: list[str] = []
    for value, slice in zip(values, body.outputs, strict=True):
        name = value
        if value in turned:
            name = fresh(f"{value}_images", types)
            rank = len(types[value].dims)
            back = TransposeAttributes((0, rank - 1, *range(1, rank - 1)))
            nodes.append(Node(name, "Transpose", (name,), (value,), back))
        inner = body.types[slice]
        types[name] = TensorType(inner.dtype, (batch_size(graph), *inner.shape))
        outputs.append(name)
    attributes = ScanAttributes(body, 0, len(part.inputs))
    name = fresh("images", graph.by_name)
    nodes.insert(0, Node(name, "Scan", part.inputs, tuple(outputs), attributes))
    made = {value for node in part.nodes for value in node.outputs}
    rest = [node for node in graph.nodes if not made.issuperset(node.outputs)]
    return prune(replace(graph, nodes=topological([*nodes, *rest]), types=types))


def _body(part: Graph, turned: Collection[str]) -> Graph:
    """A part as the body of the loop: for one member, without the axis of the batch."""
    shapes = {name: (1, *part.types[name].shape[1:]) for name in part.inputs}
    one = with_shapes(part, shapes)
    build = GraphBuilder(OPS, f"{part.name}_image", taken=(*one.types, *one.by_name))
    given: dict[str, str] = {}
    for name in one.inputs:
        dtype, dims = one.types[name].dtype, one.types[name].dims[1:]
        slice = build.input(f"{name}_image", TensorType(dtype, dims))
        given[name] = build.op("Unsqueeze", slice, attributes=UnsqueezeAttributes((0,)))
    for value, type in one.types.items():
        build.declare(value, type, one.constants.get(value))
    build.nodes += [reading(node, given) for node in one.nodes]
    outputs: list[str] = []
    for value in one.outputs:
        last = value
        if value in turned:
            order = (0, *range(2, len(one.types[value].dims)), 1)
            last = build.op("Transpose", value, attributes=TransposeAttributes(order))
        outputs.append(build.op("Squeeze", last, attributes=SqueezeAttributes((0,))))
    return build.graph(outputs)
