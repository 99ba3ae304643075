"""Writing at computed places: scatter, max unpooling, blocks to images."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.guards import conjunction
from weft.loops.nodes import Expr
from weft.loops.shapes import row_major
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.ctext import count, nest, offset, wrapping
from weft.ops.expr import add, axes, binary, clamp, inside, mul, select, total, variables
from weft.ops.record import Call, Define, Extern, ExternBody, Op, Param
from weft.ops.shape import linear_index
from weft.ops.support import (
    axis_of,
    concrete,
    each_point,
    integer,
    known,
    zero,
)
from weft.records import dataclass

UFUNCS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True, slots=True)
class ScatterElementsAttributes(Attributes):
    """``axis`` of the data that the indices count; what happens where updates meet."""

    axis: int = 0
    reduction: str = "none"


@dataclass(frozen=True, slots=True)
class ScatterNDAttributes(Attributes):
    """What happens where updates meet."""

    reduction: str = "none"


@dataclass(frozen=True, slots=True)
class MaxUnpoolAttributes(Attributes):
    """The pooling that is undone; ``output_shape`` is larger where it lost a rest."""

    kernel: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Col2ImAttributes(Attributes):
    """The image, and how blocks were taken from it."""

    image_shape: tuple[int, ...]
    block_shape: tuple[int, ...]
    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


# --- scatter ------------------------------------------------------------------------------


def _check_reduction(call: Call) -> None:
    data, updates = call.type(0), call.type(2)
    reduction = call.attributes.reduction
    if reduction not in ("none", *UFUNCS):
        raise call.error("reduction must be none, add, mul, min or max", got=repr(reduction))
    if updates.dtype != data.dtype:
        raise call.error("data and updates must be of one type")
    if reduction != "none" and data.dtype in (DType.F16, DType.BF16, DType.BOOL):
        raise call.error(
            f"reduction {reduction} needs f32, f64 or integers", fix="Cast the operands to f32"
        )


def _infer_scatter_elements(call: Call) -> tuple[TensorType, ...]:
    data, indices, updates = call.type(0), integer(call, 1), call.type(2)
    _check_reduction(call)
    axis_of(call, call.attributes.axis, len(data.shape))
    if indices.shape != updates.shape or len(indices.shape) != len(data.shape):
        raise call.error("indices and updates must have one shape, of the rank of data")
    return (data,)


def _infer_scatter_nd(call: Call) -> tuple[TensorType, ...]:
    data, indices, updates = call.type(0), integer(call, 1), call.type(2)
    _check_reduction(call)
    depth = known(call, indices.shape[-1]) if indices.shape else 0
    if not 1 <= depth <= len(data.shape):
        raise call.error(f"the last dimension of indices must be within [1, {len(data.shape)}]")
    if updates.shape != (*indices.shape[:-1], *data.shape[depth:]):
        raise call.error("updates must have a slice of data for each row of indices")
    return (data,)


def _copy_text(size: int) -> str:
    return count("i", size, "out0[i] = in0[i];\n")


def _update_text(reduction: str, dtype: DType, target: str, update: str) -> str:
    """The statement that brings an update to its place."""
    match reduction:
        case "none":
            return f"{target} = {update};\n"
        case "add" | "mul":
            op = "+" if reduction == "add" else "*"
            return f"{target} = {wrapping(op, dtype, target, update)};\n"
        case _:
            sign = "<" if reduction == "min" else ">"
            return f"if ({update} {sign} {target})\n    {target} = {update};\n"


def _place_text(source: str, extent: int) -> str:
    """Reads an index into ``at``; negative ones count from the end."""
    return f"at = (long){source};\nif (at < 0)\n    at += {extent};\n"


def _scatter_elements_body(call: Call) -> ExternBody:
    data, indices = concrete(call, 0), concrete(call, 1)
    axis = axis_of(call, call.attributes.axis, len(data))
    names = [f"i{place}" for place in range(len(data))]
    steps = row_major(data)
    rest = [place for place in range(len(data)) if place != axis]
    base = offset([names[place] for place in rest], [steps[place] for place in rest])
    update = _update_text(
        call.attributes.reduction,
        call.type(0).dtype,
        f"out0[{base} + at * {steps[axis]}]",
        "in2[from]",
    )
    inner = (
        f"from = {offset(names, row_major(indices))};\n"
        + _place_text("in1[from]", data[axis])
        + f"if (at >= 0 && at < {data[axis]}) {{\n{update}}}\n"
    )
    loops = nest(names, indices, inner)
    return ExternBody(f"long i, {', '.join(names)}, from, at;\n" + _copy_text(prod(data)) + loops)


def _scatter_nd_body(call: Call) -> ExternBody:
    data, indices = concrete(call, 0), concrete(call, 1)
    depth = indices[-1]
    size = prod(data[depth:])
    steps = row_major(data)
    text = "base = 0;\nheld = 1;\n"
    for part in range(depth):
        text += _place_text(f"in1[row * {depth} + {part}]", data[part])
        text += f"held = held && at >= 0 && at < {data[part]};\n"
        # What lies outside may be too large to multiply.
        text += f"if (held)\n    base += at * {steps[part]};\n"
    update = _update_text(
        call.attributes.reduction, call.type(0).dtype, "out0[base + i]", f"in2[row * {size} + i]"
    )
    text += f"if (held) {{\n{count('i', size, update)}}}\n"
    rows = count("row", prod(indices[:-1]), text)
    return ExternBody("long i, row, base, at;\nint held;\n" + _copy_text(prod(data)) + rows)


def _scattered(
    y: np.ndarray, where: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str
) -> np.ndarray:
    if reduction == "none":
        y[where] = updates
    else:
        UFUNCS[reduction].at(y, where, updates)
    return y


def _reference_scatter_elements(
    call: Call, data: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> tuple[np.ndarray, ...]:
    where: list[np.ndarray] = list(np.ogrid[tuple(slice(extent) for extent in indices.shape)])
    where[call.attributes.axis] = indices
    return (_scattered(data.copy(), tuple(where), updates, call.attributes.reduction),)


def _reference_scatter_nd(
    call: Call, data: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> tuple[np.ndarray, ...]:
    where: tuple[np.ndarray, ...] = (*np.moveaxis(indices, -1, 0),)
    return (_scattered(data.copy(), where, updates, call.attributes.reduction),)


# --- max unpooling ------------------------------------------------------------------------


def _unpooled(call: Call) -> tuple[int, ...]:
    """The shape that the pooling had, by its window."""
    asked: MaxUnpoolAttributes = call.attributes
    dims = concrete(call, 0)
    rank = len(asked.kernel)
    pads = asked.pads or (0,) * (2 * rank)
    steps = asked.strides or (1,) * rank
    if len(dims) != rank + 2 or len(pads) != 2 * rank or len(steps) != rank:
        raise call.error(
            "kernel, strides and pads must fit the spatial axes",
            got=f"{call.type(0)}, kernel {list(asked.kernel)}, strides {list(steps)}, "
            f"pads {list(pads)}",
        )
    spatial = [
        (dims[axis + 2] - 1) * steps[axis] - pads[axis] - pads[axis + rank] + asked.kernel[axis]
        for axis in range(rank)
    ]
    return (*dims[:2], *spatial)


def _infer_unpool(call: Call) -> tuple[TensorType, ...]:
    source, places = call.type(0), integer(call, 1)
    if places.shape != source.shape:
        raise call.error("the indices must have the shape of the input")
    inner = _unpooled(call)
    shape = tuple(call.attributes.output_shape or inner)
    if len(shape) != len(inner) or any(a < b for a, b in zip(shape, inner, strict=True)):
        raise call.error(f"output_shape must be at least {list(inner)}", got=str(list(shape)))
    return (TensorType(source.dtype, shape),)


def _unpool_body(call: Call) -> ExternBody:
    inner, outer = _unpooled(call), _infer_unpool(call)[0].dims
    # Indices count in the inner shape: digits of the index are placed in the outer one.
    digits = "".join(
        f"to += at / {step} % {extent} * {wide};\n"
        for step, extent, wide in zip(row_major(inner), inner, row_major(outer), strict=True)
    )
    body = (
        f"at = (long)in1[i];\nif (at >= 0 && at < {prod(inner)}) {{\n"
        f"to = 0;\n{digits}out0[to] = in0[i];\n}}\n"
    )
    clear = count("i", prod(outer), "out0[i] = 0;\n")
    return ExternBody("long i, at, to;\n" + clear + count("i", call.type(0).size, body))


def _reference_unpool(call: Call, x: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, ...]:
    inner, outer = _unpooled(call), _infer_unpool(call)[0].dims
    flat = np.zeros(prod(inner), x.dtype)
    flat[places.reshape(-1)] = x.reshape(-1)
    y = np.zeros(outer, x.dtype)
    y[tuple(slice(extent) for extent in inner)] = flat.reshape(inner)
    return (y,)


# --- blocks to images ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How the blocks of a Col2Im lie in its image."""

    channels: int
    blocks: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...]


