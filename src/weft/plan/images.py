"""Images: which values are, and which of their dimensions is that of channels."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.loops.nodes import Var
from weft.ops.shape import VIEWS
from weft.plan.fusion import Group

SPATIAL = frozenset(
    "Conv ConvTranspose MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool "
    "GlobalLpPool Resize GridSample QLinearConv ConvInteger ConvInteger16".split()
)
"""Ops over windows or points of an image, whose channels come second."""
_AXIS_CHANGING = frozenset({*VIEWS, "Transpose", "MatMul", "Gemm", "Einsum"})


_MOST = Fraction(1, 2)
"""The share of a value's elements that convolution and pooling read, from which it is an image."""


def images_of(graph: Graph) -> set[str]:
    """Values that convolution or pooling reads, maybe after steps that keep the axes.

    A value of which they read only a part, such as one token of many, is one if that part is at
    least half of it.
    """
    shares: dict[str, Fraction] = {}
    for node in reversed(graph.nodes):
        if node.op in SPATIAL:
            shares[node.inputs[0]] = Fraction(1)
        elif node.op not in _AXIS_CHANGING:
            made = [value for value in node.outputs if value in shares]
            for value in dict.fromkeys(node.inputs if made else ()):
                if value and len(graph.types[value].shape) == len(graph.types[made[0]].shape):
                    read = sum(
                        shares[each] * _part(graph.types[each], graph.types[value]) for each in made
                    )
                    shares[value] = min(Fraction(1), shares.get(value, Fraction(0)) + read)
    return {value for value, share in shares.items() if share >= _MOST}


def _part(made: TensorType, source: TensorType) -> Fraction:
    """The largest share of a value's elements that another one, made of it, can stand for."""
    if not made.is_static or not source.is_static or not source.size:
        return Fraction(1)
    return min(Fraction(1), Fraction(made.size, source.size))


def channels_of(group: Group) -> int:
    """The dimension of channels: the second one, wherever transposes have put it."""
    place, value = 1, ""
    for node in group.nodes:
        if node.op in SPATIAL:
            place, value = 1, node.outputs[0]
        elif value in node.inputs:
            if node.op == "Transpose":
                rank = len(group.type.shape)
                order = tuple(node.attributes.perm or reversed(range(rank)))
                place = order.index(place) if place in order else 1
            elif node.op in _AXIS_CHANGING:
                return 1
            value = node.outputs[0]
    return place


def is_spatial(group: Group) -> bool:
    """Whether a group is anchored by an op over an image of more than one point."""
    anchored = any(node.op in SPATIAL for node in group.nodes)
    return anchored and prod(group.type.dims[2:]) > 1


def fastest(group: Group) -> Var | None:
    """The axis of a matrix product's columns: the last one that moves."""
    if any(node.op in SPATIAL for node in group.nodes):
        return None
    moving = [axis for axis in group.compute.axes if axis.extent > 1]
    return Var(moving[-1].var) if moving else None
