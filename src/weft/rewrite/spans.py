"""Which part of its inputs a node needs for a part of its output.

Parts are boxes: a span of places for each axis that is cut.  What a window needs may reach
over the border of its input; how far it does is what remains to be padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from itertools import pairwise
from typing import Any, TypeAlias

from weft.errors import UserError
from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.ops import activation, arithmetic, logic
from weft.ops.evaluate import call_of
from weft.ops.pooling import pool_window
from weft.ops.window import Window, window_of

Types: TypeAlias = Mapping[str, TensorType]


@dataclass(frozen=True, slots=True)
class Span:
    """The places from ``start`` up to but not including ``stop``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many they are."""
        return self.stop - self.start

    def hull(self, other: Span) -> Span:
        """The least span with both in it."""
        return Span(min(self.start, other.start), max(self.stop, other.stop))

    def within(self, extent: int) -> Span:
        """What of it lies in a value that is so long."""
        return Span(max(0, self.start), min(extent, self.stop))


Box: TypeAlias = Mapping[int, Span]
"""A span for every axis that is cut; the others are whole."""
Needs: TypeAlias = Mapping[int, Box]
"""For the position of an input what is needed of it, over its borders where windows reach there;
inputs that are not named are needed whole."""


def cuts(
    extent: int, *, parts: int | None = None, size: int | None = None, sizes: Sequence[int] = ()
) -> tuple[Span, ...]:
    """The spans that an axis is cut into.

    Args:
        extent: of the axis.
        parts: how many; the first are one longer where it does not come out even.
        size: of every part; the last may be smaller.
        sizes: of each part.

    Raises:
        UserError: not exactly one of the three is given, or they do not cut the axis.
    """
    if extent < 2:
        raise UserError("cut: an axis must have at least two places", got=str(extent))
    if sum((parts is not None, size is not None, bool(sizes))) != 1:
        raise UserError("cut: give one of parts, size and sizes", got=_given(parts, size, sizes))
    if parts is not None:
        lengths = _even(extent, parts)
    elif size is not None:
        lengths = _equal(extent, size)
    else:
        lengths = tuple(sizes)
        if min(lengths) < 1 or sum(lengths) != extent:
            raise UserError(
                f"cut: sizes must be positive and add up to {extent}", got=str(list(lengths))
            )
    if len(lengths) < 2:
        raise UserError("cut: there must be at least two parts", got=str(len(lengths)))
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return tuple(Span(start, stop) for start, stop in pairwise(ends))


def _given(parts: int | None, size: int | None, sizes: Sequence[int]) -> str:
    named = {"parts": parts, "size": size, "sizes": list(sizes) or None}
    return ", ".join(f"{key}={value}" for key, value in named.items() if value) or "none"


def _even(extent: int, parts: int) -> tuple[int, ...]:
    if not 2 <= parts <= extent:
        raise UserError(f"cut: parts must be from 2 to {extent}, the axis's length", got=f"{parts}")
    least, more = divmod(extent, parts)
    return tuple(least + (place < more) for place in range(parts))


def _equal(extent: int, size: int) -> tuple[int, ...]:
    if not 1 <= size < extent:
        raise UserError(f"cut: size must be from 1 to {extent - 1}", got=str(size))
    whole, rest = divmod(extent, size)
    return (size,) * whole + ((rest,) if rest else ())


def extent_of(type: TensorType, axis: int) -> int:
    """The length of an axis, which must be known."""
    if not 0 <= axis < len(type.shape):
        raise UserError(f"cut: axis must be from 0 to {len(type.shape) - 1}", got=str(axis))
    extent = type.shape[axis]
    if not isinstance(extent, int):
        raise UserError(f"cut: the length of axis {axis} must be known", got=str(type))
    return extent


# --- what each kind of op needs -------------------------------------------------------------

ELEMENTWISE = frozenset(
    {
        *(op.name for family in (activation, arithmetic, logic) for op in family.OPS),
        *("Cast", "Identity", "Dropout"),
    }
)
"""Ops that compute each element of the output from the elements at its place."""
CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Convolutions, and where their weights stand."""
_PER_CHANNEL = {"Conv": (2,), "ConvInteger": (3,), "QLinearConv": (4, 5, 8)}
"""Where they have a number for each output channel, or one for all."""
POOLS = ("MaxPool", "AveragePool", "LpPool")
_WHOLE_AXIS = ("Softmax", "LogSoftmax", "Hardmax")


def _refuse(node: Node, axis: int, why: str) -> UserError:
    return UserError(
        f"tile: {node.op} cannot be cut along axis {axis}: {why}", where=f"node {node.name}"
    )


