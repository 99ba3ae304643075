"""Adapters of arithmetic, normalization and the like."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.frontends.onnx.adapt_data import unused
from weft.frontends.onnx.lowering import NodeLowering
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.tensors import ONNX_TYPES, type_name
from weft.frontends.onnx.values import KnownValue, Nothing, Value, known
from weft.ir.types import Symbol


def broadcast_axis(request: Request, lowering: NodeLowering) -> Request:
    """Before opset 7 an ``axis`` said where the second operand's axes lie in the first's."""
    changed = request.but(drop=("broadcast", "axis"))
    if not request.get("broadcast") or "axis" not in request.attributes:
        return changed
    axis = int(request.get("axis"))
    rank, inner = len(request.type(0).shape), len(request.type(1).shape)
    missing = rank - axis - inner if axis >= 0 else -axis - inner
    if missing <= 0:
        return changed
    axes = known(np.arange(inner, inner + missing), "axes")
    spread = lowering.call(request, "Unsqueeze", (request.inputs[1], axes))
    return changed.but(inputs=(request.inputs[0], *spread))


def prelu_1(request: Request, lowering: NodeLowering) -> Request:
    """Before opset 7 a slope of one axis was one number for each channel."""
    shape, slope = request.type(0).shape, request.type(1).shape
    if len(slope) != 1 or slope == (1,) or len(shape) < 3:
        return request
    axes = known(np.arange(1, len(shape) - 1), "axes")
    spread = lowering.call(request, "Unsqueeze", (request.inputs[1], axes))
    return request.but(inputs=(request.inputs[0], *spread))


def range_type(request: Request, lowering: NodeLowering) -> Request:
    """The element type is that of the inputs."""
    return request.but(dtype=ONNX_TYPES[request.type(0).dtype])


def rnn_activations(request: Request, lowering: NodeLowering) -> Request:
    """ONNX's default is for two directions, whatever their number is."""
    count = 2 if request.get("direction") == "bidirectional" else 1
    given = request.get("activations")
    return request.but(activations=given[:count]) if given == ("Tanh", "Tanh") else request


def softmax_1(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """Before opset 13 all axes from ``axis`` on were one."""
    shape = request.type(0).shape
    rank = len(shape)
    axis = request.get("axis", 1)
    if not -rank <= axis <= rank - (rank > 0):
        raise request.error(f"axis must be within [{-rank}, {rank - 1}]", got=str(axis))
    axis += rank if axis < 0 else 0
    rest = [dim for dim in shape[axis + 1 :] if isinstance(dim, int)]
    if len(rest) == len(shape[axis + 1 :]) and prod(rest) == 1:
        return request.but(axis=axis)
    flat = known(np.array([0] * axis + [-1], np.int64), "shape")
    rows = lowering.call(request, "Reshape", (request.inputs[0], flat))
    done = lowering.call(request, request.op, rows, axis=axis)
    back = known(
        np.array([0 if isinstance(dim, Symbol) else dim for dim in shape], np.int64), "shape"
    )
    return lowering.call(request, "Reshape", (*done, back), request.outputs)


MOST_OPERANDS = 32
"""More than this make a tree: one expression of them all would be too deep to walk."""


def many_operands(request: Request, lowering: NodeLowering) -> Request:
    """``Sum``, ``Max`` and ``Min`` of very many values, a few at a time."""
    values = [request.value(place) for place in range(len(request.inputs))]
    while len(values) > MOST_OPERANDS:
        chunks = [values[at : at + MOST_OPERANDS] for at in range(0, len(values), MOST_OPERANDS)]
        values = [lowering.call(request, request.op, chunk)[0] for chunk in chunks]
    return request.but(inputs=values)


def many_mean(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """``Mean`` of very many values: their sum, divided by their number."""
    count = len(request.inputs)
    if count <= MOST_OPERANDS:
        return request
    total = many_operands(request.but(op="Sum"), lowering)
    found = lowering.call(request, "Sum", total.inputs)
    number = known(np.array(count, request.type(0).dtype.numpy), "count")
    return lowering.call(request, "Div", (*found, number), request.outputs)


def reduce_empty_axes(request: Request, lowering: NodeLowering) -> Request:
    """Empty ``axes`` are as good as none; ``noop_with_empty_axes`` says what that means."""
    axes = request.inputs[1] if request.has(1) else None
    if isinstance(axes, KnownValue) and axes.array.size == 0:
        return request.but(inputs=request.inputs[:1])
    return request


def lp_pool_1(request: Request, lowering: NodeLowering) -> Request:
    """Version 1 has a float ``p``."""
    return request.but(p=int(request.get("p")))


def batch_normalization(request: Request, lowering: NodeLowering) -> Request:
    """Inference only: with running statistics, one pair for each channel."""
    spatial = request.get("spatial", 1)
    training = request.get("training_mode", 0)
    if not spatial:
        raise request.error("spatial=0 is not supported")
    if not training and not all(unused(request, place) for place in range(1, 5)):
        training = 1
    changed = request.but(drop=("spatial", "is_test"))
    if training and request.version < 14:
        raise request.error(
            "training mode is not supported", fix="Export the model in evaluation mode"
        )
    return changed


def drop_is_test(request: Request, lowering: NodeLowering) -> Request:
    """An attribute that changes nothing at inference."""
    return request.but(drop=("is_test",))


def cast_1(request: Request, lowering: NodeLowering) -> Request:
    """Before opset 6 the type was given by name."""
    names = {type_name(number): number for number in ONNX_TYPES.values()}
    wanted = str(request.get("to")).upper()
    if wanted not in names:
        raise request.error("to must be the name of an element type", got=wanted)
    return request.but(to=names[wanted])


def dropout(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """At inference the identity, with a mask that is true everywhere."""
    training = request.numbers(2) if request.version >= 12 else None
    if training is not None and bool(training.reshape(-1).any()):
        ratio = request.numbers(1)
        if ratio is None or float(ratio.reshape(-1)[0]) != 0.0:
            raise request.error(
                "training mode is not supported", fix="Export the model in evaluation mode"
            )
    kept = lowering.call(request, "Identity", request.inputs[:1], request.outputs[:1])
    if unused(request, 1):
        return (*kept, Nothing())
    shape = lowering.symbols.shape(request.type(0).shape)
    dtype = np.bool_ if request.version >= 10 else request.type(0).dtype.numpy
    true = known(np.ones((), dtype), f"{request.name}_true")
    return (*kept, *lowering.call(request, "Expand", (true, shape), request.outputs[1:]))


def gemm_1(request: Request, lowering: NodeLowering) -> Request:
    """Broadcasting had to be allowed; it always is now."""
    return request.but(drop=("broadcast",))


def group_normalization_18(request: Request, lowering: NodeLowering) -> Request:
    """Before opset 21 scale and bias were given for each group, not for each channel."""
    channels, groups = request.type(0).shape[1], request.get("num_groups")
    if isinstance(channels, Symbol) or groups < 1 or channels % groups:
        raise request.error(f"num_groups={groups} must divide the channels", got=str(channels))
    inputs = [request.inputs[0]]
    for place in (1, 2):
        shape = (
            known(np.array(dims), "shape")
            for dims in ([groups, 1], [groups, channels // groups], [channels])
        )
        value = lowering.call(request, "Reshape", (request.inputs[place], next(shape)))
        value = lowering.call(request, "Expand", (*value, next(shape)))
        inputs += lowering.call(request, "Reshape", (*value, next(shape)))
    return request.but(inputs=inputs)
