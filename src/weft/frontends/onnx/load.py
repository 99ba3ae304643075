"""ONNX models to graphs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, ValueInfoProto

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.importer import Importer, Refusal, domain_of
from weft.frontends.onnx.reading import read_model
from weft.frontends.onnx.schema import NEWEST
from weft.frontends.onnx.scope import Frame, Scope
from weft.frontends.onnx.tensors import ExternalData, checked_shape, dtype_of
from weft.frontends.onnx.values import Known, Symbols, Tensor, Unknown, known
from weft.ir.graph import Graph
from weft.ir.types import Dim, Symbol, TensorType
from weft.ops.build import GraphBuilder
from weft.ops.record import Op
from weft.ops.table import OPS


class RefusedError(UserError):
    """A model of which nodes cannot be imported.

    Attributes:
        refusals: every such node, with the reason.
        needed: graph inputs whose values would have to be known, if that is the reason.
    """

    def __init__(self, refusals: Sequence[Refusal], needed: Sequence[str]) -> None:
        self.refusals = tuple(refusals)
        self.needed = tuple(needed)
        lines = dict.fromkeys(f"{each.name} ({each.op}): {each.reason}" for each in refusals)
        count = len(lines)
        head = "1 node cannot" if count == 1 else f"{count} nodes cannot"
        super().__init__("\n  ".join([f"onnx: {head} be imported:", *lines]))


def load(
    path: str | Path,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """Import an ONNX file.

    Args:
        path: the file; external data are looked for in its folder.
        inputs: shapes of graph inputs, where the file leaves sizes open.
        constants: values of graph inputs that fix shapes or the like; these are then no
            inputs of the graph.

    Returns:
        The graph, its batch symbolic where the file says so and ``inputs`` does not.
    """
    path = Path(path)
    return import_model(
        read_model(path), inputs, constants, folder=path.parent, name=path.stem, ops=OPS
    )


def import_model(
    model: ModelProto,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    folder: Path | None = None,
    name: str = "",
    ops: Mapping[str, Op] = OPS,
) -> Graph:
    """Import a parsed model; see ``load``.

    Args:
        model: the model.
        inputs: shapes of graph inputs.
        constants: values of graph inputs.
        folder: where external data may lie.
        name: of the graph; the model's own if not given.
        ops: the op table.
    """
    shapes = {key: tuple(int(dim) for dim in shape) for key, shape in (inputs or {}).items()}
    values = dict(constants or {})
    source = model.graph
    symbols = Symbols()
    importer = Importer(ops, model, ExternalData(folder), symbols)
    builder = GraphBuilder(ops, _identifier(name or source.name))
    frame = Frame(builder, _value_names(model))
    scope = Scope(frame, _opsets(model))
    _check_names(source.input, shapes, values)
    given = frozenset(shapes) | frozenset(values)
    importer.constants(source, scope, given)
    formal = [each for each in source.input if each.name not in scope.values]
    for each, type in zip(formal, _input_types(formal, shapes, values), strict=True):
        if each.name in values:
            array = np.asarray(values[each.name])
            DType.of(array.dtype)
            scope.define(each.name, known(array, each.name))
            continue
        if type is None:
            reason = "only tensors can be inputs"
            importer.refusals.append(Refusal(each.name, "input", reason))
            scope.define(each.name, Unknown())
            continue
        if type.shape and isinstance(type.shape[0], Symbol):
            symbols.add(type.shape[0])
        scope.define(each.name, Tensor(builder.input(each.name, type), type))
    importer.nodes(source.node, scope)
    outputs = _outputs(importer, scope, [each.name for each in source.output])
    if importer.refusals:
        raise RefusedError(importer.refusals, _needed(importer.refusals, builder))
    return builder.graph(outputs)


# --- names ----------------------------------------------------------------------------------


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "net"
    return f"net_{found}" if found[0].isdigit() else found


def _value_names(model: ModelProto) -> frozenset[str]:
    """Every value name of the main graph; nodes and inlined values keep clear of them."""
    graph = model.graph
    found = {each.name for each in (*graph.input, *graph.initializer)}
    found |= {each.values.name for each in graph.sparse_initializer}
    found.update(name for node in graph.node for name in node.output)
    return frozenset(found)


def _opsets(model: ModelProto) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in model.opset_import:
        found[domain_of(each.domain)] = each.version
    # Before IR version 3 there was one operator set, which nobody had to name.
    found.setdefault("", 1)
    newest = NEWEST[""]
    if not 1 <= found[""] <= newest:
        raise UserError(
            f"onnx: operator sets 1 to {newest} are known",
            got=str(found[""]),
            fix="Install a newer onnx package" if found[""] > newest else "",
        )
    return found


def _check_names(
    formal: Sequence[ValueInfoProto],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, np.ndarray],
) -> None:
    names = [each.name for each in formal]
    for name in (*shapes, *values):
        if name not in names:
            raise UserError(
                f"the model has no input {name}", fix=f"Its inputs are {', '.join(names)}"
            )
    if len(set(names)) != len(names) or "" in names:
        raise UserError("onnx: inputs must have names, each its own", got=", ".join(names))


# --- input types ------------------------------------------------------------------------------


def _input_types(
    formal: Sequence[ValueInfoProto],
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, np.ndarray],
) -> list[TensorType | None]:
    """The inputs' types, ``None`` for what is no tensor or given as a constant."""
    sizes = _symbol_sizes(formal, shapes)
    found: list[TensorType | None] = []
    open_: list[str] = []
    for each in formal:
        if each.name in values or not each.type.HasField("tensor_type"):
            found.append(None)
            continue
        where = f"input {each.name}"
        dtype = dtype_of(each.type.tensor_type.elem_type, where)
        shape = _shape(each, shapes, sizes)
        if shape is None or any(dim is None for dim in shape):
            open_.append(_described(each))
            found.append(None)
            continue
        dims = tuple(dim for dim in shape if dim is not None)
        checked_shape(tuple(dim for dim in dims if isinstance(dim, int)), dtype, where)
        found.append(TensorType(dtype, dims))
    if open_:
        raise UserError(
            "onnx: only the leading dimension of an input may be open",
            got=", ".join(open_),
            fix="Give whole shapes with `--input name=shape`",
        )
    return found


