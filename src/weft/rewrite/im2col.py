"""Convolutions as matrix products: what windows read becomes columns (im2col)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from weft.ir.edit import replace_all
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.convolution import conv_window
from weft.ops.evaluate import call_of
from weft.ops.padding import PadAttributes
from weft.ops.region_inference import extent_of
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import ConcatAttributes, SliceAttributes
from weft.ops.window import Window
from weft.records import dataclass
from weft.rewrite.places import instead, replaced
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness


@dataclass(frozen=True)
class ConvToMatmulParameters:
    """Of ``conv-to-matmul``."""

    nodes: tuple[str, ...] = parameter("names of the convolutions; all if not given", ())


def _apply(graph: Graph, given: ConvToMatmulParameters) -> Graph:
    def replace(node: Node) -> Replacement:
        return instead(
            graph, [node], "conv-to-matmul", lambda builder: [_product(graph, node, builder)]
        )

    return replace_all(graph, replaced(graph, given.nodes, ("Conv",), replace))


def _product(graph: Graph, node: Node, builder: GraphBuilder) -> str:
    slid = conv_window(call_of(node, graph.types), graph.types[node.inputs[1]])
    groups = node.attributes.groups
    out, image = (
        graph.types[node.inputs[1]].dims[0],
        slid.outputs(_image(graph.types[node.inputs[0]])),
    )
    points, terms = prod(image), prod(graph.types[node.inputs[1]].dims[1:])
    columns = _columns(slid, image, node.inputs[0], builder)
    if groups == 1:
        columns = _shaped(builder, columns, (0, terms, points))
        weight = _matrix(builder, node.inputs[1], (out, terms))
    else:
        columns = _shaped(builder, columns, (0, groups, terms, points))
        weight = _matrix(builder, node.inputs[1], (1, groups, out // groups, terms))
    found = builder.op("MatMul", weight, columns, name=f"{node.name}_product")
    if groups > 1:
        found = _shaped(builder, found, (0, out, points))
    if len(node.inputs) > 2 and node.inputs[2]:
        found = builder.op("Add", found, _matrix(builder, node.inputs[2], (out, 1)))
    return _shaped(builder, found, (0, out, *image))


def _image(type: TensorType) -> tuple[int, ...]:
    """The sizes of what windows slide over."""
    return tuple(extent_of(type, axis) for axis in range(2, len(type.shape)))


def _columns(slid: Window, image: Sequence[int], x: str, builder: GraphBuilder) -> str:
    """What each tap reads, ``[batch, channels, taps, points]``."""
    if any((*slid.begins, *slid.ends)):
        pads = (0, 0, *slid.begins, 0, 0, *slid.ends)
        x = builder.op("Pad", x, attributes=PadAttributes(pads))
    channels = extent_of(builder.types[x], 1)
    if {*slid.kernel, *slid.strides} == {1}:
        return x
    axes = tuple(range(2, 2 + len(image)))
    found: list[str] = []
    for tap in product(*(range(size) for size in slid.kernel)):
        starts = tuple(place * step for place, step in zip(tap, slid.dilations, strict=True))
        ends = tuple(
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, image, slid.strides, strict=True)
        )
        attributes = SliceAttributes(starts, ends, axes, tuple(slid.strides))
        cut = builder.op("Slice", x, attributes=attributes, name="tap")
        found.append(_shaped(builder, cut, (0, channels, 1, prod(image))))
    if len(found) == 1:
        return found[0]
    return builder.op("Concat", *found, attributes=ConcatAttributes(2), name="columns")


def _shaped(builder: GraphBuilder, value: str, shape: tuple[int, ...]) -> str:
    return builder.op("Reshape", value, attributes=ReshapeAttributes(shape))


def _matrix(builder: GraphBuilder, value: str, shape: tuple[int, ...]) -> str:
    """A weight in another shape; of a constant, a constant."""
    array = builder.constants.get(value)
    if array is not None:
        return builder.constant(np.reshape(array, shape), value)
    return builder.op("Reshape", value, attributes=ReshapeAttributes(shape, allowzero=1))


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "conv-to-matmul",
        "A convolution becomes a matrix product of its weights and columns of what its windows "
        "read (im2col), one for each group; padding becomes a Pad. Where windows are single "
        "points nothing is copied; elsewhere the columns are as many times larger than the "
        "image as a window has taps.",
        Exactness.REASSOCIATING,
        _apply,
        ConvToMatmulParameters,
    ),
)
