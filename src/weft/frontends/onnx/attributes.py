"""Attributes of ONNX nodes: checked against the schema, then fitted to the op's class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, TypeProto

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.schema import Signature
from weft.frontends.onnx.tensors import check_text, dtype_of
from weft.frontends.onnx.values import KnownValue, Symbols
from weft.ir.types import Dim, Symbol

Raw: TypeAlias = (
    int
    | float
    | str
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str, ...]
    | TensorProto
    | SparseTensorProto
    | GraphProto
    | TypeProto
    | Symbol
    | tuple[Dim, ...]
    | np.ndarray
)
"""An attribute's value as it stands in a file; an array where an input gives it."""

_SINGLE: Mapping[int, str] = {
    AttributeProto.INT: "i",
    AttributeProto.FLOAT: "f",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.GRAPH: "g",
    AttributeProto.TYPE_PROTO: "tp",
}
_REPEATED: Mapping[int, str] = {
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
}


def _type_name(kind: int) -> str:
    try:
        return AttributeProto.AttributeType.Name(kind)
    except ValueError:
        return f"number {kind}"


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError("onnx: a text attribute must be UTF-8", where=where) from error


def _kind(attribute: AttributeProto) -> int:
    """The declared type; files of the first IR versions declare none."""
    if attribute.type:
        return attribute.type
    for kind, name in _SINGLE.items():
        if attribute.HasField(name):
            return kind
    for kind, name in _REPEATED.items():
        if getattr(attribute, name):
            return kind
    return AttributeProto.UNDEFINED


def raw_value(attribute: AttributeProto, where: str) -> Raw:
    """The value of an attribute, whatever its type."""
    kind = _kind(attribute)
    if kind in _REPEATED:
        found = getattr(attribute, _REPEATED[kind])
        if kind == AttributeProto.STRINGS:
            return tuple(_text(item, where) for item in found)
        return tuple(found)
    if kind not in _SINGLE:
        raise UserError(
            f"onnx: attribute {attribute.name} has a type that is not supported",
            got=_type_name(kind),
            where=where,
        )
    found = getattr(attribute, _SINGLE[kind])
    return _text(found, where) if kind == AttributeProto.STRING else found


def node_attributes(
    node: NodeProto,
    rule: Signature | None,
    where: str,
) -> dict[str, Raw]:
    """The attributes that a node states or that its schema sets, by name.

    Args:
        node: the node; it refers to no attribute of a function's call any more.
        rule: its schema, if ONNX has one.
        where: for errors.
    """
    found: dict[str, Raw] = {}
    for attribute in node.attribute:
        name = attribute.name
        check_text(name)
        if name in found:
            raise UserError(f"onnx: attribute {name} stands twice", where=where)
        if rule is not None:
            _check(name, attribute, rule, where)
        found[name] = raw_value(attribute, where)
    if rule is not None:
        _add_defaults(found, rule, where)
    return found


def _add_defaults(found: dict[str, Raw], rule: Signature, where: str) -> None:
    for name, each in rule.attributes.items():
        if name in found:
            continue
        if each.required:
            raise UserError(f"onnx: {rule.op} needs the attribute {name}", where=where)
        if each.default is not None:
            found[name] = raw_value(each.default, where)


def _check(name: str, attribute: AttributeProto, rule: Signature, where: str) -> None:
    wanted = rule.attributes.get(name)
    if wanted is None:
        raise UserError(
            f"onnx: {rule.op} of opset {rule.since} has no attribute {name}", where=where
        )
    kind = _kind(attribute)
    empty = kind == AttributeProto.UNDEFINED and wanted.type in _REPEATED
    if kind != wanted.type and not empty:
        raise UserError(
            f"onnx: attribute {name} of {rule.op} must be {_type_name(wanted.type)}",
            got=_type_name(kind),
            where=where,
        )


# --- fitting to the op's attribute class --------------------------------------------------------


@cache
def hints_of(attributes: type) -> Mapping[str, Any]:
    """The types of the fields of an attribute class."""
    found = get_type_hints(attributes)
    return {field.name: found[field.name] for field in fields(attributes)}


@cache
def required_fields(attributes: type) -> frozenset[str]:
    """The fields without a default."""
    return frozenset(
        field.name
        for field in fields(attributes)
        if field.default is MISSING and field.default_factory is MISSING
    )


def fit(value: Raw, hint: Any, where: str) -> Any:
    """A raw value as the type of a field."""
    if hint is Any:
        return value
    if get_origin(hint) is UnionType:
        options = [each for each in get_args(hint) if each is not NoneType]
        if DType in options and value == TensorProto.UNDEFINED:
            return None
        listed = any(get_origin(each) is tuple for each in options)
        if isinstance(value, np.ndarray) and value.size == 1 and not listed:
            value = value.reshape(-1)[0].item()
        exact = [each for each in options if type(value) is each]
        return value if exact else fit(value, options[0], where)
    if get_origin(hint) is tuple:
        items = value.reshape(-1).tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, list | tuple):
            raise _unfit(value, "a list", where)
        return tuple(fit(item, get_args(hint)[0], where) for item in items)
    if isinstance(value, np.ndarray) and hint is not np.ndarray:
        if value.size != 1:
            raise _unfit(value, "a single value", where)
        value = value.reshape(-1)[0].item()
    return _fit_single(value, hint, where)


def _fit_single(value: Any, hint: Any, where: str) -> Any:
    if hint is DType and isinstance(value, int):
        return dtype_of(value, where)
    if hint is bool and isinstance(value, int):
        return bool(value)
    if hint is float and isinstance(value, int | float):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)  # where ONNX lets a number have any type, as OneHot's depth
    if isinstance(hint, type) and isinstance(value, hint):
        return int(value) if hint is int else value
    raise _unfit(value, getattr(hint, "__name__", str(hint)), where)


def _unfit(value: Any, wanted: str, where: str) -> UserError:
    got = f"{type(value).__name__} {str(value)[:80]}"
    return UserError(f"onnx: an attribute must be {wanted}", got=got, where=where)


def takes_dims(hint: Any) -> bool:
    """Whether a field may hold symbolic dimensions."""
    parts: Sequence[Any] = get_args(hint)
    return hint is Symbol or any(takes_dims(part) for part in parts)


def from_known(
    value: KnownValue, hint: Any, sample: int | None, symbols: Symbols, where: str
) -> Raw:
    """The value of a field from a known input.

    Args:
        value: the input.
        hint: type of the field.
        sample: take it for this sample size of the batch; ``None`` for all.
        symbols: the model's symbols.
        where: for errors.
    """
    if value.fixed:
        return value.array
    if sample is not None:
        return value.sample(sample)
    dims = symbols.dims(value)
    if dims is None or not takes_dims(hint):
        raise UserError(
            "onnx: the batch must be concrete here",
            got=f"{value.name} depends on it",
            fix="Set the shape of the input with `--input name=shape`",
            where=where,
        )
    return dims if get_origin(hint) is tuple or value.array.ndim else dims[0]
