"""Parts of arrays: concat, split, slice, compress, reverse sequence, trilu."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import add, axes, binary, cast, clamp, mul, select, variables
from weft.ops.indexing import GatherAttributes
from weft.ops.record import Builder, Call, Define, Expand, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.support import (
    axes_of,
    axis_of,
    each_point,
    integer,
    known,
    not_concrete,
    zero,
)
from weft.records import dataclass

WHOLE = 2**31 - 1
"""An end of a slice from here on means "to the end", whatever the dimension."""


@dataclass(frozen=True, slots=True)
class ConcatAttributes(Attributes):
    """``axis`` along which the inputs follow one another."""

    axis: int


@dataclass(frozen=True, slots=True)
class SplitAttributes(Attributes):
    """``split``: the lengths; if ``None``, ``num_outputs`` parts (or as many as the node has
    outputs) of equal length, the last one shorter if need be.
    """

    axis: int = 0
    split: tuple[int, ...] | None = None
    num_outputs: int | None = None


@dataclass(frozen=True, slots=True)
class SliceAttributes(Attributes):
    """``starts:ends:steps`` along ``axes`` (``None``: the first ones; steps of 1)."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    axes: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompressAttributes(Attributes):
    """``condition``: what is kept along ``axis`` (``None``: of the flattened input)."""

    condition: tuple[bool, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class ReverseSequenceAttributes(Attributes):
    """The axes of time and batch, in either order the first two."""

    batch_axis: int = 1
    time_axis: int = 0


@dataclass(frozen=True, slots=True)
class TriluAttributes(Attributes):
    """Keep the ``upper`` or the lower triangle from diagonal ``k`` on."""

    upper: int = 1
    k: int = 0


# --- concat and split ---------------------------------------------------------------------


def _infer_concat(call: Call) -> tuple[TensorType, ...]:
    first = call.type(0)
    axis = axis_of(call, call.attributes.axis, len(first.shape))
    length: Dim = first.shape[axis]
    for place in range(1, len(call.inputs)):
        other = call.type(place)
        rest = other.shape[:axis] + other.shape[axis + 1 :]
        if len(other.shape) != len(first.shape):
            raise call.error("the inputs must have one rank")
        if other.dtype != first.dtype or rest != first.shape[:axis] + first.shape[axis + 1 :]:
            raise call.error(f"the inputs must agree in all but axis {axis}")
        length = known(call, length) + known(call, other.shape[axis])
    return (TensorType(first.dtype, (*first.shape[:axis], length, *first.shape[axis + 1 :])),)


def _define_concat(call: Call) -> tuple[Compute, ...]:
    axis = axis_of(call, call.attributes.axis, len(call.type(0).shape))
    lengths = [call.type(place).dims[axis] for place in range(len(call.inputs))]
    offsets = [0, *accumulate(lengths)]
    parts = [place for place, length in enumerate(lengths) if length] or [0]

    def load(place: int, point: tuple[Expr, ...]) -> Expr:
        where = list(point)
        where[axis] = add(point[axis], -offsets[place])
        return call.load(place, *where)

    def value(point: tuple[Expr, ...]) -> Expr:
        pieces = [(offsets[place], load(place, point)) for place in parts]
        return _piecewise(point[axis], pieces)

    return each_point(_infer_concat(call)[0].dims, value)


def _piecewise(index: Expr, pieces: Sequence[tuple[int, Expr]]) -> Expr:
    """The piece that an index is in; pieces come with the index that they begin at."""
    if len(pieces) == 1:
        return pieces[0][1]
    # A balanced tree of comparisons: a chain of many parts would nest too deep.
    middle = len(pieces) // 2
    before = binary("lt", index, pieces[middle][0])
    return select(before, _piecewise(index, pieces[:middle]), _piecewise(index, pieces[middle:]))


def _reference_concat(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.concatenate(inputs, call.attributes.axis),)


def split_lengths(call: Call) -> tuple[int, tuple[int, ...]]:
    """The axis of a Split and the lengths of its parts."""
    source = call.type(0)
    asked: SplitAttributes = call.attributes
    axis = axis_of(call, asked.axis, len(source.shape))
    extent = known(call, source.shape[axis])
    if asked.split is not None:
        if min(asked.split, default=0) < 0 or sum(asked.split) != extent:
            raise call.error(
                f"the lengths must be 0 or more and sum to {extent}", got=str(list(asked.split))
            )
        return axis, tuple(asked.split)
    count = call.outputs if asked.num_outputs is None else asked.num_outputs
    if count < 1:
        raise call.error("num_outputs must be at least 1", got=str(count))
    length = -(-extent // count)
    return axis, tuple(min(length, max(0, extent - length * part)) for part in range(count))


def _infer_split(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    axis, lengths = split_lengths(call)
    return tuple(
        TensorType(source.dtype, (*source.shape[:axis], length, *source.shape[axis + 1 :]))
        for length in lengths
    )


def _define_split(call: Call) -> tuple[Compute, ...]:
    axis, lengths = split_lengths(call)
    found: list[Compute] = []
    for offset, type in zip([0, *accumulate(lengths)], _infer_split(call), strict=False):
        ranges = axes(type.dims)
        where = list(variables(ranges))
        where[axis] = add(where[axis], offset)
        found.append(Compute(ranges, call.load(0, *where)))
    return tuple(found)


def _reference_split(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    axis, lengths = split_lengths(call)
    return tuple(np.split(x, np.cumsum(lengths)[:-1], axis))


# --- slice --------------------------------------------------------------------------------


def slice_ranges(call: Call) -> tuple[tuple[int, int, Dim], ...]:
    """Start, step and length along each axis of a Slice."""
    source = call.type(0)
    asked: SliceAttributes = call.attributes
    count = len(asked.starts)
    chosen = axes_of(call, range(count) if asked.axes is None else asked.axes, len(source.shape))
    steps = asked.steps or (1,) * count
    if not count == len(asked.ends) == len(chosen) == len(steps) or 0 in steps:
        raise call.error(
            "starts, ends, axes and steps must be of one length, and no step 0",
            got=f"{list(asked.starts)}, {list(asked.ends)}, {list(chosen)}, {list(steps)}",
        )
    found: list[tuple[int, int, Dim]] = [(0, 1, dim) for dim in source.shape]
    for axis, start, end, step in zip(chosen, asked.starts, asked.ends, steps, strict=True):
        extent = source.shape[axis]
        if isinstance(extent, Symbol):
            if (start, step) != (0, 1) or end < WHOLE:
                raise not_concrete(call)
            continue
        taken = range(extent)[_taken(start, end, step, extent)]
        found[axis] = (taken.start, step, len(taken))
    return tuple(found)


def _taken(start: int, end: int, step: int, extent: int) -> slice:
    """The slice for Python, which clamps as ONNX does but for one end.

    Backwards from before the first element, ONNX takes the first and Python takes none.
    """
    return slice(max(start, -extent) if step < 0 else start, end, step)


def _infer_slice(call: Call) -> tuple[TensorType, ...]:
    shape = tuple(length for _, _, length in slice_ranges(call))
    return (TensorType(call.type(0).dtype, shape),)


def _define_slice(call: Call) -> tuple[Compute, ...]:
    ranges = slice_ranges(call)

    def value(point: tuple[Expr, ...]) -> Expr:
        where = [
            add(mul(at, step), start) if step > 0 else binary("sub", start, mul(at, -step))
            for at, (start, step, _) in zip(point, ranges, strict=True)
        ]
        return call.load(0, *where)

    return each_point(_infer_slice(call)[0].dims, value)


def _reference_slice(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: SliceAttributes = call.attributes
    chosen = range(len(asked.starts)) if asked.axes is None else asked.axes
    steps = asked.steps or (1,) * len(asked.starts)
    where = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, asked.starts, asked.ends, steps, strict=True):
        where[axis] = _taken(start, end, step, x.shape[axis])
    return (x[tuple(where)],)


# --- compress, reverse sequence, trilu ----------------------------------------------------


def _kept(call: Call) -> tuple[int | None, tuple[int, ...]]:
    """The axis of a Compress and the kept places along it."""
    source = call.type(0)
    asked: CompressAttributes = call.attributes
    if asked.axis is None:
        axis = None
        for dim in source.shape:
            known(call, dim)
        extent = source.size
    else:
        axis = axis_of(call, asked.axis, len(source.shape))
        extent = known(call, source.shape[axis])
    if len(asked.condition) > extent:
        raise call.error(f"at most {extent} conditions", got=str(len(asked.condition)))
    return axis, tuple(place for place, keep in enumerate(asked.condition) if keep)


def _infer_compress(call: Call) -> tuple[TensorType, ...]:
    axis, places = _kept(call)
    source = call.type(0)
    if axis is None:
        return (TensorType(source.dtype, (len(places),)),)
    shape = (*source.shape[:axis], len(places), *source.shape[axis + 1 :])
    return (TensorType(source.dtype, shape),)


def _expand_compress(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    axis, places = _kept(call)
    source = inputs[0]
    if axis is None:
        source = build.op("Reshape", source, attributes=ReshapeAttributes((call.type(0).size,)))
    where = build.constant(np.array(places, np.int64), "places")
    return (build.op("Gather", source, where, attributes=GatherAttributes(axis or 0)),)


def _reference_compress(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.compress(call.attributes.condition, x, call.attributes.axis),)


def _infer_reverse(call: Call) -> tuple[TensorType, ...]:
    source, lengths = call.type(0), integer(call, 1)
    asked: ReverseSequenceAttributes = call.attributes
    if {asked.batch_axis, asked.time_axis} != {0, 1} or len(source.shape) < 2:
        raise call.error(
            "batch_axis and time_axis must be 0 and 1 in either order, of an input of rank 2 "
            "or more",
            got=f"{asked.batch_axis} and {asked.time_axis}, {source}",
        )
    if lengths.shape != (source.shape[asked.batch_axis],):
        raise call.error("sequence_lens must name a length for each entry of the batch")
    return (source,)


def _define_reverse(call: Call) -> tuple[Compute, ...]:
    asked: ReverseSequenceAttributes = call.attributes
    dims = call.type(0).dims
    extent = dims[asked.time_axis]

    def value(point: tuple[Expr, ...]) -> Expr:
        time = point[asked.time_axis]
        length = cast(DType.I64, call.load(1, point[asked.batch_axis]))
        mirrored = binary("sub", binary("sub", length, 1), time)
        where = list(point)
        where[asked.time_axis] = clamp(
            select(binary("lt", time, length), mirrored, time), 0, extent - 1
        )
        return call.load(0, *where)

    return each_point(dims, value)


def _reference_reverse(call: Call, x: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    batch_first = call.attributes.batch_axis == 0
    y = np.array(x)
    for entry, length in enumerate(lengths):
        if batch_first:
            y[entry, :length] = x[entry, :length][::-1]
        else:
            y[:length, entry] = x[:length, entry][::-1]
    return (y,)


def _infer_trilu(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    if len(source.shape) < 2:
        raise call.error("the input must have rank 2 or more")
    return (source,)


def _define_trilu(call: Call) -> tuple[Compute, ...]:
    asked: TriluAttributes = call.attributes

    def value(point: tuple[Expr, ...]) -> Expr:
        diagonal = add(point[-2], asked.k)
        keep = binary("ge" if asked.upper else "le", point[-1], diagonal)
        x = call.load(0, *point)
        return select(keep, x, zero(x.dtype))

    return each_point(call.type(0).dims, value)


def _reference_trilu(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return ((np.triu if call.attributes.upper else np.tril)(x, call.attributes.k),)


OPS: tuple[Op, ...] = (
    Op(
        name="Concat",
        inputs=(Param("inputs", variadic=True),),
        infer=_infer_concat,
        reference=_reference_concat,
        compute=Define(_define_concat),
        attributes=ConcatAttributes,
        doc="The inputs one after another along an axis.",
    ),
    Op(
        name="Split",
        outputs=(Param("outputs", variadic=True),),
        infer=_infer_split,
        reference=_reference_split,
        compute=Define(_define_split),
        attributes=SplitAttributes,
        doc="Consecutive parts along an axis.",
    ),
    Op(
        name="Slice",
        infer=_infer_slice,
        reference=_reference_slice,
        compute=Define(_define_slice),
        attributes=SliceAttributes,
        implied={
            "axes": lambda call: tuple(range(len(call.attributes.starts))),
            "steps": lambda call: (1,) * len(call.attributes.starts),
        },
        doc="Every step-th element between start and end, along some axes.",
    ),
    Op(
        name="Compress",
        infer=_infer_compress,
        reference=_reference_compress,
        compute=Expand(_expand_compress),
        attributes=CompressAttributes,
        doc="The places along an axis whose condition is true.",
    ),
    Op(
        name="ReverseSequence",
        inputs=(Param("x"), Param("sequence_lens")),
        infer=_infer_reverse,
        reference=_reference_reverse,
        compute=Define(_define_reverse),
        attributes=ReverseSequenceAttributes,
        doc="Reverses the first sequence_lens[b] steps of every entry of the batch.",
    ),
    Op(
        name="Trilu",
        infer=_infer_trilu,
        reference=_reference_trilu,
        compute=Define(_define_trilu),
        attributes=TriluAttributes,
        doc="The upper or lower triangle of matrices, the rest 0.",
    ),
)
