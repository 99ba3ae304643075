"""The table of onnxruntime's contrib ops (``com.microsoft``), each a function of standard ops."""

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
"""The function that writes the body of a call, by op name."""
STANDARD = frozenset({"SimplifiedLayerNormalization"})
"""Contrib ops that onnxruntime registers in the standard domain."""
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that an invalid node raises while its body is written."""
_LAYOUT = "com.microsoft.nchwc"


def advice(domain: str) -> str:
    """How to avoid an unsupported onnxruntime domain; empty for other domains."""
    if domain != _LAYOUT:
        return ""
    return (
        "The file contains onnxruntime's machine-specific layout. Save it at level "
        "ORT_ENABLE_EXTENDED, or use the original model."
    )


def is_known(node: NodeProto) -> bool:
    """Whether a node is a supported contrib op."""
    own = node.op_type in STANDARD
    return node.op_type in BODIES and node.domain == ("" if own else DOMAIN)


def function_of(node: NodeProto, values: Sequence[Value | None]) -> FunctionProto:
    """A contrib op's node as a function of standard ops.

    Args:
        node: the node; its op must be known.
        values: its inputs.

    Raises:
        UserError: the node does not match the op's schema, uses an unsupported option, or depends
            on sizes that are not known.
    """
    body = Body(node, values)
    try:
        BODIES[node.op_type](body)
    except _MALFORMED as error:
        raise UserError(
            f"onnx: the inputs or attributes of {node.op_type} do not match its schema",
            got=f"{type(error).__name__}: {error}",
        ) from error
    names = [name or f"absent{place}" for place, name in enumerate(body.inputs)]
    imports = [helper.make_opsetid("", OPSET)]
    return helper.make_function(node.domain, node.op_type, names, body.outputs, body.nodes, imports)
