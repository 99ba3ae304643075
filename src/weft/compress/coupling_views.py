"""Rules of coupling for what moves, picks, combines or reduces elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from weft.compress.coupling import At, Rule, constant_index
from weft.compress.slots import Axes, Labels, rows_of
from weft.ir.graph import Graph, Node
from weft.ir.types import Dim, Symbol
from weft.loops.shapes import factor_groups
from weft.ops.ordering import permutation
from weft.ops.reduction import reduced_axes
from weft.ops.slicing import slice_ranges, split_lengths
from weft.ops.support import axis_of
from weft.rewrite.views import VIEWS

ELEMENTWISE = (
    "Relu LeakyRelu PRelu Elu Selu Celu Gelu HardSigmoid HardSwish Sigmoid Softplus Softsign Mish "
    "ThresholdedRelu Shrink Swish Add Sub Mul Div Mod Pow Neg Abs Sign Reciprocal Sqrt Exp Log "
    "Ceil Floor Round Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Min Max Sum "
    "Mean Clip Where Cast Identity Dropout BitCast Equal Less Greater LessOrEqual GreaterOrEqual "
    "And Or Xor Not BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot IsNaN IsInf"
).split()
REDUCTIONS = (
    "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceSumSquare ReduceLogSumExp ArgMax ArgMin"
).split()
ZEROS_DO_NOT_COUNT = frozenset({"ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"})


# --- element by element ---------------------------------------------------------------------


def _elementwise(at: At) -> tuple[Axes, ...]:
    made = at.made(next(place for place, value in enumerate(at.node.outputs) if value))
    axes = [
        _broadcast(at, place, dim) for place, dim in zip(range(-len(made), 0), made, strict=True)
    ]
    return (axes,) * len(at.node.outputs)


def _broadcast(at: At, place: int, dim: Dim) -> Labels | None:
    """The labels of one axis, counted from the end, of what several operands make."""
    carriers: list[tuple[int, int]] = []
    for position, value in enumerate(at.node.inputs):
        shape = at.type(position).shape if value else ()
        if -place > len(shape):
            continue
        axis = len(shape) + place
        if shape[axis] == dim:
            carriers.append((position, axis))
        elif not at.is_constant(position):
            at.pin(at.axes(position)[axis], "repeats it")
    # Constants without labels take those of a computed value rather than the other way round.
    carriers.sort(key=lambda carrier: at.is_constant(carrier[0]))
    first, *others = carriers
    labels = at.axes(first[0])[first[1]]
    for position, axis in others:
        at.join(position, axis, labels)
    return labels


def _along(at: At) -> tuple[Axes, ...]:
    """Ops that combine all positions of one axis and leave as many."""
    axes = at.axes(0)
    axis = axis_of(at.call, at.node.attributes.axis, len(axes))
    at.pin(axes[axis], "combines what is along it")
    return (axes,)


def _quantize(at: At) -> tuple[Axes, ...] | None:
    axes = at.axes(0)
    if at.node.attributes.block_size:
        return None
    for position in (1, 2):
        if at.has(position) and at.type(position).shape not in ((), (1,)):
            at.join(position, 0, axes[axis_of(at.call, at.node.attributes.axis, len(axes))])
    return (axes,)


# --- windows and reductions -----------------------------------------------------------------


def _spatial(at: At) -> tuple[Axes, ...] | None:
    """Pooling, global or not: channels pass, the rest does not."""
    if len(at.node.outputs) > 1:
        return None
    axes = at.axes(0)
    for labels in axes[2:]:
        at.pin(labels, "slides a window along it")
    return ([*axes[:2], *at.dead(at.made()[2:])],)


def _local_response(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    at.pin(axes[1], "divides by its neighbours")
    return (axes,)


def _reduce(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    if at.node.op in ("ArgMax", "ArgMin"):
        chosen: tuple[int, ...] = (axis_of(at.call, at.node.attributes.axis, len(axes)),)
    else:
        chosen = reduced_axes(at.call)
    kept: Axes = []
    for axis, labels in enumerate(axes):
        if axis not in chosen:
            kept.append(labels)
            continue
        if at.node.op in ZEROS_DO_NOT_COUNT and labels is not None:
            at.cut(0, axis)
        else:
            at.pin(labels, "reduces it")
        kept += at.dead((1,)) if at.node.attributes.keepdims else []
    return (kept,)


def _resize(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    made = at.made()
    for axis, (labels, dim) in enumerate(zip(axes, made, strict=True)):
        if labels is not None and len(labels) != dim:
            at.pin(labels, "resizes it")
            axes[axis] = at.dead((dim,))[0]
    return (axes,)


def _pad(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    pads = at.node.attributes.pads
    for axis, labels in enumerate(axes):
        if pads[axis] or pads[len(axes) + axis]:
            at.pin(labels, "pads it")
            axes[axis] = at.dead((at.made()[axis],))[0]
    return (axes,)


# --- views ----------------------------------------------------------------------------------


def _transpose(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    return ([axes[axis] for axis in permutation(at.call)],)


def _view(at: At) -> tuple[Axes, ...] | None:
    source, target = at.type(0).shape, at.made()
    axes = at.axes(0)
    made: Axes = at.dead(target)
    first = 0
    if source and isinstance(source[0], Symbol):
        # The batch stays in front, or the type could not be told.
        if not target or target[0] != source[0]:
            return None
        first = 1
    dims = [dim for dim in source[first:] if isinstance(dim, int)]
    wanted = [dim for dim in target[first:] if isinstance(dim, int)]
    if 0 in dims:
        return None
    for axis, dim in enumerate(dims):
        if dim == 1:
            at.pin(axes[first + axis], "sees it as part of another axis")
    for taken, parts in factor_groups(dims, wanted):
        merged = _merged(at, [axes[first + axis] for axis in taken], [dims[a] for a in taken])
        places = [first + axis for axis in parts]
        for place, labels in zip(places, _parted(at, merged, places), strict=True):
            made[place] = labels
    return (made,)


def _merged(at: At, axes: Sequence[Labels | None], dims: Sequence[int]) -> Labels:
    """The labels of several axes seen as one: those of the only axis that may be free."""
    chosen = next((place for place, each in enumerate(axes) if at.slots.is_free(each)), 0)
    for place, labels in enumerate(axes):
        if place != chosen:
            at.pin(labels, "merges it with another axis")
    labels = axes[chosen]
    assert labels is not None
    shape = [1] * len(dims)
    shape[chosen] = dims[chosen]
    return np.ascontiguousarray(np.broadcast_to(labels.reshape(shape), tuple(dims)).reshape(-1))


def _parted(at: At, labels: Labels, places: Sequence[int]) -> list[Labels]:
    """The labels of the axes that one is seen as: one of them stays free, the others cannot.

    That is the axis of attention's heads, if it is there, and the longest one otherwise, for
    then fewest positions must go together.
    """
    made, output = at.made(), at.node.outputs[0]
    dims = [dim for place in places if isinstance(dim := made[place], int)]
    if len(dims) == 1:
        return [labels]
    heads = [n for n, place in enumerate(places) if (output, place) in at.labelling.heads]
    chosen = heads[0] if heads else int(np.argmax(dims))
    free = at.slots.tie_rows(rows_of(labels, dims, chosen))
    if heads:
        at.slots.heads.append(free)
    reason = f"{at.where} parts it from a longer axis"
    return [
        free if place == chosen else at.slots.dead(dim, reason) for place, dim in enumerate(dims)
    ]


def head_axes(graph: Graph) -> frozenset[tuple[str, int]]:
    """Axes over which products of two computed matrices are repeated, and where they come from."""
    found: set[tuple[str, int]] = set()
    for node in reversed(graph.nodes):
        if node.op == "MatMul" and not graph.constants.keys() & set(node.inputs):
            for value in node.inputs:
                found.update((value, axis) for axis in range(len(graph.types[value].shape) - 2))
        else:
            found.update(_behind(graph, node, found))
    return frozenset(found)


def _behind(graph: Graph, node: Node, found: set[tuple[str, int]]) -> list[tuple[str, int]]:
    """The axes of a node's inputs that axes of its outputs are."""
    output = node.outputs[0]
    shape = graph.types[output].shape if output else ()
    axes = [axis for axis in range(len(shape)) if (output, axis) in found and shape[axis] != 1]
    if not axes:
        return []
    if node.op == "Transpose" and node.attributes.perm is not None:
        return [(node.inputs[0], node.attributes.perm[axis]) for axis in axes]
    made: list[tuple[str, int]] = []
    for value in node.inputs[:1] if node.op not in ELEMENTWISE else node.inputs:
        have = graph.types[value].shape if value else ()
        made += [(value, back) for axis in axes for back in _same_axis(node, have, shape, axis)]
    return made


