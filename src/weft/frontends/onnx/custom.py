"""Ops that ONNX does not have: nodes of other operator sets, which ops of plugins mean."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import numpy as np
from onnx import AttributeProto

from weft.dtypes import DType
from weft.frontends.onnx.attributes import hints_of, required_fields
from weft.frontends.onnx.lowering import RENAMED
from weft.frontends.onnx.schema import NEWEST, AttributeRule, Signature
from weft.ops.record import Op
from weft.plugins import Table

VERSION = 1
"""Of the operator sets of plugins, in files that are written."""

_MOST = 1 << 16
_ITEMS: Mapping[Any, int] = {
    int: AttributeProto.INT,
    bool: AttributeProto.INT,
    DType: AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    np.ndarray: AttributeProto.TENSOR,
}
_LISTS: Mapping[Any, int] = {
    int: AttributeProto.INTS,
    float: AttributeProto.FLOATS,
    str: AttributeProto.STRINGS,
}


def custom_op(name: str, domain: str, ops: Mapping[str, Op]) -> Op | None:
    """The op that a node of an operator set means which is not of the standard."""
    if domain in NEWEST:
        return None
    found = (ops[each] for each in ops)
    return next(
        (op for op in found if op.domain == domain and (op.onnx_name or op.name) == name), None
    )


def why_missing(ops: Mapping[str, Op]) -> str:
    """What is to be said about plugins that failed, where an op is not known."""
    return ops.why_missing() if isinstance(ops, Table) else ""


@cache
def custom_signature(op: Op) -> Signature:
    """What ONNX would say about an op if it had it."""
    required = required_fields(op.attributes)
    rules: dict[str, AttributeRule] = {}
    for field, hint in hints_of(op.attributes).items():
        name = RENAMED.get(field, field)
        rules[name] = AttributeRule(_kind(hint), field in required, None)
    variadic = bool(op.inputs) and op.inputs[-1].variadic
    needed = [place for place, each in enumerate(op.inputs) if not each.optional]
    return Signature(
        op.onnx_name or op.name,
        op.domain,
        VERSION,
        tuple(each.name for each in op.inputs),
        tuple(op.inputs[place].name for place in needed),
        variadic,
        needed[-1] + 1 if needed else 0,
        _MOST if variadic else len(op.inputs),
        len(op.outputs),
        rules,
        None,
    )


def _kind(hint: Any) -> int:
    """The type of attribute that fills a field."""
    if get_origin(hint) is UnionType:
        return _kind(next(each for each in get_args(hint) if each is not NoneType))
    if get_origin(hint) is tuple:
        return _LISTS.get(get_args(hint)[0], AttributeProto.UNDEFINED)
    return _ITEMS.get(hint, AttributeProto.UNDEFINED)
