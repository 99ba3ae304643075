"""``Gradient`` of ai.onnx.preview.training: differentiated while importing."""

from __future__ import annotations

from weft.frontends.onnx.importer import Importer
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.values import KnownTensor, UnknownValue, Value
from weft.train.reverse import gradients


def gradient(request: Request, importer: Importer) -> tuple[Value, ...]:
    """The derivatives of one value by others, at the values that they have."""
    xs, zs = tuple(request.get("xs") or ()), tuple(request.get("zs") or ())
    named = [request.scope.find(name) for name in (*xs, *zs)]
    if list(request.inputs) != named:
        # Anywhere else the part of the graph between them would have to be run again.
        raise request.error("the inputs must be the values that xs and zs name")
    y = request.scope.find(request.get("y") or "")
    if isinstance(y, UnknownValue):
        return (UnknownValue(),) * len(request.outputs)
    by = [importer.lowering.name_of(request, value) for value in named[: len(xs)]]
    if not isinstance(y, KnownTensor) or not y.type.dtype.is_float or not y.type.is_static:
        raise request.error("y must be a computed value of floating-point type and known shape")
    builder = request.scope.frame.builder
    made = gradients(builder, y.name, by)
    wishes = (*request.outputs, *[""] * (len(made) - len(request.outputs)))
    return tuple(
        KnownTensor(builder.op("Identity", value, output=wish), builder.types[value])
        for value, wish in zip(made, wishes, strict=True)
    )