def _same_axis(
    node: Node, source: tuple[Dim, ...], target: tuple[Dim, ...], axis: int
) -> list[int]:
    """The axis of an input that is an axis of the output, for views and element by element."""
    if node.op in ELEMENTWISE or node.op in ("Softmax", "Concat", "Slice", "Split"):
        back = axis + len(source) - len(target)
        return [back] if back >= 0 and source[back] == target[axis] else []
    if node.op == "Gather":
        return [axis + 1 if axis >= node.attributes.axis else axis]
    if node.op not in VIEWS:
        return []
    fixed = [dim if isinstance(dim, int) else 1 for dim in source]
    wanted = [dim if isinstance(dim, int) else 1 for dim in target]
    if prod(fixed) != prod(wanted) or 0 in fixed:
        return []
    pairs = factor_groups(fixed, wanted)
    return [taken[0] for taken, parts in pairs if parts == (axis,) and len(taken) == 1]


# --- picking and joining --------------------------------------------------------------------


def _concat(at: At) -> tuple[Axes, ...]:
    given = [place for place, value in enumerate(at.node.inputs) if value]
    rank = len(at.made())
    chosen = axis_of(at.call, at.node.attributes.axis, rank)
    axes: Axes = []
    for axis in range(rank):
        if axis == chosen:
            parts = [at.axes(place)[axis] for place in given]
            known = [labels for labels in parts if labels is not None]
            axes.append(np.concatenate(known) if len(known) == len(parts) else None)
        else:
            order = sorted(given, key=at.is_constant)
            axes.append(at.axes(order[0])[axis])
            for place in order[1:]:
                at.join(place, axis, axes[axis])
    return (axes,)


