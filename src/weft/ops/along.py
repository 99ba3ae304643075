"""Ops along one axis: where the extremes are, running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Var
from weft.ops.ctext import C_TYPES, wrapping
from weft.ops.elementwise import NUMBERS, Domain, checked, widened
from weft.ops.expr import axes, binary, index, select, total
from weft.ops.record import Call, Define, Extern, ExternBody, NoGrad, Op
from weft.ops.reduction import SUMMED, extreme_of, renamed, without
from weft.ops.support import axis_of
from weft.records import dataclass

ACCUMULATED = Domain(
    "f32, f64, i32, i64, u32 or u64",
    SUMMED.dtypes - {DType.F16, DType.BF16},
)


@dataclass(frozen=True, slots=True)
class ArgAttributes(Attributes):
    """Attributes of ``ArgMax`` and ``ArgMin``.

    Attributes:
        axis: along which the extreme is sought.
        keepdims: 1: the axis stays, with extent 1.
        select_last_index: 1: of equal extremes the last counts, not the first.
    """

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0


@dataclass(frozen=True, slots=True)
class CumulativeAttributes(Attributes):
    """Attributes of ``CumSum`` and ``CumProd``.

    Attributes:
        axis: along which is accumulated.
        exclusive: 1: an output does not count its own element.
        reverse: 1: from the end of the axis to its beginning.
    """

    axis: int = 0
    exclusive: int = 0
    reverse: int = 0


def _infer_arg(call: Call) -> tuple[TensorType, ...]:
    found = checked(call, 0, NUMBERS)
    axis = axis_of(call, call.attributes.axis, len(found.shape))
    if found.shape[axis] == 0:
        raise call.error("the axis must have elements", got=str(found))
    shape = without(found.shape, (axis,), call.attributes.keepdims)
    return (TensorType(DType.I64, shape),)


def _arg(call: Call, x: np.ndarray, largest: bool) -> tuple[np.ndarray, ...]:
    axis = axis_of(call, call.attributes.axis, x.ndim)
    values = widened(x)
    equal = values == extreme_of(values, (axis,), largest)
    if call.attributes.select_last_index:
        found = equal.shape[axis] - 1 - np.argmax(np.flip(equal, axis), axis)
        missing = 0
    else:
        found = np.argmax(equal, axis)
        missing = x.shape[axis] - 1
    found = np.where(equal.any(axis), found, missing)
    return (found.astype(np.int64).reshape(_infer_arg(call)[0].dims),)


def _define_arg(extreme: str) -> Callable[[Call], tuple[Compute, ...]]:
    """The smallest (or largest) position whose element equals the extreme."""

    def define(call: Call) -> tuple[Compute, ...]:
        given: ArgAttributes = call.attributes
        shape = _infer_arg(call)[0].dims
        dims = call.type(0).dims
        axis = axis_of(call, given.axis, len(dims))
        ranges = axes(shape)
        kept = iter(r for place, r in enumerate(ranges) if not given.keepdims or place != axis)
        sought = Axis("r", dims[axis])
        point = [Var((sought if place == axis else next(kept)).var) for place in range(len(dims))]
        x = call.load(0, *point)
        others, other = renamed([sought], x)
        equal = binary("eq", x, total(extreme, others, other))
        last = bool(given.select_last_index)
        # If nothing equals the extreme, all are NaN; the search ends where it would end.
        missing = index(0 if last else dims[axis] - 1)
        position = select(equal, Var(sought.var), missing)
        return (Compute(ranges, total("max" if last else "min", [sought], position)),)

    return define


def _infer_cumulative(call: Call) -> tuple[TensorType, ...]:
    found = checked(call, 0, ACCUMULATED)
    axis_of(call, call.attributes.axis, len(found.shape))
    return (found,)


def _cumulative(call: Call, x: np.ndarray, function: np.ufunc) -> tuple[np.ndarray, ...]:
    given: CumulativeAttributes = call.attributes
    axis = given.axis % x.ndim
    values = np.flip(x, axis) if given.reverse else x
    if given.exclusive:
        first = np.full_like(values.take([0], axis) if values.shape[axis] else values, 0)
        first += x.dtype.type(function.identity)
        rest = values.take(range(values.shape[axis] - 1), axis)
        values = np.concatenate([first, rest], axis)
    result = function.accumulate(values, axis, dtype=x.dtype)
    return (np.flip(result, axis) if given.reverse else result,)


_SIDE_BY_SIDE = 16
"""Running sums that are taken at once: neighbours in memory, so that compilers use vectors."""


def _cumulative_body(sign: str, neutral: int) -> Callable[[Call], ExternBody]:
    def body(call: Call) -> ExternBody:
        given: CumulativeAttributes = call.attributes
        shape = call.type(0).dims
        axis = given.axis % len(shape)
        extent, inner = shape[axis], prod(shape[axis + 1 :])
        if not call.type(0).size:
            return ExternBody("")
        first = extent - 1 if given.reverse else 0
        loops = (
            f"    const long step = {-inner if given.reverse else inner};\n"
            "    long o, i, k, j, at;\n"
            f"    {C_TYPES[call.type(0).dtype]} sum[{min(inner, _SIDE_BY_SIDE)}];\n"
            f"    for (o = 0; o < {prod(shape[:axis])}; ++o) {{\n"
        )
        rest = inner % _SIDE_BY_SIDE
        for start, stop, width in ((0, inner - rest, _SIDE_BY_SIDE), (inner - rest, inner, rest)):
            if start == stop:
                continue
            lanes = f"for (j = 0; j < {width}; ++j)"
            added = wrapping(sign, call.type(0).dtype, "sum[j]", "in0[at + j]")
            add = f"                {lanes} sum[j] = {added};\n"
            keep = f"                {lanes} out0[at + j] = sum[j];\n"
            loops += (
                f"        for (i = {start}; i < {stop}; i += {width}) {{\n"
                f"            at = (o * {extent} + {first}) * {inner} + i;\n"
                f"            {lanes} sum[j] = {neutral};\n"
                f"            for (k = 0; k < {extent}; ++k) {{\n"
                f"{keep + add if given.exclusive else add + keep}"
                "                at += step;\n"
                "            }\n"
                "        }\n"
            )
        return ExternBody(loops + "    }\n")

    return body


def _arg_op(name: str, extreme: str, doc: str) -> Op:
    largest = extreme == "max"

    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return _arg(call, x, largest)

    return Op(
        name=name,
        infer=_infer_arg,
        reference=reference,
        compute=Define(_define_arg(extreme)),
        grad=NoGrad("the output is an index"),
        doc=doc,
        attributes=ArgAttributes,
    )


def _cumulative_op(name: str, function: np.ufunc, sign: str, doc: str) -> Op:
    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return _cumulative(call, x, function)

    return Op(
        name=name,
        infer=_infer_cumulative,
        reference=reference,
        compute=Extern(_cumulative_body(sign, int(function.identity)), along_axis=True),
        doc=doc,
        attributes=CumulativeAttributes,
    )


OPS: tuple[Op, ...] = (
    _arg_op("ArgMax", "max", "Where along the axis the largest element is; NaN is passed over."),
    _arg_op("ArgMin", "min", "Where along the axis the smallest element is; NaN is passed over."),
    _cumulative_op("CumSum", np.add, "+", "The running sum along the axis."),
    _cumulative_op("CumProd", np.multiply, "*", "The running product along the axis."),
)
