"""What a model's inputs are: types from the file, from the caller, or known values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import TypeAlias

import numpy as np
from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from weft.dtypes import DType
from weft.errors import UserError, nearest
from weft.frontends.onnx.tensors import check_text, checked_shape, dtype_of
from weft.frontends.onnx.values import (
    KnownTensor,
    KnownValue,
    Listed,
    Nothing,
    Symbols,
    Value,
    known,
)
from weft.ir.naming import identifier
from weft.ir.types import Dim, Symbol, TensorType
from weft.ops.build import GraphBuilder

Given: TypeAlias = "np.ndarray | Sequence[Given] | None"
"""The value of an input that is known: an array, a sequence, or an empty optional."""
Shape: TypeAlias = "int | Sequence[int] | Sequence[Sequence[int]]"
"""The shape of an input, those of the items of a sequence, or a size by its symbol's name."""
Plain: TypeAlias = tuple[int, ...] | tuple[tuple[int, ...], ...]


def plain_shape(shape: Shape) -> Plain:
    """The shape with plain numbers, whatever kind of integers it came with."""
    try:
        if not isinstance(shape, Sequence):
            return (index(shape),)
        return tuple(
            tuple(index(size) for size in each) if isinstance(each, Sequence) else index(each)
            for each in shape
        )  # pyright: ignore[reportReturnType]
    except TypeError:
        raise UserError("the shape of an input must consist of integers", got=str(shape)) from None


def declared_shapes(graph: GraphProto) -> dict[str, tuple[int | None, ...]]:
    """The shapes that a graph claims for its values, ``None`` where a size is open."""
    found: dict[str, tuple[int | None, ...]] = {}
    for each in (*graph.value_info, *graph.output):
        declared = _tensor_type(each.type)
        if declared is not None and declared.HasField("shape"):
            found[each.name] = tuple(
                dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
                for dim in declared.shape.dim
            )
    return found


