"""Losses.

``x`` is ``[n, c, d...]``, labels are ``[n, d...]``; a label counts within ``[0, c)``.
Labels equal to ``ignore_index`` contribute nothing, neither to sums nor to means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.elementwise import FLOATS, checked
from weft.ops.expr import axes, binary, cast, clamp, const, select, total, unary, variables
from weft.ops.record import Builder, Call, Define, Expand, Op, Param
from weft.records import dataclass

REDUCTIONS = ("none", "sum", "mean")


@dataclass(frozen=True, slots=True)
class LossAttributes(Attributes):
    """Attributes of both losses.

    Attributes:
        reduction: ``none``, ``sum`` or ``mean`` (weighted, over what is not ignored).
        ignore_index: a label that does not count.
    """

    reduction: str = "mean"
    ignore_index: int | None = None


def _infer_nll(call: Call) -> tuple[TensorType, ...]:
    x, labels = checked(call, 0, FLOATS), call.type(1)
    if call.attributes.reduction not in REDUCTIONS:
        raise call.error("reduction must be none, sum or mean", got=repr(call.attributes.reduction))
    if labels.dtype not in (DType.I32, DType.I64):
        raise call.error("labels must be i32 or i64", got=str(labels))
    if len(x.shape) < 2 or labels.shape != (x.shape[0], *x.shape[2:]):
        raise call.error("labels must have the shape of x without its second axis")
    if call.has(2) and call.type(2) != TensorType(x.dtype, x.shape[1:2]):
        raise call.error(f"weights must be {TensorType(x.dtype, x.shape[1:2])}")
    shape = labels.shape if call.attributes.reduction == "none" else ()
    return (TensorType(x.dtype, shape),)


def _label_weights(
    call: Call, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The class of every label, held in range, and its weight, 0 where it is ignored."""
    classes = call.type(0).dims[1]
    chosen = np.clip(labels, 0, classes - 1)
    wide = accumulator(call.type(0).dtype).numpy
    each = np.ones(labels.shape, wide) if weights is None else weights.astype(wide)[chosen]
    if call.attributes.ignore_index is not None:
        each = np.where(labels == call.attributes.ignore_index, wide.type(0), each)
    return chosen, each


def _nll(
    call: Call, x: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    chosen, each = _label_weights(call, labels, weights)
    picked = np.take_along_axis(x, np.expand_dims(chosen, 1), 1).squeeze(1)
    loss = np.where(each == 0, each.dtype.type(0), -picked.astype(each.dtype) * each)
    match call.attributes.reduction:
        case "sum":
            loss = loss.sum()
        case "mean":
            loss = loss.sum() / each.sum()
        case _:
            pass
    return (np.asarray(loss).astype(x.dtype),)


class _Terms:
    """Loss and weight of one label, as expressions."""

    def __init__(self, call: Call, point: Sequence[Expr]) -> None:
        self.call = call
        self.point = point
        self.dtype = call.type(0).dtype
        self.label = cast(DType.I64, call.load(1, *point))
        self.chosen = clamp(self.label, 0, call.type(0).dims[1] - 1)
        self.zero = const(0, accumulator(self.dtype))

    def _unless_ignored(self, value: Expr) -> Expr:
        ignored = self.call.attributes.ignore_index
        if ignored is None:
            return value
        return select(binary("eq", self.label, ignored), self.zero, value)

    def weight(self) -> Expr:
        """What the label counts, 0 where it is ignored."""
        if self.call.has(2):
            value = widened(self.call.load(2, self.chosen), self.dtype)
        else:
            value = const(1, accumulator(self.dtype))
        return self._unless_ignored(value)

    def loss(self) -> Expr:
        """The label's part of the loss."""
        picked = self.call.load(0, self.point[0], self.chosen, *self.point[1:])
        value = unary("neg", widened(picked, self.dtype))
        if self.call.has(2):
            weight = widened(self.call.load(2, self.chosen), self.dtype)
            value = select(binary("eq", weight, self.zero), self.zero, binary("mul", value, weight))
        return self._unless_ignored(value)


def _summed(call: Call, prefix: str, part: str) -> Expr:
    """The sum of a term over all labels, by axes of its own."""
    ranges: tuple[Axis, ...] = axes(call.type(1).dims, prefix)
    terms = _Terms(call, tuple(Var(axis.var) for axis in ranges))
    return total("sum", ranges, terms.loss() if part == "loss" else terms.weight())


def _define_nll(call: Call) -> tuple[Compute, ...]:
    dtype = call.type(0).dtype
    match call.attributes.reduction:
        case "none":
            ranges = axes(call.type(1).dims)
            value = _Terms(call, variables(ranges)).loss()
            return (Compute(ranges, narrowed(value, dtype)),)
        case "sum":
            return (Compute((), narrowed(_summed(call, "r", "loss"), dtype)),)
        case _:
            mean = binary("div", _summed(call, "r", "loss"), _summed(call, "q", "weight"))
            return (Compute((), narrowed(mean, dtype)),)


def _cross_entropy(
    call: Call, x: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    log_prob = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    (loss,) = _nll(call, log_prob, labels, weights)
    return loss.astype(x.dtype), log_prob.astype(x.dtype)


def _expand_cross_entropy(call: Call, builder: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    by_class = builder.ops["LogSoftmax"].attributes(axis=1)
    log_prob = builder.op("LogSoftmax", inputs[0], attributes=by_class)
    loss = builder.op(
        "NegativeLogLikelihoodLoss", log_prob, *inputs[1:], attributes=call.attributes
    )
    return loss, log_prob


_INPUTS = (Param("x"), Param("labels"), Param("weights", optional=True))

OPS: tuple[Op, ...] = (
    Op(
        name="NegativeLogLikelihoodLoss",
        inputs=_INPUTS,
        infer=_infer_nll,
        reference=_nll,
        compute=Define(_define_nll),
        doc="The negated log probabilities of the labels.",
        attributes=LossAttributes,
        outputs=(Param("loss"),),
    ),
    Op(
        name="SoftmaxCrossEntropyLoss",
        inputs=_INPUTS,
        infer=lambda call: (*_infer_nll(call), call.type(0)),
        reference=_cross_entropy,
        compute=Expand(_expand_cross_entropy),
        doc="The negated log softmax of the labels, and the log softmax itself.",
        attributes=LossAttributes,
        outputs=(Param("loss"), Param("log_prob", optional=True)),
    ),
)
