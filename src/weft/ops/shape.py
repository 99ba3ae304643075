"""Views: reshape, flatten, squeeze, unsqueeze; and shapes as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.loops.shapes import factor_groups, row_major
from weft.ops.expr import add, binary, index, mul, select
from weft.ops.record import Call, Define, Implied, Infer, NoGrad, Op, Reference
from weft.ops.support import (
    axes_of,
    each_point,
    known,
    leading,
    not_concrete,
)
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class ReshapeAttributes(Attributes):
    """``shape``: 0 copies the input's dimension (unless ``allowzero``), -1 is inferred."""

    shape: tuple[int, ...]
    allowzero: int = 0


@dataclass(frozen=True, slots=True)
class FlattenAttributes(Attributes):
    """``axis``: the first dimension of the second half."""

    axis: int = 1


@dataclass(frozen=True, slots=True)
class SqueezeAttributes(Attributes):
    """``axes`` to remove; ``None`` removes every dimension of 1."""

    axes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class UnsqueezeAttributes(Attributes):
    """``axes`` of the output that are new."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeAttributes(Attributes):
    """The slice ``start:end`` of the shape."""

    start: int = 0
    end: int | None = None


# --- views --------------------------------------------------------------------------------

VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Ops that leave all elements in their row-major order."""


def linear_index(shape: Sequence[int], point: Sequence[Expr]) -> Expr:
    """The number of a point of an array of this shape."""
    found: Expr = index(0)
    for place, (at, step) in enumerate(zip(point, row_major(shape), strict=True)):
        found = add(0 if place == 0 else found, mul(at, step))
    return found


def reshaped_index(
    source: Sequence[int], target: Sequence[int], point: Sequence[Expr]
) -> tuple[Expr, ...]:
    """Where a packed array of shape ``source``, seen as ``target``, is read for ``point``.

    Divides only between dimensions that do not line up.
    """
    where: list[Expr] = [index(0)] * len(source)
    if 0 in source:
        return tuple(where)
    for taken, made in factor_groups(source, target):
        linear = linear_index([target[axis] for axis in made], [point[axis] for axis in made])
        steps = row_major([source[axis] for axis in taken])
        for place, (axis, step) in enumerate(zip(taken, steps, strict=True)):
            quotient = linear if step == 1 else binary("floordiv", linear, step)
            where[axis] = quotient if place == 0 else binary("mod", quotient, source[axis])
    return tuple(where)


def _view(call: Call, target: Sequence[int]) -> tuple[Compute, ...]:
    source = call.type(0).dims
    return each_point(target, lambda point: call.load(0, *reshaped_index(source, target, point)))


def _define_view(infer: Infer) -> Define:
    return Define(lambda call: _view(call, infer(call)[0].dims))


def _copied(call: Call) -> tuple[list[Dim], int | None]:
    """The dimensions asked of a Reshape, zeros copied, and the place to be inferred."""
    source = call.type(0).shape
    asked: ReshapeAttributes = call.attributes
    dims: list[Dim] = []
    for place, dim in enumerate(asked.shape):
        if dim < -1:
            raise call.error("dimensions must be -1 or more", got=str(list(asked.shape)))
        if dim == 0 and not asked.allowzero:
            if place >= len(source):
                raise call.error(
                    f"0 in place {place} copies a dimension that the input has not",
                    got=f"{call.type(0)} to {list(asked.shape)}",
                )
            dims.append(source[place])
        else:
            dims.append(dim)
    unknown = [place for place, dim in enumerate(asked.shape) if dim == -1]
    if len(unknown) > 1:
        raise call.error("only one dimension may be -1", got=str(list(asked.shape)))
    return dims, unknown[0] if unknown else None


