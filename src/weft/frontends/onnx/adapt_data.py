"""Adapters of ops that move, fill and resize."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from weft.frontends.onnx.lowering import NodeLowering
from weft.frontends.onnx.request import NeedsValue, Request
from weft.frontends.onnx.tensors import ExternalData, array_of
from weft.frontends.onnx.values import KnownTensor, KnownValue, Value, known
from weft.ir.types import Symbol


def clip(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """Bounds that are computed clip by ``Max`` and ``Min``."""
    low, high = (request.inputs[place] if request.has(place) else None for place in (1, 2))
    if request.version < 11 or not (isinstance(low, KnownTensor) or isinstance(high, KnownTensor)):
        return request
    value = request.value(0)
    if low is not None:
        name = request.outputs if high is None else 1
        value = lowering.call(request, "Max", (value, low), name)[0]
    if high is not None:
        value = lowering.call(request, "Min", (value, high), request.outputs)[0]
    return (value,)


def constant_of_shape(request: Request, lowering: NodeLowering) -> tuple[Value, ...]:
    """A scalar that is expanded; sizes that depend on the batch are kept."""
    shape = request.known(0)
    assert shape is not None
    proto = request.get("value")
    fill = np.zeros(1, np.float32)
    if isinstance(proto, TensorProto):
        fill = array_of(proto, ExternalData(None))
    if fill.size != 1:
        raise request.error("value must have one element", got=str(list(fill.shape)))
    scalar = known(fill.reshape(()), f"{request.name}_value")
    return lowering.call(request, "Expand", (scalar, shape), request.outputs)


def pad_1(request: Request, lowering: NodeLowering) -> Request:
    """Version 1 says ``paddings``."""
    return request.but(drop=("paddings",), pads=request.get("paddings"))


def pad_axes(request: Request, lowering: NodeLowering) -> Request:
    """Padding of some axes only becomes padding of all."""
    pads, axes = request.numbers(1), request.numbers(3)
    if axes is None or pads is None:
        return request.but(inputs=request.inputs[:3])
    rank, count = len(request.type(0).shape), axes.size
    chosen = [int(axis) for axis in axes.reshape(-1)]
    if pads.size != 2 * count or any(not -rank <= axis < rank for axis in chosen):
        raise request.error(
            f"pads must be two numbers for each axis, axes within [{-rank}, {rank - 1}]",
            got=f"pads {pads.tolist()}, axes {chosen}",
        )
    full = [0] * (2 * rank)
    for place, axis in enumerate(chosen):
        full[axis % rank] = int(pads.reshape(-1)[place])
        full[axis % rank + rank] = int(pads.reshape(-1)[count + place])
    inputs = (request.inputs[0], known(np.array(full, np.int64), "pads"), *request.inputs[2:3])
    return request.but(inputs=inputs)


def reshape(request: Request, lowering: NodeLowering) -> Request:
    """A batch in the asked shape is copied from the input; it can only stand in front."""
    shape = request.inputs[1] if request.has(1) else None
    data = request.value(0)
    if not isinstance(shape, KnownValue) or shape.fixed or not isinstance(data, KnownTensor):
        return request
    dims = lowering.symbols.dims(shape)
    front = data.type.shape[:1]
    if dims is None or dims[:1] != front or any(isinstance(dim, Symbol) for dim in dims[1:]):
        return request  # refused with the other uses of a symbol as a number
    if request.get("allowzero") and 0 in dims:
        return request
    numbers = [dim if isinstance(dim, int) else 0 for dim in dims]
    changed = known(np.array(numbers, np.int64), shape.name)
    return request.but(inputs=(data, changed), drop=("allowzero",))


def resize_10(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """Version 10 had one way only: nearest was the floor enlarging, the ceiling reducing."""
    scales = request.numbers(1)
    if scales is None:
        raise request.error("scales are required")
    request = request.but(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    if request.get("mode") != "nearest" or scales.min(initial=1) >= 1:
        return request
    reducing = request.but(nearest_mode="ceil")
    if scales.max(initial=1) <= 1:
        return reducing
    larger = lowering.call(
        request,
        "Resize",
        (request.value(0), None, known(np.maximum(scales, 1), "scales")),
        1,
        **request.attributes,
    )
    return reducing.but(inputs=(*larger, known(np.minimum(scales, 1), "scales")))


def resize(request: Request, lowering: NodeLowering) -> Request:
    """Empty ``roi``, ``scales`` and ``sizes`` are absent."""
    inputs = [
        None if place and isinstance(value, KnownValue) and value.array.size == 0 else value
        for place, value in enumerate(request.inputs)
    ]
    if request.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        inputs[1:2] = [None] * len(inputs[1:2])
    return request.but(inputs=inputs)


def upsample(request: Request, lowering: NodeLowering) -> tuple[Value, ...]:
    """``Resize`` as it was before coordinates could be chosen."""
    if request.version == 1:
        scales = (1.0, 1.0, request.get("height_scale"), request.get("width_scale"))
    elif request.version == 7:
        scales = request.get("scales")
    else:
        found = request.numbers(1)
        assert found is not None
        scales = tuple(float(scale) for scale in found.reshape(-1))
    mode = request.get("mode")
    return lowering.call(
        request,
        "Resize",
        (request.value(0), None, known(np.array(scales, np.float32), "scales")),
        request.outputs,
        mode="linear" if mode in ("bilinear", "trilinear") else mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def scatter(request: Request, lowering: NodeLowering) -> tuple[Value, ...]:
    """The old name of ``ScatterElements``."""
    return lowering.call(
        request, "ScatterElements", request.inputs, request.outputs, **request.attributes
    )


def tile_1(request: Request, lowering: NodeLowering) -> Request:
    """Version 1 repeats one axis."""
    tiles, axis = request.numbers(1), request.numbers(2)
    rank = len(request.type(0).shape)
    if tiles is None or axis is None or not 0 <= int(axis.reshape(-1)[0]) < rank:
        raise request.error("axis must be one of the input's")
    repeats = np.ones(rank, np.int64)
    repeats[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
    return request.but(
        inputs=(request.inputs[0], known(repeats, "repeats")), names=("input", "repeats")
    )


def unused(request: Request, position: int) -> bool:
    """Whether nobody asks for an output."""
    return position >= len(request.outputs) or not request.outputs[position]


def _counted_axis(request: Request) -> int:
    """The axis of the first output along which the results lie."""
    if request.op == "NonZero":
        return 1
    return int(request.get("axis", 0)) if request.op == "Unique" else 0


def counted(request: Request, lowering: NodeLowering) -> Request:
    """Say how many results there are, of an op that gives as many as it finds.

    A graph has static shapes.  Where all inputs are known, the results can be counted; else
    the model may declare the output's shape, which is a promise that there are so many.
    """
    if all(value is None or isinstance(value, KnownValue) for value in request.inputs):
        found = lowering.outputs(request)
        return request.but(count=found[0].shape[_counted_axis(request)])
    for wish in request.outputs:
        declared = request.scope.declared.get(wish)
        axis = _counted_axis(request) if wish == request.outputs[0] else 0
        if wish and declared and -len(declared) <= axis < len(declared):
            size = declared[axis]
            if size is not None:
                return request.but(count=size)
    computed = next(each for each in request.inputs if isinstance(each, KnownTensor))
    raise NeedsValue(request.op, "how many results there are", computed.name, request.where)
