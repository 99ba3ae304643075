"""Ops that are dealt with while importing: constants, shapes, sequences, optionals.

A sequence's items and an optional's content are known one by one, so these ops only move
values about and leave no trace in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from onnx import GraphProto, SparseTensorProto, TensorProto

from weft.frontends.onnx.control import if_, loop, scan
from weft.frontends.onnx.importer import MAX_NODES, Importer, Special
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.tensors import array_of, dense_of
from weft.frontends.onnx.values import (
    KnownTensor,
    KnownValue,
    Listed,
    Nothing,
    UnknownValue,
    Value,
    known,
)
from weft.ir.types import Dim
from weft.train.reverse import gradients

# --- constants and shapes -----------------------------------------------------------------------


def _constant(request: Request, importer: Importer) -> tuple[Value, ...]:
    given = [name for name in request.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) != 1:
        raise request.error("must have exactly one value", got=", ".join(given) or "none")
    value = request.get(given[0])
    wish = request.outputs[0] if request.outputs else "constant"
    match value:
        case TensorProto():
            return (known(array_of(value, importer.external), wish),)
        case SparseTensorProto():
            return (known(dense_of(value, importer.external, 64 * value.ByteSize() + 65536), wish),)
        case bool() | int():
            return (known(np.array(value, np.int64), wish),)
        case float():
            return (known(np.array(value, np.float32), wish),)
        case tuple() if given[0] in ("value_ints", "value_floats"):
            dtype = np.int64 if given[0] == "value_ints" else np.float32
            return (known(np.array(value, dtype), wish),)
        case _:
            raise request.error(f"{given[0]} is not supported")


def _shape(request: Request, importer: Importer) -> tuple[Value, ...]:
    dims = request.type(0).shape
    start, end = request.get("start", 0), request.get("end")
    return (importer.symbols.shape(dims[start:end]),)


def _size(request: Request, importer: Importer) -> tuple[Value, ...]:
    shape = importer.symbols.shape(request.type(0).shape)
    sizes = (np.asarray(np.prod(each, dtype=np.int64)) for each in shape.samples)
    return (KnownValue(tuple(sizes), "size"),)


# --- gradients ---------------------------------------------------------------------------------


def _gradient(request: Request, importer: Importer) -> tuple[Value, ...]:
    """Of ai.onnx.preview.training: derivatives of one value by others, at the values they have."""
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


# --- sequences ----------------------------------------------------------------------------------


def _items(request: Request, position: int = 0) -> tuple[Value, ...]:
    value = request.value(position)
    if not isinstance(value, Listed):
        raise request.error(f"input {position} must be a sequence", got=type(value).__name__)
    return value.items


def _place(request: Request, position: int, count: int, last: int) -> int:
    """A possibly negative position in a sequence, ``last`` at most."""
    found = request.numbers(position)
    place = last if found is None else int(found.reshape(-1)[0])
    place += count if place < 0 else 0
    if not 0 <= place <= last:
        raise request.error(f"position must be within the sequence of {count}", got=str(place))
    return place


def _sequence_construct(request: Request, importer: Importer) -> tuple[Value, ...]:
    return (Listed(tuple(request.value(place) for place in range(len(request.inputs)))),)


def _sequence_at(request: Request, importer: Importer) -> tuple[Value, ...]:
    items = _items(request)
    return (items[_place(request, 1, len(items), len(items) - 1)],)


def _sequence_insert(request: Request, importer: Importer) -> tuple[Value, ...]:
    items = _items(request)
    place = _place(request, 2, len(items), len(items))
    return (Listed((*items[:place], request.value(1), *items[place:])),)


def _sequence_erase(request: Request, importer: Importer) -> tuple[Value, ...]:
    items = _items(request)
    place = _place(request, 1, len(items), len(items) - 1)
    return (Listed(items[:place] + items[place + 1 :]),)


def _sequence_length(request: Request, importer: Importer) -> tuple[Value, ...]:
    return (known(np.array(len(_items(request)), np.int64), "length"),)


def _concat_from_sequence(request: Request, importer: Importer) -> tuple[Value, ...]:
    items: tuple[Value, ...] = _items(request)
    axis = request.get("axis", 0)
    if request.get("new_axis"):
        axes = known(np.array([axis], np.int64), "axes")
        items = tuple(
            importer.lowering.call(request, "Unsqueeze", (item, axes))[0] for item in items
        )
    return importer.lowering.call(request, "Concat", items, request.outputs, axis=axis)


def _split_to_sequence(request: Request, importer: Importer) -> tuple[Value, ...]:
    shape, axis = request.type(0).shape, int(request.get("axis", 0))
    extent: Dim | None = shape[axis] if -len(shape) <= axis < len(shape) else None
    if not isinstance(extent, int):
        raise request.error("axis must be one of known length", got=f"{axis}")
    lengths = request.numbers(1)
    keep = request.get("keepdims", 1) or lengths is not None
    step = max(1, int(lengths)) if lengths is not None and lengths.ndim == 0 else 1
    count = lengths.size if lengths is not None and lengths.ndim else -(-extent // step)
    if count > MAX_NODES:
        raise request.error(f"a sequence has at most {MAX_NODES} items", got=str(count))
    if lengths is None:
        parts = [1] * extent
    elif lengths.ndim == 0:
        parts = [min(step, extent - start) for start in range(0, extent, step)]
    else:
        parts = [int(length) for length in lengths]
    split = known(np.array(parts, np.int64), "split")
    items = importer.lowering.call(
        request, "Split", (request.inputs[0], split), len(parts), axis=axis
    )
    if not keep:
        axes = known(np.array([axis], np.int64), "axes")
        items = tuple(importer.lowering.call(request, "Squeeze", (item, axes))[0] for item in items)
    return (Listed(items),)


def _sequence_map(request: Request, importer: Importer) -> tuple[Value, ...]:
    body = request.get("body")
    assert isinstance(body, GraphProto)
    count = len(_items(request))
    rows: list[tuple[Value, ...]] = []
    for place in range(count):
        arguments: list[Value] = []
        for value in request.inputs:
            if isinstance(value, Listed):
                if len(value.items) != count:
                    raise request.error("sequences must have one length")
                arguments.append(value.items[place])
            elif value is not None:
                arguments.append(value)
        rows.append(importer.inline(body, request, arguments, f"{request.name}/{place}/"))
    return tuple(Listed(items) for items in zip(*rows, strict=True)) or tuple(
        Listed(()) for _ in request.outputs
    )


# --- optionals ----------------------------------------------------------------------------------


def _has_element(request: Request, importer: Importer) -> tuple[Value, ...]:
    return (known(np.array(request.has(0)), "has_element"),)


def _get_element(request: Request, importer: Importer) -> tuple[Value, ...]:
    if not request.has(0):
        raise request.error("the optional is empty")
    return (request.value(0),)


def _identity(request: Request, importer: Importer) -> tuple[Value, ...] | None:
    """Sequences and empty optionals pass; tensors become a node like any other."""
    value = request.inputs[0] if request.inputs else None
    if value is None:
        return (Nothing(),)
    return None if isinstance(value, KnownTensor | KnownValue) else (value,)


SPECIAL: Mapping[str, Special] = MappingProxyType(
    {
        "ConcatFromSequence": _concat_from_sequence,
        "Constant": _constant,
        "Identity": _identity,
        "Gradient": _gradient,
        "If": if_,
        "Loop": loop,
        "Optional": lambda request, importer: (request.value(0) if request.has(0) else Nothing(),),
        "OptionalGetElement": _get_element,
        "OptionalHasElement": _has_element,
        "Scan": scan,
        "SequenceAt": _sequence_at,
        "SequenceConstruct": _sequence_construct,
        "SequenceEmpty": lambda request, importer: (Listed(()),),
        "SequenceErase": _sequence_erase,
        "SequenceInsert": _sequence_insert,
        "SequenceLength": _sequence_length,
        "SequenceMap": _sequence_map,
        "Shape": _shape,
        "Size": _size,
        "SplitToSequence": _split_to_sequence,
    }
)