def _infer_reshape(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    dims, unknown = _copied(call)
    # The batch passes through if it stays in front: both sides are divided by it.
    batch = source.shape[0] if source.shape and isinstance(source.shape[0], Symbol) else None
    size = prod(known(call, dim) for dim in source.shape[batch is not None :])
    if batch is not None and batch not in dims:
        rest = prod(known(call, dim) for dim in dims if dim != -1)
        if unknown != 0 or rest != size:
            raise not_concrete(call)
        return (TensorType(source.dtype, (batch, *dims[1:])),)
    if batch is not None and dims[0] != batch:
        raise not_concrete(call)
    rest = prod(known(call, dim) for dim in dims[batch is not None :] if dim != -1)
    if unknown is not None and rest > 0 and size % rest == 0:
        dims[unknown] = size // rest
    elif unknown is not None or rest != size:
        raise call.error(
            "the new shape must have as many elements as the input",
            got=f"{source} to {list(call.attributes.shape)}",
        )
    return (TensorType(source.dtype, tuple(dims)),)


def _infer_flatten(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    rank = len(source.shape)
    axis = call.attributes.axis
    if not -rank <= axis <= rank:
        raise call.error(f"axis must be within [{-rank}, {rank}]", got=str(axis))
    axis += rank if axis < 0 else 0
    before = source.shape[:axis]
    rows = before[0] if axis == 1 else prod(known(call, dim) for dim in before)
    columns = prod(known(call, dim) for dim in source.shape[axis:])
    return (TensorType(source.dtype, (rows, columns)),)


def _squeezed(call: Call) -> tuple[int, ...]:
    """The axes that a Squeeze removes."""
    shape, chosen = call.type(0).shape, call.attributes.axes
    if chosen is None:
        return tuple(axis for axis, dim in enumerate(shape) if dim == 1)
    return axes_of(call, chosen, len(shape))


def _infer_squeeze(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    gone = _squeezed(call)
    for axis in gone:
        if known(call, source.shape[axis]) != 1:
            raise call.error(f"axis {axis} must have the dimension 1", got=str(source))
    kept = [dim for axis, dim in enumerate(source.shape) if axis not in gone]
    return (TensorType(source.dtype, leading(call, kept)),)


def _infer_unsqueeze(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    rank = len(source.shape) + len(call.attributes.axes)
    new = axes_of(call, call.attributes.axes, rank)
    rest = iter(source.shape)
    dims = [1 if axis in new else next(rest) for axis in range(rank)]
    return (TensorType(source.dtype, leading(call, dims)),)


def _reference_view(infer: Infer) -> Reference:
    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        shape = [x.shape[0] if isinstance(dim, Symbol) else dim for dim in infer(call)[0].shape]
        return (np.reshape(x, shape),)

    return reference


# --- shapes as values ---------------------------------------------------------------------


def _shape_slice(call: Call) -> tuple[Dim, ...]:
    return call.type(0).shape[call.attributes.start : call.attributes.end]


def _define_shape(call: Call) -> tuple[Compute, ...]:
    dims = [known(call, dim) for dim in _shape_slice(call)]

    def value(point: tuple[Expr, ...]) -> Expr:
        found: Expr = index(dims[-1] if dims else 0)
        for place in reversed(range(len(dims) - 1)):
            found = select(binary("eq", point[0], place), index(dims[place]), found)
        return found

    return each_point((len(dims),), value)


def _reference_shape(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.array(x.shape[call.attributes.start : call.attributes.end], np.int64),)


def _reference_size(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.array(x.size, np.int64),)


def _view_op(
    name: str,
    infer: Infer,
    attributes: type,
    doc: str,
    implied: Mapping[str, Implied] = MappingProxyType({}),
) -> Op:
    return Op(
        name=name,
        infer=infer,
        reference=_reference_view(infer),
        compute=_define_view(infer),
        attributes=attributes,
        implied=implied,
        doc=doc,
    )


OPS: tuple[Op, ...] = (
    _view_op(
        "Reshape",
        _infer_reshape,
        ReshapeAttributes,
        "The same elements in the same order under another shape.",
    ),
    _view_op(
        "Flatten",
        _infer_flatten,
        FlattenAttributes,
        "A matrix whose rows are the dimensions before axis.",
    ),
    _view_op(
        "Squeeze",
        _infer_squeeze,
        SqueezeAttributes,
        "Removes dimensions of 1.",
        {"axes": _squeezed},
    ),
    _view_op("Unsqueeze", _infer_unsqueeze, UnsqueezeAttributes, "Inserts dimensions of 1."),
    Op(
        name="Shape",
        infer=lambda call: (TensorType(DType.I64, (len(_shape_slice(call)),)),),
        reference=_reference_shape,
        compute=Define(_define_shape),
        grad=NoGrad("a shape does not depend on the elements"),
        attributes=ShapeAttributes,
        doc="The dimensions of the input.",
    ),
    Op(
        name="Size",
        infer=lambda call: (TensorType(DType.I64, ()),),
        reference=_reference_size,
        compute=Define(lambda call: (Compute((), index(call.type(0).size)),)),
        grad=NoGrad("a size does not depend on the elements"),
        doc="The number of elements of the input.",
    ),
)