def _blocks(call: Call) -> _Blocks:
    asked: Col2ImAttributes = call.attributes
    rank = len(asked.image_shape)
    dilations = asked.dilations or (1,) * rank
    pads = asked.pads or (0,) * (2 * rank)
    steps = asked.strides or (1,) * rank
    source = call.type(0)
    lengths = (len(asked.block_shape), len(dilations), len(steps), len(pads) / 2)
    if len(source.shape) != 3 or set(lengths) != {rank} or min((*dilations, *steps)) < 1:
        raise call.error(
            "the input must have rank 3, and block_shape, dilations, strides and pads must fit "
            "image_shape",
            got=f"{source}, image_shape {list(asked.image_shape)}",
        )
    counts = tuple(
        (extent + pads[axis] + pads[axis + rank] - dilations[axis] * (size - 1) - 1) // steps[axis]
        + 1
        for axis, (extent, size) in enumerate(
            zip(asked.image_shape, asked.block_shape, strict=True)
        )
    )
    rows, columns = known(call, source.shape[1]), known(call, source.shape[2])
    size = prod(asked.block_shape)
    if size < 1 or rows % size or columns != prod(counts) or min(counts, default=1) < 1:
        raise call.error(
            f"the input must have a multiple of {size} rows and {prod(counts)} columns"
        )
    return _Blocks(rows // size, counts, dilations, pads, steps)


def _infer_col2im(call: Call) -> tuple[TensorType, ...]:
    source, found = call.type(0), _blocks(call)
    shape = (source.shape[0], found.channels, *call.attributes.image_shape)
    return (TensorType(source.dtype, shape),)


def _define_col2im(call: Call) -> tuple[Compute, ...]:
    asked: Col2ImAttributes = call.attributes
    found = _blocks(call)
    # Without dilation every so many taps of a block reach an element, so many apart.
    apart = [
        step if dilation == 1 else 1
        for step, dilation in zip(found.strides, found.dilations, strict=True)
    ]
    taps = axes(
        [-(-size // step) for size, step in zip(asked.block_shape, apart, strict=True)], "k"
    )
    dtype = call.type(0).dtype

    def value(point: tuple[Expr, ...]) -> Expr:
        guards: list[Expr] = []
        places: list[Expr] = []
        within: list[Expr] = []
        for axis, tap in enumerate(variables(taps)):
            step, size = found.strides[axis], asked.block_shape[axis]
            far = add(point[axis + 2], found.pads[axis])
            if apart[axis] > 1:
                near = binary("sub", binary("floordiv", far, step), tap)
                tap = add(binary("mod", far, step), mul(tap, step))
                if size % step:
                    guards.append(inside(tap, size))
                    tap = clamp(tap, 0, size - 1)
            else:
                near = binary("sub", far, mul(tap, found.dilations[axis]))
                if step > 1:
                    guards.append(binary("eq", binary("mod", near, step), 0))
                    near = binary("floordiv", near, step)
            within.append(tap)
            guards.append(inside(near, found.blocks[axis]))
            places.append(clamp(near, 0, found.blocks[axis] - 1))
        row = linear_index(asked.block_shape, within)
        channel = add(mul(point[1], prod(asked.block_shape)), row)
        x = call.load(0, point[0], channel, linear_index(found.blocks, places))
        held = select(conjunction(guards), widened(x, dtype), zero(accumulator(dtype)))
        return narrowed(total("sum", taps, held), dtype)

    return each_point(_infer_col2im(call)[0].dims, value)


def _reference_col2im(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: Col2ImAttributes = call.attributes
    found = _blocks(call)
    rank = len(asked.image_shape)
    wide = [
        extent + found.pads[axis] + found.pads[axis + rank]
        for axis, extent in enumerate(asked.image_shape)
    ]
    padded = np.zeros((len(x), found.channels, *wide), x.dtype)
    parts = x.reshape(len(x), found.channels, prod(asked.block_shape), *found.blocks)
    for number, tap in enumerate(np.ndindex(*asked.block_shape)):
        where = tuple(
            slice(at * dilation, at * dilation + step * (blocks - 1) + 1, step)
            for at, dilation, step, blocks in zip(
                tap, found.dilations, found.strides, found.blocks, strict=True
            )
        )
        padded[(slice(None), slice(None), *where)] += parts[:, :, number]
    kept = tuple(
        slice(found.pads[axis], found.pads[axis] + extent)
        for axis, extent in enumerate(asked.image_shape)
    )
    return (padded[(slice(None), slice(None), *kept)],)


OPS: tuple[Op, ...] = (
    Op(
        name="ScatterElements",
        inputs=(Param("data"), Param("indices"), Param("updates")),
        infer=_infer_scatter_elements,
        reference=_reference_scatter_elements,
        compute=Extern(_scatter_elements_body),
        attributes=ScatterElementsAttributes,
        doc="Data with an element written for each index, which replaces one coordinate.",
    ),
    Op(
        name="ScatterND",
        inputs=(Param("data"), Param("indices"), Param("updates")),
        infer=_infer_scatter_nd,
        reference=_reference_scatter_nd,
        compute=Extern(_scatter_nd_body),
        attributes=ScatterNDAttributes,
        doc="Data with a slice written at the place that each row of indices names.",
    ),
    Op(
        name="MaxUnpool",
        inputs=(Param("x"), Param("i")),
        infer=_infer_unpool,
        reference=_reference_unpool,
        compute=Extern(_unpool_body),
        attributes=MaxUnpoolAttributes,
        implied={
            "strides": lambda call: (1,) * len(call.attributes.kernel),
            "pads": lambda call: (0,) * (2 * len(call.attributes.kernel)),
        },
        doc="Puts pooled elements back where they came from, the rest 0.",
    ),
    Op(
        name="Col2Im",
        infer=_infer_col2im,
        reference=_reference_col2im,
        compute=Define(_define_col2im),
        attributes=Col2ImAttributes,
        implied={
            "strides": lambda call: (1,) * len(call.attributes.block_shape),
            "dilations": lambda call: (1,) * len(call.attributes.block_shape),
            "pads": lambda call: (0,) * (2 * len(call.attributes.block_shape)),
        },
        doc="Sums blocks, one in each column, into the image that they were taken from.",
    ),
)
