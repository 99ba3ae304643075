"""Ranges, identity matrices and filled tensors: ops that read no data."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isfinite

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Var
from weft.ops.accumulate import accumulator, narrowed
from weft.ops.elementwise import NUMBERS
from weft.ops.expr import add, axes, binary, cast, const, select, variables
from weft.ops.record import Call, Define, NoGrad, Op
from weft.ops.support import leading
from weft.records import dataclass

NO_DATA = NoGrad("the output does not depend on data")


@dataclass(frozen=True, slots=True)
class EyeLikeAttributes(Attributes):
    """Attributes of ``EyeLike``.

    Attributes:
        dtype: of the output, if not the input's.
        k: which diagonal holds the ones; above the main one if positive.
    """

    dtype: DType | None = None
    k: int = 0


@dataclass(frozen=True, slots=True)
class RangeAttributes(Attributes):
    """``start``, ``start + delta``, ... up to ``limit``, which is not among them."""

    start: float | int
    limit: float | int
    delta: float | int
    dtype: DType


@dataclass(frozen=True, slots=True)
class ConstantOfShapeAttributes(Attributes):
    """A tensor of this shape, every element of which is ``value``."""

    shape: tuple[int, ...]
    value: float | int | bool = 0.0
    dtype: DType = DType.F32


def _infer_eye(call: Call) -> tuple[TensorType, ...]:
    found = call.type(0)
    if len(found.shape) != 2:
        raise call.error("x must be a matrix", got=str(found))
    return (TensorType(call.attributes.dtype or found.dtype, leading(call, found.shape)),)


def _define_eye(call: Call) -> tuple[Compute, ...]:
    found = _infer_eye(call)[0]
    ranges = axes(found.dims)
    row, column = variables(ranges)
    on_diagonal = binary("eq", column, add(row, call.attributes.k))
    value = select(on_diagonal, const(1, found.dtype), const(0, found.dtype))
    return (Compute(ranges, value),)


def _eye(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    rows, columns = x.shape
    dtype = _infer_eye(call)[0].dtype.numpy
    return (np.eye(rows, columns, call.attributes.k).astype(dtype),)


def _infer_range(call: Call) -> tuple[TensorType, ...]:
    given: RangeAttributes = call.attributes
    if given.dtype not in NUMBERS.dtypes:
        raise call.error("the output must be of a number type", got=given.dtype.value)
    numbers = (given.start, given.limit, given.delta)
    if given.delta == 0 or not all(isfinite(number) for number in numbers):
        raise call.error(
            "start, limit and delta must be finite, delta not 0",
            got=", ".join(map(str, numbers)),
        )
    # Fractions are exact: no count is off by one through rounding.
    count = ceil((Fraction(given.limit) - Fraction(given.start)) / Fraction(given.delta))
    return (TensorType(given.dtype, (max(count, 0),)),)


def _define_range(call: Call) -> tuple[Compute, ...]:
    given: RangeAttributes = call.attributes
    wide = accumulator(given.dtype)
    ranges = axes(_infer_range(call)[0].dims)
    steps = binary("mul", cast(wide, Var(ranges[0].var)), const(given.delta, wide))
    value = binary("add", const(given.start, wide), steps)
    return (Compute(ranges, narrowed(value, given.dtype)),)


def _range(call: Call) -> tuple[np.ndarray, ...]:
    given: RangeAttributes = call.attributes
    wide = accumulator(given.dtype).numpy
    steps = np.arange(_infer_range(call)[0].dims[0]).astype(wide) * wide.type(given.delta)
    return ((wide.type(given.start) + steps).astype(given.dtype.numpy),)


def _infer_filled(call: Call) -> tuple[TensorType, ...]:
    given: ConstantOfShapeAttributes = call.attributes
    if any(extent < 0 for extent in given.shape):
        raise call.error("the shape must not be negative", got=str(list(given.shape)))
    return (TensorType(given.dtype, given.shape),)


def _define_filled(call: Call) -> tuple[Compute, ...]:
    given: ConstantOfShapeAttributes = call.attributes
    return (Compute(axes(given.shape), const(given.value, given.dtype)),)


def _filled(call: Call) -> tuple[np.ndarray, ...]:
    given: ConstantOfShapeAttributes = call.attributes
    return (np.full(given.shape, given.value).astype(given.dtype.numpy),)


OPS: tuple[Op, ...] = (
    Op(
        name="EyeLike",
        infer=_infer_eye,
        reference=_eye,
        compute=Define(_define_eye),
        grad=NO_DATA,
        doc="Ones on a diagonal of a matrix of the shape of x, zeros elsewhere.",
        attributes=EyeLikeAttributes,
    ),
    Op(
        name="Range",
        inputs=(),
        infer=_infer_range,
        reference=_range,
        compute=Define(_define_range),
        grad=NO_DATA,
        doc="Evenly spaced numbers from start up to limit.",
        attributes=RangeAttributes,
    ),
    Op(
        name="ConstantOfShape",
        inputs=(),
        infer=_infer_filled,
        reference=_filled,
        compute=Define(_define_filled),
        grad=NO_DATA,
        doc="A tensor of one value.",
        attributes=ConstantOfShapeAttributes,
    ),
)