def window(node: Node, types: Types) -> Window:
    """The window of a convolution or pool."""
    call = call_of(node, types)
    if node.op in POOLS:
        return pool_window(call)
    kernel = types[node.inputs[CONVOLUTIONS[node.op]]].dims[2:]
    a = node.attributes
    return window_of(call, kernel, a.strides, a.dilations, a.pads)


def _reach(found: Window, axis: int, span: Span) -> Span:
    """What windows at a span of outputs reach over."""
    stride, begin = found.strides[axis], found.begins[axis]
    first = span.start * stride - begin
    return Span(first, (span.stop - 1) * stride - begin + found.spans[axis])


def _of_convolution(node: Node, types: Types, axis: int, span: Span) -> Needs:
    if axis == 1:
        return _of_channels(node, types, span)
    return {0: {axis: span if axis == 0 else _reach(window(node, types), axis - 2, span)}}


def _of_channels(node: Node, types: Types, span: Span) -> Needs:
    weight = CONVOLUTIONS[node.op]
    channels, per_group = types[node.inputs[weight]].dims[:2]
    multiplier = channels // node.attributes.groups
    found: dict[int, Box] = {weight: {0: span}}
    for place in _PER_CHANNEL[node.op]:
        value = node.inputs[place] if place < len(node.inputs) else ""
        if value and types[value].size > 1:
            found[place] = {0: span}
    if node.attributes.groups > 1:
        first, last = span.start // multiplier, (span.stop - 1) // multiplier
        whole = not span.start % multiplier and not span.stop % multiplier
        if first != last and not whole:
            raise _refuse(node, 1, "the part lies across groups")
        found[0] = {1: Span(first * per_group, (last + 1) * per_group)}
    return found


def _of_pool(node: Node, types: Types, axis: int, span: Span) -> Needs:
    if len([value for value in node.outputs if value]) > 1:
        raise _refuse(node, axis, "its second output counts places in the whole image")
    if axis < 2:
        return {0: {axis: span}}
    found = window(node, types)
    reach = _reach(found, axis - 2, span)
    padded = extent_of(types[node.inputs[0]], axis) + found.ends[axis - 2]
    counted = node.op == "AveragePool" and node.attributes.count_include_pad
    if counted and reach.stop > padded:
        raise _refuse(node, axis, "its last window sticks out of the padding that it counts")
    return {0: {axis: reach}}


def _of_elements(node: Node, types: Types, axis: int, span: Span) -> Needs:
    """Each input is aligned at the right and repeated where it has one element."""
    rank = len(types[node.outputs[0]].shape)
    found: dict[int, Box] = {}
    for position, value in enumerate(node.inputs):
        own = axis - rank + len(types[value].shape) if value else -1
        if own >= 0 and types[value].shape[own] != 1:
            found[position] = {own: span}
    return found


def _of_batch_norm(node: Node, _: Types, axis: int, span: Span) -> Needs:
    if node.attributes.training_mode:
        raise _refuse(node, axis, "it takes means over the whole value in training mode")
    if axis == 1:
        return {0: {1: span}, **{position: {0: span} for position in range(1, 5)}}
    return {0: {axis: span}}


def _of_concat(node: Node, types: Types, axis: int, span: Span) -> Needs:
    if axis == node.attributes.axis % len(types[node.outputs[0]].shape):
        raise _refuse(node, axis, "it joins its inputs along it")
    return {position: {axis: span} for position in range(len(node.inputs))}


def _of_whole_axis(node: Node, types: Types, axis: int, span: Span) -> Needs:
    if axis == node.attributes.axis % len(types[node.outputs[0]].shape):
        raise _refuse(node, axis, "every element depends on all of it")
    return {0: {axis: span}}


def _of_layer_norm(node: Node, types: Types, axis: int, span: Span) -> Needs:
    if axis >= node.attributes.axis % len(types[node.outputs[0]].shape):
        raise _refuse(node, axis, "every element depends on all of it")
    return {0: {axis: span}}


def _of_linear(node: Node, types: Types, axis: int, span: Span) -> Needs:
    """Quantization: a scale for each place of an axis, or one for all."""
    rank = len(types[node.outputs[0]].shape)
    scales = types[node.inputs[1]]
    if scales.size == 1:
        return {0: {axis: span}}
    if len(scales.shape) > 1:
        raise _refuse(node, axis, "it has a scale for each block")
    if axis != node.attributes.axis % rank:
        return {0: {axis: span}}
    return {position: {axis if position == 0 else 0: span} for position in range(len(node.inputs))}


