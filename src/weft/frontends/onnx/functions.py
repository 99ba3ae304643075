"""Functions: ops that are defined by other ops, in the model or by ONNX itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import AttributeProto, FunctionProto, NodeProto, helper

from weft.errors import UserError
from weft.frontends.onnx.schema import Signature
from weft.frontends.onnx.tensors import ONNX_TYPES
from weft.ir.types import TensorType


def resolved(node: NodeProto, bindings: Mapping[str, AttributeProto]) -> NodeProto:
    """The node with the values of the attributes that it takes from a call around it.

    An attribute that the call does not have is left out.
    """
    if not any(each.ref_attr_name for each in node.attribute):
        return node
    found = NodeProto()
    found.CopyFrom(node)
    del found.attribute[:]
    for each in node.attribute:
        value = bindings.get(each.ref_attr_name) if each.ref_attr_name else each
        if value is not None:
            made = found.attribute.add()
            made.CopyFrom(value)
            made.name = each.name
    return found


def bindings_of(node: NodeProto, function: FunctionProto) -> dict[str, AttributeProto]:
    """The attributes of a call, defaults included."""
    return {each.name: each for each in (*function.attribute_proto, *node.attribute)}


def body_of(
    node: NodeProto, rule: Signature, opset: int, types: Sequence[TensorType | None]
) -> FunctionProto | None:
    """ONNX's own definition of an op for inputs of these types, if there is one."""
    schema = rule.schema
    if not rule.is_function or any(
        name and type is None for name, type in zip(node.input, types, strict=True)
    ):
        return None
    try:
        if schema.has_context_dependent_function:
            protos = [_type_bytes(type) for type in types]
            data = schema.get_context_dependent_function_with_opset_version(
                _version(schema.context_dependent_function_opset_versions, opset),
                node.SerializeToString(),
                protos,
            )
        else:
            data = schema.get_function_with_opset_version(
                _version(schema.function_opset_versions, opset)
            )
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"onnx: {node.op_type} has no function body for this use", got=str(error)
        ) from error
    function = FunctionProto()
    function.ParseFromString(data)
    _with_defaults(function, rule)
    return function


def _version(versions: Sequence[int], opset: int) -> int:
    return max((each for each in versions if each <= opset), default=min(versions, default=opset))


def _type_bytes(type: TensorType | None) -> bytes:
    if type is None:
        return b""
    shape = [dim if isinstance(dim, int) else dim.name for dim in type.shape]
    return helper.make_tensor_type_proto(ONNX_TYPES[type.dtype], shape).SerializeToString()


def _with_defaults(function: FunctionProto, rule: Signature) -> None:
    """Add the schema's defaults, so that references to attributes find them."""
    present = {each.name for each in function.attribute_proto}
    for name, each in rule.attributes.items():
        if each.default is not None and name not in present:
            function.attribute_proto.append(each.default)
