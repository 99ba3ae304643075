"""Ops of onnxruntime's operator set ``com.microsoft``, each as a function of standard ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from onnx import FunctionProto, NodeProto, helper

from weft.errors import UserError
from weft.frontends.onnx.microsoft.attention import ATTENTION
from weft.frontends.onnx.microsoft.blocks import BLOCKS
from weft.frontends.onnx.microsoft.body import OPSET, Body, Writer
from weft.frontends.onnx.microsoft.fused import FUSED
from weft.frontends.onnx.microsoft.grouped import GROUPED
from weft.frontends.onnx.microsoft.quantized import QUANTIZED
from weft.frontends.onnx.microsoft.recurrent import RECURRENT
from weft.frontends.onnx.values import Value

DOMAIN = "com.microsoft"
BODIES: Mapping[str, Writer] = MappingProxyType(
    {**QUANTIZED, **FUSED, **ATTENTION, **GROUPED, **BLOCKS, **RECURRENT}
)
"""What writes the body of a call, by the op's name."""
STANDARD = frozenset({"SimplifiedLayerNormalization"})
"""Ops that onnxruntime adds to the standard's own domain."""


_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What writing the body of a call raises that is not as its definition says."""
_LAYOUT = "com.microsoft.nchwc"


def advice(domain: str) -> str:
    """What to do about an op of a domain of onnxruntime's that is not known."""
    if domain != _LAYOUT:
        return ""
    return (
        "The file is in a layout of onnxruntime's for one machine; save it at the level "
        "ORT_ENABLE_EXTENDED, or use the model it was made from."
    )


def is_known(node: NodeProto) -> bool:
    """Whether a node is a call of an op of onnxruntime's that has a body."""
    own = node.op_type in STANDARD
    return node.op_type in BODIES and node.domain == ("" if own else DOMAIN)


def function_of(node: NodeProto, values: Sequence[Value | None]) -> FunctionProto:
    """What a call means, as a function of standard ops.

    Args:
        node: the call, of an op that is known.
        values: its inputs.

    Raises:
        UserError: the op has no such use, the call is not as its definition says, or sizes that
            it depends on are not known.
    """
    body = Body(node, values)
    try:
        BODIES[node.op_type](body)
    except _MALFORMED as error:
        raise UserError(
            f"onnx: {node.op_type} lacks what its definition asks for, or has it otherwise",
            got=f"{type(error).__name__}: {error}",
        ) from error
    names = [name or f"absent{place}" for place, name in enumerate(body.inputs)]
    imports = [helper.make_opsetid("", OPSET)]
    return helper.make_function(node.domain, node.op_type, names, body.outputs, body.nodes, imports)