def symbol_names(formal: Sequence[ValueInfoProto]) -> tuple[str, ...]:
    """The names of sizes that inputs leave open."""
    declared = [_tensor_type(each.type) for each in formal]
    dims = [dim for each in declared if each is not None for dim in each.shape.dim]
    return tuple(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


def check_names(
    formal: Sequence[ValueInfoProto], shapes: Mapping[str, object], values: Mapping[str, object]
) -> None:
    """Inputs have names, and what is said is said about inputs or their symbols."""
    names = [each.name for each in formal]
    check_text(*names)
    symbols = symbol_names(formal)
    for name in (*shapes, *values):
        if name not in names and (name in values or name not in symbols):
            sizes = f", its open sizes {', '.join(symbols)}" if symbols else ""
            near = nearest(name, [*names, *symbols])
            told = f"Its inputs are {', '.join(names)}{sizes}"
            raise UserError(
                f"the model has no input {name}", fix=f"{near} {told}" if near else told
            )
    if len(set(names)) != len(names) or "" in names:
        raise UserError("onnx: inputs must have unique names", got=", ".join(names))


class Inputs:
    """Turns the inputs of a model into values.

    Args:
        builder: gets the graph's inputs.
        symbols: gets the symbols in their types.
        formal: the inputs in question.
        shapes: what the caller says about shapes.
        values: what the caller says about values.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        symbols: Symbols,
        formal: Sequence[ValueInfoProto],
        shapes: Mapping[str, Plain],
        values: Mapping[str, Given],
    ) -> None:
        self.builder = builder
        self.symbols = symbols
        self.formal = formal
        self.shapes = shapes
        self.values = values
        self._sizes = _symbol_sizes(formal, shapes)

    def check_closed(self) -> None:
        """Every input's shape is known, except for leading dimensions."""
        open_ = [
            each
            for each in self.formal
            if each.name not in self.values and _tensor_type(each.type) is not None
            if (shape := self._shape(each)) is None or None in shape
        ]
        if open_:
            raise UserError(
                "onnx: only the leading dimension of an input may be open",
                got=", ".join(_described(each) for each in open_),
                fix=self._how(open_),
            )

    def _how(self, open_: Sequence[ValueInfoProto]) -> str:
        """The options and the call that say what is open: a symbol once, or whole shapes."""
        wanted: dict[str, list[str]] = {}
        for formal in open_:
            shape, declared = self._shape(formal), _tensor_type(formal.type)
            assert declared is not None
            dims = declared.shape.dim
            missing = [dim for dim, size in zip(dims, shape or (), strict=False) if size is None]
            if shape is not None and all(dim.dim_param for dim in missing):
                wanted |= {dim.dim_param: ["SIZE"] for dim in missing}
            elif shape is not None:
                wanted[formal.name] = [
                    str(dim.dim_value) if dim.HasField("dim_value") else "SIZE" for dim in dims
                ]
            else:
                wanted[formal.name] = ["SIZE", "..."]
        options = " ".join(f"--input {name}={'x'.join(wanted[name])}" for name in wanted)
        items = ", ".join(f'"{name}": {_literal(wanted[name])}' for name in wanted)
        return f"Give what is open: {options}; in Python: weft.load(path, {{{items}}})"

    def value(self, formal: ValueInfoProto) -> Value:
        """The value of an input; adds what it is made of to the graph."""
        name = formal.name
        if name in self.values:
            return given_value(name, self.values[name])
        inner = _tensor_type(formal.type)
        if inner is not None:
            shape = self._shape(formal)
            assert shape is not None
            return self._input(name, inner, [dim for dim in shape if dim is not None])
        items = self.shapes.get(name)
        inner = _item_type(formal.type)
        if inner is None or items is None or any(isinstance(item, int) for item in items):
            raise UserError(
                "onnx: an input that is a sequence needs the shapes of its items",
                got=f"{items}",
                fix="Give them with inputs={name: [shape, ...]}, or its value as a constant",
                where=f"input {name}",
            )
        return Listed(
            tuple(
                self._input(f"{name}_{place}", inner, [int(dim) for dim in item])
                for place, item in enumerate(items)
                if isinstance(item, Sequence)
            )
        )

    def _input(self, name: str, type: TypeProto.Tensor, dims: Sequence[Dim]) -> KnownTensor:
        where = f"input {name}"
        dtype = dtype_of(type.elem_type, where)
        checked_shape(tuple(dim for dim in dims if isinstance(dim, int)), dtype, where)
        found = TensorType(dtype, tuple(dims))
        for dim in dims:
            if isinstance(dim, Symbol):
                self.symbols.add(dim)
        return KnownTensor(self.builder.input(name, found), found)

    def _shape(self, formal: ValueInfoProto) -> tuple[Dim | None, ...] | None:
        """The shape of an input; ``None`` for a size that is open and not the leading one."""
        declared = _tensor_type(formal.type)
        assert declared is not None
        given = self.shapes.get(formal.name)
        shape = None if given is None else tuple(dim for dim in given if isinstance(dim, int))
        if not declared.HasField("shape"):
            return shape
        dims = tuple(declared.shape.dim)
        if shape is None:
            return tuple(self._dim(dim, place) for place, dim in enumerate(dims))
        fits = len(dims) == len(shape) and all(
            not dim.HasField("dim_value") or dim.dim_value in (size, 0, -1)
            for dim, size in zip(dims, shape, strict=True)
        )
        if not fits or any(size < 0 for size in shape):
            raise UserError(
                "the shape of an input must fit the model",
                got=f"{list(shape)} for {_described(formal)}",
                where=f"input {formal.name}",
            )
        return shape

    def _dim(self, dim: TensorShapeProto.Dimension, place: int) -> Dim | None:
        if dim.HasField("dim_value"):
            return dim.dim_value
        check_text(dim.dim_param)
        if dim.dim_param in self._sizes:
            return self._sizes[dim.dim_param]
        if place:
            return None
        return Symbol(identifier(dim.dim_param) if dim.dim_param else "N")


def given_value(name: str, value: Given) -> Value:
    """A constant that the caller gives for an input."""
    if value is None:
        return Nothing()
    if isinstance(value, list | tuple):
        return Listed(
            tuple(given_value(f"{name}_{place}", item) for place, item in enumerate(value))
        )
    try:
        DType.of(np.asarray(value).dtype)
    except KeyError:
        raise UserError(
            "a constant must be an array of numbers",
            got=str(np.asarray(value).dtype),
            where=f"input {name}",
        ) from None
    return known(np.asarray(value), name)


def flat_names(name: str, value: Value) -> Iterator[tuple[str, KnownValue | KnownTensor]]:
    """The tensors that an output is made of, with their names."""
    match value:
        case KnownValue() | KnownTensor():
            yield name, value
        case Listed(items):
            for place, item in enumerate(items):
                yield from flat_names(f"{name}_{place}", item)
        case _:
            raise UserError("onnx: an output must hold tensors", where=f"output {name}")


def _tensor_type(type: TypeProto) -> TypeProto.Tensor | None:
    if type.HasField("tensor_type"):
        return type.tensor_type
    if type.HasField("optional_type"):  # what may be there is, unless the caller says otherwise
        return _tensor_type(type.optional_type.elem_type)
    return None


def _item_type(type: TypeProto) -> TypeProto.Tensor | None:
    if type.HasField("sequence_type"):
        return _tensor_type(type.sequence_type.elem_type)
    if type.HasField("optional_type"):
        return _item_type(type.optional_type.elem_type)
    return None


def _literal(sizes: Sequence[str]) -> str:
    """Sizes as they are written in Python; one is a number."""
    return sizes[0] if sizes == ["SIZE"] else f"({', '.join(sizes)})"


def _described(formal: ValueInfoProto) -> str:
    declared = _tensor_type(formal.type)
    if declared is None or not declared.HasField("shape"):
        return f"{formal.name} of unknown rank"
    texts = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in declared.shape.dim
    ]
    return f"{formal.name}[{','.join(texts)}]"


def _symbol_sizes(formal: Sequence[ValueInfoProto], shapes: Mapping[str, Plain]) -> dict[str, int]:
    """What was said about named sizes, by name or in the shape of an input that has them."""
    names = {each.name for each in formal}
    found = dict(_size(name, shapes[name]) for name in shapes if name not in names)
    for each in formal:
        shape, declared = shapes.get(each.name), _tensor_type(each.type)
        if shape is None or declared is None or len(shape) != len(declared.shape.dim):
            continue
        for dim, size in zip(declared.shape.dim, shape, strict=True):
            if not isinstance(size, int) or not dim.dim_param:
                continue
            if found.setdefault(dim.dim_param, size) != size:
                raise UserError(
                    f"inputs must agree on the size {dim.dim_param}",
                    got=f"{found[dim.dim_param]} and {size}",
                    where=f"input {each.name}",
                )
    return found


def _size(symbol: str, given: Plain) -> tuple[str, int]:
    """A size that was given by its name."""
    match given:
        case (int() as size,) if size > 0:
            return symbol, size
        case _:
            raise UserError(
                f"{symbol} is an open size and must be one integer, at least 1", got=f"{given}"
            )