def _split(at: At) -> tuple[Axes, ...]:
    axis, lengths = split_lengths(at.call)
    axes = at.axes(0)
    labels = axes[axis]
    assert labels is not None
    parts = np.split(labels, np.cumsum(lengths)[:-1])
    return tuple([*axes[:axis], part, *axes[axis + 1 :]] for part in parts)


def _slice(at: At) -> tuple[Axes, ...]:
    axes = at.axes(0)
    for axis, (start, step, length) in enumerate(slice_ranges(at.call)):
        labels = axes[axis]
        if labels is not None and isinstance(length, int):
            axes[axis] = labels[start + step * np.arange(length)]
    return (axes,)


def _gather(at: At) -> tuple[Axes, ...] | None:
    axes = at.axes(0)
    axis = axis_of(at.call, at.node.attributes.axis, len(axes))
    indices = constant_index(at, 1)
    labels = axes[axis]
    rank = len(at.type(1).shape)
    if labels is not None and indices is not None and rank == 1:
        picked: Axes = [labels[indices]]
    else:
        at.pin(labels, "picks from it by number")
        for each in at.axes(1) if indices is None else ():
            at.pin(each, "picks by it")
        picked = at.dead(at.made()[axis : axis + rank])
    return ([*axes[:axis], *picked, *axes[axis + 1 :]],)


def _expand(at: At) -> tuple[Axes, ...]:
    axes, made = at.axes(0), at.made()
    found: Axes = at.dead(made)
    for axis, dim in enumerate(at.type(0).shape):
        place = len(made) - len(axes) + axis
        if dim == made[place]:
            found[place] = axes[axis]
        else:
            at.pin(axes[axis], "repeats it")
    return (found,)


def _tile(at: At) -> tuple[Axes, ...]:
    repeats = at.node.attributes.repeats
    axes = at.axes(0)
    return (
        [
            None if labels is None else np.tile(labels, count)
            for labels, count in zip(axes, repeats, strict=True)
        ],
    )


def _depth_to_space(at: At) -> tuple[Axes, ...]:
    axes, attributes = at.axes(0), at.node.attributes
    channels, block = at.axis(0, 1), attributes.blocksize**2
    for labels in axes[2:]:
        at.pin(labels, "mixes it with channels")
    shape, place = ((block, -1), 1) if attributes.mode == "DCR" else ((-1, block), 0)
    sized = channels.reshape(shape)
    kept = at.slots.tie_rows(rows_of(channels, sized.shape, place))
    return ([axes[0], kept, *at.dead(at.made()[2:])],)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(VIEWS, _view),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), _along),
    **dict.fromkeys(("CumSum", "CumProd"), _along),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _spatial),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _spatial),
    **dict.fromkeys(("Resize", "Upsample", "Resample"), _resize),
    "LRN": _local_response,
    "Pad": _pad,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
}