def _of_matmul(node: Node, types: Types, axis: int, span: Span) -> Needs:
    a, b = (len(types[value].shape) for value in node.inputs[:2])
    rank = len(types[node.outputs[0]].shape)
    if a < 2 or b < 2:
        raise _refuse(node, axis, "one factor is a vector")
    if axis == rank - 1:
        return {1: {b - 1: span}}
    if axis == rank - 2:
        return {0: {a - 2: span}}
    found: dict[int, Box] = {}
    for position, own in ((0, axis - rank + a), (1, axis - rank + b)):
        if own >= 0 and types[node.inputs[position]].shape[own] != 1:
            found[position] = {own: span}
    return found


def _of_gemm(node: Node, types: Types, axis: int, span: Span) -> Needs:
    flags = node.attributes
    found: dict[int, Box] = (
        {0: {1 if flags.transA else 0: span}}
        if axis == 0
        else {1: {0 if flags.transB else 1: span}}
    )
    if len(node.inputs) > 2 and node.inputs[2]:
        shape = types[node.inputs[2]].shape
        own = axis - 2 + len(shape)
        if own >= 0 and shape[own] != 1:
            found[2] = {own: span}
    return found


_KINDS: tuple[tuple[Iterable[str], Callable[[Node, Types, int, Span], Needs]], ...] = (
    (CONVOLUTIONS, _of_convolution),
    (POOLS, _of_pool),
    (ELEMENTWISE, _of_elements),
    (("BatchNormalization",), _of_batch_norm),
    (("Concat",), _of_concat),
    (_WHOLE_AXIS, _of_whole_axis),
    (("LayerNormalization", "RMSNormalization"), _of_layer_norm),
    (("QuantizeLinear", "DequantizeLinear"), _of_linear),
    (("MatMul",), _of_matmul),
    (("Gemm",), _of_gemm),
)
_NEEDS = {op: function for ops, function in _KINDS for op in ops}


def needs(node: Node, types: Types, box: Box) -> Needs:
    """What a node needs of its inputs for a part of its first output.

    Raises:
        UserError: the op cannot be cut so; says why.
    """
    found: dict[int, dict[int, Span]] = {}
    for axis, span in box.items():
        function = _NEEDS.get(node.op)
        if function is None:
            raise _refuse(node, axis, "it does not compute its output place by place")
        if any(node.outputs[1:]) and node.op not in POOLS:
            raise _refuse(node, axis, "it has several outputs")
        for position, own in function(node, types, axis, span).items():
            found.setdefault(position, {}).update(own)
    return found


# --- the node of a part ---------------------------------------------------------------------


def attributes_for(node: Node, types: Types, box: Box) -> Any:
    """The attributes of the node that makes a part of the output from the parts it needs."""
    found = node.attributes
    if node.op in CONVOLUTIONS and 1 in box and found.groups > 1:
        channels = types[node.inputs[CONVOLUTIONS[node.op]]].dims[0]
        found = changed(found, groups=max(1, box[1].length * found.groups // channels))
    spatial = {axis: span for axis, span in box.items() if axis >= 2}
    if (node.op in CONVOLUTIONS or node.op in POOLS) and spatial:
        return changed(found, pads=_pads_left(node, types, spatial))
    return found


def _pads_left(node: Node, types: Types, box: Box) -> tuple[int, ...]:
    """What is still to be padded around what a part needs."""
    slid = window(node, types)
    begins, ends = list(slid.begins), list(slid.ends)
    for axis, span in box.items():
        reach = _reach(slid, axis - 2, span)
        extent = extent_of(types[node.inputs[0]], axis)
        begins[axis - 2] = max(0, -reach.start)
        ends[axis - 2] = max(0, reach.stop - extent)
        if reach.within(extent).length < 1:
            raise _refuse(node, axis, "a part would read nothing but padding")
    return (*begins, *ends)


def group_borders(node: Node, types: Types, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Spans of output channels, cut where needed so that each is groups or lies in a group."""
    channels = types[node.inputs[CONVOLUTIONS[node.op]]].dims[0]
    multiplier = channels // node.attributes.groups
    if node.attributes.groups == 1:
        return tuple(spans)
    found: list[Span] = []
    for span in spans:
        first = -(-span.start // multiplier) * multiplier
        last = span.stop // multiplier * multiplier
        places = [span.start, span.stop, *(p for p in (first, last) if span.start < p < span.stop)]
        found += [Span(start, stop) for start, stop in pairwise(sorted(set(places)))]
    return tuple(found)
