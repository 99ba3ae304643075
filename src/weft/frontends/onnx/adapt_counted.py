"""Ops that give as many results as they find: the room for them is made known.

A graph has static shapes.  Where all inputs are known, the results can be counted; else
the model may declare the output's shape, which is a promise that there are so many.
"""

from __future__ import annotations

from weft.frontends.onnx.lowering import NodeLowering
from weft.frontends.onnx.request import NeedsValue, Request
from weft.frontends.onnx.values import KnownTensor, KnownValue


def _axis(request: Request) -> int:
    """The axis of the first output along which the results lie."""
    if request.op == "NonZero":
        return 1
    return int(request.get("axis", 0)) if request.op == "Unique" else 0


def counted(request: Request, lowering: NodeLowering) -> Request:
    """Say how many results there are."""
    if all(value is None or isinstance(value, KnownValue) for value in request.inputs):
        found = lowering.outputs(request)
        return request.but(count=found[0].shape[_axis(request)])
    for wish in request.outputs:
        declared = request.scope.declared.get(wish)
        if wish and declared:
            size = declared[_axis(request) if wish == request.outputs[0] else 0]
            if size is not None:
                return request.but(count=size)
    computed = next(each for each in request.inputs if isinstance(each, KnownTensor))
    raise NeedsValue(request.op, "how many results there are", computed.name, request.where)