def _described(formal: ValueInfoProto) -> str:
    if not formal.type.tensor_type.HasField("shape"):
        return f"{formal.name} of unknown rank"
    dims = formal.type.tensor_type.shape.dim
    texts = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims
    ]
    return f"{formal.name}[{','.join(texts)}]"


def _symbol_sizes(
    formal: Sequence[ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """What the given shapes say about named sizes, which other inputs may share."""
    found: dict[str, int] = {}
    for each in formal:
        shape = shapes.get(each.name)
        dims = each.type.tensor_type.shape.dim
        if shape is None or len(shape) != len(dims):
            continue
        for dim, size in zip(dims, shape, strict=True):
            if dim.dim_param and found.setdefault(dim.dim_param, size) != size:
                raise UserError(
                    f"inputs must agree on the size {dim.dim_param}",
                    got=f"{found[dim.dim_param]} and {size}",
                    where=f"input {each.name}",
                )
    return found


def _shape(
    formal: ValueInfoProto, shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
) -> tuple[Dim | None, ...] | None:
    """The shape of an input; ``None`` for a size that is open and not the leading one."""
    declared = formal.type.tensor_type
    given = shapes.get(formal.name)
    if not declared.HasField("shape"):
        return given
    dims = tuple(declared.shape.dim)
    if given is None:
        return tuple(_dim(dim, place, sizes) for place, dim in enumerate(dims))
    fits = len(dims) == len(given) and all(
        not dim.HasField("dim_value") or dim.dim_value in (size, 0, -1)
        for dim, size in zip(dims, given, strict=True)
    )
    if not fits or any(size < 0 for size in given):
        raise UserError(
            "the shape of an input must fit the model",
            got=f"{list(given)} for {_described(formal)}",
            where=f"input {formal.name}",
        )
    return given


def _dim(dim: object, place: int, sizes: Mapping[str, int]) -> Dim | None:
    if dim.HasField("dim_value"):
        return dim.dim_value
    if dim.dim_param in sizes:
        return sizes[dim.dim_param]
    if place:
        return None
    return Symbol(_identifier(dim.dim_param) if dim.dim_param else "N")


# --- results ------------------------------------------------------------------------------------


def _outputs(importer: Importer, scope: Scope, names: Sequence[str]) -> list[str]:
    """The outputs under their ONNX names."""
    if len(set(names)) != len(names) or "" in names:
        raise UserError("onnx: outputs must have names, each its own", got=", ".join(names))
    found: list[str] = []
    frame = scope.frame
    for name in names:
        value = importer.result(scope, name)
        match value:
            case Tensor(actual, _) if actual == name:
                found.append(name)
            case Tensor(actual, _):
                found.append(frame.builder.op("Identity", actual, output=name))
            case Known():
                found.append(
                    frame.constant(value, name) if value.name != name else (frame.constant(value))
                )
            case Unknown():
                pass
            case _:
                importer.refusals.append(Refusal(name, "output", "only tensors can be outputs"))
    return found


def _needed(refusals: Sequence[Refusal], builder: GraphBuilder) -> list[str]:
    """The graph inputs on which the values depend that had to be known."""
    makers = {name: node for node in builder.nodes for name in node.outputs}
    pending = [each.needs for each in refusals if each.needs]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += [each for each in makers[name].inputs if each] if name in makers else []
    return [name for name in builder.inputs if name in seen]
